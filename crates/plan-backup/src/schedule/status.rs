//! What an `EtcdBackupSchedule` says of itself.

use super::{ScheduleInput, SchedulePlan, last_time, newest, read, sleeps};
use crate::backup::proven;
use berth_api::EtcdBackupSchedule;
use berth_api::backup::phase;
use berth_api::backup_schedule::{EtcdBackupScheduleStatus, Keep};
use berth_api::conditions::{self, ConditionType as T, Reason, Verdict};
use berth_plan::failure::Failure;
use berth_plan::model::{Action, State};
use berth_plan::{Input, verdicts};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube_core::ResourceExt;

/// The new status.
pub fn status(
    input: Input<'_, EtcdBackupSchedule>,
    planned: &SchedulePlan,
    failure: Option<&Failure>,
) -> EtcdBackupScheduleStatus {
    let old = input.object.status.clone().unwrap_or_default();
    let generation = input.object.metadata.generation.unwrap_or_default();
    let mut status = EtcdBackupScheduleStatus { observed_generation: Some(generation), ..old.clone() };
    status.last_schedule_time = last_time(input).max(planned.scheduled).map(Time);
    if let Some(newest) = newest(&planned.backups) {
        status.last_verified_time = proven::taken(newest).map(Time);
        status.last_verified.clone_from(&newest.metadata.name);
        status.last_verified_identity = proven::identity(newest).map(str::to_owned);
    } else if planned.backups.iter().any(proven::is_damaged) {
        // What it said is of a backup that cannot be restored.
        (status.last_verified_time, status.last_verified, status.last_verified_identity) = (None, None, None);
    }
    read::remember(&mut status, &planned.backups, &input.object.spec, input.now);
    status.keeps = Some(keeps(&input.object.spec.keep));
    let verdicts = verdicts(input, planned, failure, &status);
    status.conditions = verdicts::publish(&old.conditions, verdicts, generation, input.now, false);
    status
}

/// Which proven backups are kept, for people.
fn keeps(keep: &Keep) -> String {
    let parts = [(keep.last, "last"), (keep.hourly, "hourly"), (keep.daily, "daily"), (keep.weekly, "weekly")];
    let said: Vec<String> = parts.iter().filter(|(n, _)| *n > 0).map(|(n, what)| format!("{n} {what}")).collect();
    said.join(", ")
}

fn verdicts(
    input: ScheduleInput<'_>,
    planned: &SchedulePlan,
    failure: Option<&Failure>,
    new: &EtcdBackupScheduleStatus,
) -> Vec<Verdict> {
    let bad = |reason, message: String| verdicts::both(Some(false), true, reason, message);
    let fine = |ready, reason, message: String| verdicts::both(ready, false, reason, message);
    if let Some(failure) = failure {
        return bad(failure.reason, failure.message.clone());
    }
    let state = planned.plan.stages.first().map(|s| &s.state);
    if let Some(State::Blocked { reason, message }) = state {
        return bad(*reason, message.clone());
    }
    let last = planned.backups.iter().rfind(|b| b.has_ended());
    if let Some(failed) = last.filter(|b| b.phase() == Some(phase::FAILED)) {
        let degraded = conditions::find(failed.conditions(), T::Degraded);
        let reason = degraded.and_then(|c| c.reason.parse().ok()).unwrap_or(Reason::BackupFailed);
        let name = failed.name_any();
        let why = degraded.map(|c| c.message.as_str()).unwrap_or_default();
        let what = if proven::is_damaged(failed) { "is not good any more" } else { "failed" };
        return bad(reason, format!("the last backup, EtcdBackup {name}, {what}: {why}"));
    }
    let unread = read::unread(new, &planned.backups, &input.object.spec);
    if let Some(unread) = unread.filter(|_| !input.object.spec.suspend) {
        return bad(Reason::BackupNotProven, unread);
    }
    let creates = planned.plan.actions().any(|a| matches!(a, Action::Create(_)));
    match (&new.last_verified, input.object.spec.suspend) {
        (_, true) => fine(Some(true), Reason::Paused, "spec.suspend is true: no backup is created or deleted".into()),
        (Some(name), _) if sleeps(input) => {
            let message = format!(
                "its etcd sleeps, and no backup is taken until it is awake; the last one, EtcdBackup {name}, is proven"
            );
            fine(Some(true), Reason::Asleep, message)
        }
        (Some(name), _) => {
            fine(Some(true), Reason::AsExpected, format!("the last backup, EtcdBackup {name}, is proven"))
        }
        (None, _) if creates || !planned.backups.is_empty() => {
            fine(Some(false), Reason::Waiting, "waiting for the first backup to be proven".into())
        }
        (None, _) => fine(Some(false), Reason::Waiting, "waiting for the first time of the schedule".into()),
    }
}
