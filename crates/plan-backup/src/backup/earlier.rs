//! An older backup of the same schedule, which is read back by the Job of a newer one. Its schedule says which.

use super::damage::{Found, same_store};
use super::input::BackupInput;
use super::job::task_of;
use super::{asks, outcome, proven, store};
use berth_api::backup::{At, Earlier, EtcdBackup, Outcome, Proof, ReadBack, ReadBackStatus, Task};
use berth_api::{labels, names};
use berth_plan::model::Action;
use berth_plan::observed::Observed;
use berth_plan::settings::Settings;
use berth_render::{Kind, ObjectKey};
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use serde_json::Value;

/// The schedule that created it.
pub fn schedule(backup: &EtcdBackup) -> Option<ObjectKey> {
    let name = backup.metadata.labels.as_ref()?.get(labels::ETCD_BACKUP_SCHEDULE)?;
    Some(ObjectKey::namespaced(Kind::EtcdBackupSchedule, backup.metadata.namespace.as_ref()?, name))
}

/// The `EtcdBackup` that its Job reads, or, before there is one, that its schedule names.
pub fn earlier(backup: &EtcdBackup, observed: &Observed, settings: &Settings) -> Option<ObjectKey> {
    let (own, namespace) = (backup.metadata.name.as_ref()?, backup.metadata.namespace.as_ref()?);
    let job = ObjectKey::namespaced(Kind::Job, asks(backup, settings).namespace, names::backup(own));
    let name = match observed.get(&job) {
        Some(job) => read_by(job)?.name,
        None => observed.get(&schedule(backup)?)?["status"]["nextReadBack"].as_str()?.to_owned(),
    };
    (name != *own).then(|| ObjectKey::namespaced(Kind::EtcdBackup, namespace, name))
}

fn read_by(job: &Value) -> Option<Earlier> {
    match task_of(job) {
        Some(Task::Take(take)) => take.earlier,
        _ => None,
    }
}

/// What the Job is to read. None: nothing, or what is named is by now not a good one of the same etcd in the same store.
pub(super) fn asked(input: BackupInput<'_>) -> Option<Earlier> {
    let key = earlier(input.object, input.observed, input.settings)?;
    let earlier: EtcdBackup = serde_json::from_value(input.observed.get(&key)?.clone()).ok()?;
    let (status, spec) = (earlier.status.as_ref()?, &earlier.spec);
    let is_of_the_same = proven::of(&earlier) == proven::of(input.object) && same_store(spec, &input.object.spec);
    let snapshot = status.key.clone().filter(|key| store::is_of_namespace(key, input.namespace()))?;
    let fits = is_of_the_same && proven::is_good(&earlier);
    fits.then(|| Some(Earlier { name: key.name, key: snapshot, sha256: status.sha256.clone()? }))?
}

fn read(outcome: Option<&Outcome>) -> Option<&ReadBack> {
    match outcome {
        Some(Outcome::Verified(Proof { earlier, .. })) => earlier.as_ref(),
        _ => None,
    }
}

/// How long after its Job was created its own result waits for a mark that is refused.
const PATIENCE: SignedDuration = SignedDuration::from_hours(1);

/// Marks the older one, if its Job found it damaged.
pub(super) fn marks(input: BackupInput<'_>, job: &Value, outcome: Option<&Outcome>) -> Vec<(ObjectKey, Action)> {
    let asked = asked(input).filter(|_| outcome::age(job, input.now) < PATIENCE);
    let Some(ReadBack { of, failure: Some(failure) }) = read(outcome) else { return vec![] };
    // What a pod says of anything else counts for nothing.
    if asked.as_ref() != Some(of) || read_by(job).as_ref() != Some(of) || failure.at != At::Damaged {
        return vec![];
    }
    let by = format!("EtcdBackup {}", input.name());
    let found =
        Found { store: &input.object.spec, key: &of.key, sha256: &of.sha256, by: &by, message: &failure.message };
    found.marks(input.observed, input.namespace(), input.now)
}

/// What the status says of it.
pub(super) fn status(outcome: Option<&Outcome>, now: Timestamp) -> Option<ReadBackStatus> {
    let ReadBack { of, failure } = read(outcome)?;
    let message = failure.as_ref().map(|f| f.message.clone());
    Some(ReadBackStatus { name: of.name.clone(), at: Time(now), message, failures: None })
}
