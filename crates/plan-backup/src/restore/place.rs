//! What is restored, and where.

use super::input::{RestoreInput, has_ended, is_automatic};
use super::source;
use crate::backup::store::{self, Kept};
use berth_api::backup::{EtcdBackup, Subject};
use berth_api::conditions::{self, ConditionType, Reason};
use berth_api::restore::EtcdRestore;
use berth_api::{Cluster, EtcdCluster, labels, names};
use berth_plan::etcd_home::delete_volumes;
use berth_plan::model::State;
use berth_plan::observed::{Observed, annotation, deleting, label};
use berth_plan::settings::Settings;
use berth_plan::workload::image_of;
use berth_render::{Kind, ObjectKey};
use serde::de::DeserializeOwned;
use serde_json::Value;

/// What has to be read for an `EtcdRestore`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Asks {
    /// Where its Jobs run: where etcd does.
    pub namespace: String,
    /// The `Cluster`, if it is a tenant's.
    pub cluster: Option<ObjectKey>,
    /// The etcd.
    pub etcd: ObjectKey,
}

impl Asks {
    /// Claim of the volume that is restored.
    pub fn claim(&self) -> ObjectKey {
        ObjectKey::namespaced(Kind::PersistentVolumeClaim, &*self.namespace, names::etcd::claim(&self.etcd.name, 0))
    }
}

/// What has to be read for it.
pub fn asks(restore: &EtcdRestore) -> Asks {
    let home = restore.metadata.namespace.as_deref().unwrap_or_default();
    let named = |r: &Option<berth_api::backup::BackupRef>| r.as_ref().map(|r| r.name.clone());
    let cluster = named(&restore.spec.cluster_ref);
    let namespace = cluster.as_ref().map_or_else(|| home.to_owned(), |c| names::control_plane_namespace(home, c));
    let etcd =
        named(&restore.spec.etcd_cluster_ref).filter(|_| cluster.is_none()).unwrap_or_else(|| names::ETCD.into());
    Asks {
        etcd: ObjectKey::namespaced(Kind::EtcdCluster, &*namespace, etcd),
        cluster: cluster.map(|name| ObjectKey::namespaced(Kind::Cluster, home, name)),
        namespace,
    }
}

/// The Secret of the store that the backup is in, if that is known.
pub fn credentials(restore: &EtcdRestore, observed: &Observed, settings: &Settings) -> Option<ObjectKey> {
    let home = restore.metadata.namespace.as_deref().unwrap_or_default();
    store::secret(&source::choose(restore, observed)?.spec, home, settings)
}

/// The claim of the volume that the backup is on, if it is on one.
pub fn claim(restore: &EtcdRestore, observed: &Observed) -> Option<ObjectKey> {
    let home = restore.metadata.namespace.as_deref().unwrap_or_default();
    store::claim(&source::choose(restore, observed)?.spec, home)
}

/// An etcd, and a backup of it.
pub(super) struct Place<'a> {
    pub(super) asks: Asks,
    pub(super) store: Kept,
    pub(super) etcd: EtcdCluster,
    pub(super) backup: EtcdBackup,
    /// It is of another etcd.
    pub(super) is_anothers: bool,
    /// What it has to be a backup of, as far as that is known.
    pub(super) of: Subject,
    /// What starts the members.
    pub(super) set: &'a Value,
    /// Image with etcd's programs of the members' version.
    pub(super) image: String,
    pub(super) identity: String,
    /// Digest of the tenant's encryption key.
    pub(super) encryption_key: Option<String>,
    /// The member that is restored.
    pub(super) member: String,
}

impl Place<'_> {
    /// What the etcd waits for, in its own words.
    pub(super) fn says(&self) -> State {
        let status = self.etcd.status.clone().unwrap_or_default();
        let ready = conditions::find(&status.conditions, ConditionType::Ready);
        let reason = ready.and_then(|c| c.reason.parse().ok()).unwrap_or(Reason::Waiting);
        let message = ready.map(|c| c.message.clone()).unwrap_or_default();
        match reason {
            Reason::Restoring => State::Reported { reason, message },
            Reason::EtcdChangeUnsupported | Reason::VersionUnsupported => {
                State::Blocked { reason, message: format!("{}: {message}", self.asks.etcd) }
            }
            _ if self.etcd.spec.paused => State::Waiting {
                reason: Reason::Paused,
                on: format!("spec.paused of {} (and of its Cluster) to be false", self.asks.etcd),
            },
            _ => State::Waiting { reason: Reason::Restoring, on: format!("{} to begin", self.asks.etcd) },
        }
    }
}

