//! What an `EtcdRestore` says of itself.

use super::input::{RestoreInput, RestorePlan};
use crate::status::{Progress, verdicts};
use berth_api::EtcdRestore;
use berth_api::backup::At;
use berth_api::conditions::{Reason, Verdict};
use berth_api::restore::{EtcdRestoreStatus, phase};
use berth_plan::{Failure, Input, verdicts};
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
    let progress = Progress { plan: &planned.plan, phase: planned.phase, failure, old: input.object.conditions() };
    let verdicts = verdicts(progress, ended(input, planned), Reason::RestoreFailed, "waiting for its Jobs");
    status.conditions = verdicts::publish(&old.conditions, verdicts, generation, input.now, false);
    status
}

/// What it says of its end.
fn ended(input: RestoreInput<'_>, planned: &RestorePlan) -> Option<Vec<Verdict>> {
    if let Some(failed) = &planned.failed {
        let then = if input.has_stopped_it() {
            ". etcd stays stopped: create another EtcdRestore"
        } else {
            ". Nothing was stopped"
        };
        let reason = if failed.at == At::Damaged { Reason::BackupDamaged } else { Reason::RestoreFailed };
        return Some(verdicts::both(Some(false), true, reason, format!("{}{then}", failed.message)));
    }
    (planned.phase == phase::RESTORED).then(|| {
        let taken = input.object.status.as_ref().and_then(|s| s.taken_at.as_ref());
        let missing = taken.map(|at| format!(". Writes since {} are lost", at.0)).unwrap_or_default();
        let old = old_data(input).unwrap_or_default();
        verdicts::both(Some(true), false, Reason::AsExpected, format!("{RESTORED}{missing}{old}"))
    })
}

/// Where what etcd held before is.
fn old_data(input: RestoreInput<'_>) -> Option<String> {
    let until = input.object.status.as_ref()?.old_data_until.as_ref()?.0;
    // To the second.
    let until = jiff::Timestamp::from_second(until.as_second()).ok()?;
    Some(format!(". The former data stays on the members' volumes until {until} at least"))
}

/// What a restore says that is done.
const RESTORED: &str = "etcd serves the restored data; its clients reconnect, and missing members are added";
