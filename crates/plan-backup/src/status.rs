//! What an `EtcdBackup` and an `EtcdRestore` say in the same way: both are done once, by Jobs.

use berth_api::backup::phase;
use berth_api::conditions::{Reason, Verdict};
use berth_plan::{Failure, Plan, verdicts};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;

/// A plan, as the status needs it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Progress<'a> {
    pub(crate) plan: &'a Plan,
    pub(crate) phase: &'a str,
    /// What went wrong in this reconcile.
    pub(crate) failure: Option<&'a Failure>,
    /// The conditions so far.
    pub(crate) old: &'a [Condition],
}

/// `Ready` and `Degraded`. `own`: what the kind itself says, unless this reconcile failed or the object is being deleted. `failed`: the reason of
/// one that failed, if its conditions have none. `awaited`: what is awaited, if no stage says that.
pub(crate) fn verdicts(
    progress: Progress<'_>,
    own: Option<Vec<Verdict>>,
    failed: Reason,
    awaited: &str,
) -> Vec<Verdict> {
    let Progress { plan, phase, failure, old } = progress;
    if let Some(failure) = failure {
        return verdicts::both(Some(false), true, failure.reason, &*failure.message);
    }
    let problem = plan.stages.iter().find(|s| !s.state.is_done());
    match (phase, own) {
        (phase::DELETING, _) => {
            let sentence = problem.and_then(|s| s.state.sentence());
            verdicts::deleting(sentence.as_ref().map(|(_, text)| text.as_str()))
        }
        (_, Some(own)) => own,
        (phase::FAILED, None) => verdicts::failed(old, failed),
        (_, None) => verdicts::under_way(problem, awaited),
    }
}