/// Whether the etcd serves, as far as is known.
pub fn answers(etcd: &EtcdCluster) -> bool {
    let Some(status) = &etcd.status else { return false };
    let available = conditions::find(&status.conditions, ConditionType::Available);
    status.cluster_id.is_some() && available.is_none_or(|c| c.status != "False")
}

/// Whether it has not answered since before the restore was created.
fn is_gone(etcd: &EtcdCluster, restore: &EtcdRestore) -> bool {
    let Some(status) = &etcd.status else { return true };
    let available = conditions::find(&status.conditions, ConditionType::Available);
    let since = available.filter(|c| c.status == "False").map(|c| &c.last_transition_time.0);
    let created = restore.metadata.creation_timestamp.as_ref().map(|at| &at.0);
    status.cluster_id.is_none() || since.zip(created).is_some_and(|(since, created)| since <= created)
}

/// What is restored, or what is awaited.
pub(super) fn find(input: RestoreInput<'_>) -> Result<Place<'_>, State> {
    let asks = asks(input.object);
    let cluster: Option<Cluster> = match &asks.cluster {
        Some(key) => Some(read(input, key)?),
        None => None,
    };
    if let Some(key) = &asks.cluster {
        home(input, &asks, key)?;
    }
    let etcd: EtcdCluster = read(input, &asks.etcd)?;
    if let Some(key) = &asks.cluster {
        no_minor_changes(input, &asks, key, &etcd)?;
    }
    if etcd.metadata.deletion_timestamp.is_some() {
        return Err(State::waiting(format!("{}, which is being deleted", asks.etcd)));
    }
    let Some(identity) = etcd.status.as_ref().and_then(|s| s.identity.clone()) else {
        return Err(State::waiting(format!("{} to be formed", asks.etcd)));
    };
    if let Some(other) = earlier(input) {
        return Err(State::waiting(format!("EtcdRestore {}/{other} of the same etcd to end", input.namespace())));
    }
    let backup = source::find(input, &etcd, cluster.as_ref())?;
    let store = store(input, &backup)?;
    source::key(input, &store, &backup)?;
    let key = ObjectKey { kind: Kind::StatefulSet, ..asks.etcd.clone() };
    let set = input.observed.get(&key).ok_or_else(|| State::waiting(format!("{key}, which does not exist")))?;
    let image = image_of(set).ok_or_else(|| State::waiting(format!("{key} to have an image")))?;
    let image = store::image(image, input.settings);
    usable(input, &asks)?;
    let secret = ObjectKey::namespaced(Kind::Secret, &*asks.namespace, names::APISERVER_ENCRYPTION);
    let encryption_key =
        cluster.and_then(|_| input.observed.secrets.get(&secret)?.digests.get("encryption.yaml").cloned());
    let member = names::etcd::member(&asks.etcd.name, 0);
    let is_anothers = input.object.spec.source.of.is_some();
    let of = source::subject(input, &backup, &identity);
    Ok(Place { asks, store, etcd, backup, is_anothers, of, set, image, identity, encryption_key, member })
}

/// The member's volume can be written to. Once etcd has stopped, its `StatefulSet` makes no claim.
fn usable(input: RestoreInput<'_>, asks: &Asks) -> Result<(), State> {
    let claim = asks.claim();
    let live = input.observed.get(&claim);
    let is_lost = live.is_some_and(|claim| claim["status"]["phase"] == "Lost");
    Err(State::waiting(match (live.is_none_or(deleting), is_lost, input.has_stopped_it()) {
        (false, false, _) => return Ok(()),
        (true, _, false) => {
            format!("{claim}, which does not exist or is being deleted. Its StatefulSet makes it with the member's pod")
        }
        (false, true, false) => format!(
            "{claim}, which has lost its volume. Delete it and pod {}, and their StatefulSet makes both anew: {}",
            names::etcd::member(&asks.etcd.name, 0),
            delete_volumes(&asks.namespace, &[&names::etcd::member(&asks.etcd.name, 0)])
        ),
        (gone, _, true) => format!(
            "{claim}, which {}. etcd has stopped, so nothing makes it anew: {}create it with the size and storageClassName of spec.storage of {} and accessModes [ReadWriteOnce]",
            if gone { "does not exist or is being deleted" } else { "has lost its volume" },
            if gone { "" } else { "delete it, and " },
            asks.etcd
        ),
    }))
}

/// The control-plane namespace is there, and is that `Cluster`'s.
fn home(input: RestoreInput<'_>, asks: &Asks, cluster: &ObjectKey) -> Result<(), State> {
    let namespace = input.observed.get(&ObjectKey::cluster(Kind::Namespace, &*asks.namespace));
    let ours = namespace.filter(|n| {
        !deleting(n)
            && label(n, labels::MANAGED_BY) == Some(labels::MANAGED_BY_VALUE)
            && label(n, labels::CLUSTER_NAME) == Some(&cluster.name)
            && label(n, labels::CLUSTER_NAMESPACE) == cluster.namespace.as_deref()
    });
    ours.map(drop).ok_or_else(|| State::waiting(format!("namespace {} of the control plane", asks.namespace)))
}

/// Its steps go by what comes up, and nothing does meanwhile; without etcd nothing comes up either.
fn no_minor_changes(
    input: RestoreInput<'_>,
    asks: &Asks,
    cluster: &ObjectKey,
    etcd: &EtcdCluster,
) -> Result<(), State> {
    let namespace = input.observed.get(&ObjectKey::cluster(Kind::Namespace, &*asks.namespace));
    let changes = namespace.is_some_and(|n| annotation(n, labels::UPGRADE).is_some());
    if !changes || input.request().is_some() || is_automatic(input) || is_gone(etcd, input.object) {
        return Ok(());
    }
    Err(State::waiting(format!(
        "{cluster} to finish, or to turn back, the change of its minor version; an etcd that answers is not restored meanwhile"
    )))
}

/// One that comes first: of two, the older.
fn earlier(input: RestoreInput<'_>) -> Option<String> {
    let age = |r: &EtcdRestore| (r.metadata.creation_timestamp.clone(), r.metadata.name.clone());
    let own = age(input.object);
    let all = input.observed.of_kind(Kind::EtcdRestore, input.namespace());
    let all = all.filter_map(|(_, o)| serde_json::from_value::<EtcdRestore>(o.clone()).ok());
    let same = |r: &EtcdRestore| {
        r.metadata.name != input.object.metadata.name && super::asks(r).etcd == super::asks(input.object).etcd
    };
    all.filter(|r| same(r) && !has_ended(r) && age(r) < own).find_map(|r| r.metadata.name)
}

fn store(input: RestoreInput<'_>, backup: &EtcdBackup) -> Result<Kept, State> {
    let backups = &input.settings.backups;
    let asked = &backup.spec.store;
    if backup.spec.secret_ref.is_none()
        && backup.spec.claim_ref.is_none()
        && (backups.store(asked).is_none() || backups.image.is_empty())
    {
        return Err(State::blocked(
            Reason::StoreUnavailable,
            format!(
                "the backup is in store {asked}, which is not configured. The platform team adds it to the chart value backups.stores"
            ),
        ));
    }
    let at = match (&input.object.spec.source.key, &backup.metadata.name) {
        (None, Some(name)) => format!("EtcdBackup {}/{name}: spec", input.namespace()),
        _ => "spec.source.key".to_owned(),
    };
    let stands_alone = input.object.spec.cluster_ref.is_none();
    let user = store::User { at: &at, namespace: input.namespace(), stands_alone };
    store::find(&backup.spec, user, input.observed, input.settings)
}

fn read<T: DeserializeOwned>(input: RestoreInput<'_>, key: &ObjectKey) -> Result<T, State> {
    let live = input.observed.get(key).ok_or_else(|| State::waiting(format!("{key}, which does not exist")))?;
    serde_json::from_value(live.clone())
        .map_err(|e| State::blocked(Reason::Error, format!("{key} cannot be read: {e}")))
}
