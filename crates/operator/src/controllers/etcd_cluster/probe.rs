//! Asks the members of an etcd, and why pods of it are missing.

use crate::context::Context;
use berth_api::{EtcdCluster, names};
use berth_etcdio::{Credential, EtcdTarget};
use berth_kubeio::{Own, Snapshot, refused};
use berth_pki::Clocks;
use berth_plan::etcd::{absent, endpoints, worth_asking};
use berth_render::{Kind, ObjectKey};
use jiff::Timestamp;

/// Asks the members, if one of them runs.
pub(super) async fn members(ctx: &Context, etcd: &EtcdCluster, snapshot: &mut Snapshot, clocks: Clocks) {
    if etcd.metadata.deletion_timestamp.is_some() || !worth_asking(etcd, &snapshot.observed) {
        return;
    }
    let own = Own::of(Kind::EtcdCluster, etcd).key;
    let ca = ObjectKey { kind: Kind::Secret, name: names::etcd::client_ca(&own.name), ..own };
    let (Some(cert), Some(key)) = (snapshot.secret(&ca, "tls.crt"), snapshot.secret(&ca, "tls.key")) else { return };
    let target = Credential::issue(cert, key, clocks)
        .and_then(|credential| EtcdTarget::new(&endpoints(etcd, &snapshot.observed), credential));
    match target {
        Ok(target) if !target.members.is_empty() => {
            snapshot.observed.etcd = Some((ctx.ask_etcd)(target).await);
        }
        Ok(_) => {}
        Err(error) => tracing::warn!(%ca, %error, "cannot ask etcd"),
    }
}

/// Asks what refuses pods that are not there.
pub(super) async fn missing_pods(ctx: &Context, etcd: &EtcdCluster, snapshot: &mut Snapshot, now: Timestamp) {
    let own = Own::of(Kind::EtcdCluster, etcd).key;
    let missing = absent(etcd, &snapshot.observed);
    snapshot.observed.refused =
        refused(&ctx.io, own.namespace.as_deref().unwrap_or_default(), &own.name, missing, now).await;
}
