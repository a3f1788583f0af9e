//! What an `EtcdBackup` says of itself.

use super::{BackupPlan, Input, outcome, was_verified};
use crate::failure::Failure;
use crate::model::State;
use crate::verdicts;
use berth_api::backup::{EtcdBackupStatus, Manifest, Outcome, phase};
use berth_api::conditions::{self, ConditionType as T, Reason, Verdict};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

/// The new status. What a backup ended with stays.
pub fn status(input: Input<'_>, planned: &BackupPlan, failure: Option<&Failure>) -> EtcdBackupStatus {
    let old = input.backup.status.clone().unwrap_or_default();
    let generation = input.backup.metadata.generation.unwrap_or_default();
    let mut status = EtcdBackupStatus { observed_generation: Some(generation), ..old.clone() };
    let mut phase = planned.phase;
    if let Some(Outcome::Verified(manifest)) = &planned.outcome {
        record(&mut status, manifest);
        phase = phase::VERIFIED;
    } else if planned.outcome.is_some() && phase != phase::DELETING {
        phase = phase::FAILED;
    }
    status.phase = Some(phase.to_owned());
    let verdicts = verdicts(input, planned, failure);
    status.conditions = verdicts::publish(&old.conditions, verdicts, generation, input.now, false);
    status
}

fn record(status: &mut EtcdBackupStatus, manifest: &Manifest) {
    let time = |text: &str| text.parse().ok().map(Time);
    let number = |n: u64| i64::try_from(n).ok();
    let of = &manifest.of;
    status.key = Some(manifest.key.clone());
    status.sha256 = Some(manifest.sha256.clone());
    (status.size, status.keys) = (number(manifest.size), number(manifest.keys));
    status.revision = Some(manifest.revision);
    status.cluster_id = Some(manifest.cluster_id.clone());
    status.identity = Some(of.identity.clone());
    status.epoch = Some(of.epoch);
    status.etcd_version = Some(manifest.etcd_version.clone());
    status.kubernetes_version.clone_from(&of.kubernetes_version);
    status.encryption_key.clone_from(&of.encryption_key);
    (status.taken_at, status.verified_at) = (time(&manifest.taken_at), time(&manifest.verified_at));
}

fn verdicts(input: Input<'_>, planned: &BackupPlan, failure: Option<&Failure>) -> Vec<Verdict> {
    let both = |ready: Option<bool>, degraded: bool, reason, message: String| {
        let of_degraded = if degraded { message.clone() } else { "nothing is wrong".into() };
        let reason_of_degraded = if degraded { reason } else { Reason::AsExpected };
        vec![
            Verdict::new(T::Ready, ready, reason, message),
            Verdict::new(T::Degraded, Some(degraded), reason_of_degraded, of_degraded),
        ]
    };
    if let Some(failure) = failure {
        return both(Some(false), true, failure.reason, failure.message.clone());
    }
    let problem = planned.plan.stages.iter().find(|s| !s.state.is_done());
    let sentence = problem.and_then(|s| s.state.sentence());
    if planned.phase == phase::DELETING {
        let rest = sentence.map(|(_, text)| format!("; {text}")).unwrap_or_default();
        return both(Some(false), false, Reason::Deleting, format!("being deleted{rest}"));
    }
    match &planned.outcome {
        Some(Outcome::Failed(failure)) => {
            return both(Some(false), true, outcome::reason(failure), failure.message.clone());
        }
        Some(_) => return both(Some(true), false, Reason::AsExpected, VERIFIED.into()),
        None => {}
    }
    match planned.phase {
        phase::VERIFIED if was_verified(input.backup) => both(Some(true), false, Reason::AsExpected, VERIFIED.into()),
        // As it was said when it failed.
        phase::FAILED => {
            let old = input.backup.status.as_ref().and_then(|s| conditions::find(&s.conditions, T::Degraded));
            let reason = old.and_then(|c| c.reason.parse().ok()).unwrap_or(Reason::BackupFailed);
            both(Some(false), true, reason, old.map_or_else(|| "it failed".into(), |c| c.message.clone()))
        }
        _ => {
            let blocked = problem.is_some_and(|s| matches!(s.state, State::Blocked { .. }));
            let (reason, message) = sentence.unwrap_or((Reason::Waiting, "waiting for its Job".into()));
            both(Some(false), blocked || reason == Reason::StoreUnavailable, reason, message)
        }
    }
}

/// What a proven backup says.
const VERIFIED: &str = "the snapshot was read back from the store and restored, and is the same as what etcd had";
