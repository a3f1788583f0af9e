//! Where an etcd is, and whether a backup of it can be taken now.

use super::input::BackupInput;
use super::store::{self, Kept};
use berth_api::backup::{EtcdBackup, Subject};
use berth_api::conditions::Reason;
use berth_api::etcd_cluster::{EtcdClusterStatus, EtcdEndpoint};
use berth_api::version::Version;
use berth_api::{Cluster, EtcdCluster, labels, names};
use berth_plan::model::State;
use berth_plan::observed::{deleting, label};
use berth_plan::settings::Settings;
use berth_plan::workload::image_of;
use berth_render::{Binary, Kind, ObjectKey, image};
use serde::de::DeserializeOwned;

/// What has to be read for an `EtcdBackup`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Asks {
    /// Where its Job runs: where etcd does.
    pub namespace: String,
    /// The `Cluster`, if it is a tenant's.
    pub cluster: Option<ObjectKey>,
    /// The etcd.
    pub etcd: ObjectKey,
    /// The store's Secret, if the store is known.
    pub credentials: Option<ObjectKey>,
    /// The store's claim, if it is a volume.
    pub claim: Option<ObjectKey>,
}

/// What has to be read for it.
pub fn asks(backup: &EtcdBackup, settings: &Settings) -> Asks {
    let home = backup.metadata.namespace.as_deref().unwrap_or_default();
    let named = |r: &Option<berth_api::backup::BackupRef>| r.as_ref().map(|r| r.name.clone());
    let cluster = named(&backup.spec.cluster_ref);
    let namespace = cluster.as_ref().map_or_else(|| home.to_owned(), |c| names::control_plane_namespace(home, c));
    let etcd = named(&backup.spec.etcd_cluster_ref).filter(|_| cluster.is_none()).unwrap_or_else(|| names::ETCD.into());
    Asks {
        etcd: ObjectKey::namespaced(Kind::EtcdCluster, &*namespace, etcd),
        cluster: cluster.map(|name| ObjectKey::namespaced(Kind::Cluster, home, name)),
        credentials: store::secret(&backup.spec, home, settings),
        claim: store::claim(&backup.spec, home),
        namespace,
    }
}

/// An etcd that can be backed up.
#[derive(Clone, Debug)]
pub(super) struct Place {
    pub(super) store: Kept,
    pub(super) etcd: EtcdCluster,
    /// Image with etcd's programs of the members' version.
    pub(super) image: String,
    /// Secret with the client certificate.
    pub(super) client: String,
    pub(super) subject: Subject,
}

/// The etcd, or what is awaited.
pub(super) fn find(input: BackupInput<'_>, asks: &Asks) -> Result<Place, State> {
    let store = store(input)?;
    let cluster: Option<Cluster> = match &asks.cluster {
        Some(key) => Some(read(input, key)?),
        None => None,
    };
    if cluster.is_some() && !is_home_of(input, asks) {
        return Err(State::waiting(format!("namespace {} of the control plane", asks.namespace)));
    }
    let etcd: EtcdCluster = read(input, &asks.etcd)?;
    if etcd.metadata.deletion_timestamp.is_some() {
        return Err(State::waiting(format!("{}, which is being deleted", asks.etcd)));
    }
    let status = etcd.status.clone().unwrap_or_default();
    let formed = status.cluster_id.is_some() && !status.endpoints.is_empty();
    let Some(identity) = status.identity.clone().filter(|_| formed) else {
        return Err(State::waiting(format!("{} to be formed", asks.etcd)));
    };
    members(input.object, &status).map_err(|who| State::waiting(format!("{} to say {who}", asks.etcd)))?;
    let Some(client) = status.clients.iter().find(|c| c.name == names::BACKUP_CLIENT) else {
        let how = if cluster.is_some() {
            String::new()
        } else {
            format!(": add {{name: {}}} to its spec.clients", names::BACKUP_CLIENT)
        };
        return Err(State::waiting(format!("client {} of {}{how}", names::BACKUP_CLIENT, asks.etcd)));
    };
    let set = ObjectKey { kind: Kind::StatefulSet, ..asks.etcd.clone() };
    let runs = input.observed.get(&set).and_then(image_of).map(str::to_owned);
    let version: Option<Version> = etcd.spec.version.parse().ok();
    let image = runs.or_else(|| Some(image(&input.settings.registry, Binary::Etcd, version?)));
    let key = ObjectKey::namespaced(Kind::Secret, &*asks.namespace, names::APISERVER_ENCRYPTION);
    let of = cluster.as_ref().and_then(|c| c.metadata.name.clone()).unwrap_or_else(|| asks.etcd.name.clone());
    let image = image.ok_or_else(|| State::waiting(format!("spec.version of {} to be a version", asks.etcd)))?;
    Ok(Place {
        image: store::image(&image, input.settings),
        store,
        client: client.secret_ref.name.clone(),
        subject: Subject {
            namespace: input.namespace().to_owned(),
            name: of,
            identity,
            epoch: status.epoch.unwrap_or_default(),
            kubernetes_version: cluster.as_ref().and_then(|c| c.status.as_ref()?.version.clone()),
            encryption_key: cluster
                .as_ref()
                .and_then(|_| input.observed.secrets.get(&key)?.digests.get("encryption.yaml").cloned()),
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
    backup.spec.without_quorum && backup.metadata.labels.as_ref().is_some_and(|own| own.contains_key(labels::RECOVERY))
}

/// Whether Berth takes it by itself of the members that are left: the etcd's own status names the `EtcdRestore` that it is for.
pub(super) fn is_for_a_recovery(input: BackupInput<'_>) -> bool {
    let asks = asks(input.object, input.settings);
    let etcd = input.observed.get(&asks.etcd).and_then(|o| serde_json::from_value::<EtcdCluster>(o.clone()).ok());
    let recovery = etcd.and_then(|etcd| etcd.status?.recovery).filter(|r| r.begun.is_some() && r.goes_on());
    let restore = recovery.and_then(|r| r.restore);
    let restore = restore.as_deref().and_then(|own| own.split_once('/'));
    input.object.spec.without_quorum
        && restore.is_some_and(|(namespace, name)| {
            namespace == input.namespace() && names::restore_survivors(name) == input.name()
        })
}

/// The store that the spec names.
pub(super) fn store(input: BackupInput<'_>) -> Result<Kept, State> {
    let stands_alone = input.object.spec.cluster_ref.is_none();
    let user = store::User { at: "spec", namespace: input.namespace(), stands_alone };
    store::find(&input.object.spec, user, input.observed, input.settings)
}

/// Whether the control-plane namespace is there, and the one of that `Cluster`.
pub(super) fn is_home_of(input: BackupInput<'_>, asks: &Asks) -> bool {
    let Some(cluster) = &asks.cluster else { return true };
    let namespace = input.observed.get(&ObjectKey::cluster(Kind::Namespace, &*asks.namespace));
    namespace.is_some_and(|n| {
        !deleting(n)
            && label(n, labels::MANAGED_BY) == Some(labels::MANAGED_BY_VALUE)
            && label(n, labels::CLUSTER_NAME) == Some(&cluster.name)
            && label(n, labels::CLUSTER_NAMESPACE) == cluster.namespace.as_deref()
    })
}

fn read<T: DeserializeOwned>(input: BackupInput<'_>, key: &ObjectKey) -> Result<T, State> {
    let live = input.observed.get(key).ok_or_else(|| State::waiting(format!("{key}, which does not exist")))?;
    serde_json::from_value(live.clone())
        .map_err(|e| State::blocked(Reason::Error, format!("{key} cannot be read: {e}")))
}
