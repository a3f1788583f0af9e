//! Clocks that were wrong, and backups that a restore needs.

use super::*;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

fn live<'w>(world: &'w mut ScheduleFixture, name: &str) -> &'w mut Value {
    let key = ObjectKey::namespaced(Kind::EtcdBackup, TEAM, name);
    world.observed.objects.get_mut(&key).expect("it is there")
}

fn at(text: &str) -> Timestamp {
    text.parse().unwrap()
}

/// Three that are proven; nothing is due.
fn three() -> ScheduleFixture {
    let mut world = ScheduleFixture::new();
    world.now = at("2026-01-04T02:00:00Z");
    let last = Some(Time(at("2026-01-03T03:00:00Z")));
    world.schedule.status =
        Some(EtcdBackupScheduleStatus { last_schedule_time: last, ..EtcdBackupScheduleStatus::default() });
    (1..=3).for_each(|day| world.backup(day, "Verified"));
    world
}

#[test]
fn a_node_whose_clock_was_ahead_once_does_not_cost_later_backups() {
    let mut world = three();
    live(&mut world, "nightly-202601010300")["status"]["takenAt"] = "2036-01-01T00:00:00Z".into();
    world.schedule.spec.keep.last = 1;
    let (done, status) = world.reconcile();
    let old = ["nightly-202601010300", "nightly-202601020300"];
    assert_eq!(done, old.map(|name| format!("delete EtcdBackup {TEAM}/{name}")));
    assert_eq!(status.last_verified.as_deref(), Some("nightly-202601030300"));
    live(&mut world, "nightly-202601030300")["status"]["takenAt"] = "2036-01-01T00:00:00Z".into();
    let (_, status) = world.reconcile();
    assert_eq!(status.last_verified_time, Some(Time(at("2026-01-03T04:00:00Z"))), "a Job lasts an hour at most");
}

#[test]
fn an_operator_whose_clock_was_ahead_once_goes_on_at_the_next_time() {
    let mut world = three();
    world.schedule.status.as_mut().unwrap().last_schedule_time = Some(Time(at("2036-01-01T03:00:00Z")));
    let (done, status) = world.reconcile();
    assert!(!done.iter().any(|what| what.starts_with("create")), "{done:?}");
    assert_eq!(status.last_schedule_time, None, "it is not known");
    world.now = at("2026-01-04T04:00:00Z");
    let (done, _) = world.reconcile();
    assert!(done.contains(&format!("create EtcdBackup {TEAM}/nightly-202601040300")), "{done:?}");
}

#[test]
fn a_backup_that_is_restored_stays_until_that_has_ended() {
    for (phase, deleted) in [("Checking", false), ("Restoring", false), ("Restored", true), ("Failed", true)] {
        let mut world = three();
        let restore = json!({
            "apiVersion": "berth.dev/v1alpha1", "kind": "EtcdRestore", "metadata": {"name": "back", "namespace": TEAM},
            "spec": {"clusterRef": {"name": "acme"}, "source": {"backup": "nightly-202601010300"}},
            "status": {"phase": phase, "backup": "nightly-202601010300"},
        });
        world.observed.put(ObjectKey::namespaced(Kind::EtcdRestore, TEAM, "back"), restore);
        let (done, _) = world.reconcile();
        assert_eq!(!done.is_empty(), deleted, "{phase}: {done:?}");
    }
}

/// The newest two were found damaged by a restore.
fn damaged() -> ScheduleFixture {
    let mut world = three();
    for name in ["nightly-202601020300", "nightly-202601030300"] {
        let status = &mut live(&mut world, name)["status"];
        status["phase"] = "Failed".into();
        status["damaged"] = json!({"at": "2026-01-04T00:00:00Z", "by": "EtcdRestore back", "message": "cut"});
    }
    world
}

#[test]
fn nothing_is_deleted_for_a_damaged_backup_and_it_stays_itself() {
    let mut world = damaged();
    world.schedule.spec.keep.last = 1;
    for day in 10..=14 {
        world.backup(day, "Failed");
    }
    let (done, status) = world.reconcile();
    let delete = |days: &[u8]| -> Vec<String> {
        days.iter().map(|day| format!("delete EtcdBackup {TEAM}/nightly-202601{day:02}0300")).collect()
    };
    assert_eq!(done, delete(&[10, 11]), "of those that failed three stay");
    assert_eq!(status.last_verified.as_deref(), Some("nightly-202601010300"));
    world.backup(15, "Verified");
    let (done, status) = world.reconcile();
    assert_eq!(done, delete(&[1, 10, 11]));
    assert_eq!(status.last_verified.as_deref(), Some("nightly-202601150300"));
}

#[test]
fn a_last_backup_that_is_damaged_is_told_and_when_none_is_left_nothing_is_proven() {
    let mut world = damaged();
    let (_, status) = world.reconcile();
    let said = says(&status);
    assert!(said.contains("EtcdBackup nightly-202601030300, is not good any more"), "{said}");
    world.observed.objects.retain(|key, _| key.name != "nightly-202601010300");
    let (_, status) = world.reconcile();
    assert_eq!((status.last_verified, status.last_verified_time), (None, None));
}

/// It may be found damaged in a moment.
#[test]
fn nothing_is_deleted_for_a_backup_that_is_being_restored() {
    let mut world = three();
    world.schedule.spec.keep.last = 1;
    let restore = |phase: &str| {
        json!({
            "apiVersion": "berth.dev/v1alpha1", "kind": "EtcdRestore", "metadata": {"name": "back", "namespace": TEAM},
            "spec": {"clusterRef": {"name": "acme"}, "source": {"backup": "nightly-202601030300"}},
            "status": {"phase": phase, "backup": "nightly-202601030300"},
        })
    };
    let key = ObjectKey::namespaced(Kind::EtcdRestore, TEAM, "back");
    world.observed.put(key.clone(), restore("Checking"));
    assert_eq!(world.reconcile().0, [format!("delete EtcdBackup {TEAM}/nightly-202601010300")]);
    world.observed.put(key, restore("Failed"));
    let both = ["nightly-202601010300", "nightly-202601020300"];
    assert_eq!(world.reconcile().0, both.map(|name| format!("delete EtcdBackup {TEAM}/{name}")));
}

#[test]
fn what_is_kept_is_said_also_where_only_one_field_is_set() {
    let mut world = ScheduleFixture::new();
    let keeps = |world: &mut ScheduleFixture, keep: Value| {
        world.schedule.spec.keep = serde_json::from_value(keep).unwrap();
        world.reconcile().1.keeps.unwrap_or_default()
    };
    assert_eq!(keeps(&mut world, json!({"last": 2})), "2 last, 7 daily, 4 weekly");
    assert_eq!(keeps(&mut world, json!({})), "3 last, 7 daily, 4 weekly");
    assert_eq!(keeps(&mut world, json!({"last": 0, "hourly": 24, "daily": 0, "weekly": 0})), "24 hourly");
}
