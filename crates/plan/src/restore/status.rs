//! What an `EtcdRestore` says of itself.

use super::{Input, RestorePlan};
use crate::failure::Failure;
use crate::model::State;
use crate::verdicts;
use berth_api::conditions::{self, ConditionType as T, Reason, Verdict};
use berth_api::restore::{EtcdRestoreStatus, phase};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

/// The new status. What a restore ended with stays.
pub fn status(input: Input<'_>, planned: &RestorePlan, failure: Option<&Failure>) -> EtcdRestoreStatus {
    let old = input.restore.status.clone().unwrap_or_default();
    let generation = input.restore.metadata.generation.unwrap_or_default();
    let mut status = EtcdRestoreStatus { observed_generation: Some(generation), ..old.clone() };
    status.phase = Some(planned.phase.to_owned());
    if let (None, Some((name, taken))) = (&status.backup, &planned.backup) {
        (status.backup, status.taken_at) = (Some(name.clone()), taken.clone());
    }
    if planned.checked {
        status.checked_at.get_or_insert(Time(input.now));
    }
    status.epoch = planned.epoch.or(status.epoch);
    if planned.restored {
        status.restored_at.get_or_insert(Time(input.now));
    }
    let verdicts = verdicts(input, planned, failure);
    status.conditions = verdicts::publish(&old.conditions, verdicts, generation, input.now, false);
    status
}

fn verdicts(input: Input<'_>, planned: &RestorePlan, failure: Option<&Failure>) -> Vec<Verdict> {
    let both = |ready: bool, degraded: bool, reason, message: String| {
        let of_degraded = if degraded { message.clone() } else { "nothing is wrong".into() };
        let reason_of_degraded = if degraded { reason } else { Reason::AsExpected };
        vec![
            Verdict::new(T::Ready, Some(ready), reason, message),
            Verdict::new(T::Degraded, Some(degraded), reason_of_degraded, of_degraded),
        ]
    };
    if let Some(failure) = failure {
        return both(false, true, failure.reason, failure.message.clone());
    }
    let problem = planned.plan.stages.iter().find(|s| !s.state.is_done());
    let sentence = problem.and_then(|s| s.state.sentence());
    if planned.phase == phase::DELETING {
        let rest = sentence.map(|(_, text)| format!("; {text}")).unwrap_or_default();
        return both(false, false, Reason::Deleting, format!("being deleted{rest}"));
    }
    if let Some(failed) = &planned.failed {
        let then = if input.request().is_some() {
            ". etcd stays stopped: create another EtcdRestore"
        } else {
            ". Nothing was stopped"
        };
        return both(false, true, Reason::RestoreFailed, format!("{}{then}", failed.message));
    }
    match planned.phase {
        phase::RESTORED => both(true, false, Reason::AsExpected, RESTORED.into()),
        // As it was said when it failed.
        phase::FAILED => {
            let old = input.restore.status.as_ref().and_then(|s| conditions::find(&s.conditions, T::Degraded));
            let reason = old.and_then(|c| c.reason.parse().ok()).unwrap_or(Reason::RestoreFailed);
            both(false, true, reason, old.map_or_else(|| "it failed".into(), |c| c.message.clone()))
        }
        _ => {
            let blocked = problem.is_some_and(|s| matches!(s.state, State::Blocked { .. }));
            let (reason, message) = sentence.unwrap_or((Reason::Waiting, "waiting for its Jobs".into()));
            both(false, blocked || reason == Reason::StoreUnavailable, reason, message)
        }
    }
}

/// What a restore says that is done.
const RESTORED: &str = "etcd serves what was restored; its clients come back, and members that are missing are added";
