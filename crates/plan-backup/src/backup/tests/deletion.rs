//! What becomes of the Job, and of the snapshot in the store, when an `EtcdBackup` is deleted.

use super::*;
use berth_api::backup::{DeletionPolicy, Kept};
use berth_plan::backup_jobs::{Does, Pool};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use serde_json::Value;

/// A newer backup of the same etcd.
pub(super) fn newer(world: &mut BackupFixture, change: &dyn Fn(&mut Value)) {
    let mut other = json!({
        "apiVersion": "berth.dev/v1alpha1", "kind": "EtcdBackup", "metadata": {"name": "two", "namespace": TEAM, "uid": "u2"},
        "spec": {"clusterRef": {"name": "acme"}, "store": "main"},
        "status": {"phase": "Verified", "identity": "id", "takenAt": "2026-01-01T00:00:30Z"},
    });
    change(&mut other);
    world.put(Kind::EtcdBackup, other);
}

pub(super) fn deleted() -> BackupFixture {
    let mut world = BackupFixture::new();
    world.ends("backup-one", Some("Complete"), &[verified()]);
    world.reconcile();
    world.observed.objects.retain(|key, _| !matches!(key.kind, Kind::Job | Kind::Pod));
    world.backup.metadata.deletion_timestamp = Some(Time(world.now));
    world
}

