//! Taking a backup down. What is in the store stays, unless the spec asks for its deletion and a newer backup of the same data was
//! proven: of each etcd, the last one always stays, also where a whole namespace is deleted.

use super::input::{BackupInput, BackupPlan, SOON, WAITING};
use super::place::{find, is_home_of, store};
use super::store::{self as stores, is_of_namespace};
use super::{Owner, asks, job, outcome, proven, queue};
use crate::restore;
use berth_api::backup::{DeletionPolicy, EtcdBackup, Outcome, phase};
use berth_api::conditions::Reason;
use berth_api::names;
use berth_plan::backup_jobs;
use berth_plan::model::{Stage, StageId, State};
use berth_plan::workload::image_of;
use berth_render::{Kind, ObjectKey};

/// The plan while `deletionTimestamp` is set.
pub(super) fn plan(input: BackupInput<'_>) -> BackupPlan {
    let mut stage = Stage::new(StageId::Deletion, State::Ready);
    let asks = asks(input.object, input.settings);
    if let Some(restore) = restore::restoring(input.observed, input.object) {
        stage.state =
            State::waiting(format!("{restore}, which restores it, to end. To give that up, delete the EtcdRestore"));
    } else if !input.clean(&mut stage, &names::backup(input.name()), &asks.namespace) {
        stage.state = State::waiting("the Job that takes it to be gone");
    } else if let Some(key) = to_delete(input) {
        stage.state = match newer(input) {
            Newer::None => State::Ready,
            Newer::Good => delete(input, &mut stage, key),
            Newer::Restored(restore) => State::waiting(format!(
                "{restore} to end, which finds out whether the newer backup is good. To give that up, delete the EtcdRestore"
            )),
        };
    }
    let again = if stage.actions.is_empty() { WAITING } else { SOON };
    let mut out = BackupPlan { phase: phase::DELETING, requeue_after: Some(again), ..BackupPlan::default() };
    out.plan.finished = stage.state.is_done() && stage.actions.is_empty();
    out.plan.stages.push(stage);
    out
}

/// The snapshot to delete in the store, if any is.
fn to_delete(input: BackupInput<'_>) -> Option<&str> {
    let asks = asks(input.object, input.settings);
    let key = input.object.status.as_ref()?.key.as_deref().filter(|key| is_of_namespace(key, input.namespace()))?;
    // Without a namespace that is there no Job runs, and nothing may hang for that.
    let possible = is_home_of(input, &asks) && input.observed.get(&asks.etcd).is_some() && store(input).is_ok();
    (input.object.spec.deletion_policy == DeletionPolicy::Delete && possible).then_some(key)
}

/// Whether a newer backup of the same data is proven and stays.
enum Newer {
    None,
    Good,
    /// This one restores the only one that may be: it may find it damaged.
    Restored(ObjectKey),
}

fn newer(input: BackupInput<'_>) -> Newer {
    let own = input.object;
    let newer = |other: &EtcdBackup| {
        proven::counts(other)
            && (&other.spec.store, &other.spec.secret_ref, &other.spec.claim_ref)
                == (&own.spec.store, &own.spec.secret_ref, &own.spec.claim_ref)
            && proven::identity(other) == proven::identity(own)
            && is_newer(other, own)
    };
    let others = input.observed.of_kind(Kind::EtcdBackup, input.namespace());
    let others = others.filter_map(|(_, o)| serde_json::from_value::<EtcdBackup>(o.clone()).ok());
    let found: Vec<_> = others.filter(newer).map(|other| restore::restoring(input.observed, &other)).collect();
    if found.iter().any(Option::is_none) {
        return Newer::Good;
    }
    found.into_iter().flatten().next().map_or(Newer::None, Newer::Restored)
}

/// Whether it was created later, and holds no less.
fn is_newer(other: &EtcdBackup, own: &EtcdBackup) -> bool {
    let created = |b: &EtcdBackup| b.metadata.creation_timestamp.clone();
    let both = created(other).is_some() && created(own).is_some();
    let age = |b: &EtcdBackup| (created(b).filter(|_| both), proven::taken(b), proven::proven_at(b));
    let whole = |b: &EtcdBackup| {
        let (epoch, revision) = proven::furthest(b);
        Some((epoch?, revision?))
    };
    age(other) > age(own) && whole(other).zip(whole(own)).is_none_or(|(other, own)| other >= own)
}

fn delete(input: BackupInput<'_>, stage: &mut Stage, snapshot: &str) -> State {
    let asks = asks(input.object, input.settings);
    let key = ObjectKey::namespaced(Kind::Job, &asks.namespace, names::backup_deletion(input.name()));
    stage.owns.push(key.clone());
    if let Some(live) = input.get(&key) {
        let given_up = outcome::overdue(&key, live, input.now);
        if input.is_earlier(live) || (given_up.is_some() && !backup_jobs::has_ended(live)) {
            input.clean(stage, &key.name, &asks.namespace);
            return State::waiting(format!("{key}, which is no use any more, to be gone; then another one is created"));
        }
        let outcome = outcome::of(&input.owner(), live);
        // The Job says whether the snapshot is gone, so it stays. The keys do not.
        let without_keys = outcome.is_none() || input.owner().clean_secret(stage, &key.name, &asks.namespace);
        return match outcome {
            Some(Outcome::Failed(failure)) => State::blocked(
                outcome::reason(&failure),
                format!(
                    "cannot delete it in the store: {}. Set spec.deletionPolicy to Retain to leave it there",
                    failure.message
                ),
            ),
            Some(_) if without_keys => State::Ready,
            Some(_) => State::waiting("the Secret of its Job to be gone"),
            None => outcome::progress(&input.owner(), live, None, "a Job to delete it in the store"),
        };
    }
    if !queue::may_delete(input) {
        input.owner().clean_secret(stage, &key.name, &asks.namespace);
        return State::waiting("the snapshots of other EtcdBackups of this namespace to be deleted");
    }
    let made = store(input).and_then(|store| {
        let secret = input.owner().credentials(&store, &key)?;
        let place = find(input, &asks).ok();
        let set = ObjectKey { kind: Kind::StatefulSet, ..asks.etcd.clone() };
        let image = input.observed.get(&set).and_then(image_of).map(str::to_owned);
        let image = image.or_else(|| place.as_ref().map(|p| p.image.clone()));
        let image = image.ok_or_else(|| State::waiting(format!("{set}, whose image the Job has")))?;
        let image = stores::image(&image, input.settings);
        let job = job::delete(input, &store, (snapshot, &image), place.as_ref().map(|p| &p.etcd), &key);
        Ok((secret, job.map_err(|e| State::blocked(Reason::Error, e))?))
    });
    match made {
        Ok((secret, job)) => Owner::begin(stage, secret, job),
        Err(state) => state,
    }
}
