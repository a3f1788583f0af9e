//! A backup of an etcd that answers, before its data is replaced: what goes wrong is then undone by restoring that one.

use super::{Input, Place};
use crate::model::{Action, Stage, State};
use crate::observed::uid;
use crate::secrets::foreign;
use berth_api::backup::{EtcdBackup, phase};
use berth_api::conditions::{self, ConditionType, Reason};
use berth_api::names;
use berth_render::{Kind, Object, ObjectKey};
use serde_json::json;

/// What it waits for. None: the backup is proven, or nobody asks for it.
pub(super) fn backup(input: Input<'_>, place: &Place<'_>, stage: &mut Stage) -> Option<State> {
    let spec = &input.restore.spec;
    if !spec.backup_first {
        return None;
    }
    let (owner, key) = (
        input.owner(),
        ObjectKey::namespaced(Kind::EtcdBackup, input.namespace(), names::restore_backup(input.name())),
    );
    let waits = |on: String| Some(State::waiting(format!("{key}, which is taken before etcd's data is replaced{on}")));
    let Some(live) = input.observed.get(&key) else {
        let mut labels = owner.labels.clone();
        labels.remove(berth_api::labels::COMPONENT);
        // One that is created anew under this name takes another backup.
        labels.insert(berth_api::labels::ETCD_RESTORE_UID.into(), input.uid().into());
        let mut object = json!({
            "apiVersion": "berth.dev/v1alpha1", "kind": "EtcdBackup",
            "metadata": {"name": key.name, "namespace": key.namespace, "labels": labels},
            "spec": {"store": place.store.name},
        });
        for (field, of) in [("clusterRef", &spec.cluster_ref), ("etcdClusterRef", &spec.etcd_cluster_ref)] {
            if let Some(of) = of {
                object["spec"][field] = json!(of);
            }
        }
        stage.actions.extend(Object::new(object).ok().map(Action::Create));
        return waits(String::new());
    };
    if !owner.is_ours(live) {
        return Some(foreign(&key));
    }
    let backup: EtcdBackup = serde_json::from_value(live.clone()).unwrap_or_default();
    if crate::observed::label(live, berth_api::labels::ETCD_RESTORE_UID) != Some(input.uid()) {
        if !crate::observed::deleting(live) {
            stage.actions.push(Action::Delete { key: key.clone(), uid: uid(live).to_owned(), grace: None });
        }
        return waits("; that of an earlier EtcdRestore of this name has to go first".into());
    }
    let status = backup.status.unwrap_or_default();
    let said = conditions::find(&status.conditions, ConditionType::Ready);
    let said = said.map(|c| format!(": {}", c.message)).unwrap_or_default();
    match status.phase.as_deref() {
        Some(phase::VERIFIED) => None,
        Some(phase::FAILED) => Some(State::blocked(
            Reason::RestoreFailed,
            format!(
                "{key}, which is to be taken before etcd's data is replaced, failed{said}. Correct that and delete it, and Berth takes another; or set spec.backupFirst to false"
            ),
        )),
        _ => waits(said),
    }
}
