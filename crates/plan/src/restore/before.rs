//! Backups that a restore takes itself: of an etcd that answers, before its data is replaced, so that what goes wrong is undone by restoring
//! that one; and of the members that are left without a quorum, which is what is restored then.

use super::{Input, Place, is_automatic};
use crate::model::{Action, Stage, State};
use crate::observed::{deleting, label, uid};
use crate::secrets::foreign;
use berth_api::backup::{EtcdBackup, phase};
use berth_api::conditions::{self, ConditionType, Reason};
use berth_api::{labels, names};
use berth_render::{Kind, Object, ObjectKey};
use serde_json::json;

/// What has become of a backup.
enum Taken {
    Not(State),
    Verified,
    /// Why, with a colon before it.
    Failed(String),
}

/// What it waits for. None: the backup is proven, or nobody asks for it.
pub(super) fn backup(input: Input<'_>, place: &Place<'_>, stage: &mut Stage) -> Option<State> {
    if !input.restore.spec.backup_first {
        return None;
    }
    let key = key(input, names::restore_backup(input.name()));
    let what = format!("{key}, which is taken before etcd's data is replaced");
    match taken(input, stage, &key, &what, &place.store.spec) {
        Taken::Not(state) => Some(state),
        Taken::Verified => None,
        Taken::Failed(said) => Some(State::blocked(
            Reason::RestoreFailed,
            format!(
                "{key}, which is to be taken before etcd's data is replaced, failed{said}. Correct that and delete it, and Berth takes another; or set spec.backupFirst to false"
            ),
        )),
    }
}

/// What it waits for, if it is of the members that are left. Err: they give none.
pub(super) fn survivors(input: Input<'_>, stage: &mut Stage) -> Result<Option<State>, String> {
    let chosen = input.restore.status.as_ref().is_some_and(|s| s.backup.is_some());
    let Some(survivors) = input.restore.spec.source.survivors.as_ref().filter(|_| !chosen) else { return Ok(None) };
    let key = key(input, names::restore_survivors(input.name()));
    let what = format!("{key}, a backup of the members that are left");
    match taken(input, stage, &key, &what, &json!({"store": survivors.store, "withoutQuorum": true})) {
        Taken::Not(state) => Ok(Some(state)),
        Taken::Verified => Ok(None),
        Taken::Failed(said) => Err(format!("{what}, failed{said}")),
    }
}

fn key(input: Input<'_>, name: String) -> ObjectKey {
    ObjectKey::namespaced(Kind::EtcdBackup, input.namespace(), name)
}

/// Creates the backup if it is not there.
fn taken(input: Input<'_>, stage: &mut Stage, key: &ObjectKey, what: &str, spec: &serde_json::Value) -> Taken {
    let owner = input.owner();
    let waits = |on: String| Taken::Not(State::waiting(format!("{what}{on}")));
    let Some(live) = input.observed.get(key) else {
        let mut labels = owner.labels.clone();
        labels.remove(labels::COMPONENT);
        // One that is created anew under this name takes another backup.
        labels.insert(labels::ETCD_RESTORE_UID.into(), input.uid().into());
        // Nobody has decided that one of the members that are left may be left out.
        if is_automatic(input.restore) {
            labels.insert(labels::RECOVERY.into(), input.name().into());
        }
        let mut object = json!({
            "apiVersion": "berth.dev/v1alpha1", "kind": "EtcdBackup",
            "metadata": {"name": key.name, "namespace": key.namespace, "labels": labels},
            "spec": spec,
        });
        let of = &input.restore.spec;
        for (field, of) in [("clusterRef", &of.cluster_ref), ("etcdClusterRef", &of.etcd_cluster_ref)] {
            if let Some(of) = of {
                object["spec"][field] = json!(of);
            }
        }
        stage.actions.extend(Object::new(object).ok().map(Action::Create));
        return waits(String::new());
    };
    if !owner.is_ours(live) {
        return Taken::Not(foreign(key));
    }
    let backup: EtcdBackup = serde_json::from_value(live.clone()).unwrap_or_default();
    if label(live, labels::ETCD_RESTORE_UID) != Some(input.uid()) {
        if !deleting(live) {
            stage.actions.push(Action::Delete { key: key.clone(), uid: uid(live).to_owned(), grace: None });
        }
        return waits("; that of an earlier EtcdRestore of this name has to go first".into());
    }
    let status = backup.status.unwrap_or_default();
    let said = conditions::find(&status.conditions, ConditionType::Ready);
    let said = said.map(|c| format!(": {}", c.message)).unwrap_or_default();
    match status.phase.as_deref() {
        Some(phase::VERIFIED) => Taken::Verified,
        Some(phase::FAILED) => Taken::Failed(said),
        _ => waits(said),
    }
}
