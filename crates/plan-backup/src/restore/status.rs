//! What an `EtcdRestore` says of itself.

use super::input::{RestoreInput, RestorePlan};
use berth_api::EtcdRestore;
use berth_api::backup::At;
use berth_api::conditions::{Reason, Verdict};
use berth_api::restore::{EtcdRestoreStatus, phase};
use berth_plan::failure::Failure;
use berth_plan::{Input, verdicts};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

/// The new status. What a restore ended with stays.
pub fn status(input: Input<'_, EtcdRestore>, planned: &RestorePlan, failure: Option<&Failure>) -> EtcdRestoreStatus {
    let input = RestoreInput(input);
    let old = input.object.status.clone().unwrap_or_default();
    let generation = input.object.metadata.generation.unwrap_or_default();
    let mut status = EtcdRestoreStatus { observed_generation: Some(generation), ..old.clone() };
    status.phase = Some(planned.phase.to_owned());
    if let (None, Some((name, taken))) = (&status.backup, &planned.backup) {
        // A snapshot in a store may have no EtcdBackup.
        status.backup = Some(name.clone()).filter(|name| !name.is_empty());
        status.taken_at = taken.clone().or(status.taken_at);
    }
    status.snapshot = planned.found.clone().or(status.snapshot);
    if planned.checked {
        status.checked_at.get_or_insert(Time(input.now));
    }
    status.epoch = planned.epoch.or(status.epoch);
    if planned.restored {
        status.restored_at.get_or_insert(Time(input.now));
        let until = planned.keeps.and_then(|keep| input.now.checked_add(keep).ok());
        status.old_data_until = status.old_data_until.or(until.map(Time));
    }
    let verdicts = verdicts(input, planned, failure);
    status.conditions = verdicts::publish(&old.conditions, verdicts, generation, input.now, false);
    status
}

fn verdicts(input: RestoreInput<'_>, planned: &RestorePlan, failure: Option<&Failure>) -> Vec<Verdict> {
    if let Some(failure) = failure {
        return verdicts::both(Some(false), true, failure.reason, &*failure.message);
    }
    let problem = planned.plan.stages.iter().find(|s| !s.state.is_done());
    if planned.phase == phase::DELETING {
        let sentence = problem.and_then(|s| s.state.sentence());
        return verdicts::deleting(sentence.as_ref().map(|(_, text)| text.as_str()));
    }
    if let Some(failed) = &planned.failed {
        let then = if input.has_stopped_it() {
            ". etcd stays stopped: create another EtcdRestore"
        } else {
            ". Nothing was stopped"
        };
        let reason = if failed.at == At::Damaged { Reason::BackupDamaged } else { Reason::RestoreFailed };
        return verdicts::both(Some(false), true, reason, format!("{}{then}", failed.message));
    }
    match planned.phase {
        phase::RESTORED => {
            let taken = input.object.status.as_ref().and_then(|s| s.taken_at.as_ref());
            let missing = taken.map(|at| format!(". What was written since {} is lost", at.0)).unwrap_or_default();
            let old = old_data(input).unwrap_or_default();
            verdicts::both(Some(true), false, Reason::AsExpected, format!("{RESTORED}{missing}{old}"))
        }
        phase::FAILED => {
            let old = input.object.status.as_ref().map(|s| s.conditions.as_slice()).unwrap_or_default();
            verdicts::failed(old, Reason::RestoreFailed)
        }
        _ => verdicts::under_way(problem, "waiting for its Jobs"),
    }
}

/// Where what etcd held before is.
fn old_data(input: RestoreInput<'_>) -> Option<String> {
    let until = input.object.status.as_ref()?.old_data_until.as_ref()?.0;
    // To the second.
    let until = jiff::Timestamp::from_second(until.as_second()).ok()?;
    Some(format!(". What etcd held before stays on the members' volumes, beside the data, until {until} at least"))
}

/// What a restore says that is done.
const RESTORED: &str = "etcd serves what was restored; its clients come back, and members that are missing are added";
