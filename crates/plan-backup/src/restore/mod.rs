//! The plan for an `EtcdRestore`: a Job finds out whether the backup is fit, before anything stops; then the `EtcdCluster` is asked, by an
//! annotation, to stop and to begin a new epoch; a second Job puts the backup onto the volume of its first member, and the `EtcdCluster` is
//! told so. Which step is next follows from what the `EtcdCluster` says of itself, so it goes on wherever the operator ended.

mod before;
mod damage;
mod deletion;
mod held;
mod input;
mod job;
mod source;
pub mod status;
mod validate;

#[cfg(test)]
pub(crate) mod tests;

use crate::jobs::JobStatus;
use crate::requeue::{AT_REST, SOON, WAITING};
use crate::store::{self, StoreObject};
use berth_api::backup::{At, Failure, Outcome};
use berth_api::conditions::Reason;
use berth_api::etcd_bootstrap::{OperationKind, Phase};
use berth_api::names;
use berth_api::restore::{EtcdRestore, EtcdRestoreStatus, RestoreRequest, phase};
use berth_plan::model::{Action, Stage, StageId, State};
use berth_plan::{Input, Observed, Planner, Settings};
use berth_render::ObjectKey;
use input::{RestoreInput, annotated, claims_automatic, clean, ends, is_automatic};
use kube_core::ResourceExt;
use serde_json::json;
use validate::ValidRestore;

pub use held::{Held, Intent, confirmation_id, gives_up, of_what_is_left};
pub use input::RestorePlan;
pub(crate) use input::restoring;
pub use validate::answers;

/// What has to be read to use the store that the backup is in, if that is known: a Secret or a claim.
pub fn store_object(restore: &EtcdRestore, observed: &Observed, settings: &Settings) -> Option<StoreObject> {
    let source = source::choose(restore, observed)?;
    let namespace = restore.namespace().unwrap_or_default();
    store::object(&source.store, source.of.cluster_ref.as_ref(), &namespace, settings)
}

/// Decides for an `EtcdRestore`.
#[derive(Clone, Copy, Debug)]
pub struct RestorePlanner;

impl Planner for RestorePlanner {
    type Object = EtcdRestore;
    type Planned = RestorePlan;
    type Status = EtcdRestoreStatus;

    fn plan(input: Input<'_, EtcdRestore>) -> RestorePlan {
        let input = RestoreInput(input);
        if input.is_deleted() {
            return deletion::plan(input);
        }
        let mut out = RestorePlan::default();
        let mut stage = Stage::new(StageId::Restore, State::Ready);
        if input.object.has_ended() {
            let done = input.object.status.as_ref().is_some_and(|s| s.restored_at.is_some());
            out.phase = if done { phase::RESTORED } else { phase::FAILED };
            let clean = clean(input, &mut stage) & input.withdraw(&mut stage);
            out.requeue_after = Some(if clean { AT_REST } else { SOON });
        } else {
            (out.phase, stage.state) = step(input, &mut stage, &mut out);
            out.requeue_after = Some(if out.phase == phase::WAITING { WAITING } else { SOON });
        }
        out.plan.stages.push(stage);
        out
    }

    fn outcome(planned: &RestorePlan) -> berth_plan::Outcome<'_> {
        berth_plan::Outcome { plan: &planned.plan, requeue_after: planned.requeue_after, due: None }
    }

    fn status(
        input: Input<'_, EtcdRestore>,
        planned: &RestorePlan,
        failure: Option<&berth_plan::Failure>,
    ) -> EtcdRestoreStatus {
        status::status(input, planned, failure)
    }
}

fn step(input: RestoreInput<'_>, stage: &mut Stage, out: &mut RestorePlan) -> (&'static str, State) {
    if claims_automatic(input.object) && !is_automatic(input) {
        let etcd = input.target().etcd;
        return (
            phase::WAITING,
            State::waiting(format!("{etcd} to say that it created this (status.recovery.restore)")),
        );
    }
    if let Some(why) = validate::answers_again(input) {
        return fails(out, why);
    }
    match before::survivors(input, stage) {
        Err(why) => return fails(out, why),
        Ok(Some(state)) => return (phase::WAITING, state),
        Ok(None) => {}
    }
    match validate::validate(input) {
        Ok(valid) => go_on(input, &valid, stage, out),
        Err(State::Blocked { reason: Reason::BackupDamaged, message }) => {
            ends(out, Failure { at: At::Damaged, message })
        }
        Err(State::Blocked { reason: Reason::BackupFailed, message }) => fails(out, message),
        // Nobody corrects it, and what else could be restored waits for it.
        Err(State::Blocked { reason: Reason::RestoreFailed, message }) if is_automatic(input) => fails(out, message),
        Err(state) => (phase::WAITING, state),
    }
}