#[test]
fn the_last_proven_backup_stays_in_the_store_whatever_happens_to_its_object() {
    assert!(deleted().plan().plan.finished, "it is the only one");
    let stays = |change: &dyn Fn(&mut Value)| {
        let mut world = deleted();
        newer(&mut world, change);
        let planned = world.plan();
        assert!(planned.plan.finished && described(&planned).is_empty(), "{:?}", described(&planned));
    };
    stays(&|other| other["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:30Z".into());
    stays(&|other| other["status"]["phase"] = "Failed".into());
    stays(&|other| other["status"]["identity"] = "another".into());
    stays(&|other| {
        other["status"]["damaged"] = json!({"at": "2026-01-02T00:00:00Z", "by": "EtcdRestore r", "message": "cut"});
    });
    stays(&|other| other["status"]["takenAt"] = "2025-01-01T00:00:00Z".into());
    let mut world = deleted();
    newer(&mut world, &|_| {});
    world.backup.spec.deletion_policy = DeletionPolicy::Retain;
    assert!(world.plan().plan.finished, "nobody asked for it");
    let mut world = deleted();
    newer(&mut world, &|_| {});
    world.observed.objects.remove(&ObjectKey::cluster(Kind::Namespace, BackupFixture::home()));
    assert!(world.plan().plan.finished, "no Job can run, and nothing hangs for that");
}

#[test]
fn one_that_is_superseded_is_deleted_in_the_store_first() {
    let mut world = deleted();
    newer(&mut world, &|_| {});
    let planned = world.plan();
    assert!(!planned.plan.finished);
    let job = job_of(&planned);
    assert_eq!(job.key().name, "backup-one-delete");
    let task = job.get("/spec/template/spec/containers/0/env/0/value").and_then(Value::as_str).unwrap();
    assert!(task.contains("20260101T000000Z-7.db"), "{task}");
    world.ends("backup-one-delete", Some("Failed"), &[failed(At::Store, "it answers 403")]);
    let said = world.says();
    assert!(said.contains("it answers 403. Set spec.deletionPolicy to Retain to leave it there"), "{said}");
    world.observed.objects.retain(|key, _| key.kind != Kind::Pod);
    world.ends("backup-one-delete", Some("Complete"), &[Outcome::Deleted]);
    assert!(world.plan().plan.finished);
}

#[test]
fn a_running_one_that_is_deleted_leaves_no_job() {
    let mut world = BackupFixture::new();
    world.ends("backup-one", None, &[]);
    world.backup.metadata.deletion_timestamp = Some(Time(world.now));
    let planned = world.plan();
    assert!(!planned.plan.finished);
    assert_eq!(described(&planned), [format!("delete Job {}/backup-one", BackupFixture::home())]);
}

/// Others of the namespace are being deleted.
pub(super) fn many_deleted(world: &mut BackupFixture, count: usize) {
    newer(world, &|_| {});
    let live = serde_json::to_value(&world.backup).unwrap();
    world.put(Kind::EtcdBackup, live);
    for n in 0..count {
        let metadata = json!({"name": format!("a{n}"), "namespace": TEAM, "uid": format!("a{n}"), "deletionTimestamp": "2025-12-31T00:00:00Z"});
        world.put(Kind::EtcdBackup, json!({"metadata": metadata, "spec": {"deletionPolicy": "Delete"}}));
    }
}

#[test]
fn who_deletes_many_starts_few_jobs_at_once() {
    let mut world = deleted();
    many_deleted(&mut world, 3);
    assert_eq!(
        described(&world.plan()).last().unwrap(),
        &format!("create Job {}/backup-one-delete", BackupFixture::home())
    );
    many_deleted(&mut world, 4);
    assert!(world.plan().plan.actions().next().is_none());
    assert!(world.says().contains("the snapshots of other EtcdBackups of this namespace to be deleted"));
}

#[test]
fn one_that_cannot_be_deleted_keeps_no_other_from_it() {
    let mut world = deleted();
    many_deleted(&mut world, 4);
    let of = |n: usize| ObjectKey::namespaced(Kind::EtcdBackup, TEAM, format!("a{n}"));
    let begins = |world: &BackupFixture| world.plan().plan.actions().next().is_some();
    world.observed.stuck.insert(of(0));
    assert!(begins(&world), "its Job is refused");
    world.observed.stuck.clear();
    let seen = world.works(TEAM, "a0", Pool::Platform);
    seen.does = Does::Delete;
    assert!(!begins(&world), "its Job is at work");
    Arc::make_mut(&mut world.observed.backup_jobs)[0].ended = true;
    assert!(begins(&world), "its Job has failed, or else it would be gone");
}

#[test]
fn keys_are_gone_when_the_job_that_deletes_has_failed() {
    let mut world = deleted();
    newer(&mut world, &|_| {});
    world.ends("backup-one-delete", Some("Failed"), &[failed(At::Store, "it answers 403")]);
    let (home, own) = (BackupFixture::home(), BackupInput(world.input()).owner().labels.clone());
    world.put(Kind::Secret, json!({"metadata": {"name": "backup-one-delete", "namespace": home, "labels": own}}));
    assert_eq!(described(&world.plan()), [format!("delete Secret {home}/backup-one-delete")]);
}

#[test]
fn the_key_of_another_namespace_is_not_deleted() {
    let mut world = deleted();
    newer(&mut world, &|_| {});
    world.backup.status.as_mut().unwrap().key = Some("prod/team-b/acme/id/20260101T000000Z-7.db".into());
    let planned = world.plan();
    assert!(planned.plan.finished && described(&planned).is_empty());
}

/// An `EtcdRestore` has it on record.
pub(super) fn restored(world: &mut BackupFixture, phase: &str) {
    newer(world, &|_| {});
    let restore = json!({
        "apiVersion": "berth.dev/v1alpha1", "kind": "EtcdRestore", "metadata": {"name": "back", "namespace": TEAM},
        "spec": {"clusterRef": {"name": "acme"}, "source": {"backup": "one"}}, "status": {"phase": phase, "backup": "one"},
    });
    world.put(Kind::EtcdRestore, restore);
}

#[test]
fn one_that_is_restored_stays_until_that_has_ended() {
    let mut world = deleted();
    restored(&mut world, "Restoring");
    assert!(world.plan().plan.actions().next().is_none() && !world.plan().plan.finished);
    assert!(world.says().contains("EtcdRestore team-a/back, which restores it, to end"));
    restored(&mut world, "Restored");
    assert_eq!(
        described(&world.plan()).last().unwrap(),
        &format!("create Job {}/backup-one-delete", BackupFixture::home())
    );
}

/// Its restore may find it damaged.
pub(super) fn newer_is_restored(world: &mut BackupFixture, phase: &str) {
    restored(world, phase);
    let key = ObjectKey::namespaced(Kind::EtcdRestore, TEAM, "back");
    let restore = world.observed.objects.get_mut(&key).unwrap();
    (restore["status"]["backup"], restore["spec"]["source"]["backup"]) = ("two".into(), "two".into());
}

#[test]
fn one_whose_only_successor_is_being_restored_stays_until_that_has_ended() {
    let mut world = deleted();
    newer_is_restored(&mut world, "Checking");
    assert!(world.plan().plan.actions().next().is_none() && !world.plan().plan.finished);
    assert!(world.says().contains("EtcdRestore team-a/back to end, which finds out whether the newer backup is good"));
    newer_is_restored(&mut world, "Restored");
    assert_eq!(
        described(&world.plan()).last().unwrap(),
        &format!("create Job {}/backup-one-delete", BackupFixture::home())
    );
}

#[test]
fn what_is_newer_is_told_by_the_api_servers_clock_and_by_revisions() {
    for (created, revision, taken, is_newer) in [
        ("2026-01-02T00:00:00Z", 8, "2025-01-01T00:00:00Z", true),
        ("2026-01-02T00:00:00Z", 6, "2036-01-01T00:00:00Z", false),
        ("2025-12-31T00:00:00Z", 8, "2036-01-01T00:00:00Z", false),
    ] {
        let mut world = deleted();
        newer(&mut world, &|other| {
            other["metadata"]["creationTimestamp"] = created.into();
            (other["status"]["takenAt"], other["status"]["revision"]) = (taken.into(), revision.into());
            other["status"]["epoch"] = world_epoch().into();
        });
        assert_eq!(!world.plan().plan.finished, is_newer, "{created} {revision}");
    }
}

/// That of [`verified`].
fn world_epoch() -> i64 {
    deleted().backup.status.and_then(|status| status.epoch).unwrap_or_default()
}

const LOCKED: &str = "store https://s3:9000: cannot delete prod/team-a/acme/id/20260101T000000Z-7.json in bucket b: it answers AccessDenied (403): Access Denied because object protected by object lock.";

/// What a Job says whose snapshot the store keeps.
pub(super) fn kept(until: Option<&str>) -> Outcome {
    Outcome::Kept(Kept { until: until.map(str::to_owned), message: LOCKED.into() })
}

/// One is deleted, and its status says that the store keeps its snapshot.
pub(super) fn is_kept(world: &mut BackupFixture, until: Option<&str>) {
    newer(world, &|_| {});
    world.ends("backup-one-delete", Some("Complete"), &[kept(until)]);
    world.reconcile();
    world.observed.objects.retain(|key, _| !matches!(key.kind, Kind::Job | Kind::Pod));
}

/// Neither for ever, nor again and again.
#[test]
fn what_the_store_keeps_is_told_and_deleted_once_it_may_be() {
    for (until, ends) in [
        (Some("2026-01-31T00:00:00Z"), None),
        (Some("2033-01-01T00:00:00Z"), Some("until 2033-01-01T00:00:00Z")),
        (None, Some("does not say until when")),
    ] {
        let mut world = deleted();
        newer(&mut world, &|_| {});
        world.ends("backup-one-delete", Some("Complete"), &[kept(until)]);
        assert!(!world.plan().plan.finished);
        world.reconcile();
        let status = world.backup.status.clone().unwrap();
        let said = status.kept.clone().unwrap();
        assert_eq!((said.until.map(|at| at.0.to_string()).as_deref(), &*said.message), (until, LOCKED));
        assert_eq!(status.phase.as_deref(), Some("Deleting"));
        assert!(status.verified_at.is_some(), "it is proven as before");
        let planned = world.plan();
        assert_eq!(described(&planned), [format!("delete Job {}/backup-one-delete", BackupFixture::home())]);
        world.observed.objects.retain(|key, _| !matches!(key.kind, Kind::Job | Kind::Pod));
        let said = world.says();
        assert!(said.contains("retention") && said.contains(LOCKED), "{said}");
        assert!(described(&world.plan()).is_empty() && !world.plan().plan.finished, "it is not tried again");
        world.now = "2026-01-01T02:00:00Z".parse().unwrap();
        assert_eq!(world.plan().plan.finished, ends.is_some(), "{until:?}");
        if let Some(words) = ends {
            assert!(said.contains(words), "{said}");
            continue;
        }
        let mut left = world.clone();
        left.backup.spec.deletion_policy = DeletionPolicy::Retain;
        assert!(left.plan().plan.finished, "whoever does not want to wait");
        world.now = "2026-01-31T00:00:01Z".parse().unwrap();
        assert_eq!(job_of(&world.plan()).key().name, "backup-one-delete");
        world.ends("backup-one-delete", Some("Complete"), &[kept(until)]);
        assert!(described(&world.plan())[0].starts_with("delete Job"), "the first Job, seen late");
        world.observed.objects.retain(|key, _| !matches!(key.kind, Kind::Job | Kind::Pod));
        world.ends("backup-one-delete", Some("Complete"), &[Outcome::Deleted]);
        assert!(world.plan().plan.finished);
    }
}

/// What is written is read again.
#[test]
fn the_end_of_a_retention_within_a_second_is_recorded_once_and_never_early() {
    for (until, recorded) in [
        ("2026-01-31T00:00:00.25Z", "2026-01-31T00:00:01Z"),
        ("2026-01-31T00:00:00.000000001Z", "2026-01-31T00:00:01Z"),
        ("2026-01-31T00:00:01Z", "2026-01-31T00:00:01Z"),
    ] {
        let mut world = deleted();
        newer(&mut world, &|_| {});
        world.ends("backup-one-delete", Some("Complete"), &[kept(Some(until))]);
        world.reconcile();
        world.backup = serde_json::from_value(serde_json::to_value(&world.backup).unwrap()).unwrap();
        let at = world.backup.status.as_ref().and_then(|status| status.kept.as_ref()?.until.clone());
        assert_eq!(at.map(|at| at.0.to_string()).as_deref(), Some(recorded), "{until}");
        assert!(world.plan().outcome.is_none(), "{until} is recorded already");
        assert_eq!(described(&world.plan()), [format!("delete Job {}/backup-one-delete", BackupFixture::home())]);
    }
}

/// They wait for a time, and not for a place.
#[test]
fn what_the_store_keeps_holds_up_no_other() {
    let mut world = deleted();
    newer(&mut world, &|_| {});
    for n in 0..6 {
        let name = format!("kept-{n}");
        world.put(
            Kind::EtcdBackup,
            json!({
                "apiVersion": "berth.dev/v1alpha1", "kind": "EtcdBackup",
                "metadata": {"name": name, "namespace": TEAM, "uid": name, "deletionTimestamp": "2025-12-01T00:00:00Z"},
                "spec": {"clusterRef": {"name": "acme"}, "store": "main", "deletionPolicy": "Delete"},
                "status": {"phase": "Deleting", "kept": {"since": "2025-12-01T00:00:00Z", "message": "locked"}},
            }),
        );
    }
    assert_eq!(job_of(&world.plan()).key().name, "backup-one-delete");
}
