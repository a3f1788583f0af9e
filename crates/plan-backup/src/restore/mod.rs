//! The plan for an `EtcdRestore`: a Job finds out whether the backup is fit, before anything stops; then the `EtcdCluster` is asked, by an
//! annotation, to stop and to begin a new epoch; a second Job puts the backup onto the volume of its first member, and the `EtcdCluster` is
//! told so. Which step is next follows from what the `EtcdCluster` says of itself, so it goes on wherever the operator ended.

mod before;
mod damage;
mod deletion;
mod held;
mod input;
mod job;
mod place;
mod ran;
pub(crate) mod source;
pub mod status;

#[cfg(test)]
pub(crate) mod tests;

use crate::backup::Owner;
use crate::backup::job::task_of;
use berth_api::backup::{At, Failure, Outcome};
use berth_api::conditions::Reason;
use berth_api::etcd_bootstrap::{OperationKind, Phase};
use berth_api::restore::{EtcdRestore, EtcdRestoreStatus, RestoreRequest, phase};
use berth_api::{EtcdCluster, names};
use berth_plan::model::{Action, Stage, StageId, State};
use berth_plan::{Input, Planner};
use input::{AT_REST, RestoreInput, SOON, WAITING, annotated, claims_automatic, clean, ends, is_automatic};
use place::Place;
use ran::{Ran, run};
use serde_json::json;

pub use held::{Held, Intent, confirmation_id, gives_up, of_what_is_left};
pub(crate) use input::restoring;
pub use input::{RestorePlan, has_ended};
pub use place::{Asks, answers, asks, claim, credentials};

