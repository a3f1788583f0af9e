//! The plan for an `EtcdBackup`: a Job where etcd runs takes a snapshot and proves it; its pod's termination message becomes the
//! status. It is taken once. A backup that is proven or has failed needs nothing more until it is deleted.

mod deletion;
mod job;
mod outcome;
mod place;
mod queue;
pub mod status;

#[cfg(test)]
pub(crate) mod tests;

use crate::model::{Action, Plan, SecretEntry, SecretPlan, Stage, StageId, State};
use crate::observed::{self, Observed, label, uid};
use crate::secrets::foreign;
use crate::settings::{BackupStore, Settings};
use berth_api::backup::{EtcdBackup, Outcome, keys, phase};
use berth_api::conditions::Reason;
use berth_api::{labels, names};
use berth_render::{Kind, ObjectKey};
use jiff::{SignedDuration, Timestamp};
use serde_json::Value;
use std::collections::BTreeMap;

pub use place::{Asks, asks};

/// What a plan for an `EtcdBackup` is made from.
#[derive(Clone, Copy, Debug)]
pub struct Input<'a> {
    /// The `EtcdBackup` as it was read.
    pub backup: &'a EtcdBackup,
    /// What was observed for it: what [`asks`] names, the pods of its Job, and all `EtcdBackup`s while it is not at its end.
    pub observed: &'a Observed,
    /// The operator's configuration.
    pub settings: &'a Settings,
    /// The time of this reconcile.
    pub now: Timestamp,
}

/// A plan, and what the status needs beside it.
#[derive(Clone, Debug, Default)]
pub struct BackupPlan {
    /// What to do.
    pub plan: Plan,
    /// Reconcile again after this long, even without an event.
    pub requeue_after: Option<SignedDuration>,
    /// How its Job ended, if it did.
    pub outcome: Option<Outcome>,
    /// The phase for people.
    pub phase: &'static str,
}

/// Something is about to be there.
const SOON: SignedDuration = SignedDuration::from_secs(2);
/// What is awaited is not announced.
const WAITING: SignedDuration = SignedDuration::from_secs(15);
/// A Job's end is announced.
const RUNNING: SignedDuration = SignedDuration::from_mins(1);
/// Nothing changes by itself.
const AT_REST: SignedDuration = SignedDuration::from_mins(10);

impl<'a> Input<'a> {
    fn name(&self) -> &'a str {
        self.backup.metadata.name.as_deref().unwrap_or_default()
    }

    fn namespace(&self) -> &'a str {
        self.backup.metadata.namespace.as_deref().unwrap_or_default()
    }

    /// Labels of everything that is made for it.
    fn labels(&self) -> BTreeMap<String, String> {
        [
            (labels::MANAGED_BY, labels::MANAGED_BY_VALUE),
            (labels::COMPONENT, names::ETCD_BACKUP),
            (labels::ETCD_BACKUP, self.name()),
            (labels::ETCD_BACKUP_NAMESPACE, self.namespace()),
        ]
        .map(|(key, value)| (key.to_owned(), value.to_owned()))
        .into()
    }

    fn is_ours(&self, object: &Value) -> bool {
        let is = |name, value| label(object, name) == Some(value);
        is(labels::ETCD_BACKUP, self.name()) && is(labels::ETCD_BACKUP_NAMESPACE, self.namespace())
    }

    fn get(&self, key: &ObjectKey) -> Option<&'a Value> {
        self.observed.get(key).filter(|o| self.is_ours(o))
    }

    fn has_ended(&self) -> bool {
        let phase = self.backup.status.as_ref().and_then(|s| s.phase.as_deref());
        [Some(phase::VERIFIED), Some(phase::FAILED)].contains(&phase)
    }

    /// Deletes a Job and the Secret beside it.
    fn clean(&self, stage: &mut Stage, job: &str, namespace: &str) -> bool {
        let both = [Kind::Job, Kind::Secret].map(|kind| ObjectKey::namespaced(kind, namespace, job));
        let left: Vec<_> = both.iter().filter_map(|key| Some((key, self.get(key)?))).collect();
        let going = left.iter().filter(|(_, o)| !observed::deleting(o));
        stage.actions.extend(going.map(|(key, o)| Action::delete(key, o, None)));
        left.is_empty()
    }
}

