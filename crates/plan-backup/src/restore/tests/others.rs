//! A backup of another etcd, or one without an `EtcdBackup`, into a stand-alone `EtcdCluster`.

use super::*;
use crate::StoreObject;
use berth_api::backup::Manifest;
use berth_api::labels;
use berth_render::{Kind, ObjectKey};

/// A stand-alone `EtcdCluster` that is to get what the tenant's backup holds.
pub(super) fn of_another() -> RestoreFixture {
    let mut w = RestoreFixture::new();
    w.settings.backups.stores[0].namespaces.push(TEAM.into());
    let mut spec = json!({
        "etcdClusterRef": {"name": "scratch"}, "confirm": "c2", "backupFirst": false,
        "source": {"backup": "one", "of": {"clusterRef": {"name": "acme"}}},
    });
    w.restore.spec = serde_json::from_value(spec.take()).unwrap();
    for kind in [Kind::EtcdCluster, Kind::StatefulSet, Kind::PersistentVolumeClaim] {
        let mut own = w.live(kind).clone();
        own["metadata"]["namespace"] = TEAM.into();
        own["metadata"]["name"] = if kind == Kind::PersistentVolumeClaim { "data-scratch-0" } else { "scratch" }.into();
        if kind == Kind::EtcdCluster {
            own["status"]["identity"] = "scratch-id".into();
            own["status"]["clusterId"] = "c2".into();
        }
        w.observed.objects.retain(|key, _| key.kind != kind);
        w.put(kind, own);
    }
    w
}

/// The same by its key, without an `EtcdBackup`.
pub(super) fn by_key(key: &str) -> RestoreFixture {
    let mut w = of_another();
    w.observed.objects.retain(|key, _| key.kind != Kind::EtcdBackup);
    w.settings.backups.stores[0].prefix = "prod".into();
    w.restore.spec.source =
        serde_json::from_value(json!({"key": {"store": "main", "key": key}, "of": {"clusterRef": {"name": "acme"}}}))
            .unwrap();
    w
}

pub(super) const KEY: &str = "prod/team-a/acme/id/2026-01-01T00-00-00Z-7.db";

/// Its Job found this.
pub(super) fn found(w: &mut RestoreFixture, change: impl FnOnce(&mut Manifest)) {
    let mut manifest = manifest_of();
    change(&mut manifest);
    let target = crate::Target::from(&w.restore);
    let planned = RestorePlanner::plan(w.input());
    let mut job = job_of(&planned);
    job["status"] = json!({"conditions": [{"type": "Complete", "status": "True", "message": ""}]});
    let mut labels = job["metadata"]["labels"].clone();
    labels[labels::JOB_NAME] = CHECK.into();
    w.put(Kind::Job, job);
    let said = serde_json::to_string(&Outcome::Checked(manifest)).unwrap();
    let end = json!({"exitCode": 0, "finishedAt": "2026-01-02T00:00:00Z", "message": said});
    w.put(
        Kind::Pod,
        json!({
            "metadata": {"name": "check-0", "namespace": target.namespace, "labels": labels},
            "status": {"phase": "Succeeded", "containerStatuses": [{"name": "backup", "state": {"terminated": end}}]},
        }),
    );
    w.reconcile();
}

fn manifest_of() -> Manifest {
    let mut manifest = manifest(KEY);
    manifest.of = berth_api::backup::Subject {
        namespace: TEAM.into(),
        name: "acme".into(),
        identity: "id".into(),
        epoch: 4,
        ..berth_api::backup::Subject::default()
    };
    manifest
}

fn check_of(planned: &RestorePlan) -> berth_api::backup::Check {
    match task_of(&job_of(planned)) {
        Some(Task::Check(task)) => task,
        other => panic!("{other:?}"),
    }
}

