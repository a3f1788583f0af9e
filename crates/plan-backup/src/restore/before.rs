//! Backups that a restore takes itself: of an etcd that answers, before its data is replaced, so that what goes wrong is undone by restoring
//! that one; and of the members that are left without a quorum, which is what is restored then.

use super::held::{self, Held};
use super::input::{RestoreInput, is_automatic};
use super::source::own_subject;
use super::validate::{ValidRestore, answers};
use crate::objects::{find, new_backup};
use berth_api::backup::{EtcdBackup, phase};
use berth_api::conditions::{self, ConditionType, Reason};
use berth_api::{EtcdCluster, labels, names};
use berth_plan::model::{Action, Stage, State};
use berth_plan::object_meta::{deleting, label};
use berth_plan::objects::foreign;
use berth_render::{Kind, ObjectKey};
use serde_json::{Value, json};

/// What it waits for. None: the backup is proven, or nobody asks for it.
pub(super) fn backup(input: RestoreInput<'_>, valid: &ValidRestore<'_>, stage: &mut Stage) -> Option<State> {
    if !input.object.spec.backup_first {
        return None;
    }
    let key = key(input, names::restore_backup(input.name()));
    let what = format!("{key}, the backup before the restore");
    let mut spec = json!(valid.source.store);
    if !answers(&valid.etcd) {
        // What is left is in the backup that is restored, or nobody can be asked.
        if input.object.spec.source.survivors.is_some() || Held::of(&valid.etcd).answer.is_empty() {
            return None;
        }
        spec["withoutQuorum"] = true.into();
    }
    taken(input, stage, &key, &what, spec).unwrap_or_else(|said| {
        Some(State::blocked(
            Reason::RestoreFailed,
            format!(
                "{key}, the backup before the restore, failed{said}. Correct that, and have Berth take another: kubectl -n {} delete etcdbackups.berth.dev {}. Or go on without it, and lose all writes since the restored backup for good: kubectl -n {} patch etcdrestores.berth.dev {} --type=merge -p '{}'",
                key.namespace.as_deref().unwrap_or_default(),
                key.name,
                input.namespace(),
                input.name(),
                json!({"spec": {"backupFirst": false}})
            ),
        ))
    })
}

/// What it waits for, if it is of the members that are left. Err: they give none.
pub(super) fn survivors(input: RestoreInput<'_>, stage: &mut Stage) -> Result<Option<State>, String> {
    let chosen = input.object.status.as_ref().is_some_and(|s| s.backup.is_some());
    let Some(survivors) = input.object.spec.source.survivors.as_ref().filter(|_| !chosen) else { return Ok(None) };
    let key = key(input, names::restore_survivors(input.name()));
    let what = format!("{key}, a backup of the surviving members");
    let mut spec = json!(survivors);
    spec["withoutQuorum"] = true.into();
    // One that is there goes its way, whoever is away by now.
    if input.observed.get(&key).is_none() {
        match left(input) {
            Left::Wait(state) => return Ok(Some(state)),
            Left::Nobody => {
                return Err(format!(
                    "no member is left whose data could be restored. Restore the newest backup: {} --latest",
                    input.command()
                ));
            }
            Left::Whoever => {}
            Left::Members(members) => spec["members"] = json!(members),
        }
    }
    taken(input, stage, &key, &what, spec).map_err(|said| {
        let own = input.command();
        format!(
            "{what}, failed{said}. Correct that, and restore them again: {own} --survivors {}. If that cannot be, restore the newest backup, and what they hold stays on their volumes: {own} --latest",
            held::flags(&survivors.store)
        )
    })
}

/// Who has to answer for a backup of what is left.
enum Left {
    Wait(State),
    Nobody,
    /// A quorum serves, and the others have nothing that it does not have.
    Whoever,
    Members(Vec<String>),
}

fn left(input: RestoreInput<'_>) -> Left {
    let key = input.target().etcd;
    let Some(etcd) = find::<EtcdCluster>(input.observed, &key) else {
        return Left::Wait(State::waiting(format!("{key}, which does not exist")));
    };
    if is_automatic(input) {
        let recovery = etcd.status.and_then(|s| s.recovery);
        let left: Vec<String> = recovery.into_iter().flat_map(|r| r.left).map(|member| member.name).collect();
        // It says so when it begins, and may have ended before that.
        let wait = || Left::Wait(State::waiting(format!("{key} to say which members are left (status.recovery)")));
        return if left.is_empty() { wait() } else { Left::Members(left) };
    }
    if answers(&etcd) {
        return Left::Whoever;
    }
    let without = &input.object.spec.without_members;
    let held = Held::of(&etcd);
    if let Some(away) = held.awaited(without).first() {
        let all: Vec<&String> = without.iter().chain([away]).collect();
        return Left::Wait(State::waiting(format!(
            "member {away} to answer: its data may be intact and newer than that of the others. If it cannot come back, leave it out, and lose what only it has: {}",
            input.patch(&json!({"withoutMembers": all}))
        )));
    }
    let left: Vec<String> = held.answer.into_iter().filter(|m| !without.contains(m)).collect();
    if left.is_empty() { Left::Nobody } else { Left::Members(left) }
}

fn key(input: RestoreInput<'_>, name: String) -> ObjectKey {
    ObjectKey::namespaced(Kind::EtcdBackup, input.namespace(), name)
}

/// Creates the backup if it is not there; what is awaited, unless it is verified. Err: why it failed, with a colon before it.
fn taken(
    input: RestoreInput<'_>,
    stage: &mut Stage,
    key: &ObjectKey,
    what: &str,
    spec: Value,
) -> Result<Option<State>, String> {
    let owner = input.owner();
    let waits = |on: String| Ok(Some(State::waiting(format!("{what}{on}"))));
    let Some(live) = input.observed.get(key) else {
        let mut labels = owner.labels.clone();
        labels.remove(labels::COMPONENT);
        // One that is created anew under this name takes another backup.
        labels.insert(labels::ETCD_RESTORE_UID, input.uid());
        let object = new_backup(key, &labels, &own_subject(input.object), spec);
        stage.actions.extend(object.ok().map(Action::Create));
        return waits(String::new());
    };
    if !owner.is_ours(live) {
        return Ok(Some(foreign(key)));
    }
    if label(live, labels::ETCD_RESTORE_UID) != Some(input.uid()) {
        if !deleting(live) {
            stage.actions.push(Action::delete(key, live, None));
        }
        return waits("; that of an earlier EtcdRestore of this name has to go first".into());
    }
    let backup: EtcdBackup = find(input.observed, key).unwrap_or_default();
    let said = conditions::find(backup.conditions(), ConditionType::Ready);
    let said = said.map(|c| format!(": {}", c.message)).unwrap_or_default();
    match backup.phase() {
        Some(phase::VERIFIED) => Ok(None),
        Some(phase::FAILED) => Err(said),
        _ => waits(said),
    }
}
