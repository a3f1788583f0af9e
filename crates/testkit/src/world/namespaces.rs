//! Terminating namespaces: their content is deleted, then they are finalized.

use anyhow::Result;
use kube::api::{ApiResource, DeleteParams, DynamicObject, ListParams};
use kube::discovery::{Discovery, Scope, verbs};
use kube::{Api, Client, ResourceExt as _};
use serde_json::json;

use super::context::{Context, terminating};

pub(super) async fn reconcile(context: &Context) -> bool {
    let ending: Vec<_> = context
        .store
        .of_kind("Namespace")
        .into_iter()
        .filter(|ns| terminating(ns) && context.covers(&ns.name_any()))
        .collect();
    if ending.is_empty() {
        return false;
    }
    // Kinds may have come since the last time.
    let kinds = match kinds(&context.client).await {
        Ok(kinds) => kinds,
        Err(error) => {
            tracing::debug!(%error, "the world: discovery");
            return true;
        }
    };
    for namespace in ending {
        if let Err(error) = finish(&context.client, &namespace.name_any(), &kinds).await {
            tracing::debug!(%error, "the world: namespace {}", namespace.name_any());
        }
    }
    true
}

async fn kinds(client: &Client) -> Result<Vec<ApiResource>> {
    let discovery = Discovery::new(client.clone()).run_aggregated().await?;
    let resources = discovery.groups().flat_map(kube::discovery::ApiGroup::recommended_resources);
    Ok(resources
        .filter(|(_, cap)| cap.scope == Scope::Namespaced)
        .filter(|(_, cap)| cap.supports_operation(verbs::LIST) && cap.supports_operation(verbs::DELETE))
        .map(|(kind, _)| kind)
        .collect())
}

/// One round: deletes what is there, finalizes when nothing is.
async fn finish(client: &Client, name: &str, kinds: &[ApiResource]) -> Result<()> {
    let mut empty = true;
    for kind in kinds {
        let api = Api::<DynamicObject>::namespaced_with(client.clone(), name, kind);
        // A kind that went since discovery holds nothing.
        let Ok(list) = api.list_metadata(&ListParams::default()).await else { continue };
        empty &= list.items.is_empty();
        if list.items.iter().any(|o| o.metadata.deletion_timestamp.is_none()) {
            // Without the collection verb (Services had none for long) one by one.
            for object in list.items {
                let deleted = api.delete(&object.name_any(), &DeleteParams::background()).await;
                deleted
                    .map(drop)
                    .or_else(|e| if matches!(&e, kube::Error::Api(s) if s.code == 404) { Ok(()) } else { Err(e) })?;
            }
        }
    }
    if empty {
        let body =
            json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}, "spec": {"finalizers": []}});
        let put = http::Request::put(format!("/api/v1/namespaces/{name}/finalize"))
            .header(http::header::CONTENT_TYPE, "application/json")
            .body(serde_json::to_vec(&body)?)?;
        client.request_text(put).await?;
    }
    Ok(())
}
