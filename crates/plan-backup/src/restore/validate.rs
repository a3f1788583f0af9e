//! Whether a backup can be restored now, and what is known of it then.

use super::input::{RestoreInput, is_automatic};
use super::source::{self, Source};
use crate::objects::{find, list};
use crate::store::{self, ResolvedStore, StoreUser};
use crate::target::Target;
use berth_api::backup::{StoreRef, Subject};
use berth_api::conditions::{self, ConditionType, Reason};
use berth_api::etcd_bootstrap::{OperationKind, Phase};
use berth_api::restore::EtcdRestore;
use berth_api::{EtcdCluster, labels, names};
use berth_plan::etcd_home::delete_volumes;
use berth_plan::model::State;
use berth_plan::object_meta::{annotation, deleting};
use berth_render::{Kind, ObjectKey};
use serde_json::Value;

/// An etcd, and a backup of it.
pub(super) struct ValidRestore<'a> {
    pub(super) target: Target,
    pub(super) store: ResolvedStore,
    pub(super) etcd: EtcdCluster,
    pub(super) source: Source,
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

impl ValidRestore<'_> {
    /// What the etcd waits for, in its own words.
    pub(super) fn says(&self) -> State {
        let status = self.etcd.status.clone().unwrap_or_default();
        let ready = conditions::find(&status.conditions, ConditionType::Ready);
        let reason = ready.and_then(|c| c.reason.parse().ok()).unwrap_or(Reason::Waiting);
        let message = ready.map(|c| c.message.clone()).unwrap_or_default();
        match reason {
            Reason::Restoring => State::Reported { reason, message },
            Reason::EtcdChangeUnsupported | Reason::VersionUnsupported => {
                State::Blocked { reason, message: format!("{}: {message}", self.target.etcd) }
            }
            _ if self.etcd.spec.paused => State::Waiting {
                reason: Reason::Paused,
                on: format!("spec.paused of {} (and of its Cluster) to be false", self.target.etcd),
            },
            _ => State::Waiting { reason: Reason::Restoring, on: format!("{} to begin", self.target.etcd) },
        }
    }
}

/// Whether the etcd serves, as far as is known.
pub fn answers(etcd: &EtcdCluster) -> bool {
    let Some(status) = &etcd.status else { return false };
    let available = conditions::find(&status.conditions, ConditionType::Available);
    status.cluster_id.is_some() && available.is_none_or(|c| c.status != "False")
}

