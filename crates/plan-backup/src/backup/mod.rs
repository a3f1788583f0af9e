//! The plan for an `EtcdBackup`: a Job where etcd runs takes a snapshot and proves it; its pod's termination message becomes the
//! status. It is taken once. A backup that is proven or has failed needs nothing more until it is deleted.

pub(crate) mod damage;
mod deletion;
mod earlier;
mod input;
mod job;
mod kept;
pub mod proven;
mod queue;
pub mod status;
mod validate;

#[cfg(test)]
pub(crate) mod tests;

use crate::jobs::JobStatus;
use crate::requeue::{AT_REST, SOON, WAITING};
use crate::store::{self, StoreObject};
use berth_api::backup::{EtcdBackup, EtcdBackupStatus, Outcome, phase};
use berth_api::names;
use berth_plan::model::{Stage, StageId, State};
use berth_plan::{Input, Planner, Settings};
use berth_render::ObjectKey;
use input::{BackupInput, was_verified};
use kube_core::ResourceExt;

pub use earlier::{earlier, schedule};
pub use input::BackupPlan;

/// What has to be read to use its store: a Secret or a claim.
pub fn store_object(backup: &EtcdBackup, settings: &Settings) -> Option<StoreObject> {
    let namespace = backup.namespace().unwrap_or_default();
    store::object(&backup.spec.store, backup.spec.cluster_ref.as_ref(), &namespace, settings)
}

/// Decides for an `EtcdBackup`.
#[derive(Clone, Copy, Debug)]
pub struct BackupPlanner;

impl Planner for BackupPlanner {
    type Object = EtcdBackup;
    type Planned = BackupPlan;
    type Status = EtcdBackupStatus;

    fn plan(input: Input<'_, EtcdBackup>) -> BackupPlan {
        let input = BackupInput(input);
        if input.is_deleted() {
            return deletion::plan(input);
        }
        let mut out = BackupPlan::default();
        let mut stage = Stage::new(StageId::Backup, State::Ready);
        let job = input.target().job(names::backup(input.name()));
        if input.object.has_ended() {
            let is_proven = was_verified(input.object) && !proven::is_damaged(input.object);
            out.phase = if is_proven { phase::VERIFIED } else { phase::FAILED };
            out.requeue_after = Some(if input.owner().clean(&mut stage, &job) { AT_REST } else { SOON });
        } else {
            (out.phase, stage.state) = take(input, &job, &mut stage, &mut out.outcome);
            out.requeue_after = Some(match out.phase {
                phase::RUNNING if out.outcome.is_none() && stage.actions.is_empty() => input.look_at(&job),
                phase::RUNNING => SOON,
                _ => WAITING,
            });
        }
        out.plan.stages.push(stage);
        out
    }

    fn outcome(planned: &BackupPlan) -> berth_plan::Outcome<'_> {
        berth_plan::Outcome { plan: &planned.plan, requeue_after: planned.requeue_after, due: None }
    }

    fn status(
        input: Input<'_, EtcdBackup>,
        planned: &BackupPlan,
        failure: Option<&berth_plan::Failure>,
    ) -> EtcdBackupStatus {
        status::status(input, planned, failure)
    }
}

/// One that has not ended: its phase and state.
fn take(
    input: BackupInput<'_>,
    job: &ObjectKey,
    stage: &mut Stage,
    outcome: &mut Option<Outcome>,
) -> (&'static str, State) {
    stage.owns.push(job.clone());
    if input.is_earlier(job) {
        input.owner().clean(stage, job);
        return (phase::WAITING, State::waiting(format!("{job} of an earlier EtcdBackup of this name to be gone")));
    }
    let ended = match input.owner().status(job, "its Job to take and prove the snapshot") {
        JobStatus::Absent => return begin(input, job, stage),
        JobStatus::Foreign(state) => return (phase::WAITING, state),
        JobStatus::Active(_) if queue::steps_back(input, job) => {
            input.owner().clean(stage, job);
            return (phase::QUEUED, queue::refused(input));
        }
        JobStatus::Active(state) => return (phase::RUNNING, state),
        JobStatus::Overdue(failure) | JobStatus::Failed(failure) => Outcome::Failed(failure),
        JobStatus::Complete(said) => *said,
    };
    // First, since what it said goes with its Job.
    if let Some(state) = earlier::mark(input, job, &ended, stage) {
        return (phase::RUNNING, state);
    }
    *outcome = Some(ended);
    (phase::RUNNING, State::waiting("its result to be recorded"))
}

/// One without a Job. It runs once its Job is seen: until then it holds no place, whatever refuses the Job.
fn begin(input: BackupInput<'_>, job: &ObjectKey, stage: &mut Stage) -> (&'static str, State) {
    let begun = validate::validate(input).and_then(|valid| {
        // One that waits for its store's keys is not in the queue.
        input.owner().credentials(&valid.store, job)?;
        if let Some(state) = queue::waits(input) {
            return Ok((phase::QUEUED, state));
        }
        let state = input.owner().create(stage, job, &job::take(input, &valid))?;
        Ok((phase::WAITING, state))
    });
    if stage.actions.is_empty() {
        // Keys are there while a Job runs, and for no longer.
        input.owner().clean_secret(stage, job);
    }
    begun.unwrap_or_else(|state| (phase::WAITING, state))
}
