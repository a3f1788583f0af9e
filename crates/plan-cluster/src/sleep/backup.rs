//! `spec.hibernation.backupFirst`: a backup that is taken once nothing writes to etcd any more, and before etcd stops.

use super::progress::SleepBackup;
use super::record::recorded;
use crate::subject::Tenant;
use berth_api::backup::{EtcdBackup, StoreRef, phase};
use berth_api::conditions::{ConditionType, find};
use berth_api::hibernation::{SleepRecord, SleepState};
use berth_api::{Cluster, EtcdBackupSchedule, labels, names};
use berth_plan::model::{Action, Stage};
use berth_plan::object_meta::{deleting, label};
use berth_plan_backup::backup::proven;
use berth_render::{Kind, Object, ObjectKey};
use kube_core::ResourceExt;
use serde_json::{Value, json};

/// Whether one is awaited, as far as the record says.
fn awaited(t: &Tenant<'_>, record: &SleepRecord) -> bool {
    t.cluster.spec.hibernation.backup_first && record.state == SleepState::FallingAsleep && record.backup.is_none()
}

/// Its name follows from when it began to fall asleep: one of an earlier sleep lacks what was written since.
pub(crate) fn key(t: &Tenant<'_>, record: &SleepRecord) -> ObjectKey {
    let at = record.since.0.strftime("%Y%m%d%H%M%S").to_string();
    ObjectKey::namespaced(Kind::EtcdBackup, t.namespace, names::sleep_backup(t.name, &at))
}

/// How far it is, as far as was observed.
pub(crate) fn seen(t: &Tenant<'_>, record: Option<&SleepRecord>) -> SleepBackup {
    let Some(record) = record.filter(|record| awaited(t, record)) else { return SleepBackup::NotAwaited };
    let key = key(t, record);
    let Some(live) = t.observed.get(&key) else { return SleepBackup::Missing };
    let failed = |why: String| SleepBackup::Failed(format!("{key}, the backup before the sleep, {why}"));
    if label(live, labels::SLEEP_BACKUP) != Some(t.name) || deleting(live) {
        return failed("is not one of Berth's, or is being deleted".into());
    }
    let backup: EtcdBackup = match serde_json::from_value(live.clone()) {
        Ok(backup) => backup,
        Err(why) => return failed(format!("cannot be read: {why}")),
    };
    match backup.phase() {
        Some(phase::VERIFIED) if proven::is_good(&backup) => SleepBackup::Proven,
        Some(phase::VERIFIED | phase::FAILED) => failed(format!("failed{}", told(&backup))),
        _ => SleepBackup::Goes,
    }
}

fn told(backup: &EtcdBackup) -> String {
    find(backup.conditions(), ConditionType::Ready).map(|said| format!(": {}", said.message)).unwrap_or_default()
}

/// What it waits for, for people. None: for no backup, or not yet.
pub(crate) fn waits(t: &Tenant<'_>) -> Option<String> {
    let key = key(t, t.sleep.record.as_ref().filter(|_| t.sleep.next.backs_up)?);
    let live = t.observed.get(&key).and_then(|live| serde_json::from_value::<EtcdBackup>(live.clone()).ok());
    Some(format!("{key} to be proven, before etcd stops{}", live.as_ref().map(told).unwrap_or_default()))
}

/// The store that it goes to. Err: the field, and the way out.
pub(crate) fn store(t: &Tenant<'_>) -> Result<StoreRef, String> {
    let field = "spec.hibernation.backupFirst";
    let backups = &t.settings.backups;
    if backups.image.is_empty() && backups.are_enabled() {
        return Err(format!("{field}: the operator was started without --backup-image: upgrade Berth's chart"));
    }
    let all = t.observed.of_kind(Kind::EtcdBackupSchedule, t.namespace).filter(|(_, live)| !deleting(live));
    let mut all = all.filter_map(|(_, live)| serde_json::from_value::<EtcdBackupSchedule>(live.clone()).ok());
    let own = all.find(|schedule| schedule.spec.cluster_ref.as_ref().is_some_and(|of| of.name == t.name));
    let named = |name: &String| StoreRef { name: name.clone(), ..StoreRef::default() };
    own.map(|schedule| schedule.spec.store)
        .or_else(|| backups.default.as_ref().map(|default| named(&default.store)))
        .or_else(|| backups.stores.first().map(|store| named(&store.name)))
        .ok_or_else(|| {
            format!(
                "{field}: there is no store for a backup, so it does not sleep. Create an EtcdBackupSchedule for this Cluster with secretRef, or the platform team adds a store to the chart value backups.stores; or set it to false"
            )
        })
}

/// Why none can be taken, where one is to be.
pub(crate) fn unfit(t: &Tenant<'_>, record: Option<&SleepRecord>) -> Option<String> {
    let sleeps = record.is_some_and(|record| record.state == SleepState::Asleep);
    if !t.cluster.spec.hibernation.backup_first || sleeps { None } else { store(t).err() }
}

/// What has to be read beside the tenant: the `EtcdBackup`s with this label in the namespace of the `Cluster`. None: none matters now.
/// `home`: its control-plane namespace.
pub fn sleep_backups(cluster: &Cluster, home: &Value) -> Option<String> {
    let record = recorded(home).filter(|_| cluster.spec.hibernation.backup_first)?;
    let falls = record.state == SleepState::FallingAsleep;
    falls.then(|| format!("{}={}", labels::SLEEP_BACKUP, cluster.name_any()))
}

/// Creates it once nothing writes to etcd any more. Those before it go: failed ones now, others once it is proven.
pub(crate) fn take(t: &Tenant<'_>, stage: &mut Stage) {
    let Some(current) = t.sleep.record.as_ref().filter(|record| record.state == SleepState::FallingAsleep) else {
        return;
    };
    if !t.cluster.spec.hibernation.backup_first {
        return;
    }
    let own = current.backup.clone().unwrap_or_else(|| key(t, current).name);
    let before = t
        .observed
        .of_kind(Kind::EtcdBackup, t.namespace)
        .filter(|(key, live)| label(live, labels::SLEEP_BACKUP) == Some(t.name) && key.name != own && !deleting(live));
    let is_over =
        |live: &Value| current.backup.is_some() || live.pointer("/status/phase") == Some(&phase::FAILED.into());
    stage.actions.extend(before.filter(|(_, live)| is_over(live)).map(|(key, live)| Action::delete(key, live, None)));
    let key = key(t, current);
    if waits(t).is_none() || t.observed.get(&key).is_some() {
        return;
    }
    if let Ok(object) = store(t).and_then(|store| object(t, &key, &store)) {
        stage.actions.push(Action::Create(object));
    }
}

fn object(t: &Tenant<'_>, key: &ObjectKey, store: &StoreRef) -> Result<Object, String> {
    let mut spec = json!(store);
    spec["clusterRef"] = json!({"name": t.name});
    spec["deletionPolicy"] = "Delete".into();
    Object::new(json!({
        "apiVersion": "berth.dev/v1alpha1", "kind": "EtcdBackup",
        "metadata": {"name": key.name, "namespace": key.namespace, "labels": {
            (labels::MANAGED_BY): labels::MANAGED_BY_VALUE, (labels::SLEEP_BACKUP): t.cluster.name_any(),
        }},
        "spec": spec,
    }))
}