/// Why one that Berth created by itself restores nothing, as long as etcd has not stopped: it answers again, or did so since.
pub(super) fn answers_again(input: RestoreInput<'_>) -> Option<String> {
    let key = input.target().etcd;
    let etcd: EtcdCluster = find(input.observed, &key).filter(|_| is_automatic(input))?;
    let status = etcd.status.as_ref()?;
    let operation = status.operation.as_ref().filter(|o| o.kind == OperationKind::Restore);
    if operation.is_some_and(|o| o.phase != Phase::WaitingForClients) {
        return None;
    }
    let own = format!("{}/{}", input.namespace(), input.name());
    let is_given_up = status.recovery.as_ref().is_some_and(|r| r.has_given_up(&own));
    if is_given_up || answers(&etcd) {
        return Some(format!(
            "{key} answers again, or did since this was created, so Berth restores nothing by itself; to restore it all the same, create another EtcdRestore"
        ));
    }
    // Whoever has its data again may hold more than the backup. Not one that is only about to join, which is never left.
    let left: Vec<&str> = status.recovery.iter().flat_map(|r| &r.left).map(|endpoint| endpoint.name.as_str()).collect();
    (input.object.spec.source.survivors.is_none() && !left.is_empty()).then(|| {
        format!(
            "{} of {key} has its data again, which may be more than the backup has, so this one ends, and Berth goes on with what is left",
            left.join(", ")
        )
    })
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
pub(super) fn validate(input: RestoreInput<'_>) -> Result<ValidRestore<'_>, State> {
    let target = input.target();
    let (cluster, etcd) = target.find(input.observed)?;
    no_minor_changes(input, &target, &etcd)?;
    let Some(identity) = etcd.status.as_ref().and_then(|s| s.identity.clone()) else {
        return Err(State::waiting(format!("{} to be formed", target.etcd)));
    };
    if let Some(other) = earlier(input) {
        return Err(State::waiting(format!("EtcdRestore {}/{other} of the same etcd to end", input.namespace())));
    }
    let source = source::find(input, &etcd, cluster.as_ref())?;
    let store = store(input, &source)?;
    source::key(input, &store, &source)?;
    let key = target.stateful_set();
    let set = input.observed.get(&key).ok_or_else(|| State::waiting(format!("{key}, which does not exist")))?;
    let image = store::image(set, input.settings);
    let image = image.ok_or_else(|| State::waiting(format!("{key} to have an image")))?;
    usable(input, &target)?;
    let encryption_key = target.encryption_key(input.observed);
    let member = names::etcd::member(&target.etcd.name, 0);
    let of = source::subject(input, source.status.identity.clone(), &identity);
    Ok(ValidRestore { target, store, etcd, source, of, set, image, identity, encryption_key, member })
}

/// The member's volume can be written to. Once etcd has stopped, its `StatefulSet` makes no claim.
fn usable(input: RestoreInput<'_>, target: &Target) -> Result<(), State> {
    let (claim, member) = (target.claim(), names::etcd::member(&target.etcd.name, 0));
    let live = input.observed.get(&claim);
    let is_lost = live.is_some_and(|claim| claim["status"]["phase"] == "Lost");
    Err(State::waiting(match (live.is_none_or(deleting), is_lost, input.has_stopped_it()) {
        (false, false, _) => return Ok(()),
        (true, _, false) => {
            format!("{claim}, which does not exist or is being deleted. Its StatefulSet makes it with the member's pod")
        }
        (false, true, false) => format!(
            "{claim}, which has lost its volume. Delete it and pod {member}, and their StatefulSet makes both anew: {}",
            delete_volumes(&target.namespace, &[&member])
        ),
        (gone, _, true) => format!(
            "{claim}, which {}. etcd is stopped, so nothing recreates it: {}create it with the size and storageClassName of spec.storage of {} and accessModes [ReadWriteOnce]",
            if gone { "does not exist or is being deleted" } else { "has lost its volume" },
            if gone { "" } else { "delete it, and " },
            target.etcd
        ),
    }))
}

/// Its steps go by what comes up, and nothing does meanwhile; without etcd nothing comes up either.
fn no_minor_changes(input: RestoreInput<'_>, target: &Target, etcd: &EtcdCluster) -> Result<(), State> {
    let Some(cluster) = &target.cluster else { return Ok(()) };
    let namespace = input.observed.get(&ObjectKey::cluster(Kind::Namespace, &*target.namespace));
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
    let same = |r: &EtcdRestore| {
        r.metadata.name != input.object.metadata.name && Target::from(r).etcd == input.target().etcd && !r.has_ended()
    };
    let mut all = list::<EtcdRestore>(input.observed, Kind::EtcdRestore, input.namespace());
    all.find(|r| same(r) && age(r) < own)?.metadata.name
}

fn store(input: RestoreInput<'_>, source: &Source) -> Result<ResolvedStore, State> {
    let backups = &input.settings.backups;
    let StoreRef { name: asked, secret_ref, claim_ref } = &source.store;
    let is_configured = backups.store(asked).is_some() && !backups.image.is_empty();
    if secret_ref.is_none() && claim_ref.is_none() && !is_configured {
        return Err(State::blocked(
            Reason::StoreUnavailable,
            format!(
                "the backup is in store {asked}, which is not configured. The platform team adds it to the chart value backups.stores"
            ),
        ));
    }
    let at = match &source.name {
        Some(name) => format!("EtcdBackup {}/{name}: spec", input.namespace()),
        None => "spec.source.key".to_owned(),
    };
    let (cluster, stands_alone) = (source.of.cluster_ref.as_ref(), input.object.spec.cluster_ref.is_none());
    let user = StoreUser { at: &at, namespace: input.namespace(), cluster, stands_alone };
    store::resolve(&source.store, user, input.observed, input.settings)
}
