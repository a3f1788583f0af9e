//! Makes a Job, once what it is asked for is on record.

use super::input::InstallationInput;
use super::job::{Asked, entries};
use super::plan::InstallationPlan;
use crate::requeue::{AT_REST, SLOW, WAITING};
use crate::source;
use berth_api::app::phase;
use berth_api::apps::Task;
use berth_api::conditions::Reason;
use berth_plan::model::{Stage, State};
use berth_plan::requeue::SOON;

/// One without a Job that needs one.
pub(super) fn begin(
    input: InstallationInput<'_>,
    asked: &Asked,
    stage: &mut Stage,
    out: &mut InstallationPlan,
) -> State {
    let (owner, target, status) = (input.owner(), input.target(), input.status());
    if !input.settings.apps.are_enabled() {
        return State::blocked(
            Reason::NotAllowed,
            "apps are switched off: set apps.enabled to true in the values of Berth's chart",
        );
    }
    if let (Task::Deploy(_), Some(why)) = (&asked.task, refused(input)) {
        out.requeue_after = Some(SLOW);
        return State::blocked(Reason::NotAllowed, why);
    }
    let copies = match (&asked.values, &asked.chart) {
        (Ok(values), Ok(chart)) => values.iter().chain(chart.iter().map(|(copy, _)| copy)).cloned().collect(),
        (Err(state), _) | (Ok(_), Err(state)) => {
            out.requeue_after = Some(if status.release.is_some() { SLOW } else { WAITING });
            return state.clone();
        }
    };
    let with = asked.fetched_with();
    let is_recorded = status.asked.as_ref() == Some(&asked.digest) && status.fetched_with == with;
    if let (true, Some(at)) = (is_recorded, input.next_try().filter(|at| *at > input.now)) {
        out.phase = phase::FAILED;
        // Nobody tells of another login.
        let most = if with.is_some() { SLOW } else { AT_REST };
        out.requeue_after = Some(at.duration_since(input.now).clamp(SOON, most));
        let why = status.message.unwrap_or_default();
        return State::Reported {
            reason: Reason::AppFailed,
            message: format!("{why}. It is tried again at {at}, or at once after a change"),
        };
    }
    out.requeue_after = Some(WAITING);
    // What takes a moment is a part of its turn: as one that waits it would leave its place, and its wave, to others.
    out.phase = phase::RUNNING;
    if input.observed.get(&target.policy()).is_none() {
        if input.has_waited() {
            out.phase = phase::WAITING;
        }
        return State::waiting(format!("{}, which lets its Job out", target.policy()));
    }
    if let Some(pod) = input.pod_left() {
        out.plan.for_platform.extend(pod.for_platform());
        return State::waiting(pod.awaited());
    }
    if !is_recorded {
        out.asked = Some((asked.digest.clone(), with));
        out.requeue_after = Some(SOON);
        return State::waiting("what is asked for to be recorded");
    }
    let created = owner.secret(&target.job, entries(input, copies)).and_then(|secret| {
        let shape = asked.shape(input, &target.job)?;
        owner.create(stage, shape, Some(secret))
    });
    created.unwrap_or_else(|state| state)
}

/// Why nothing is pulled for it any more: what is there stays, and a Job would fetch by a tag what a registry that was withdrawn has by now.
fn refused(input: InstallationInput<'_>) -> Option<String> {
    let (app, source) = (input.target().app, input.object.spec.release.source());
    let why = source::refused(&input.settings.apps, app.namespace.as_deref().unwrap_or_default(), &source)?;
    Some(format!("spec.chart of {app}: {why}. What is installed stays as it is"))
}
