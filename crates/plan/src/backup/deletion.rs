//! Taking a backup down. What is in the store stays, unless the spec asks for its deletion and a newer backup of the same data was
//! proven: of each etcd, the last one always stays, also where a whole namespace is deleted.

use super::place::{find, is_home_of, store};
use super::store::is_of_namespace;
use super::{BackupPlan, Input, Owner, SOON, WAITING, asks, job, jobs, outcome, queue};
use crate::model::{Stage, StageId, State};
use crate::observed::deleting;
use crate::restore;
use crate::workload::image_of;
use berth_api::backup::{DeletionPolicy, EtcdBackup, Outcome, phase};
use berth_api::conditions::Reason;
use berth_api::names;
use berth_render::{Kind, ObjectKey};

/// The plan while `deletionTimestamp` is set.
pub(super) fn plan(input: Input<'_>) -> BackupPlan {
    let mut stage = Stage::new(StageId::Deletion, State::Ready);
    let asks = asks(input.backup, input.settings);
    if let Some(restore) = restore::restoring(input.observed, input.backup) {
        stage.state =
            State::waiting(format!("{restore}, which restores it, to end. To give that up, delete the EtcdRestore"));
    } else if !input.clean(&mut stage, &names::backup(input.name()), &asks.namespace) {
        stage.state = State::waiting("the Job that takes it to be gone");
    } else if let Some(key) = to_delete(input) {
        stage.state = delete(input, &mut stage, key);
    }
    let again = if stage.actions.is_empty() { WAITING } else { SOON };
    let mut out = BackupPlan { phase: phase::DELETING, requeue_after: Some(again), ..BackupPlan::default() };
    out.plan.finished = stage.state.is_done() && stage.actions.is_empty();
    out.plan.stages.push(stage);
    out
}

/// The snapshot to delete in the store, if any is.
fn to_delete(input: Input<'_>) -> Option<&str> {
    let asks = asks(input.backup, input.settings);
    let key = input.backup.status.as_ref()?.key.as_deref().filter(|key| is_of_namespace(key, input.namespace()))?;
    // Without a namespace that is there no Job runs, and nothing may hang for that.
    let possible = is_home_of(input, &asks) && input.observed.get(&asks.etcd).is_some() && store(input).is_ok();
    (input.backup.spec.deletion_policy == DeletionPolicy::Delete && possible && is_superseded(input)).then_some(key)
}

/// Whether a newer backup of the same data is proven and stays.
fn is_superseded(input: Input<'_>) -> bool {
    let Some(own) = input.backup.status.as_ref() else { return false };
    let newer = |other: &EtcdBackup| {
        let Some(status) = &other.status else { return false };
        other.metadata.deletion_timestamp.is_none()
            && other.spec.store == input.backup.spec.store
            && other.spec.secret_ref == input.backup.spec.secret_ref
            && other.spec.claim_ref == input.backup.spec.claim_ref
            && status.phase.as_deref() == Some(phase::VERIFIED)
            && status.identity == own.identity
            && is_newer(other, input.backup)
    };
    let others = input.observed.of_kind(Kind::EtcdBackup, input.namespace()).filter(|(_, o)| !deleting(o));
    others.filter_map(|(_, o)| serde_json::from_value(o.clone()).ok()).any(|other| newer(&other))
}

/// Whether it was created later, and holds no less. When a snapshot was taken is by the clock of a node, which may be wrong.
fn is_newer(other: &EtcdBackup, own: &EtcdBackup) -> bool {
    let created = |b: &EtcdBackup| b.metadata.creation_timestamp.clone();
    let of = |b: &EtcdBackup| b.status.clone().unwrap_or_default();
    let revision = |b: &EtcdBackup| Some((of(b).epoch?, of(b).revision?));
    let is_later = match (created(other), created(own)) {
        // Of one second, the node's clock decides.
        (Some(later), Some(earlier)) => (later, of(other).taken_at) > (earlier, of(own).taken_at),
        _ => of(other).taken_at > of(own).taken_at,
    };
    is_later && revision(other).zip(revision(own)).is_none_or(|(other, own)| other >= own)
}

fn delete(input: Input<'_>, stage: &mut Stage, snapshot: &str) -> State {
    let asks = asks(input.backup, input.settings);
    let key = ObjectKey::namespaced(Kind::Job, &asks.namespace, names::backup_deletion(input.name()));
    stage.owns.push(key.clone());
    if let Some(live) = input.get(&key) {
        let given_up = outcome::overdue(&key, live, input.now);
        if input.is_earlier(live) || (given_up.is_some() && !jobs::has_ended(live)) {
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
        let image = store.image(&image, input.settings);
        let job = job::delete(input, &store, (snapshot, &image), place.as_ref().map(|p| &p.etcd), &key);
        Ok((secret, job.map_err(|e| State::blocked(Reason::Error, e))?))
    });
    match made {
        Ok((secret, job)) => Owner::begin(stage, secret, job),
        Err(state) => state,
    }
}