/// Why one that Berth created by itself restores nothing, as long as etcd has not stopped: it answers again, or did so since.
fn answers_again(input: RestoreInput<'_>) -> Option<String> {
    let key = asks(input.object).etcd;
    let etcd = input.observed.get(&key).filter(|_| is_automatic(input))?;
    let etcd: EtcdCluster = serde_json::from_value(etcd.clone()).ok()?;
    let status = etcd.status.as_ref()?;
    let operation = status.operation.as_ref().filter(|o| o.kind == OperationKind::Restore);
    if operation.is_some_and(|o| o.phase != Phase::WaitingForClients) {
        return None;
    }
    let own = format!("{}/{}", input.namespace(), input.name());
    let is_given_up = status.recovery.as_ref().is_some_and(|r| r.has_given_up(&own));
    if is_given_up || place::answers(&etcd) {
        return Some(format!(
            "{key} answers again, or did since this was created, so Berth restores nothing by itself; if it is to be restored all the same, create another EtcdRestore"
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

/// Decides for an `EtcdRestore`.
#[derive(Clone, Copy, Debug)]
pub struct RestorePlanner;

impl Planner for RestorePlanner {
    type Object = EtcdRestore;
    type Planned = RestorePlan;
    type Status = EtcdRestoreStatus;

    fn plan(input: Input<'_, EtcdRestore>) -> RestorePlan {
        plan(input)
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

/// The plan for an `EtcdRestore`.
pub fn plan(input: Input<'_, EtcdRestore>) -> RestorePlan {
    let input = RestoreInput(input);
    if input.object.metadata.deletion_timestamp.is_some() {
        return deletion::plan(input);
    }
    let mut out = RestorePlan::default();
    let mut stage = Stage::new(StageId::Restore, State::Ready);
    if input.has_ended() {
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

fn step(input: RestoreInput<'_>, stage: &mut Stage, out: &mut RestorePlan) -> (&'static str, State) {
    if claims_automatic(input.object) && !is_automatic(input) {
        let etcd = asks(input.object).etcd;
        return (
            phase::WAITING,
            State::waiting(format!("{etcd} to say that it created this (status.recovery.restore)")),
        );
    }
    if let Some(why) = answers_again(input) {
        return fails(out, why);
    }
    match before::survivors(input, stage) {
        Err(why) => return fails(out, why),
        Ok(Some(state)) => return (phase::WAITING, state),
        Ok(None) => {}
    }
    match place::find(input) {
        Ok(place) => go_on(input, &place, stage, out),
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
    place: &Place<'_>,
    stage: &mut Stage,
    out: &mut RestorePlan,
) -> (&'static str, State) {
    let taken = place.backup.status.as_ref().and_then(|s| s.taken_at.clone());
    out.backup = Some((place.backup.metadata.name.clone().unwrap_or_default(), taken));
    if input.object.status.as_ref().is_none_or(|s| s.checked_at.is_none()) {
        let key = job::key(place, names::restore_check(input.name()));
        return match run(input, place, stage, &key, "its Job to check the backup", |owner, secret| {
            job::check(owner, place, secret)
        }) {
            Ran::Not(state) => (phase::WAITING, state),
            Ran::Runs(state) => (phase::CHECKING, state),
            Ran::Done(said) => {
                out.checked = true;
                if let (Outcome::Checked(manifest), true) = (&*said, input.object.spec.source.key.is_some()) {
                    (out.found, out.backup) = source::found(manifest);
                }
                (phase::CHECKED, State::waiting("Berth to record what its Job found"))
            }
            Ran::Failed(failure) => damage::failed(input, place, stage, out, (&key, failure), phase::CHECKING),
        };
    }
    input.owner().clean(stage, &names::restore_check(input.name()), &place.asks.namespace);
    let request = input.request();
    let instead = || {
        let delete = format!("kubectl -n {} delete etcdrestores.berth.dev {}", input.namespace(), input.name());
        format!("{delete} && {} --survivors {}", input.command(), held::flags(&place.store.spec))
    };
    let is_unsure = request.as_ref().is_some_and(|r| r.unconfirmed) && !is_automatic(input) && !input.has_stopped_it();
    // Once its pods end, nobody knows what they hold.
    let holds = || {
        let is_own = input.object.spec.source.of.is_none() && !input.stops_it();
        is_own && gives_up(&place.etcd, intent(input, place, "")).is_some()
    };
    if is_unsure && (place::answers(&place.etcd) || holds()) {
        // Nobody said that what it holds may be lost. It held nothing when this began.
        input.withdraw(stage);
        return (phase::CHECKED, State::waiting(format!("{} to go on: it has data again", place.asks.etcd)));
    }
    if request.is_none() {
        let given_up = if is_automatic(input) { None } else { gives_up(&place.etcd, intent(input, place, &instead())) };
        if let Some(given_up) = given_up
            && let Some(state) = unconfirmed(input, place, &given_up).or_else(|| before::backup(input, place, stage))
        {
            return (phase::CHECKED, state);
        }
        ask(input, place, stage, None);
        return (phase::STOPPING, State::waiting(format!("Berth to hand the restore to {}", place.asks.etcd)));
    }
    answer(input, place, stage, out, request.and_then(|r| r.restored))
}

/// Tells the etcd.
fn ask(input: RestoreInput<'_>, place: &Place<'_>, stage: &mut Stage, restored: Option<i64>) {
    let (namespace, name) = (input.namespace().to_owned(), input.name().to_owned());
    let was = place.backup.status.as_ref().and_then(|s| s.epoch);
    let after = was.filter(|_| place.is_anothers);
    let unconfirmed = !is_confirmed(input, place);
    let request = RestoreRequest { namespace, name, uid: input.uid().to_owned(), restored, unconfirmed, after };
    let uid = place.etcd.metadata.uid.as_deref().unwrap_or_default();
    stage.actions.extend(annotated(&place.asks.etcd, uid, Some(&request)).ok().map(Action::Apply));
}

/// Somebody said that what this etcd holds may be lost.
fn is_confirmed(input: RestoreInput<'_>, place: &Place<'_>) -> bool {
    confirmation_id(&place.etcd).is_some_and(|id| input.object.spec.confirm.as_deref() == Some(&id))
}

fn intent<'a>(input: RestoreInput<'a>, place: &Place<'_>, instead: &'a str) -> Intent<'a> {
    let spec = &input.object.spec;
    let taken = place.backup.status.as_ref().and_then(|s| Some(s.taken_at.as_ref()?.0));
    Intent { source: &spec.source, without: &spec.without_members, taken, instead }
}

/// Why it does not begin: what members hold would be lost, and nobody said that it may be.
fn unconfirmed(input: RestoreInput<'_>, place: &Place<'_>, given_up: &str) -> Option<State> {
    if is_confirmed(input, place) {
        return None;
    }
    let id = confirmation_id(&place.etcd)?;
    let command = input.patch(&json!({"confirm": id}));
    let on = format!("spec.confirm: {given_up}. To give that up, confirm it with etcd's cluster ID: {command}");
    Some(State::Waiting { reason: Reason::ConfirmationRequired, on })
}

/// What the etcd is at by now.
fn answer(
    input: RestoreInput<'_>,
    place: &Place<'_>,
    stage: &mut Stage,
    out: &mut RestorePlan,
    told: Option<i64>,
) -> (&'static str, State) {
    let status = place.etcd.status.clone().unwrap_or_default();
    let operation = status.operation.as_ref().filter(|o| o.kind == OperationKind::Restore);
    let epoch = status.epoch.unwrap_or_default();
    let restoring = |on: String| State::Waiting { reason: Reason::Restoring, on };
    match operation.map(|o| o.phase) {
        Some(Phase::Restore) => {
            out.epoch = Some(epoch);
            if told == Some(epoch) {
                return (phase::RESTORING, restoring(format!("{} to go on", place.asks.etcd)));
            }
            restore(input, place, stage, out, epoch)
        }
        Some(Phase::Start) => {
            (phase::STARTING, restoring(format!("member {} to serve what was restored", place.member)))
        }
        Some(Phase::Done) if told == Some(epoch) => {
            (out.restored, out.epoch) = (true, Some(epoch));
            out.keeps = Some(berth_plan::etcd_home::keep_old_data(&place.etcd.spec));
            (phase::RESTORED, State::waiting("Berth to record that it is restored"))
        }
        _ => (phase::STOPPING, place.says()),
    }
}

/// A Job puts the backup onto the volume.
fn restore(
    input: RestoreInput<'_>,
    place: &Place<'_>,
    stage: &mut Stage,
    out: &mut RestorePlan,
    epoch: i64,
) -> (&'static str, State) {
    let key = job::key(place, names::restore(input.name()));
    let stale = input.owner().get(&key).filter(|live| job::epoch(live) != Some(epoch));
    if stale.is_some() {
        input.owner().clean(stage, &key.name, &place.asks.namespace);
        return (phase::RESTORING, State::waiting(format!("{key} of an earlier epoch to be gone")));
    }
    match run(input, place, stage, &key, "its Job to put the backup onto the member's volume", |owner, secret| {
        job::restore(owner, place, secret, epoch)
    }) {
        Ran::Not(state) | Ran::Runs(state) => (phase::RESTORING, state),
        Ran::Done(_) => {
            ask(input, place, stage, Some(epoch));
            (phase::RESTORING, State::waiting(format!("Berth to tell {} that its data is restored", place.asks.etcd)))
        }
        Ran::Failed(failure) => damage::failed(input, place, stage, out, (&key, failure), phase::RESTORING),
    }
}
