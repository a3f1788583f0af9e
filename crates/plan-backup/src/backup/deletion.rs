//! Taking a backup down. What is in the store stays, unless the spec asks for its deletion and a newer backup of the same data was
//! proven: of each etcd, the last one always stays, also where a whole namespace is deleted.

use super::input::{BackupInput, BackupPlan};
use super::{job, kept, proven, queue, validate};
use crate::jobs::{JobStatus, reason};
use crate::objects::list;
use crate::requeue::{AT_REST, SOON, WAITING};
use crate::restore;
use crate::store;
use berth_api::backup::{DeletionPolicy, EtcdBackup, Outcome, phase};
use berth_api::names;
use berth_plan::model::{Stage, StageId, State};
use berth_render::{Kind, ObjectKey};

/// The plan while `deletionTimestamp` is set.
pub(super) fn plan(input: BackupInput<'_>) -> BackupPlan {
    let mut stage = Stage::new(StageId::Deletion, State::Ready);
    let (mut outcome, mut pace) = (None, None);
    let job = input.target().job(names::backup(input.name()));
    if let Some(restore) = restore::restoring(input.observed, input.object) {
        stage.state =
            State::waiting(format!("{restore}, which restores it, to end. To give that up, delete the EtcdRestore"));
    } else if !input.owner().clean(&mut stage, &job) {
        stage.state = State::waiting("the Job that takes it to be gone");
    } else if let Some(key) = to_delete(input) {
        stage.state = match newer(input) {
            Newer::None => State::Ready,
            Newer::Good => match kept::state(input) {
                Some(state) => {
                    pace = Some(AT_REST);
                    input.owner().clean(&mut stage, &input.target().job(names::backup_deletion(input.name())));
                    state
                }
                None => delete(input, &mut stage, key, &mut outcome),
            },
            Newer::Restored(restore) => State::waiting(format!(
                "{restore} to end, which finds out whether the newer backup is good. To give that up, delete the EtcdRestore"
            )),
        };
    }
    let deletes = input.target().job(names::backup_deletion(input.name()));
    let look = || pace.unwrap_or_else(|| input.look_at(&deletes).min(WAITING));
    let again = if stage.actions.is_empty() { look() } else { SOON };
    let mut out = BackupPlan { phase: phase::DELETING, requeue_after: Some(again), outcome, ..BackupPlan::default() };
    out.plan.finished = stage.state.is_done() && stage.actions.is_empty();
    out.plan.stages.push(stage);
    out
}

/// The snapshot to delete in the store, if any is.
fn to_delete(input: BackupInput<'_>) -> Option<&str> {
    let (target, key) = (input.target(), input.object.status.as_ref()?.key.as_deref()?);
    // Without a namespace that is there no Job runs, and nothing may hang for that.
    let possible = store::is_of_namespace(key, input.namespace())
        && target.is_home(input.observed)
        && input.observed.get(&target.etcd).is_some()
        && input.store().is_ok();
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
            && other.spec.store == own.spec.store
            && proven::identity(other) == proven::identity(own)
            && is_newer(other, own)
    };
    let others = list(input.observed, Kind::EtcdBackup, input.namespace());
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

fn delete(input: BackupInput<'_>, stage: &mut Stage, snapshot: &str, outcome: &mut Option<Outcome>) -> State {
    let owner = input.owner();
    let key = input.target().job(names::backup_deletion(input.name()));
    stage.owns.push(key.clone());
    let replace = |stage: &mut Stage| {
        owner.clean(stage, &key);
        State::waiting(format!("{key}, which is no use any more, to be gone; then another one is created"))
    };
    if input.is_earlier(&key) {
        return replace(stage);
    }
    match owner.status(&key, "a Job to delete it in the store") {
        JobStatus::Absent if queue::may_delete(input) => {
            begin(input, stage, &key, snapshot).unwrap_or_else(|state| state)
        }
        JobStatus::Absent => {
            owner.clean_secret(stage, &key);
            State::waiting("the snapshots of other EtcdBackups of this namespace to be deleted")
        }
        JobStatus::Foreign(state) | JobStatus::Active(state) => state,
        JobStatus::Overdue(_) => replace(stage),
        JobStatus::Failed(failure) => {
            owner.clean_secret(stage, &key);
            let message = format!(
                "cannot delete it in the store: {}. Set spec.deletionPolicy to Retain to leave it there",
                failure.message
            );
            State::blocked(reason(&failure), message)
        }
        JobStatus::Complete(said) if matches!(&*said, Outcome::Kept(kept) if kept::is_recorded(input, kept)) => {
            replace(stage)
        }
        JobStatus::Complete(said) if matches!(*said, Outcome::Kept(_)) => {
            *outcome = Some(*said);
            State::waiting("its result to be recorded")
        }
        // The Job says whether the snapshot is gone, so it stays. The keys do not.
        JobStatus::Complete(_) if owner.clean_secret(stage, &key) => State::Ready,
        JobStatus::Complete(_) => State::waiting("the Secret of its Job to be gone"),
    }
}

/// Creates the Job. Err: what is awaited.
fn begin(input: BackupInput<'_>, stage: &mut Stage, key: &ObjectKey, snapshot: &str) -> Result<State, State> {
    let store = input.store()?;
    let valid = validate::validate(input).ok();
    let set = input.target().stateful_set();
    let runs = input.observed.get(&set).and_then(|set| store::image(set, input.settings));
    let image = runs.or_else(|| valid.as_ref().map(|valid| valid.image.clone()));
    let image = image.ok_or_else(|| State::waiting(format!("{set}, whose image the Job has")))?;
    let job = job::delete(input, &store, (snapshot, &image), valid.as_ref().map(|valid| &valid.etcd));
    input.owner().create(stage, key, &job)
}
