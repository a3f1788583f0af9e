//! Asks the tenant's API.

use crate::context::Context;
use berth_api::cluster::Cluster;
use berth_api::{labels, names};
use berth_kubeio::{Io, Snapshot, probe_tenant, tenant_target};
use berth_plan::cluster::{Input, endpoint, probe_key};
use berth_plan::observed::ApiProbe;
use berth_plan::{Settings, workload};
use berth_render::{Kind, ObjectKey};
use jiff::Timestamp;

/// Asks it if its Service has a pod to send the request to, and puts the answer into the snapshot. Returns the connection.
pub(super) async fn tenant(
    ctx: &Context,
    settings: &Settings,
    cluster: &Cluster,
    snapshot: &mut Snapshot,
    now: Timestamp,
) -> Option<Io> {
    let input = Input { cluster, observed: &snapshot.observed, settings, now };
    // One that is protected is held, and serves on.
    if cluster.metadata.deletion_timestamp.is_some() && !cluster.spec.deletion.protected {
        return None;
    }
    let name = cluster.metadata.name.as_deref().unwrap_or_default();
    let home = names::control_plane_namespace(cluster.metadata.namespace.as_deref().unwrap_or_default(), name);
    let up = workload::pods_of(input.observed, &home, labels::COMPONENT, names::APISERVER)
        .any(|(_, p)| workload::pod_ready(p));
    let (host, port) = endpoint(input).filter(|_| up)?;
    let key = probe_key(input);
    let published = cluster.status.as_ref().and_then(|s| s.version.as_deref());
    let api = input.observed.get(&ObjectKey::namespaced(Kind::Deployment, home.clone(), names::APISERVER));
    let image = api.and_then(workload::image_of).and_then(|i| i.rsplit_once(":v")).map(|(_, v)| v);
    let want_version = published.is_none() || published != image;
    let ca = ObjectKey::namespaced(Kind::Secret, home, names::ca(name));
    let Some(target) = tenant_target(snapshot, &ca, &host, port) else {
        snapshot.observed.api = ApiProbe::Unable(format!("{ca} is not there"));
        return None;
    };
    let (probe, tenant) =
        probe_tenant(&ctx.connect, target, &key, want_version, ctx.tenant_calls.clone(), settings.clocks(now)).await;
    snapshot.observed.api = probe;
    tenant
}
