//! What becomes of a backup that a restore found damaged: its `EtcdBackup` says so before the restore ends, so that nobody is offered it again.

use super::place::Place;
use super::{Input, RestorePlan, backups, source, task_of};
use crate::backup::proven::{self, Wanted};
use crate::backup::status::damaged;
use crate::model::{Action, Stage, State};
use berth_api::EtcdCluster;
use berth_api::backup::{At, Damage, EtcdBackup, EtcdBackupStatus, Failure, Task};
use berth_render::{Kind, ObjectKey};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use serde_json::Value;

/// A Job of it failed, at that phase.
pub(super) fn failed(
    input: Input<'_>,
    place: &Place<'_>,
    stage: &mut Stage,
    out: &mut RestorePlan,
    (job, failure): (&ObjectKey, Failure),
    at: &'static str,
) -> (&'static str, State) {
    let read = input.observed.get(job).and_then(task_of).and_then(Read::of).filter(|_| failure.at == At::Damaged);
    let marks = read.map(|read| marks(input, place, &read, &failure.message)).unwrap_or_default();
    if let Some((key, _)) = marks.first() {
        let state = State::waiting(format!("{key} to be marked as damaged"));
        stage.actions.extend(marks.into_iter().map(|(_, action)| action));
        return (at, state);
    }
    super::ends(out, failure)
}

/// What a Job has read.
struct Read {
    key: String,
    /// Empty: it was named by its key, and no sum was known. Then a manifest that somebody changed may be what is wrong.
    sha256: String,
}

impl Read {
    fn of(task: Task) -> Option<Self> {
        let (key, sha256) = match task {
            Task::Check(task) => (task.key, task.sha256),
            Task::Restore(task) => (task.key, task.sha256),
            Task::Take(_) | Task::Delete(_) => return None,
        };
        Some(Self { key, sha256 })
    }

    fn is(&self, backup: &EtcdBackup) -> bool {
        let of =
            |field: fn(&EtcdBackupStatus) -> &Option<String>| backup.status.as_ref().and_then(|s| field(s).as_ref());
        of(|s| &s.key) == Some(&self.key) && of(|s| &s.sha256) == Some(&self.sha256)
    }
}

/// Writes it into each `EtcdBackup` of this snapshot that does not say so yet. Another one may have taken its name since the Job began.
fn marks(input: Input<'_>, place: &Place<'_>, read: &Read, message: &str) -> Vec<(ObjectKey, Action)> {
    let store = |b: &EtcdBackup| (b.spec.store.clone(), b.spec.secret_ref.clone(), b.spec.claim_ref.clone());
    let mark = |(key, live): (&ObjectKey, &Value)| {
        let backup: EtcdBackup = serde_json::from_value(live.clone()).ok()?;
        if store(&backup) != store(&place.backup) || !read.is(&backup) || proven::is_damaged(&backup) {
            return None;
        }
        let by = format!("EtcdRestore {}", input.name());
        let damage = Damage { at: Time(input.now), by, message: message.to_owned() };
        let action = Action::MarkDamaged {
            key: key.clone(),
            uid: backup.metadata.uid.clone().unwrap_or_default(),
            resource_version: backup.metadata.resource_version.clone().unwrap_or_default(),
            status: serde_json::to_value(damaged(&backup, damage, input.now)).unwrap_or_default(),
        };
        Some((key.clone(), action))
    };
    input.observed.of_kind(Kind::EtcdBackup, input.namespace()).filter_map(mark).collect()
}

/// Whether what is on the volume by now was whole when it was read.
pub(super) fn is_over(input: Input<'_>) -> bool {
    input.request().is_some_and(|request| request.restored.is_some())
}

/// What is said of a backup that is known to be damaged, and which one is left.
pub(super) fn known(input: Input<'_>, etcd: &EtcdCluster, name: &str, backup: &EtcdBackup) -> String {
    let said = backup.status.as_ref().and_then(proven::damage).map(|d| d.message).unwrap_or_default();
    let (of, source) = (source::whose(input.restore), &input.restore.spec.source);
    let own = etcd.status.as_ref().and_then(|s| s.identity.as_deref());
    let identity = if source.of.is_some() { proven::identity(backup) } else { own };
    let until = source.latest_before.as_ref().map(|at| at.0);
    let all: Vec<EtcdBackup> = backups(input.observed, input.namespace()).collect();
    let left = proven::newest(&all, &Wanted { of: &of, identity, until });
    let left = left.and_then(|b| Some((b.metadata.name.as_deref()?, proven::taken(b)?)));
    let Some((next, taken)) = left else {
        return format!("{name} is damaged: {said}. No other proven backup of this data is left in this namespace");
    };
    let command = if source.of.is_none() { format!(": {} --backup {next}", input.command()) } else { String::new() };
    format!(
        "{name} is damaged: {said}. The newest proven one that is left is EtcdBackup {next}, taken at {taken:.0}{command}"
    )
}
