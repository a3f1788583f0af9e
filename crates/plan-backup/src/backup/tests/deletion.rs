//! What becomes of the Job, and of the snapshot in the store, when an `EtcdBackup` is deleted.

use super::*;
use berth_api::backup::DeletionPolicy;
use berth_plan::backup_jobs::{Does, Pool};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use serde_json::Value;

/// A newer backup of the same etcd.
pub(super) fn newer(world: &mut Fixture, change: &dyn Fn(&mut Value)) {
    let mut other = json!({
        "apiVersion": "berth.dev/v1alpha1", "kind": "EtcdBackup", "metadata": {"name": "two", "namespace": TEAM, "uid": "u2"},
        "spec": {"clusterRef": {"name": "acme"}, "store": "main"},
        "status": {"phase": "Verified", "identity": "id", "takenAt": "2026-01-01T00:00:30Z"},
    });
    change(&mut other);
    world.put(Kind::EtcdBackup, other);
}

pub(super) fn deleted() -> Fixture {
    let mut world = Fixture::new();
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
    world.observed.objects.remove(&ObjectKey::cluster(Kind::Namespace, Fixture::home()));
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
    let mut world = Fixture::new();
    world.ends("backup-one", None, &[]);
    world.backup.metadata.deletion_timestamp = Some(Time(world.now));
    let planned = world.plan();
    assert!(!planned.plan.finished);
    assert_eq!(described(&planned), [format!("delete Job {}/backup-one", Fixture::home())]);
}

/// Others of the namespace are being deleted.
pub(super) fn many_deleted(world: &mut Fixture, count: usize) {
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
    assert_eq!(described(&world.plan()).last().unwrap(), &format!("create Job {}/backup-one-delete", Fixture::home()));
    many_deleted(&mut world, 4);
    assert!(world.plan().plan.actions().next().is_none());
    assert!(world.says().contains("the snapshots of other EtcdBackups of this namespace to be deleted"));
}

#[test]
fn one_that_cannot_be_deleted_keeps_no_other_from_it() {
    let mut world = deleted();
    many_deleted(&mut world, 4);
    let of = |n: usize| ObjectKey::namespaced(Kind::EtcdBackup, TEAM, format!("a{n}"));
    let begins = |world: &Fixture| world.plan().plan.actions().next().is_some();
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
    let (home, own) = (Fixture::home(), BackupInput(world.input()).owner().labels);
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
pub(super) fn restored(world: &mut Fixture, phase: &str) {
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
    assert_eq!(described(&world.plan()).last().unwrap(), &format!("create Job {}/backup-one-delete", Fixture::home()));
}

/// Its restore may find it damaged.
pub(super) fn newer_is_restored(world: &mut Fixture, phase: &str) {
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
    assert_eq!(described(&world.plan()).last().unwrap(), &format!("create Job {}/backup-one-delete", Fixture::home()));
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
