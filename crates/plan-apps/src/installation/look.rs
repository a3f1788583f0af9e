//! What became of a Job.

use super::drift;
use super::input::InstallationInput;
use super::plan::{InstallationPlan, JobResult};
use crate::requeue::RUNNING;
use berth_api::app::phase;
use berth_api::apps::Outcome;
use berth_api::labels;
use berth_plan::jobs;
use berth_plan::model::{Stage, State};
use berth_plan::object_meta::{deleting, label, uid};
use berth_plan::requeue::SOON;
use berth_render::ObjectKey;

/// What became of a Job.
type JobStatus = jobs::JobStatus<Outcome>;

/// Looks after a Job that is there. None: there is none.
pub(super) fn look_at_job(
    input: InstallationInput<'_>,
    job: &ObjectKey,
    stage: &mut Stage,
    out: &mut InstallationPlan,
    does: &str,
) -> Option<State> {
    let owner = input.owner();
    if let Some(live) = owner.get(job) {
        let is_recorded = input.status().job.as_deref() == Some(uid(live));
        let of = if drift::is_check(live) { labels::APP_CHECK_UID } else { labels::APP_INSTALLATION_UID };
        if is_recorded || deleting(live) || label(live, of) != Some(input.uid()) {
            owner.clean(stage, job);
            out.requeue_after = Some(SOON);
            return Some(State::waiting(format!("{job}, which is over, to be gone")));
        }
    }
    let is_check = owner.get(job).is_some_and(drift::is_check);
    let does = if is_check { "its Job to look for drift" } else { does };
    let outcome = match owner.status(job, does) {
        JobStatus::Absent => return None,
        JobStatus::Foreign(state) => return Some(state),
        JobStatus::Active(state) => {
            (out.phase, out.requeue_after) = (phase::RUNNING, Some(RUNNING));
            return Some(state);
        }
        JobStatus::Overdue(failure) | JobStatus::Failed(failure) => Outcome::Failed(failure),
        JobStatus::Complete(said) => *said,
    };
    let live = owner.get(job)?;
    let asked = label(live, labels::APP_ASKED).unwrap_or_default().to_owned();
    out.result = Some(JobResult { job: uid(live).to_owned(), asked, is_check, outcome });
    out.phase = phase::RUNNING;
    Some(State::waiting("its result to be recorded"))
}
