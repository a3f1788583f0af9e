//! The plan for an `AppInstallation`: a Job beside the tenant's control plane does what is asked for, and its pod's termination message
//! becomes the status. At rest there is no Job. What is asked for is on record before a Job is made for it.

mod begin;
mod deletion;
mod drift;
mod input;
mod job;
mod keep;
mod look;
mod plan;
mod status;
mod target;

#[cfg(test)]
pub(crate) mod tests;

use crate::requeue::{AT_REST, SLOW, WAITING};
use begin::begin;
use berth_api::AppInstallation;
use berth_api::app::{AppInstallationStatus, phase};
use berth_api::conditions::Reason;
use berth_plan::model::{Action, Stage, StageId, State};
use berth_plan::object_meta::uid;
use berth_plan::requeue::SOON;
use berth_plan::{Input, Planner};
use berth_render::{Kind, ObjectKey};
use input::InstallationInput;
use job::{Asked, asked};
use look::look_at_job;
use target::Tenant;

pub use job::chart;
pub use plan::InstallationPlan;
pub use target::Target;

/// Decides for an `AppInstallation`.
#[derive(Clone, Copy, Debug)]
pub struct InstallationPlanner;

impl Planner for InstallationPlanner {
    type Object = AppInstallation;
    type Planned = InstallationPlan;
    type Status = AppInstallationStatus;

    fn plan(input: Input<'_, AppInstallation>) -> InstallationPlan {
        let input = InstallationInput(input);
        let mut out = InstallationPlan::default();
        let id = if input.is_deleted() { StageId::Deletion } else { StageId::App };
        let mut stage = Stage::new(id, State::Ready);
        if input.is_unseen() {
            stage.state = State::waiting(format!("the right to read what is in namespace {}", input.target().home));
            out.requeue_after = Some(WAITING);
        } else if input.is_deleted() {
            deletion::plan(input, &mut stage, &mut out);
        } else if is_orphan(input) {
            let own = ObjectKey::namespaced(Kind::AppInstallation, input.namespace(), input.name());
            let uid = input.uid().to_owned();
            stage.actions.push(Action::Delete { key: own, uid, grace: None });
            stage.state =
                State::waiting(format!("itself to be deleted: {} does not exist any more", input.target().app));
            (out.phase, out.requeue_after) = (phase::DELETING, Some(SOON));
        } else {
            deploy(input, &mut stage, &mut out);
        }
        if !stage.actions.is_empty() || out.result.is_some() {
            out.requeue_after = Some(SOON);
        }
        out.plan.stages.push(stage);
        out
    }

    fn outcome(planned: &InstallationPlan) -> berth_plan::Outcome<'_> {
        berth_plan::Outcome { plan: &planned.plan, requeue_after: planned.requeue_after, due: None }
    }

    fn status(
        input: Input<'_, AppInstallation>,
        planned: &InstallationPlan,
        failure: Option<&berth_plan::Failure>,
    ) -> AppInstallationStatus {
        status::status(InstallationInput(input), planned, failure)
    }
}

/// Its `App` is gone, or another one of that name.
fn is_orphan(input: InstallationInput<'_>) -> bool {
    input.observed.get(&input.target().app).is_none_or(|app| uid(app) != input.object.spec.app.uid)
}

/// One that is to be there.
fn deploy(input: InstallationInput<'_>, stage: &mut Stage, out: &mut InstallationPlan) {
    let job = input.target().job;
    stage.owns.push(job.clone());
    (out.phase, out.requeue_after) = (phase::WAITING, Some(WAITING));
    let status = input.status();
    let is_there = |asked: &Asked| {
        let said = |of: Option<&String>| of == Some(&asked.digest);
        said(status.asked.as_ref()) && said(status.release.as_ref().map(|there| &there.asked))
    };
    if let Some(state) = look_at_job(input, &job, stage, out, "its Job to install or upgrade it") {
        let live = input.owner().get(&job);
        let is_over = live.is_some_and(|job| status.job.as_deref() == Some(uid(job)));
        let asked = asked(input).filter(|_| is_over || live.is_some_and(drift::is_check));
        let has_failed = is_over && status.failures.is_some_and(|failures| failures > 0);
        // While it is compared, or its Job goes, it is as it was said to be.
        (stage.state, out.phase) = match asked {
            Some(asked) if is_there(&asked) => (State::Ready, phase::DEPLOYED),
            Some(asked) if has_failed && status.asked.as_ref() == Some(&asked.digest) => {
                let message = status.message.unwrap_or_default();
                (State::Reported { reason: Reason::AppFailed, message }, phase::FAILED)
            }
            // What takes a moment is a part of its turn.
            _ if is_over && !input.has_waited() => (state, phase::RUNNING),
            _ => (state, out.phase),
        };
        return;
    }
    stage.state = match input.target().tenant(input.observed, &input.object.spec.cluster.uid) {
        // Its App, which sees that too, deletes it.
        Tenant::Gone => {
            let Target { app, cluster, .. } = input.target();
            State::waiting(format!("{app} to delete this: {cluster} is gone, or being deleted"))
        }
        Tenant::There { epoch, waits } => {
            let asked = job::deploy(input, epoch.unwrap_or_default());
            match (asked, waits) {
                (Ok(asked), waits) if is_there(&asked) => {
                    (out.phase, out.requeue_after) = (phase::DEPLOYED, Some(AT_REST));
                    drift::plan(input, &asked, waits.is_some(), stage, out);
                    State::Ready
                }
                // A tenant that sleeps may do so for weeks.
                (_, Some(state)) | (Err(state), None) => {
                    out.requeue_after = Some(if status.release.is_some() { SLOW } else { WAITING });
                    state
                }
                (Ok(asked), None) => begin(input, &asked, stage, out),
            }
        }
    };
    if stage.actions.is_empty() {
        // Keys are there while a Job runs, and for no longer.
        input.owner().clean_secret(stage, &job);
    }
}
