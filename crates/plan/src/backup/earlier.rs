//! An older backup, which is read back by the Job of a newer one.

use super::damage::{Found, same_store};
use super::{Input, proven};
use crate::model::Action;
use crate::observed::Observed;
use berth_api::backup::{At, Earlier, EtcdBackup, Outcome, Proof, ReadBack, ReadBackStatus};
use berth_render::{Kind, ObjectKey};
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

/// The one that is named, whatever may be read of it.
pub fn named(backup: &EtcdBackup) -> Option<ObjectKey> {
    let (name, namespace) = (backup.spec.read_back.as_ref()?, backup.metadata.namespace.as_ref()?);
    (backup.metadata.name.as_ref() != Some(name)).then(|| ObjectKey::namespaced(Kind::EtcdBackup, namespace, name))
}

/// What the Job is to read. None: nothing is asked for, or what is named by now is not a good one in the same store.
pub(super) fn asked(input: Input<'_>) -> Option<Earlier> {
    let key = named(input.backup)?;
    let earlier = of(input.observed, &key)?;
    let status = earlier.status.as_ref().filter(|_| proven::is_good(&earlier))?;
    same_store(&earlier.spec, &input.backup.spec)
        .then(|| Some(Earlier { name: key.name.clone(), key: status.key.clone()?, sha256: status.sha256.clone()? }))?
}

fn of(observed: &Observed, key: &ObjectKey) -> Option<EtcdBackup> {
    serde_json::from_value(observed.get(key)?.clone()).ok()
}

fn read(outcome: Option<&Outcome>) -> Option<&ReadBack> {
    match outcome {
        Some(Outcome::Verified(Proof { earlier, .. })) => earlier.as_ref(),
        _ => None,
    }
}

/// Marks the older one, if its Job found it damaged.
pub(super) fn marks(input: Input<'_>, outcome: Option<&Outcome>) -> Vec<(ObjectKey, Action)> {
    let damage = read(outcome).and_then(|read| Some((read, read.failure.as_ref().filter(|f| f.at == At::Damaged)?)));
    let Some((ReadBack { of, .. }, failure)) = damage else { return vec![] };
    let by = format!("EtcdBackup {}", input.name());
    let found =
        Found { store: &input.backup.spec, key: &of.key, sha256: &of.sha256, by: &by, message: &failure.message };
    found.marks(input.observed, input.namespace(), input.now)
}

/// What the status says of it.
pub(super) fn status(outcome: Option<&Outcome>, now: Timestamp) -> Option<ReadBackStatus> {
    let ReadBack { of, failure } = read(outcome)?;
    Some(ReadBackStatus { name: of.name.clone(), at: Time(now), message: failure.as_ref().map(|f| f.message.clone()) })
}
