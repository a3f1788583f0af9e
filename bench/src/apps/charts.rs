//! Apps and ClusterAccesses of the platform's.

use anyhow::{Result, ensure};
use berth_api::{App, AppStatus, ClusterAccess};
use kube::api::{DeleteParams, ListParams, PostParams};
use kube::{Api, Client, ResourceExt as _};
use serde_json::{Value, json};
use std::time::{Duration, Instant};

use crate::operator::SYSTEM;

const TIMEOUT: Duration = Duration::from_mins(30);

/// The version of the chart.
pub(super) const VERSION: &str = "1.0.0";

pub(super) fn apps(client: &Client) -> Api<App> {
    Api::namespaced(client.clone(), SYSTEM)
}

pub(super) fn accesses(client: &Client) -> Api<ClusterAccess> {
    Api::namespaced(client.clone(), SYSTEM)
}

/// An App for all tenants, in a namespace of its own name there. `registry`: its host and port.
pub(super) async fn create(client: &Client, name: &str, registry: &str, more: &Value) -> Result<()> {
    let mut spec = json!({
        "clusterSelector": {}, "namespace": name, "values": {"word": "one"},
        "chart": {"oci": format!("oci://{registry}/charts/web"), "version": VERSION, "plainHTTP": true},
    });
    if let (Some(spec), Some(more)) = (spec.as_object_mut(), more.as_object()) {
        spec.extend(more.clone());
    }
    let app = json!({"metadata": {"name": name}, "spec": spec});
    apps(client).create(&PostParams::default(), &serde_json::from_value(app)?).await?;
    Ok(())
}

/// Waits until it is deployed in so many tenants; `look` is called meanwhile. Seconds since then.
pub(super) async fn deployed(
    client: &Client,
    name: &str,
    tenants: usize,
    since: Instant,
    mut look: impl AsyncFnMut() -> Result<()>,
) -> Result<f64> {
    let mut said = None;
    loop {
        let status: AppStatus = apps(client).get(name).await?.status.unwrap_or_default();
        let deployed = status.deployed.and_then(|n| usize::try_from(n).ok()).unwrap_or_default();
        let seconds = since.elapsed().as_secs_f64();
        if said != Some(deployed / 10) {
            println!("{seconds:.0} s: {name} is deployed in {deployed} of {tenants}");
            said = Some(deployed / 10);
        }
        if deployed == tenants {
            return Ok(seconds);
        }
        ensure!(status.failed.unwrap_or_default() == 0, "{name} has failed: {}", json!(status));
        ensure!(since.elapsed() < TIMEOUT, "{name} is not deployed after {TIMEOUT:?}: {}", json!(status));
        look().await?;
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
}

/// Deletes all of both kinds, and waits until they are gone.
pub(super) async fn clear(client: &Client) -> Result<()> {
    apps(client).delete_collection(&DeleteParams::default(), &ListParams::default()).await?;
    accesses(client).delete_collection(&DeleteParams::default(), &ListParams::default()).await?;
    let since = Instant::now();
    loop {
        let apps = apps(client).list(&ListParams::default()).await?;
        let accesses = accesses(client).list(&ListParams::default()).await?;
        let left: Vec<String> =
            apps.iter().map(App::name_any).chain(accesses.iter().map(ClusterAccess::name_any)).collect();
        if left.is_empty() {
            return Ok(());
        }
        ensure!(since.elapsed() < TIMEOUT, "they are left: {}", left.join(", "));
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
}
