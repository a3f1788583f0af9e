//! What an `EtcdBackupSchedule` does in each situation.

mod clocks;
pub(crate) mod messages;

use super::status::status;
use super::*;
use berth_api::backup_schedule::EtcdBackupScheduleStatus;
use berth_api::conditions::{ConditionType, find};
use berth_plan::{Observed, Settings};
use serde_json::Value;

const TEAM: &str = "team-a";

struct ScheduleFixture {
    schedule: EtcdBackupSchedule,
    observed: Observed,
    settings: Settings,
    now: Timestamp,
}

impl ScheduleFixture {
    fn new() -> Self {
        let schedule = json!({
            "apiVersion": "berth.dev/v1alpha1", "kind": "EtcdBackupSchedule",
            "metadata": {"name": "nightly", "namespace": TEAM, "uid": "u", "generation": 1, "creationTimestamp": "2026-01-01T00:00:00Z"},
            "spec": {
                "clusterRef": {"name": "acme"}, "store": "main", "schedule": "0 3 * * *",
                "keep": {"last": 2, "daily": 0, "weekly": 0},
            },
        });
        let schedule = serde_json::from_value(schedule).unwrap();
        let now = "2026-01-01T04:00:00Z".parse().unwrap();
        Self { schedule, observed: Observed::default(), settings: Settings::default(), now }
    }

    fn input(&self) -> Input<'_, EtcdBackupSchedule> {
        Input { object: &self.schedule, observed: &self.observed, settings: &self.settings, now: self.now }
    }

    /// A backup of that day with that phase.
    fn backup(&mut self, day: u32, phase: &str) {
        let (name, at) = (format!("nightly-202601{day:02}0300"), format!("2026-01-{day:02}T03:00:00Z"));
        let degraded = json!({
            "type": "Degraded", "status": "True", "reason": "StoreUnavailable", "message": "it answers 403", "lastTransitionTime": at,
        });
        let mut ready = degraded.clone();
        (ready["type"], ready["status"]) = ("Ready".into(), "False".into());
        let backup = json!({
            "apiVersion": "berth.dev/v1alpha1", "kind": "EtcdBackup",
            "metadata": {
                "name": name, "namespace": TEAM, "uid": name, "creationTimestamp": at,
                "labels": {labels::ETCD_BACKUP_SCHEDULE: "nightly"},
            },
            "spec": {"store": "main"},
            "status": {"phase": phase, "takenAt": (phase == "Verified").then_some(&at), "conditions": [ready, degraded]},
        });
        self.observed.put(ObjectKey::namespaced(Kind::EtcdBackup, TEAM, name), backup);
    }

    /// Plans and takes the status in; what it does and says.
    fn reconcile(&mut self) -> (Vec<String>, EtcdBackupScheduleStatus) {
        let planned = SchedulePlanner::plan(self.input());
        let status = status(self.input(), &planned, None);
        self.schedule.status = Some(status.clone());
        (planned.plan.actions().map(Action::describe).collect(), status)
    }
}

fn says(status: &EtcdBackupScheduleStatus) -> String {
    let ready = find(&status.conditions, ConditionType::Ready).unwrap();
    format!("{} {}: {}", ready.status, ready.reason, ready.message)
}

#[test]
fn one_backup_is_created_for_each_time_and_none_while_another_is_under_way() {
    let mut world = ScheduleFixture::new();
    let (done, status) = world.reconcile();
    assert_eq!(done, ["create EtcdBackup team-a/nightly-202601010300"]);
    assert_eq!(says(&status), "False Waiting: waiting for the first backup to be proven");
    assert_eq!(status.last_schedule_time, None, "it is recorded once it is there");
    world.backup(1, "Running");
    let (done, status) = world.reconcile();
    assert!(done.is_empty(), "{done:?}");
    assert_eq!(status.last_schedule_time.unwrap().0.to_string(), "2026-01-01T03:00:00Z");
    world.now = "2026-01-02T04:00:00Z".parse().unwrap();
    let (done, status) = world.reconcile();
    assert!(done.is_empty(), "the first is still under way");
    let said = says(&status);
    assert!(said.contains("was missed, since EtcdBackup nightly-202601010300 has not ended: it answers 403"), "{said}");
    world.backup(1, "Verified");
    let (done, status) = world.reconcile();
    assert_eq!(done, ["create EtcdBackup team-a/nightly-202601020300"]);
    assert_eq!(status.last_verified.as_deref(), Some("nightly-202601010300"));
    world.schedule.spec.suspend = true;
    let (done, status) = world.reconcile();
    assert!(done.is_empty());
    assert_eq!(says(&status), "True Paused: spec.suspend is true: no backup is created or deleted");
}

/// Its etcd goes to sleep.
fn sleep(world: &mut ScheduleFixture) -> ObjectKey {
    let key = Target::from(&world.schedule).etcd;
    let sleep = json!({"id": 3, "type": "Sleep", "target": "etcd", "phase": "Asleep", "since": "2026-01-01T00:00:00Z"});
    let etcd = json!({"apiVersion": "berth.dev/v1alpha1", "kind": "EtcdCluster",
        "metadata": {"name": key.name, "namespace": key.namespace}, "spec": {"version": "3.6.16"}, "status": {"operation": sleep}});
    world.observed.put(key.clone(), etcd);
    key
}

