//! An older backup of the same schedule, which is read back by the Job of a newer one. Its schedule says which.

use super::damage::Found;
use super::input::BackupInput;
use super::proven;
use crate::jobs::task_of;
use crate::objects::find;
use crate::store;
use crate::target::Target;
use berth_api::backup::{At, Earlier, EtcdBackup, Outcome, Proof, ReadBack, ReadBackStatus, Task};
use berth_api::{labels, names};
use berth_plan::backup_jobs::age;
use berth_plan::model::{Stage, State};
use berth_plan::observed::Observed;
use berth_render::{Kind, ObjectKey};
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube_core::ResourceExt;
use serde_json::Value;

/// The schedule that created it.
pub fn schedule(backup: &EtcdBackup) -> Option<ObjectKey> {
    let name = backup.labels().get(labels::ETCD_BACKUP_SCHEDULE)?;
    Some(ObjectKey::namespaced(Kind::EtcdBackupSchedule, backup.namespace()?, name))
}

/// The `EtcdBackup` that its Job reads, or, before there is one, that its schedule names.
pub fn earlier(backup: &EtcdBackup, observed: &Observed) -> Option<ObjectKey> {
    let (own, namespace) = (backup.name_any(), backup.namespace()?);
    let name = match observed.get(&Target::from(backup).job(names::backup(&own))) {
        Some(job) => read_by(job)?.name,
        None => observed.get(&schedule(backup)?)?["status"]["nextReadBack"].as_str()?.to_owned(),
    };
    (name != own).then(|| ObjectKey::namespaced(Kind::EtcdBackup, namespace, name))
}

fn read_by(job: &Value) -> Option<Earlier> {
    match task_of(job) {
        Some(Task::Take(take)) => take.earlier,
        _ => None,
    }
}

/// What the Job is to read. None: nothing, or what is named is by now not a good one of the same etcd in the same store.
pub(super) fn asked(input: BackupInput<'_>) -> Option<Earlier> {
    let key = earlier(input.object, input.observed)?;
    let earlier: EtcdBackup = find(input.observed, &key)?;
    let (status, spec) = (earlier.status.as_ref()?, &earlier.spec);
    let is_of_the_same =
        proven::subject(&earlier) == proven::subject(input.object) && spec.store == input.object.spec.store;
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

/// Marks the older one, if its Job found it damaged; what is awaited then.
pub(super) fn mark(input: BackupInput<'_>, job: &ObjectKey, outcome: &Outcome, stage: &mut Stage) -> Option<State> {
    let job = input.observed.get(job).filter(|job| age(job, input.now) < PATIENCE)?;
    let ReadBack { of, failure } = read(Some(outcome))?;
    let failure = failure.as_ref().filter(|failure| failure.at == At::Damaged)?;
    // What a pod says of anything else counts for nothing.
    if asked(input).as_ref() != Some(of) || read_by(job).as_ref() != Some(of) {
        return None;
    }
    let by = format!("EtcdBackup {}", input.name());
    let store = &input.object.spec.store;
    Found { store, key: &of.key, sha256: &of.sha256, by: &by, message: &failure.message }.mark(&input, stage)
}

/// What the status says of it.
pub(super) fn status(outcome: Option<&Outcome>, now: Timestamp) -> Option<ReadBackStatus> {
    let ReadBack { of, failure } = read(outcome)?;
    let message = failure.as_ref().map(|f| f.message.clone());
    Some(ReadBackStatus { name: of.name.clone(), at: Time(now), message, failures: None })
}
