//! The plan for an `EtcdBackup`: a Job where etcd runs takes a snapshot and proves it; its pod's termination message becomes the
//! status. It is taken once. A backup that is proven or has failed needs nothing more until it is deleted.

pub(crate) mod damage;
mod deletion;
mod earlier;
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

use berth_api::backup::EtcdBackupStatus;
use berth_api::backup::{EtcdBackup, Outcome, phase};
use berth_api::conditions::Reason;
use berth_api::{labels, names};
use berth_plan::Input;
use berth_plan::Planner;
use berth_plan::model::{Plan, Stage, StageId, State};
use berth_plan::observed::label;
use berth_plan::secrets::foreign;
use berth_render::{Kind, ObjectKey};
use jiff::SignedDuration;
use serde_json::Value;
use std::ops::Deref;

pub use earlier::{earlier, schedule};
pub(crate) use owner::Owner;
pub use place::{Asks, asks};

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
/// A Job that is young may find out soon why it has no pod.
const YOUNG: SignedDuration = SignedDuration::from_mins(1);
/// A Job's end is announced.
const RUNNING: SignedDuration = SignedDuration::from_mins(1);
/// Nothing changes by itself.
const AT_REST: SignedDuration = SignedDuration::from_mins(10);

/// An `EtcdBackup` with what several steps need to know of it.
#[derive(Clone, Copy, Debug)]
struct BackupInput<'a>(Input<'a, EtcdBackup>);

impl<'a> Deref for BackupInput<'a> {
    type Target = Input<'a, EtcdBackup>;

    fn deref(&self) -> &Input<'a, EtcdBackup> {
        &self.0
    }
}

impl<'a> BackupInput<'a> {
    fn has_ended(&self) -> bool {
        let phase = self.object.status.as_ref().and_then(|s| s.phase.as_deref());
        [Some(phase::VERIFIED), Some(phase::FAILED)].contains(&phase)
    }

    /// What its Jobs are made for.
    fn owner(&self) -> Owner<'a> {
        let own = [
            (labels::ETCD_BACKUP, self.name().to_owned()),
            (labels::ETCD_BACKUP_NAMESPACE, self.namespace().to_owned()),
        ];
        Owner::new(self.observed, self.settings, own)
    }

    fn get(&self, key: &ObjectKey) -> Option<&'a Value> {
        self.owner().get(key)
    }

    fn clean(&self, stage: &mut Stage, job: &str, namespace: &str) -> bool {
        self.owner().clean(stage, job, namespace)
    }

    /// Whether a Job was made for an `EtcdBackup` that had this name before: what it says is of other data.
    fn is_earlier(&self, job: &Value) -> bool {
        label(job, labels::ETCD_BACKUP_UID).is_some_and(|uid| uid != self.uid())
    }

    /// When to look again at a Job that is there.
    fn look_at(&self, key: &ObjectKey) -> SignedDuration {
        match self.observed.get(key) {
            Some(job) if outcome::is_starting(&self.owner(), job) => {
                if outcome::age(job, self.now) < YOUNG {
                    SOON
                } else {
                    WAITING
                }
            }
            _ => RUNNING,
        }
    }
}

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

fn was_verified(backup: &EtcdBackup) -> bool {
    backup.status.as_ref().is_some_and(|s| s.verified_at.is_some())
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