#[test]
fn of_an_etcd_that_sleeps_no_backup_is_taken_until_it_is_awake() {
    let mut world = ScheduleFixture::new();
    let key = sleep(&mut world);
    let (done, status) = world.reconcile();
    assert!(done.is_empty());
    assert_eq!(says(&status), "False Waiting: waiting for the first time of the schedule", "there is none that counts");
    world.observed.objects.get_mut(&key).unwrap()["status"] = json!({});
    assert_eq!(world.reconcile().0, ["create EtcdBackup team-a/nightly-202601010300"]);
    world.backup(1, "Verified");
    sleep(&mut world);
    world.now = "2026-01-04T04:00:00Z".parse().unwrap();
    let (done, status) = world.reconcile();
    assert!(done.is_empty());
    assert!(
        says(&status).starts_with("True Asleep: its etcd sleeps, and no backup is taken until"),
        "{}",
        says(&status)
    );
    world.observed.objects.get_mut(&key).unwrap()["status"] = json!({});
    let (done, status) = world.reconcile();
    assert_eq!(done, ["create EtcdBackup team-a/nightly-202601040300"]);
    assert!(says(&status).starts_with("True AsExpected: "), "its backup is as old as it is: {}", says(&status));
}

#[test]
fn what_is_created_is_of_the_schedules_subject_and_is_deleted_with_its_snapshot() {
    let world = ScheduleFixture::new();
    let planned = SchedulePlanner::plan(world.input());
    let Some(Action::Create(object)) = planned.plan.actions().next() else { panic!("{planned:?}") };
    let spec = object.get("/spec").unwrap();
    assert_eq!(spec, &json!({"clusterRef": {"name": "acme"}, "store": "main", "deletionPolicy": "Delete"}));
    serde_json::from_value::<EtcdBackup>(object.value().clone()).expect("a valid EtcdBackup");
    let mut world = ScheduleFixture::new();
    world.schedule.spec.store.name = String::new();
    world.schedule.spec.store.secret_ref = Some(berth_api::backup::StoreSecret { name: "mine".into() });
    let planned = SchedulePlanner::plan(world.input());
    let Some(Action::Create(object)) = planned.plan.actions().next() else { panic!("{planned:?}") };
    assert_eq!(object.get("/spec/secretRef"), Some(&json!({"name": "mine"})));
    assert_eq!(object.get("/spec/store"), None);
    world.schedule.spec.store.secret_ref = None;
    world.schedule.spec.store.claim_ref = Some(berth_api::backup::StoreClaim { name: "disk".into() });
    let planned = SchedulePlanner::plan(world.input());
    let Some(Action::Create(object)) = planned.plan.actions().next() else { panic!("{planned:?}") };
    assert_eq!(object.get("/spec/claimRef"), Some(&json!({"name": "disk"})));
    assert_eq!(object.get("/spec/store"), None);
}

#[test]
fn only_what_is_superseded_by_a_proven_one_is_deleted() {
    let mut world = ScheduleFixture::new();
    world.now = "2026-01-05T02:00:00Z".parse().unwrap();
    world.schedule.status = Some(EtcdBackupScheduleStatus {
        last_schedule_time: Some(k8s_openapi::apimachinery::pkg::apis::meta::v1::Time(
            "2026-01-04T03:00:00Z".parse().unwrap(),
        )),
        ..EtcdBackupScheduleStatus::default()
    });
    for day in 1..=2 {
        world.backup(day, "Verified");
    }
    world.backup(3, "Failed");
    world.backup(4, "Running");
    let (done, status) = world.reconcile();
    assert!(done.is_empty(), "two are kept, and what runs or failed supersedes nothing: {done:?}");
    assert_eq!(
        says(&status),
        "False StoreUnavailable: the last backup, EtcdBackup nightly-202601030300, failed: it answers 403"
    );
    world.backup(4, "Verified");
    let (done, status) = world.reconcile();
    assert_eq!(done, ["delete EtcdBackup team-a/nightly-202601010300"]);
    assert_eq!(says(&status), "True AsExpected: the last backup, EtcdBackup nightly-202601040300, is proven");
    // Somebody else's, whatever its name.
    let key = ObjectKey::namespaced(Kind::EtcdBackup, TEAM, "nightly-202601010300");
    world.observed.objects.get_mut(&key).unwrap()["metadata"]["labels"] = Value::Null;
    assert!(world.reconcile().0.is_empty());
}

#[test]
fn of_those_that_failed_the_last_stay_for_people() {
    let mut world = ScheduleFixture::new();
    world.now = "2026-01-05T02:00:00Z".parse().unwrap();
    (1..=5).for_each(|day| world.backup(day, "Failed"));
    let (done, _) = world.reconcile();
    let deleted: Vec<_> = done.iter().filter(|line| line.starts_with("delete")).collect();
    assert_eq!(
        deleted,
        ["delete EtcdBackup team-a/nightly-202601010300", "delete EtcdBackup team-a/nightly-202601020300"]
    );
}
