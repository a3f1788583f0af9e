//! Taking an installation down: its release is uninstalled, unless there is no tenant any more, or nothing was ever begun.

use super::begin::begin;
use super::input::InstallationInput;
use super::job;
use super::keep::keeps;
use super::look::look_at_job;
use super::plan::InstallationPlan;
use super::target::Tenant;
use crate::requeue::WAITING;
use berth_api::app::phase;
use berth_api::apps::{TASK, Task};
use berth_plan::jobs::env_of;
use berth_plan::model::{Action, Stage, State};
use berth_plan::object_meta::deleting;

/// The plan while `deletionTimestamp` is set.
pub(super) fn plan(input: InstallationInput<'_>, stage: &mut Stage, out: &mut InstallationPlan) {
    let (target, owner) = (input.target(), input.owner());
    stage.owns.push(target.job.clone());
    let state = state(input, stage, out);
    out.phase = phase::DELETING;
    out.requeue_after = Some(out.requeue_after.unwrap_or(WAITING));
    // Nothing of it is left beside the tenant either.
    let is_clean = state.is_done() && owner.clean(stage, &target.job);
    out.plan.finished = is_clean && stage.actions.is_empty();
    stage.state =
        if state.is_done() && !is_clean { State::waiting(format!("{} to be gone", target.job)) } else { state };
}

fn state(input: InstallationInput<'_>, stage: &mut Stage, out: &mut InstallationPlan) -> State {
    let (target, owner) = (input.target(), input.owner());
    let tenant = target.tenant(input.observed, &input.object.spec.cluster.uid);
    if matches!(tenant, Tenant::Gone) {
        return State::Ready;
    }
    // One that installs is stopped; what it has begun is uninstalled once its pod has ended.
    if let Some(live) = owner.get(&target.job) {
        let task = env_of(live, TASK).and_then(|task| serde_json::from_str::<Task>(task).ok());
        if !matches!(task, Some(Task::Uninstall(_))) {
            if !deleting(live) {
                stage.actions.push(Action::delete(&target.job, live, None));
            }
            return State::waiting(format!("{}, which installs it, to be gone", target.job));
        }
    }
    if let Some(state) = look_at_job(input, &target.job, stage, out, "its Job to uninstall it") {
        return state;
    }
    if input.status().asked.is_none() || keeps(input) {
        return State::Ready;
    }
    match tenant {
        Tenant::Gone => State::Ready,
        Tenant::There { waits: Some(state), .. } => state,
        Tenant::There { waits: None, .. } => begin(input, &job::uninstall(input), stage, out),
    }
}