/// etcd has stopped for it, in that epoch.
fn stopped(w: &mut RestoreFixture, epoch: i64) -> berth_api::backup::Restore {
    let told = json!({"namespace": TEAM, "name": "back", "uid": "r1"}).to_string();
    let etcd = w.live(Kind::EtcdCluster);
    etcd["metadata"]["annotations"] = json!({labels::RESTORE_REQUEST: told});
    etcd["status"]["epoch"] = epoch.into();
    etcd["status"]["operation"] =
        json!({"id": 1, "type": "Restore", "target": "scratch-0", "phase": "Restore", "since": "2026-01-02T00:00:00Z"});
    match task_of(&job_of(&w.reconcile().0)) {
        Some(Task::Restore(task)) => task,
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_backup_of_another_etcd_goes_into_a_stand_alone_one_under_its_own_identity() {
    let mut w = of_another();
    let task = check_of(&w.reconcile().0);
    assert_eq!(
        (task.key.as_str(), task.into.identity.as_str()),
        ("team-a/acme/id/one.db", "id"),
        "it is what it is a backup of"
    );
    w.backup("one", "2026-01-01T00:00:00Z", &json!({"epoch": 4}));
    found(&mut w, |_| {});
    let (planned, _) = w.reconcile();
    let told = annotation_of(&planned).flatten().unwrap();
    assert_eq!(told["after"], 4, "revisions of that epoch are never those of this etcd");
    let task = stopped(&mut w, 5);
    assert_eq!((task.identity.as_str(), task.epoch, task.member.as_str()), ("scratch-id", 5, "scratch-0"));
    assert_eq!(task.bump, REVISIONS_PER_EPOCH);
}

#[test]
fn nothing_is_replaced_by_anothers_data_unless_that_is_confirmed() {
    let unavailable = json!({"type": "Available", "status": "False", "reason": "x", "message": "", "lastTransitionTime": "2026-01-02T00:00:00Z"});
    for (confirm, conditions, tells) in [
        (None, json!([]), false),
        (Some("c1"), json!([]), false),
        (None, json!([unavailable]), false),
        (Some("c2"), json!([]), true),
    ] {
        let mut w = of_another();
        found(&mut w, |_| {});
        w.restore.spec.confirm = confirm.map(str::to_owned);
        w.live(Kind::EtcdCluster)["status"]["conditions"] = conditions;
        let (planned, status) = w.reconcile();
        assert_eq!(annotation_of(&planned).is_some(), tells, "{confirm:?}");
        let message = &conditions::find(&status.conditions, ConditionType::Ready).unwrap().message;
        assert!(tells || message.contains("replaced by data of another etcd"), "{message}");
    }
}

#[test]
fn whose_backup_it_is_has_to_be_said_and_a_tenants_etcd_gets_only_its_own() {
    let mut w = of_another();
    w.restore.spec.source.of = None;
    assert!(w.says().contains("it holds other data"), "{}", w.says());
    let mut w = of_another();
    w.restore.spec.source.of = serde_json::from_value(json!({"etcdClusterRef": {"name": "acme"}})).unwrap();
    assert!(w.says().contains("is of Cluster acme, and spec.source.of names EtcdCluster acme"), "{}", w.says());
    for mut w in [of_another(), by_key(KEY)] {
        w.live(Kind::EtcdCluster)["metadata"]["labels"] = json!({labels::CLUSTER_NAME: "acme"});
        assert!(w.says().contains("a stand-alone EtcdCluster only"), "{}", w.says());
    }
    for epoch in [-1, i64::MAX] {
        let mut w = of_another();
        w.backup("one", "2026-01-01T00:00:00Z", &json!({"epoch": epoch}));
        assert!(w.says().contains("which no etcd of Berth had"), "{}", w.says());
    }
    let mut w = of_another();
    w.restore.spec.source.backup = None;
    w.restore.spec.source.latest_before = serde_json::from_value(json!("2026-06-01T00:00:00Z")).unwrap();
    w.backup("later", "2026-02-01T00:00:00Z", &json!({}));
    assert_eq!(w.reconcile().1.backup.as_deref(), Some("later"), "the newest of the etcd that is named");
}

#[test]
fn a_key_is_restored_as_its_manifest_says_and_only_one_of_this_namespace() {
    for (key, fits) in [
        (KEY, true),
        ("prod/team-b/acme/id/a.db", false),
        ("team-a/acme/id/a.db", false),
        ("prod/team-a/../team-b/a.db", false),
        ("prod/team-a//a.db", false),
        ("prod/team-ab/acme/a.db", false),
    ] {
        let mut w = by_key(key);
        let says = w.says();
        assert_eq!(says.starts_with("Checking"), fits, "{key}: {says}");
        assert!(fits || says.contains("does not begin with prod/team-a/"), "{key}: {says}");
    }
    let mut w = by_key(KEY);
    let task = check_of(&w.reconcile().0);
    let of = (&*task.into.namespace, &*task.into.name, &*task.into.identity);
    assert_eq!((task.key.as_str(), task.sha256.as_str(), of), (KEY, "", (TEAM, "acme", "")));
    found(&mut w, |_| {});
    let status = w.restore.status.clone().unwrap();
    assert_eq!((status.backup, status.snapshot.as_ref().map(|s| s.epoch)), (None, Some(4)));
    assert!(status.taken_at.is_some() && status.checked_at.is_some());
    let told = annotation_of(&w.reconcile().0).flatten().unwrap();
    assert_eq!(told["after"], 4);
    let task = stopped(&mut w, 5);
    assert_eq!((task.key.as_str(), task.sha256.as_str()), (KEY, "ab"), "what was checked, and nothing else");
}

#[test]
fn a_key_of_its_own_goes_back_in_place_if_it_is_of_this_etcd() {
    let mut w = RestoreFixture::new();
    w.observed.objects.retain(|key, _| key.kind != Kind::EtcdBackup);
    w.restore.spec.source =
        serde_json::from_value(json!({"key": {"store": "main", "key": "team-a/acme/id/7.db"}})).unwrap();
    w.restore.spec.backup_first = false;
    let task = check_of(&w.reconcile().0);
    assert_eq!((&*task.into.identity, task.into.encryption_key.is_some()), ("id", true), "the Job compares");
    let key = ObjectKey::namespaced(Kind::Secret, RestoreFixture::home(), names::APISERVER_ENCRYPTION);
    let own = w.observed.secrets[&key].digests["encryption.yaml"].clone();
    for (version, encryption, word) in [
        ("1.37.0", &own, "Kubernetes 1.37.0"),
        ("1.36.3", &"00".to_owned(), "encrypted with the key"),
        ("1.36.3", &own, ""),
    ] {
        let mut w = RestoreFixture {
            restore: w.restore.clone(),
            observed: w.observed.clone(),
            settings: w.settings.clone(),
            now: w.now,
        };
        found(&mut w, |m| {
            m.of.kubernetes_version = Some(version.into());
            m.of.encryption_key = Some(encryption.clone());
        });
        let (planned, status) = w.reconcile();
        let message = &conditions::find(&status.conditions, ConditionType::Ready).unwrap().message;
        assert_eq!(annotation_of(&planned).is_some(), word.is_empty(), "{message}");
        assert!(message.contains(word), "{message}");
    }
}

/// Without any store: the Job that looks at it, and the one that restores it, mount the volume and change nothing on it.
#[test]
fn a_backup_on_a_volume_is_restored_from_there() {
    let mut w = of_another();
    w.settings.backups.stores.clear();
    w.restore.spec.source = serde_json::from_value(json!({
        "key": {"claimRef": {"name": "disk"}, "key": "team-a/old/id/1-7.db"}, "of": {"etcdClusterRef": {"name": "old"}},
    }))
    .unwrap();
    assert!(w.says().contains("PersistentVolumeClaim team-a/disk (spec.source.key.claimRef), which does not exist"));
    let key = ObjectKey::namespaced(Kind::PersistentVolumeClaim, TEAM, "disk");
    assert_eq!(store_object(&w.restore, &w.observed, &w.settings), Some(StoreObject::Readable(key)), "it is read");
    let labels = json!({(labels::BACKUP_STORE): "true"});
    w.put(Kind::PersistentVolumeClaim, json!({
        "metadata": {"name": "disk", "namespace": TEAM, "labels": labels}, "spec": {"accessModes": ["ReadWriteMany"]},
    }));
    let planned = RestorePlanner::plan(w.input());
    assert_eq!(described(&planned), [format!("create Job {TEAM}/{CHECK}")]);
    let pod = job_of(&planned)["spec"]["template"]["spec"].clone();
    let mount = json!({"name": "store", "mountPath": "/store", "readOnly": true});
    assert!(pod["containers"][0]["volumeMounts"].as_array().unwrap().contains(&mount), "{pod}");
    // A tenant's backup is on none.
    w.restore.spec.source.of = serde_json::from_value(json!({"clusterRef": {"name": "acme"}})).unwrap();
    assert!(w.says().contains("it is a backup of Cluster team-a/acme"), "{}", w.says());
}

#[test]
fn keys_of_the_platform_are_for_namespaces_that_it_names() {
    let mut w = of_another();
    w.settings.backups.stores[0].namespaces.clear();
    let (planned, status) = w.reconcile();
    let ready = berth_api::conditions::find(&status.conditions, berth_api::conditions::ConditionType::Ready).unwrap();
    assert_eq!(ready.reason, "NotAllowed");
    assert!(ready.message.contains("EtcdBackup team-a/one: spec.store: store main is not for"), "{}", ready.message);
    assert_eq!(planned.plan.actions().count(), 0);
}

#[test]
fn a_backup_whose_key_is_another_namespaces_is_not_restored() {
    let mut w = of_another();
    w.backup("one", "2026-01-01T00:00:00Z", &json!({"key": "team-b/acme/id/one.db"}));
    let (planned, status) = w.reconcile();
    let ready = berth_api::conditions::find(&status.conditions, berth_api::conditions::ConditionType::Ready).unwrap();
    assert!(ready.message.contains("status.key team-b/acme/id/one.db is not that of"), "{}", ready.message);
    assert_eq!(planned.plan.actions().count(), 0);
}
