//! Reading what a plan for an `App` or an `AppInstallation` looks at.

use crate::backups::{denied, get, pods, teams_secret};
use crate::calls::{Io, collection};
use crate::error::{ErrorKind, IoError};
use crate::snapshot::Snapshot;
use berth_api::app::APP_SECRET;
use berth_api::conditions::ConditionType;
use berth_api::{App, AppInstallation, labels};
use berth_plan::MetaCluster;
use berth_plan::jobs::secret_beside;
use berth_plan::object_meta::label;
use berth_plan_apps::{Target, app};
use berth_render::{Kind, ObjectKey};
use jiff::Timestamp;
use kube::ResourceExt;
use serde_json::{Value, json};
use std::sync::Arc;

/// Objects in one answer.
const PAGE: usize = 50;

/// Reads the `Cluster`s that an `App` may be for, by their labels, and its installations. `operator`: the operator's namespace.
pub async fn observe_app(io: &Io, object: &App, operator: &str, meta: &Arc<MetaCluster>) -> Result<Snapshot, IoError> {
    let mut snapshot = Snapshot::of(meta);
    let url = format!("{}?limit={PAGE}", collection(Kind::Cluster, app::scope(object, operator)));
    io.list_in_pages(Kind::Cluster, &url, |page| snapshot.put_all(Kind::Cluster, page.iter().map(identity))).await?;
    // Labels can be lost: the App is not gone while something of it is left in its own scope.
    let installations =
        io.list(Kind::AppInstallation, app::scope(object, operator), Some(&app::selector(object))).await?;
    snapshot.put_all(Kind::AppInstallation, installations);
    if object.spec.after.is_empty() {
        return Ok(snapshot);
    }
    // All of them: who comes after whom is seen along the whole way.
    snapshot.put_all(Kind::App, io.list(Kind::App, object.metadata.namespace.as_deref(), None).await?);
    for other in &object.spec.after {
        let selector = app::selector_of(object.metadata.namespace.as_deref().unwrap_or_default(), &other.name);
        let installations = io.list(Kind::AppInstallation, app::scope(object, operator), Some(&selector)).await?;
        snapshot.put_all(Kind::AppInstallation, installations);
    }
    Ok(snapshot)
}

/// All that an `App` looks at in a `Cluster`: of a thousand of them little is held.
fn identity(cluster: &Value) -> Value {
    let of = |field: &str| cluster["metadata"][field].clone();
    let fields = ["name", "namespace", "uid", "labels", "creationTimestamp", "deletionTimestamp"];
    let metadata: serde_json::Map<String, Value> =
        fields.iter().map(|field| ((*field).to_owned(), of(field))).filter(|(_, value)| !value.is_null()).collect();
    let conditions = cluster["status"]["conditions"].as_array();
    let available = conditions.and_then(|all| all.iter().find(|c| c["type"] == ConditionType::Available.as_str()));
    let available = available.map(|c| json!({"type": c["type"], "status": c["status"], "reason": c["reason"]}));
    json!({
        "metadata": metadata, "spec": {"paused": cluster["spec"]["paused"]}, "status": {"conditions": Vec::from_iter(available), "since": cluster["status"]["since"]},
    })
}

/// Reads the tenant that an installation is in, its `App`, its Job and the pods of that, and what the Job is made from.
pub async fn observe_installation(
    io: &Io,
    object: &AppInstallation,
    meta: &Arc<MetaCluster>,
    now: Timestamp,
) -> Result<Snapshot, IoError> {
    let mut snapshot = Snapshot::of(meta);
    let target = Target::from(object);
    let own = ObjectKey::namespaced(Kind::AppInstallation, object.namespace().unwrap_or_default(), object.name_any());
    get(io, &mut snapshot, vec![target.cluster.clone(), target.app.clone()]).await?;
    let Some(namespace) = io.get(&target.namespace()).await? else { return Ok(snapshot) };
    let is_home = label(&namespace, labels::CLUSTER_NAMESPACE) == own.namespace.as_deref();
    snapshot.put(Kind::Namespace, namespace);
    if !is_home {
        return Ok(snapshot);
    }
    let keys = [target.job.clone(), secret_beside(&target.job), target.policy(), target.etcd(), target.ca()];
    get(io, &mut snapshot, keys.into()).await?;
    pods(io, &mut snapshot, &target.home, &own, now).await?;
    if object.metadata.deletion_timestamp.is_none() {
        for secret in object.spec.release.secrets() {
            teams_secret(io, &mut snapshot, &target.source(&secret.name), APP_SECRET).await?;
        }
    }
    Ok(snapshot)
}

/// Reads the installations of a tenant, and the Apps that it may be required to have, into what was observed of it. `operator`: the operator's
/// namespace. The chart with the kinds, or with the right to them, may come a moment later.
pub(crate) async fn observe_installations(
    io: &Io,
    namespace: &str,
    operator: &str,
    snapshot: &mut Snapshot,
) -> Result<(), IoError> {
    let apps_of = async |namespace: &str| match namespace {
        "" => Ok(vec![]),
        namespace => io.list(Kind::App, namespace, None).await,
    };
    let (installations, own, platforms) = futures::join!(
        io.list(Kind::AppInstallation, namespace, Some(labels::CLUSTER_NAME)),
        apps_of(namespace),
        apps_of(if operator == namespace { "" } else { operator })
    );
    for (kind, listed) in [(Kind::AppInstallation, installations), (Kind::App, own), (Kind::App, platforms)] {
        match listed {
            Ok(mut listed) => {
                // Of all others a `Cluster` says nothing.
                listed.retain(|live| kind != Kind::App || live["spec"]["required"] == true);
                snapshot.put_all(kind, listed);
            }
            Err(e) if matches!(e.kind, ErrorKind::NotFound | ErrorKind::Forbidden) => {}
            Err(e) => denied(snapshot, e)?,
        }
    }
    Ok(())
}
