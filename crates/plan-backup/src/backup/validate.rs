//! Whether a backup can be taken now.

use super::input::BackupInput;
use crate::objects;
use crate::store::{self, ResolvedStore};
use berth_api::backup::{EtcdBackup, Subject};
use berth_api::etcd_cluster::{EtcdClusterStatus, EtcdEndpoint};
use berth_api::version::Version;
use berth_api::{EtcdCluster, labels, names};
use berth_plan::model::State;
use berth_render::{Binary, image};
use kube_core::ResourceExt;

/// An etcd that can be backed up.
#[derive(Clone, Debug)]
pub(super) struct ValidBackup {
    pub(super) store: ResolvedStore,
    pub(super) etcd: EtcdCluster,
    /// Image with etcd's programs of the members' version.
    pub(super) image: String,
    /// Secret with the client certificate.
    pub(super) client: String,
    pub(super) subject: Subject,
}

/// The etcd, or what is awaited.
pub(super) fn validate(input: BackupInput<'_>) -> Result<ValidBackup, State> {
    let (store, target) = (input.store()?, input.target());
    let (cluster, etcd) = target.find(input.observed)?;
    let status = etcd.status.clone().unwrap_or_default();
    let formed = status.cluster_id.is_some() && !status.endpoints.is_empty();
    let Some(identity) = status.identity.clone().filter(|_| formed) else {
        return Err(State::waiting(format!("{} to be formed", target.etcd)));
    };
    if status.sleep().is_some() {
        return Err(State::waiting(format!("{} to be awake: it sleeps, and has no pods", target.etcd)));
    }
    members(input.object, &status).map_err(|who| State::waiting(format!("{} to say {who}", target.etcd)))?;
    let Some(client) = status.clients.iter().find(|c| c.name == names::BACKUP_CLIENT) else {
        let how = if cluster.is_some() {
            String::new()
        } else {
            format!(": add {{name: {}}} to its spec.clients", names::BACKUP_CLIENT)
        };
        return Err(State::waiting(format!("client {} of {}{how}", names::BACKUP_CLIENT, target.etcd)));
    };
    let runs = input.observed.get(&target.stateful_set()).and_then(|set| store::image(set, input.settings));
    let version: Option<Version> = etcd.spec.version.parse().ok();
    let image = runs.or_else(|| Some(image(&input.settings.registry, Binary::Etcd, version?)));
    let of = cluster.as_ref().and_then(|c| c.metadata.name.clone()).unwrap_or_else(|| target.etcd.name.clone());
    let image = image.ok_or_else(|| State::waiting(format!("spec.version of {} to be a version", target.etcd)))?;
    Ok(ValidBackup {
        image,
        store,
        client: client.secret_ref.name.clone(),
        subject: Subject {
            namespace: input.namespace().to_owned(),
            name: of,
            identity,
            epoch: status.epoch.unwrap_or_default(),
            kubernetes_version: cluster.as_ref().and_then(|c| c.status.as_ref()?.version.clone()),
            encryption_key: target.encryption_key(input.observed),
        },
        etcd,
    })
}

/// Where the members are that are asked for a snapshot. Of an etcd that lost its quorum clients need not know all of them: a change of
/// members may have been under way. Err: what is not known yet.
pub(super) fn members(backup: &EtcdBackup, status: &EtcdClusterStatus) -> Result<Vec<EtcdEndpoint>, String> {
    let left = || status.recovery.iter().flat_map(|recovery| &recovery.left);
    let named = &backup.spec.members;
    if named.is_empty() && is_of_an_earlier_recovery(backup) {
        let left: Vec<EtcdEndpoint> = left().cloned().collect();
        return Some(left).filter(|left| !left.is_empty()).ok_or("which members are left (status.recovery)".into());
    }
    if named.is_empty() {
        return Ok(status.endpoints.clone());
    }
    let find = |name: &String| left().chain(&status.endpoints).find(|e| e.name == *name).cloned();
    let find =
        |name: &String| find(name).ok_or_else(|| format!("where member {name} (spec.members) is (status.endpoints)"));
    named.iter().map(find).collect()
}

/// Whether each of the members that are asked has to answer.
pub(super) fn names_members(backup: &EtcdBackup) -> bool {
    !backup.spec.members.is_empty() || is_of_an_earlier_recovery(backup)
}

/// Whether an earlier Berth created it for a recovery: it named no members, and meant each that is left.
fn is_of_an_earlier_recovery(backup: &EtcdBackup) -> bool {
    backup.spec.without_quorum && backup.labels().contains_key(labels::RECOVERY)
}

/// Whether Berth takes it by itself of the members that are left: the etcd's own status names the `EtcdRestore` that it is for.
pub(super) fn is_for_a_recovery(input: BackupInput<'_>) -> bool {
    let etcd: Option<EtcdCluster> = objects::find(input.observed, &input.target().etcd);
    let recovery = etcd.and_then(|etcd| etcd.status?.recovery).filter(|r| r.begun.is_some() && r.goes_on());
    let restore = recovery.and_then(|r| r.restore);
    let restore = restore.as_deref().and_then(|own| own.split_once('/'));
    input.object.spec.without_quorum
        && restore.is_some_and(|(namespace, name)| {
            namespace == input.namespace() && names::restore_survivors(name) == input.name()
        })
}