/// It ends here.
fn fails(out: &mut RestorePlan, message: String) -> (&'static str, State) {
    ends(out, Failure { at: At::Other, message })
}

/// One that has not ended: its phase and state.
fn go_on(
    input: RestoreInput<'_>,
    valid: &ValidRestore<'_>,
    stage: &mut Stage,
    out: &mut RestorePlan,
) -> (&'static str, State) {
    out.backup = Some((valid.source.name.clone().unwrap_or_default(), valid.source.status.taken_at.clone()));
    let check = valid.target.job(names::restore_check(input.name()));
    if input.object.status.as_ref().is_none_or(|s| s.checked_at.is_none()) {
        return is_fit(input, valid, stage, out, &check);
    }
    input.owner().clean(stage, &check);
    let request = input.request();
    let instead = || {
        let delete = format!("kubectl -n {} delete etcdrestores.berth.dev {}", input.namespace(), input.name());
        format!("{delete} && {} --survivors {}", input.command(), held::flags(&valid.source.store))
    };
    let is_unsure = request.as_ref().is_some_and(|r| r.unconfirmed) && !is_automatic(input) && !input.has_stopped_it();
    // Once its pods end, nobody knows what they hold.
    let holds = || {
        let is_own = input.object.spec.source.of.is_none() && !input.stops_it();
        is_own && gives_up(&valid.etcd, intent(input, valid, "")).is_some()
    };
    if is_unsure && (answers(&valid.etcd) || holds()) {
        // Nobody said that what it holds may be lost. It held nothing when this began.
        input.withdraw(stage);
        return (phase::CHECKED, State::waiting(format!("{} to go on: it has data again", valid.target.etcd)));
    }
    if request.is_none() {
        let given_up = if is_automatic(input) { None } else { gives_up(&valid.etcd, intent(input, valid, &instead())) };
        if let Some(given_up) = given_up
            && let Some(state) = unconfirmed(input, valid, &given_up).or_else(|| before::backup(input, valid, stage))
        {
            return (phase::CHECKED, state);
        }
        ask(input, valid, stage, None);
        return (phase::STOPPING, State::waiting(format!("Berth to hand the restore to {}", valid.target.etcd)));
    }
    answer(input, valid, stage, out, request.and_then(|r| r.restored))
}

/// A Job finds out whether the backup is fit.
fn is_fit(
    input: RestoreInput<'_>,
    valid: &ValidRestore<'_>,
    stage: &mut Stage,
    out: &mut RestorePlan,
    job: &ObjectKey,
) -> (&'static str, State) {
    stage.owns.push(job.clone());
    match input.owner().status(job, "its Job to check the backup") {
        JobStatus::Absent => match input.owner().create(stage, job, &job::check(valid)) {
            Ok(state) => (phase::CHECKING, state),
            Err(state) => (phase::WAITING, state),
        },
        JobStatus::Foreign(state) => (phase::WAITING, state),
        JobStatus::Active(state) => (phase::CHECKING, state),
        JobStatus::Overdue(failure) | JobStatus::Failed(failure) => {
            damage::failed(input, valid, stage, out, (job, failure), phase::CHECKING)
        }
        JobStatus::Complete(said) => {
            out.checked = true;
            if let (Outcome::Checked(manifest), true) = (&*said, input.object.spec.source.key.is_some()) {
                (out.found, out.backup) = source::found(manifest);
            }
            (phase::CHECKED, State::waiting("Berth to record its Job's result"))
        }
    }
}

