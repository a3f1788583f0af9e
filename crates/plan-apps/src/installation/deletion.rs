//! Taking an installation down: its release is uninstalled, unless there is no tenant any more, nothing was ever begun, or nobody asked for it.

use super::begin::begin;
use super::input::InstallationInput;
use super::job;
use super::keep::keeps;
use super::look::look_at_job;
use super::plan::InstallationPlan;
use super::target::Tenant;
use crate::requeue::WAITING;
use berth_api::App;
use berth_api::app::phase;
use berth_api::apps::{TASK, Task};
use berth_plan::apps::{is_for, labels_of};
use berth_plan::jobs::env_of;
use berth_plan::model::{Action, Stage, State};
use berth_plan::object_meta::{deleting, uid};

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
    // Whoever deletes the namespace of a protected Cluster did not ask for that. A new installation takes up what is there, by its labels.
    if matches!(tenant, Tenant::Gone) || input.observed.team_namespace_ends {
        return State::Ready;
    }
    let (uninstall, job) = (job::uninstall(input), owner.get(&target.job));
    let task = job.and_then(|live| serde_json::from_str::<Task>(env_of(live, TASK)?).ok());
    let uninstalls = matches!(task, Some(Task::Uninstall(_)));
    // Once it is on record a Job may have been made for it.
    let is_begun = uninstalls || input.status().asked.as_ref() == Some(&uninstall.digest);
    if !is_begun && !keeps(input) {
        match is_wanted(input) {
            // Its App makes another one, which takes the release up by its labels.
            Ok(true) => return State::Ready,
            Ok(false) => {}
            Err(state) => return state,
        }
    }
    // One that installs is stopped; what it has begun is uninstalled once its pod has ended.
    if let Some(live) = job.filter(|_| !uninstalls) {
        if !deleting(live) {
            stage.actions.push(Action::delete(&target.job, live, None));
        }
        return State::waiting(format!("{}, which installs it, to be gone", target.job));
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
        Tenant::There { waits: None, .. } => begin(input, &uninstall, stage, out),
    }
}

/// Whether its App is for its `Cluster` all the same: a label is back, or somebody deleted the installation alone. Err: nobody knows.
fn is_wanted(input: InstallationInput<'_>) -> Result<bool, State> {
    let target = input.target();
    let app = input.observed.get(&target.app).filter(|app| uid(app) == input.object.spec.app.uid);
    let Some(live) = app else { return Ok(false) };
    let app: App = serde_json::from_value(live.clone())
        .map_err(|_| State::waiting(format!("{}, which cannot be read", target.app)))?;
    let labels = input.observed.get(&target.cluster).map(labels_of).unwrap_or_default();
    Ok(is_for(&app, &target.cluster, &labels, &input.settings.apps.namespace))
}
