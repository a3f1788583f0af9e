//! The plan for an `EtcdBackup`: a Job where etcd runs takes a snapshot and proves it; its pod's termination message becomes the
//! status. It is taken once. A backup that is proven or has failed needs nothing more until it is deleted.

pub(crate) mod damage;
mod deletion;
mod earlier;
mod input;
pub(crate) mod job;
pub(crate) mod outcome;
mod owner;
mod place;
pub mod proven;
mod queue;
pub mod status;
pub(crate) mod store;

#[cfg(test)]
pub(crate) mod tests;

use berth_api::backup::{EtcdBackup, EtcdBackupStatus, Outcome, phase};
use berth_api::conditions::Reason;
use berth_api::names;
use berth_plan::model::{Stage, StageId, State};
use berth_plan::secrets::foreign;
use berth_plan::{Input, Planner};
use berth_render::{Kind, ObjectKey};
use input::{AT_REST, BackupInput, SOON, WAITING, was_verified};

pub use earlier::{earlier, schedule};
pub use input::BackupPlan;
pub(crate) use owner::Owner;
pub use place::{Asks, asks};

/// Decides for an `EtcdBackup`.
#[derive(Clone, Copy, Debug)]
pub struct BackupPlanner;

impl Planner for BackupPlanner {
    type Object = EtcdBackup;
    type Planned = BackupPlan;
    type Status = EtcdBackupStatus;

    fn plan(input: Input<'_, EtcdBackup>) -> BackupPlan {
        plan(input)
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

/// The plan for an `EtcdBackup`.
pub fn plan(input: Input<'_, EtcdBackup>) -> BackupPlan {
    let input = BackupInput(input);
    if input.object.metadata.deletion_timestamp.is_some() {
        return deletion::plan(input);
    }
    let mut out = BackupPlan::default();
    let mut stage = Stage::new(StageId::Backup, State::Ready);
    let asks = asks(input.object, input.settings);
    if input.has_ended() {
        let is_proven = was_verified(input.object) && !proven::is_damaged(input.object);
        out.phase = if is_proven { phase::VERIFIED } else { phase::FAILED };
        let clean = input.clean(&mut stage, &names::backup(input.name()), &asks.namespace);
        out.requeue_after = Some(if clean { AT_REST } else { SOON });
    } else {
        (out.phase, stage.state) = take(input, &mut stage, &mut out.outcome);
        out.requeue_after = Some(match out.phase {
            _ if out.outcome.is_some() => SOON,
            phase::RUNNING if !stage.actions.is_empty() => SOON,
            phase::RUNNING => {
                input.look_at(&ObjectKey::namespaced(Kind::Job, &*asks.namespace, names::backup(input.name())))
            }
            _ => WAITING,
        });
    }
    out.plan.stages.push(stage);
    out
}

/// One that has not ended: its phase and state.
fn take(input: BackupInput<'_>, stage: &mut Stage, outcome: &mut Option<Outcome>) -> (&'static str, State) {
    let asks = asks(input.object, input.settings);
    let key = ObjectKey::namespaced(Kind::Job, &asks.namespace, names::backup(input.name()));
    stage.owns.push(key.clone());
    if let Some(job) = input.observed.get(&key) {
        if !input.owner().is_ours(job) {
            return (phase::WAITING, foreign(&key));
        }
        if input.is_earlier(job) {
            input.clean(stage, &key.name, &asks.namespace);
            return (phase::WAITING, State::waiting(format!("{key} of an earlier EtcdBackup of this name to be gone")));
        }
        *outcome = outcome::of(&input.owner(), job).or_else(|| outcome::overdue(&key, job, input.now));
        let marks = earlier::marks(input, job, outcome.as_ref());
        if let Some((marked, _)) = marks.first() {
            // First, since what it said goes with its Job.
            *outcome = None;
            let state = State::waiting(format!("{marked} to be marked as damaged"));
            stage.actions.extend(marks.into_iter().map(|(_, action)| action));
            return (phase::RUNNING, state);
        }
        return (
            phase::RUNNING,
            outcome::progress(&input.owner(), job, outcome.as_ref(), "its Job to take the snapshot, and to prove it"),
        );
    }
    let (phase, state) = begin(input, stage, &asks, &key);
    if stage.actions.is_empty() {
        // Keys are there while a Job runs, and for no longer.
        input.owner().clean_secret(stage, &key.name, &asks.namespace);
    }
    (phase, state)
}

/// One without a Job. It runs once its Job is seen: until then it holds no place, whatever refuses the Job.
fn begin(input: BackupInput<'_>, stage: &mut Stage, asks: &Asks, key: &ObjectKey) -> (&'static str, State) {
    let ready = place::find(input, asks).and_then(|place| {
        let secret = input.owner().credentials(&place.store, key)?;
        Ok((place, secret))
    });
    let (place, secret) = match ready {
        Ok(ready) => ready,
        Err(state) => return (phase::WAITING, state),
    };
    if let Some(on) = queue::waits(input) {
        return (phase::QUEUED, State::Waiting { reason: Reason::Waiting, on });
    }
    match job::take(input, &place, key) {
        Ok(job) => (phase::WAITING, Owner::begin(stage, secret, job)),
        Err(why) => (phase::WAITING, State::blocked(Reason::Error, why)),
    }
}
