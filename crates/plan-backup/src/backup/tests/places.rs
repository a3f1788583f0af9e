//! Whose turn it is, and what holds a place.

use super::*;
use crate::backup::input::RUNNING;
use berth_api::labels;
use berth_plan::backup_jobs::{BackupJob, Does, Pool};
use jiff::SignedDuration;

pub(super) const BEFORE: &str = "2025-12-31T00:00:00Z";
pub(super) const AFTER: &str = "2026-01-02T00:00:00Z";

pub(super) fn begins(world: &BackupFixture) -> bool {
    let planned = world.plan();
    let creates = planned.plan.actions().any(|a| matches!(a, Action::Create(o) if o.key().kind == Kind::Job));
    assert_eq!(creates, planned.phase != "Queued", "{planned:?}");
    creates
}

impl BackupFixture {
    pub(super) fn other(&mut self, namespace: &str, name: &str, phase: &str, created: &str) {
        let metadata = json!({"name": name, "namespace": namespace, "uid": name, "creationTimestamp": created});
        let of = match &self.backup.spec.store.secret_ref {
            Some(own) => json!({"clusterRef": {"name": "acme"}, "secretRef": own}),
            None => json!({"clusterRef": {"name": "acme"}}),
        };
        self.put(Kind::EtcdBackup, json!({"metadata": metadata, "spec": of, "status": {"phase": phase}}));
    }
}

#[test]
fn no_more_run_at_once_than_the_chart_says_and_one_that_cannot_holds_up_nobody() {
    let mut world = BackupFixture::new();
    world.settings.backups.concurrent = 2;
    world.other("team-b", "waits", "Waiting", BEFORE);
    world.other("team-b", "done", "Verified", BEFORE);
    world.other("team-b", "younger", "Queued", AFTER);
    world.works("team-b", "runs", Pool::Platform);
    assert_eq!(world.says(), "Waiting Waiting: waiting for Job acme-9201d5e7/backup-one to be created");
    world.backup.status = None;
    world.other("team-c", "older", "Queued", BEFORE);
    let (planned, _) = world.reconcile();
    assert_eq!(planned.phase, "Queued");
    assert!(described(&planned).is_empty());
}

#[test]
fn a_team_with_many_does_not_keep_others_from_their_turn() {
    let mut world = BackupFixture::new();
    world.settings.backups.concurrent = 2;
    world.works("team-b", "runs", Pool::Platform);
    for n in 0..5 {
        world.other("team-b", &format!("queued-{n}"), "Queued", BEFORE);
    }
    assert!(begins(&world), "it is the first one of its team");
    world.works(TEAM, "earlier", Pool::Platform);
    assert!(!begins(&world));
    world.settings.backups.concurrent = 3;
    assert!(!begins(&world), "it is its team's second one, as are those that are older");
    Arc::make_mut(&mut world.observed.backup_jobs).remove(0);
    for n in 0..5 {
        world.other("team-b", &format!("queued-{n}"), "Queued", AFTER);
    }
    assert!(begins(&world), "before it are one that runs and a team's first one");
}

/// Whoever may write statuses, or refuses the Job, makes an object that says so for ever.
#[test]
fn what_says_that_it_runs_and_has_no_job_holds_no_place() {
    let mut world = BackupFixture::new();
    for n in 0..9 {
        world.other("team-b", &format!("forged-{n}"), "Running", BEFORE);
    }
    assert!(begins(&world));
}

#[test]
fn a_place_ends_with_the_deadline_of_its_job_whatever_its_object_says() {
    let mut world = BackupFixture::new();
    world.settings.backups.concurrent = 1;
    world.other("team-b", "runs", "Running", BEFORE);
    let now = world.now;
    world.works("team-b", "runs", Pool::Platform).began = now - SignedDuration::from_secs(3599);
    assert!(!begins(&world));
    Arc::make_mut(&mut world.observed.backup_jobs)[0].began = now - SignedDuration::from_hours(1);
    assert!(begins(&world));
    let seen = world.works("team-b", "done", Pool::Platform);
    seen.ended = true;
    assert!(begins(&world), "one that has ended waits for nobody but Berth");
    world.works("team-b", "deletes", Pool::Platform).does = Does::Delete;
    assert!(begins(&world));
}

/// A Job is counted also where its object is gone: it was deleted by force, or has ended meanwhile.
#[test]
fn a_job_without_its_object_holds_its_place() {
    let mut world = BackupFixture::new();
    world.settings.backups.concurrent = 1;
    world.works("team-b", "gone", Pool::Platform);
    assert!(!begins(&world));
}

