//! What a plan for an `AppInstallation` says, and what the status takes from it.

use berth_api::app::CheckStatus;
use berth_api::apps::Outcome;
use berth_plan::model::Plan;
use jiff::SignedDuration;

/// A plan, and what the status needs beside it.
#[derive(Clone, Debug, Default)]
pub struct InstallationPlan {
    /// What to do.
    pub plan: Plan,
    /// Reconcile again after this long, even without an event.
    pub requeue_after: Option<SignedDuration>,
    /// What is asked for, and is to be on record: its digest, and what its chart is fetched with.
    pub(super) asked: Option<(String, Option<String>)>,
    /// A look for drift that is about to begin, and is to be on record.
    pub(super) check: Option<CheckStatus>,
    /// What a Job came to.
    pub(super) result: Option<JobResult>,
    /// The phase for people.
    pub(super) phase: &'static str,
}

/// How a Job ended.
#[derive(Clone, Debug)]
pub(super) struct JobResult {
    /// UID of the Job.
    pub(super) job: String,
    /// What it was asked for.
    pub(super) asked: String,
    /// Whether it looked for drift.
    pub(super) is_check: bool,
    /// What came of it.
    pub(super) outcome: Outcome,
}
