//! A volume as a store: a PersistentVolumeClaim in the namespace of a stand-alone etcd, whose owner says by a label that Berth may write to it.
//! A Job changes the group of what it mounts, so no claim is mounted that somebody else's data may be on.

use super::{ResolvedStore, StoreUser, problem};
use berth_api::backup::{Store, StoreClaim};
use berth_api::conditions::Reason;
use berth_api::labels;
use berth_plan::model::State;
use berth_plan::object_meta::{deleting, label};
use berth_plan::observed::Observed;
use berth_render::{Kind, ObjectKey};
use serde_json::Value;

/// Where Jobs have it.
const DIRECTORY: &str = "/store";
/// Access modes by which a pod can write.
const WRITABLE: [&str; 3] = ["ReadWriteOnce", "ReadWriteMany", "ReadWriteOncePod"];

pub(super) fn key(own: &StoreClaim, namespace: &str) -> ObjectKey {
    ObjectKey::namespaced(Kind::PersistentVolumeClaim, namespace, &*own.name)
}

/// The volume, if backups may be kept on it.
pub(super) fn resolve(own: &StoreClaim, user: StoreUser<'_>, observed: &Observed) -> Result<ResolvedStore, State> {
    let StoreUser { at, namespace, cluster, .. } = user;
    let claim = key(own, namespace);
    let of_cluster = |what: String| {
        State::blocked(
            Reason::NotAllowed,
            format!(
                "{at}.claimRef: {what}, and only backups of a stand-alone EtcdCluster go to a volume. Create another one with clusterRef, and with store or secretRef instead of claimRef"
            ),
        )
    };
    if let Some(cluster) = cluster {
        return Err(of_cluster(format!("it is a backup of Cluster {namespace}/{}", cluster.name)));
    }
    let is_tenants = |(_, etcd): &(&ObjectKey, &Value)| label(etcd, labels::CLUSTER_NAME).is_some();
    if let Some((etcd, _)) = observed.of_kind(Kind::EtcdCluster, namespace).find(is_tenants) {
        return Err(of_cluster(format!("{etcd} is that of a Cluster")));
    }
    let missing = |what: &str| State::Waiting {
        reason: Reason::StoreUnavailable,
        on: format!("{claim} ({at}.claimRef), which {what}"),
    };
    let live = observed.get(&claim).ok_or_else(|| missing("does not exist"))?;
    if deleting(live) {
        return Err(missing("is being deleted"));
    }
    let wrong = |what: String| problem(format!("{at}.claimRef: {claim} {what}"));
    if label(live, labels::MANAGED_BY) == Some(labels::MANAGED_BY_VALUE) {
        return Err(wrong("is the volume of a member of etcd. Name one that has nothing but backups".into()));
    }
    if label(live, labels::BACKUP_STORE) != Some("true") {
        return Err(wrong(format!(
            "has no label {}=true, so Berth does not mount it: Jobs write to it, and change the group of its files. If nothing else uses it: kubectl -n {namespace} label pvc {} {}=true",
            labels::BACKUP_STORE,
            own.name,
            labels::BACKUP_STORE
        )));
    }
    if live.pointer("/status/phase").and_then(Value::as_str) == Some("Lost") {
        return Err(wrong("has lost its volume. Delete it, and create another one".into()));
    }
    if live.pointer("/spec/volumeMode").and_then(Value::as_str) == Some("Block") {
        return Err(wrong(
            "is a block device (spec.volumeMode), and backups are files. Create one with Filesystem".into(),
        ));
    }
    // What the volume really has, once there is one.
    let of = |at: &str| live.pointer(at).and_then(Value::as_array).filter(|modes| !modes.is_empty());
    let modes = of("/status/accessModes").or_else(|| of("/spec/accessModes"));
    let modes: Vec<&str> = modes.into_iter().flatten().filter_map(Value::as_str).collect();
    if !modes.iter().any(|mode| WRITABLE.contains(mode)) {
        return Err(wrong(format!(
            "can only be read: its access modes are {}. Create one with ReadWriteOnce or ReadWriteMany",
            modes.join(", ")
        )));
    }
    Ok(ResolvedStore {
        name: claim.to_string(),
        store: Store { directory: DIRECTORY.into(), bucket: own.name.clone(), ..Store::default() },
        prefix: String::new(),
        secret: None,
    })
}