#[test]
fn it_runs_once_its_job_is_seen() {
    let mut world = BackupFixture::new();
    assert_eq!(world.plan().phase, "Waiting", "what refuses its Job keeps nobody else waiting");
    world.ends("backup-one", None, &[]);
    assert_eq!(world.plan().phase, "Running");
}

/// Where nothing can be written for one namespace, also no status is.
#[test]
fn what_berth_cannot_get_on_with_is_passed_over_by_what_it_can() {
    let mut world = BackupFixture::new();
    world.settings.backups.concurrent = 1;
    for (namespace, phase) in [("team-b", json!(null)), ("team-c", json!("Queued"))] {
        let metadata = json!({"name": "b", "namespace": namespace, "uid": namespace, "creationTimestamp": BEFORE});
        let object = json!({"metadata": metadata, "spec": {"clusterRef": {"name": "x"}}, "status": {"phase": phase}});
        world.put(Kind::EtcdBackup, object);
    }
    assert!(!begins(&world));
    let stuck = |namespace: &str| ObjectKey::namespaced(Kind::EtcdBackup, namespace, "b");
    world.observed.stuck = [stuck("team-b"), stuck("team-c")].into();
    assert!(begins(&world));
    // When an API server is back, nobody of the many whose reconciles failed overtakes the others.
    world.observed.stuck.insert(ObjectKey::namespaced(Kind::EtcdBackup, TEAM, "one"));
    assert!(!begins(&world));
}

#[test]
fn stores_of_teams_have_places_of_their_own_and_one_namespace_has_half_of_them_at_most() {
    let mut world = BackupFixture::new();
    for n in 0..9 {
        world.works("team-b", &format!("slow-{n}"), Pool::Teams);
    }
    assert!(begins(&world), "a store of the platform");
    let mut world = in_own_store();
    for n in 0..4 {
        world.works("team-b", &format!("b{n}"), Pool::Platform);
    }
    assert!(begins(&world), "a store of the team's");
    world.works(TEAM, "first", Pool::Teams);
    assert!(begins(&world));
    world.works(TEAM, "second", Pool::Teams);
    assert!(!begins(&world));
    let said = world.says();
    assert!(said.contains("its turn: 2 of namespace team-a run"), "{said}");
    let mut world = in_own_store();
    for n in 0..9 {
        world.works("team-b", &format!("slow-{n}"), Pool::Teams);
        world.other("team-b", &format!("more-{n}"), "Queued", BEFORE);
    }
    assert!(begins(&world), "more than half of the places is counted for nobody");
    world.works("team-c", "slow", Pool::Teams);
    world.other("team-c", "more", "Queued", BEFORE);
    assert!(begins(&world), "the other half is left, and this is the first one of its team");
    world.works("team-c", "slower", Pool::Teams);
    assert!(!begins(&world));
    let mut world = in_own_store();
    world.settings.backups.concurrent = 1;
    assert!(begins(&world), "one at least");
}

/// In its own namespace a team may create what looks like a Job of Berth's.
#[test]
fn a_job_in_a_teams_namespace_counts_where_berth_has_seen_it() {
    let mut world = in_own_store();
    world.settings.backups.concurrent = 2;
    for namespace in ["team-b", "team-c"] {
        world.works(namespace, "b", Pool::Teams).stands_alone = true;
    }
    assert!(begins(&world));
    for namespace in ["team-b", "team-c"] {
        world.other(namespace, "b", "Running", BEFORE);
    }
    assert!(!begins(&world));
}

#[test]
fn a_job_says_whose_time_it_takes_and_for_which_object_it_is_made() {
    let label = |world: &BackupFixture, name: &str| {
        let job = job_of(&world.plan());
        job.value()["metadata"]["labels"][name].as_str().map(str::to_owned)
    };
    assert_eq!(label(&BackupFixture::new(), labels::BACKUP_POOL), None);
    assert_eq!(label(&BackupFixture::new(), labels::ETCD_BACKUP_UID).as_deref(), Some("u1"));
    let own = in_own_store();
    assert_eq!(label(&own, labels::BACKUP_POOL).as_deref(), Some("teams"));
    let mut live = job_of(&own.plan()).value().clone();
    live["metadata"]["creationTimestamp"] = BEFORE.into();
    let seen = BackupJob::read(&live).unwrap();
    assert_eq!((seen.of.to_string().as_str(), seen.pool), ("EtcdBackup team-a/one", Pool::Teams));
    let volume = super::volumes::on_a_volume();
    assert_eq!(label(&volume, labels::BACKUP_POOL).as_deref(), Some("teams"));
}