/// Tells the etcd.
fn ask(input: RestoreInput<'_>, valid: &ValidRestore<'_>, stage: &mut Stage, restored: Option<i64>) {
    let (namespace, name) = (input.namespace().to_owned(), input.name().to_owned());
    let after = valid.source.status.epoch.filter(|_| input.object.spec.source.of.is_some());
    let unconfirmed = !is_confirmed(input, valid);
    let request = RestoreRequest { namespace, name, uid: input.uid().to_owned(), restored, unconfirmed, after };
    let uid = valid.etcd.metadata.uid.as_deref().unwrap_or_default();
    stage.actions.extend(annotated(&valid.target.etcd, uid, Some(&request)).ok().map(Action::Apply));
}

/// Somebody said that what this etcd holds may be lost.
fn is_confirmed(input: RestoreInput<'_>, valid: &ValidRestore<'_>) -> bool {
    confirmation_id(&valid.etcd).is_some_and(|id| input.object.spec.confirm.as_deref() == Some(&id))
}

fn intent<'a>(input: RestoreInput<'a>, valid: &ValidRestore<'_>, instead: &'a str) -> Intent<'a> {
    let spec = &input.object.spec;
    let taken = valid.source.status.taken_at.as_ref().map(|at| at.0);
    Intent { source: &spec.source, without: &spec.without_members, taken, instead }
}

/// Why it does not begin: what members hold would be lost, and nobody said that it may be.
fn unconfirmed(input: RestoreInput<'_>, valid: &ValidRestore<'_>, given_up: &str) -> Option<State> {
    if is_confirmed(input, valid) {
        return None;
    }
    let id = confirmation_id(&valid.etcd)?;
    let command = input.patch(&json!({"confirm": id}));
    let on = format!("spec.confirm: {given_up}. To give that up, confirm it with etcd's cluster ID: {command}");
    Some(State::Waiting { reason: Reason::ConfirmationRequired, on })
}

/// What the etcd is at by now.
fn answer(
    input: RestoreInput<'_>,
    valid: &ValidRestore<'_>,
    stage: &mut Stage,
    out: &mut RestorePlan,
    told: Option<i64>,
) -> (&'static str, State) {
    let status = valid.etcd.status.clone().unwrap_or_default();
    let operation = status.operation.as_ref().filter(|o| o.kind == OperationKind::Restore);
    let epoch = status.epoch.unwrap_or_default();
    let restoring = |on: String| State::Waiting { reason: Reason::Restoring, on };
    match operation.map(|o| o.phase) {
        Some(Phase::Restore) => {
            out.epoch = Some(epoch);
            if told == Some(epoch) {
                return (phase::RESTORING, restoring(format!("{} to go on", valid.target.etcd)));
            }
            restore(input, valid, stage, out, epoch)
        }
        Some(Phase::Start) => {
            (phase::STARTING, restoring(format!("member {} to serve what was restored", valid.member)))
        }
        Some(Phase::Done) if told == Some(epoch) => {
            (out.restored, out.epoch) = (true, Some(epoch));
            out.keeps = Some(berth_plan::etcd_home::keep_old_data(&valid.etcd.spec));
            (phase::RESTORED, State::waiting("Berth to record that it is restored"))
        }
        _ => (phase::STOPPING, valid.says()),
    }
}

/// A Job puts the backup onto the volume.
fn restore(
    input: RestoreInput<'_>,
    valid: &ValidRestore<'_>,
    stage: &mut Stage,
    out: &mut RestorePlan,
    epoch: i64,
) -> (&'static str, State) {
    let key = valid.target.job(names::restore(input.name()));
    let owner = input.owner();
    if owner.get(&key).is_some_and(|live| job::epoch(live) != Some(epoch)) {
        owner.clean(stage, &key);
        return (phase::RESTORING, State::waiting(format!("{key} of an earlier epoch to be gone")));
    }
    stage.owns.push(key.clone());
    let state = match owner.status(&key, "its Job to put the backup onto the member's volume") {
        JobStatus::Absent => owner.create(stage, &key, &job::restore(valid, epoch)).unwrap_or_else(|state| state),
        JobStatus::Foreign(state) | JobStatus::Active(state) => state,
        JobStatus::Overdue(failure) | JobStatus::Failed(failure) => {
            return damage::failed(input, valid, stage, out, (&key, failure), phase::RESTORING);
        }
        JobStatus::Complete(_) => {
            ask(input, valid, stage, Some(epoch));
            State::waiting(format!("Berth to tell {} that its data is restored", valid.target.etcd))
        }
    };
    (phase::RESTORING, state)
}
