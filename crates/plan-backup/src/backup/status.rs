//! What an `EtcdBackup` says of itself.

use super::input::{BackupPlan, was_verified};
use super::{earlier, kept, proven};
use crate::jobs::reason;
use crate::status::{Progress, verdicts};
use berth_api::backup::{Damage, EtcdBackup, EtcdBackupStatus, Manifest, Outcome, phase};
use berth_api::conditions::{self, ConditionType as T, Reason, Verdict};
use berth_plan::{Failure, Input, verdicts};
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};

/// The new status. What a backup ended with stays.
pub fn status(input: Input<'_, EtcdBackup>, planned: &BackupPlan, failure: Option<&Failure>) -> EtcdBackupStatus {
    let old = input.object.status.clone().unwrap_or_default();
    let generation = input.object.metadata.generation.unwrap_or_default();
    let damaged = proven::damage(&old);
    let mut status = EtcdBackupStatus { observed_generation: Some(generation), damaged, ..old.clone() };
    let mut phase = planned.phase;
    if let Some(Outcome::Verified(proof)) = &planned.outcome {
        record(&mut status, &proof.manifest);
        status.read_back = earlier::status(planned.outcome.as_ref(), input.now);
        phase = phase::VERIFIED;
    } else if let Some(Outcome::Kept(said)) = &planned.outcome {
        status.kept = Some(kept::status(said, input.now));
    } else if planned.outcome.is_some() && phase != phase::DELETING {
        phase = phase::FAILED;
    }
    status.phase = Some(phase.to_owned());
    let progress = Progress { plan: &planned.plan, phase: planned.phase, failure, old: input.object.conditions() };
    let ended = ended(input.object, planned);
    let mut verdicts = verdicts(progress, ended, Reason::BackupFailed, "waiting for its Job");
    verdicts.extend(proof(&status));
    let old = with_verified(old.conditions, status.verified_at.is_some());
    status.conditions = verdicts::publish(&old, verdicts, generation, input.now, false);
    status
}

/// The status of a backup that was found damaged. What was proven once stays on record.
pub(crate) fn damaged(backup: &EtcdBackup, damage: Damage, now: Timestamp) -> EtcdBackupStatus {
    let old = backup.status.clone().unwrap_or_default();
    let mut status = EtcdBackupStatus { damaged: Some(damage), ..old.clone() };
    if backup.metadata.deletion_timestamp.is_none() {
        status.phase = Some(phase::FAILED.to_owned());
        let verdicts: Vec<Verdict> = damage_of(&status).into_iter().flatten().chain(proof(&status)).collect();
        let generation = status.observed_generation.unwrap_or_default();
        status.conditions = verdicts::publish(&old.conditions, verdicts, generation, now, false);
    }
    status
}

/// `Verified`, and `Damaged` of one that is. What was not proven has neither.
fn proof(status: &EtcdBackupStatus) -> Vec<Verdict> {
    let said = |type_, status, reason, message: &str| Verdict::new(type_, Some(status), reason, message);
    match (&status.damaged, &status.verified_at) {
        (None, None) => vec![],
        (None, Some(_)) => vec![said(T::Verified, true, Reason::AsExpected, VERIFIED)],
        (Some(damage), _) => vec![
            said(T::Verified, false, Reason::BackupDamaged, &damage.message),
            said(T::Damaged, true, Reason::BackupDamaged, &damage.message),
        ],
    }
}

/// An earlier Berth said by `Ready` alone since when a backup is proven.
fn with_verified(mut old: Vec<Condition>, is_proven: bool) -> Vec<Condition> {
    let ready = conditions::find(&old, T::Ready).filter(|c| is_proven && c.status == "True");
    if let (Some(ready), None) = (ready, conditions::find(&old, T::Verified)) {
        old.push(Condition { type_: T::Verified.as_str().into(), ..ready.clone() });
    }
    old
}

/// What one says that was found damaged.
fn damage_of(status: &EtcdBackupStatus) -> Option<Vec<Verdict>> {
    let Damage { by, message, .. } = proven::damage(status)?;
    let message = format!(
        "damaged since it was proven, as {by} found: {message}. Berth does not restore it, and deletes neither it nor its snapshot. If nobody needs it, delete it"
    );
    Some(verdicts::both(Some(false), true, Reason::BackupDamaged, message))
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

/// What it says of its end.
fn ended(backup: &EtcdBackup, planned: &BackupPlan) -> Option<Vec<Verdict>> {
    let verified = || Some(verdicts::both(Some(true), false, Reason::AsExpected, VERIFIED));
    let damaged = backup.status.as_ref().and_then(damage_of);
    damaged.or_else(|| match (&planned.outcome, planned.phase) {
        (Some(Outcome::Failed(failure)), _) => {
            Some(verdicts::both(Some(false), true, reason(failure), &*failure.message))
        }
        (Some(Outcome::Kept(_)), _) => None,
        (Some(_), _) => verified(),
        (None, phase::VERIFIED) if was_verified(backup) => verified(),
        _ => None,
    })
}

/// What a proven backup says.
const VERIFIED: &str = "the snapshot was read back from the store and restored, and equals etcd's data";
