//! What an `EtcdBackup` says of itself.

use super::{BackupPlan, Input, outcome, was_verified};
use crate::failure::Failure;
use crate::verdicts;
use berth_api::backup::{EtcdBackupStatus, Manifest, Outcome, phase};
use berth_api::conditions::{Reason, Verdict};
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
    if let Some(failure) = failure {
        return verdicts::both(Some(false), true, failure.reason, &*failure.message);
    }
    let problem = planned.plan.stages.iter().find(|s| !s.state.is_done());
    if planned.phase == phase::DELETING {
        let sentence = problem.and_then(|s| s.state.sentence());
        return verdicts::deleting(sentence.as_ref().map(|(_, text)| text.as_str()));
    }
    match &planned.outcome {
        Some(Outcome::Failed(failure)) => {
            return verdicts::both(Some(false), true, outcome::reason(failure), &*failure.message);
        }
        Some(_) => return verdicts::both(Some(true), false, Reason::AsExpected, VERIFIED),
        None => {}
    }
    match planned.phase {
        phase::VERIFIED if was_verified(input.backup) => {
            verdicts::both(Some(true), false, Reason::AsExpected, VERIFIED)
        }
        phase::FAILED => {
            let old = input.backup.status.as_ref().map(|s| s.conditions.as_slice()).unwrap_or_default();
            verdicts::failed(old, Reason::BackupFailed)
        }
        _ => verdicts::under_way(problem, "waiting for its Job"),
    }
}

/// What a proven backup says.
const VERIFIED: &str = "the snapshot was read back from the store and restored, and is the same as what etcd had";