/// The plan for an `EtcdBackup`.
pub fn plan(input: Input<'_>) -> BackupPlan {
    if input.backup.metadata.deletion_timestamp.is_some() {
        return deletion::plan(input);
    }
    let mut out = BackupPlan::default();
    let mut stage = Stage::new(StageId::Backup, State::Ready);
    let asks = asks(input.backup, input.settings);
    if input.has_ended() {
        out.phase = if was_verified(input.backup) { phase::VERIFIED } else { phase::FAILED };
        let clean = input.clean(&mut stage, &names::backup(input.name()), &asks.namespace);
        out.requeue_after = Some(if clean { AT_REST } else { SOON });
    } else {
        (out.phase, stage.state) = take(input, &mut stage, &mut out.outcome);
        out.requeue_after = Some(match out.phase {
            _ if out.outcome.is_some() => SOON,
            phase::RUNNING => RUNNING,
            _ => WAITING,
        });
    }
    out.plan.stages.push(stage);
    out
}

fn was_verified(backup: &EtcdBackup) -> bool {
    backup.status.as_ref().is_some_and(|s| s.verified_at.is_some())
}

/// One that has not ended: its phase and state.
fn take(input: Input<'_>, stage: &mut Stage, outcome: &mut Option<Outcome>) -> (&'static str, State) {
    let asks = asks(input.backup, input.settings);
    let key = ObjectKey::namespaced(Kind::Job, &asks.namespace, names::backup(input.name()));
    stage.owns.push(key.clone());
    if let Some(job) = input.observed.get(&key) {
        if !input.is_ours(job) {
            return (phase::WAITING, foreign(&key));
        }
        *outcome = outcome::of(input, job);
        return (phase::RUNNING, outcome::progress(input, job, outcome.as_ref()));
    }
    let place = match place::find(input, &asks) {
        Ok(place) => place,
        Err(state) => return (phase::WAITING, state),
    };
    let secret = match credentials(input, place.store, &key) {
        Ok(secret) => secret,
        Err(state) => return (phase::WAITING, state),
    };
    if let Some(ahead) = queue::ahead(input) {
        let on = format!(
            "its turn: {ahead} others are taken first, {} at once (chart value backups.concurrent)",
            input.settings.backups.concurrent
        );
        return (phase::QUEUED, State::Waiting { reason: Reason::Waiting, on });
    }
    stage.actions.extend(secret.map(Action::Secret));
    match job::take(input, &place, &key) {
        Ok(job) => stage.actions.push(Action::Create(job)),
        Err(why) => return (phase::WAITING, State::blocked(Reason::Error, why)),
    }
    (phase::RUNNING, State::waiting(format!("{key} to be created")))
}

/// The Secret beside a Job, if it is not as it should be: a copy of the store's, since a pod takes only Secrets of its own namespace.
fn credentials(input: Input<'_>, store: &BackupStore, job: &ObjectKey) -> Result<Option<SecretPlan>, State> {
    let source = ObjectKey::namespaced(Kind::Secret, &input.settings.backups.namespace, &*store.secret);
    let missing = |what: String| State::Waiting {
        reason: Reason::StoreUnavailable,
        on: format!("{what}, with the credentials of store {}", store.name),
    };
    let facts = input.observed.secrets.get(&source).ok_or_else(|| missing(source.to_string()))?;
    let ca = store.store.endpoint.starts_with("https://").then_some(keys::CA);
    let wanted: Vec<&str> = [keys::ACCESS_KEY_ID, keys::SECRET_ACCESS_KEY].into_iter().chain(ca).collect();
    if let Some(lacks) = wanted.iter().find(|key| !facts.digests.contains_key(**key)) {
        return Err(missing(format!("key {lacks} of {source}")));
    }
    let key = ObjectKey { kind: Kind::Secret, ..job.clone() };
    let live = input.observed.get(&key);
    if live.is_some_and(|o| !input.is_ours(o)) {
        return Err(foreign(&key));
    }
    let has = input.observed.secrets.get(&key);
    let same = |name: &&str| has.and_then(|h| h.digests.get(*name)) == facts.digests.get(*name);
    if live.is_some() && wanted.iter().all(same) {
        return Ok(None);
    }
    let version =
        |o: &Value| o.pointer("/metadata/resourceVersion").and_then(Value::as_str).unwrap_or_default().to_owned();
    let entry = |name: &&str| SecretEntry::Copy { name: (*name).to_owned(), source: source.clone() };
    Ok(Some(SecretPlan {
        key,
        type_: "Opaque".into(),
        labels: input.labels(),
        existing: live.map(|o| (uid(o).to_owned(), version(o))),
        entries: wanted.iter().map(entry).collect(),
    }))
}