#[test]
fn a_job_that_never_ends_is_given_up_with_its_keys() {
    let mut world = BackupFixture::new();
    world.ends("backup-one", None, &[]);
    let (home, own) = (BackupFixture::home(), BackupInput(world.input()).owner().labels.clone());
    world.put(Kind::Secret, json!({"metadata": {"name": "backup-one", "namespace": home, "labels": own}}));
    let began = |world: &mut BackupFixture, minutes: i64| {
        let at = world.now - SignedDuration::from_mins(minutes);
        let key = ObjectKey::namespaced(Kind::Job, BackupFixture::home(), "backup-one");
        world.observed.objects.get_mut(&key).unwrap()["metadata"]["creationTimestamp"] = at.to_string().into();
    };
    began(&mut world, 69);
    assert_eq!(world.plan().phase, "Running", "its own controller says how it ended");
    began(&mut world, 70);
    let said = world.says();
    assert!(said.starts_with("Failed BackupFailed: Job acme-9201d5e7/backup-one has not ended 70 minutes"), "{said}");
    let gone = ["Secret", "Job"].map(|kind| format!("delete {kind} {home}/backup-one"));
    assert_eq!(described(&world.plan()), gone, "the Secret is found by the Job, and goes first");
}

#[test]
fn a_job_without_a_pod_says_what_refuses_it() {
    let mut world = BackupFixture::new();
    world.ends("backup-one", None, &[]);
    assert_eq!(world.plan().requeue_after, Some(SOON), "it says so within seconds");
    world.observed.refused.insert("backup-one".into(), "exceeded quota: small".into());
    let said = world.says();
    assert!(
        said.starts_with("Running Rejected: waiting for a pod of its Job, which the API server refuses: "),
        "{said}"
    );
    let way_out = format!("raise spec.hard of ResourceQuota small in namespace {}. Once", BackupFixture::home());
    assert!(said.contains(&format!("exceeded quota: small. To allow it, {way_out}")), "{said}");
    let key = ObjectKey::namespaced(Kind::Job, BackupFixture::home(), "backup-one");
    let at = world.now - SignedDuration::from_mins(2);
    world.observed.objects.get_mut(&key).unwrap()["metadata"]["creationTimestamp"] = at.to_string().into();
    assert_eq!(world.plan().requeue_after, Some(WAITING));
    world.ends("backup-one", None, &[failed(At::Store, "no connection")]);
    assert_eq!(world.plan().requeue_after, Some(RUNNING));
    assert!(!world.says().contains("exceeded quota"), "it has had one since");
}

#[test]
fn a_job_of_an_earlier_namesake_says_nothing_of_this_one() {
    let mut world = BackupFixture::new();
    world.ends("backup-one", Some("Complete"), &[verified()]);
    let key = ObjectKey::namespaced(Kind::Job, BackupFixture::home(), "backup-one");
    world.observed.objects.get_mut(&key).unwrap()["metadata"]["labels"][labels::ETCD_BACKUP_UID] = "u0".into();
    let (planned, status) = world.reconcile();
    assert_eq!(described(&planned), [format!("delete Job {}/backup-one", BackupFixture::home())]);
    assert_eq!((status.phase.as_deref(), status.key), (Some("Waiting"), None));
    world.observed.objects.get_mut(&key).unwrap()["metadata"]["labels"][labels::ETCD_BACKUP_UID] = "u1".into();
    assert_eq!(world.reconcile().1.phase.as_deref(), Some("Verified"));
}

#[test]
fn keys_are_there_for_no_longer_than_a_job_is() {
    let with_keys = || {
        let mut world = BackupFixture::new();
        let (home, own) = (BackupFixture::home(), BackupInput(world.input()).owner().labels.clone());
        world.put(Kind::Secret, json!({"metadata": {"name": "backup-one", "namespace": home, "labels": own}}));
        world
    };
    let gone = [format!("delete Secret {}/backup-one", BackupFixture::home())];
    let mut world = with_keys();
    world.settings.backups.concurrent = 1;
    world.works("team-b", "b", Pool::Platform);
    assert_eq!(described(&world.plan()), gone, "others are first");
    let mut world = with_keys();
    world.observed.objects.retain(|key, _| key.kind != Kind::EtcdCluster);
    assert_eq!(described(&world.plan()), gone, "there is nothing to take");
    assert_eq!(with_keys().plan().phase, "Waiting");
    assert_eq!(
        described(&with_keys().plan()).last(),
        Some(&format!("create Job {}/backup-one", BackupFixture::home()))
    );
}
