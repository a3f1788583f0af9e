//! A tenant that sleeps and wakes by schedules, through the world of a plan.

use super::*;
use berth_api::hibernation::{HibernationStatus, NextSleep, SleepState};
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

/// Longer than anything is put off.
const SPREAD: SignedDuration = SignedDuration::from_mins(2);

fn at(text: &str) -> Timestamp {
    text.parse().unwrap()
}

impl Fixture {
    /// Awake at noon of a Thursday, with schedules.
    pub(super) fn with_schedules(schedules: Value) -> Self {
        let mut f = Self::awake();
        f.world.now = at("2026-02-05T12:00:00Z");
        f.cluster.metadata.creation_timestamp = Some(Time(at("2026-02-02T12:00:00Z")));
        f.cluster.spec.hibernation.schedules = serde_json::from_value(schedules).unwrap();
        f.reconcile();
        f
    }

    pub(super) fn goes_to(&mut self, now: &str) -> ClusterPlan {
        self.world.now = at(now) + SPREAD;
        self.reconcile()
    }

    fn hibernation(&self) -> HibernationStatus {
        self.cluster.status.as_ref().unwrap().hibernation.clone().expect("what it says of the sleep")
    }

    fn next(&self) -> (SleepState, Timestamp, String) {
        let NextSleep { state, at, cause } = self.hibernation().next.expect("the next time");
        (state, at.0, cause)
    }
}

pub(super) fn office() -> Value {
    json!([{"sleep": "0 20 * * 1-5", "wake": "0 7 * * 1-5", "timeZone": "Europe/Berlin"}])
}

#[test]
fn it_sleeps_and_wakes_by_its_schedules_and_says_when() {
    let mut f = Fixture::with_schedules(office());
    let (state, next, cause) = f.next();
    assert_eq!((state, &*cause), (SleepState::Asleep, "schedules[0].sleep (0 20 * * 1-5 Europe/Berlin)"));
    let put_off = next.duration_since(at("2026-02-05T19:00:00Z"));
    assert!((0..120).contains(&put_off.as_secs()), "{next}");
    assert_eq!(f.hibernation().cause, "creation", "it never slept");
    f.world.now = next - SignedDuration::from_secs(40);
    let last = f.reconcile();
    assert_eq!(last.due, Some(SignedDuration::from_secs(40)), "it is looked at then");
    assert_eq!(f.replicas(), [1, 1, 1]);
    f.world.now = next;
    f.reconcile();
    assert_eq!((f.hibernation().state, f.replicas()), (SleepState::FallingAsleep, vec![1, 0, 0]));
    f.all_end();
    f.etcd_sleeps();
    assert_eq!(f.hibernation().state, SleepState::Asleep);
    let (state, wakes, cause) = f.next();
    assert_eq!((state, &*cause), (SleepState::Awake, "schedules[0].wake (0 7 * * 1-5 Europe/Berlin)"));
    assert_eq!(wakes.duration_since(at("2026-02-06T06:00:00Z")), put_off, "each keeps its second");
    let (_, _, message) = f.condition("Ready");
    let said =
        format!("It wakes at {wakes} by schedules[0].wake (0 7 * * 1-5 Europe/Berlin). To wake it before: kubectl");
    assert!(message.contains(&said), "{message}");
    f.world.log.clear();
    f.world.now = wakes - SignedDuration::from_mins(1);
    assert_eq!(f.reconcile().due, Some(SignedDuration::from_mins(1)), "it is looked at then");
    assert!(f.world.log.is_empty(), "asleep nothing is written: {:#?}", f.world.log);
    f.world.now = wakes;
    f.reconcile();
    assert_eq!(f.hibernation().state, SleepState::Waking);
    f.comes_up();
    assert_eq!((f.hibernation().state, f.replicas()), (SleepState::Awake, vec![1, 1, 1]));
}

#[test]
fn what_nobody_was_there_for_counts_by_its_latest_time() {
    let mut f = Fixture::with_schedules(office());
    // Friday evening, and all of what came before.
    f.goes_to("2026-02-14T12:00:00Z");
    assert_eq!(f.hibernation().state, SleepState::FallingAsleep);
    f.all_end();
    f.etcd_sleeps();
    assert_eq!(f.hibernation().state, SleepState::Asleep);
    // Weeks later, at noon of a Wednesday: what comes in between is not made up for.
    f.goes_to("2026-03-04T12:00:00Z");
    assert_eq!(f.hibernation().state, SleepState::Waking);
    f.comes_up();
    assert_eq!(f.hibernation().state, SleepState::Awake);
    assert_eq!(f.hibernation().cause, "schedules[0].wake (0 7 * * 1-5 Europe/Berlin)");
}

#[test]
fn a_new_tenant_comes_up_first_and_sleeps_at_the_first_time_after_it() {
    let mut f = Fixture::new(json!({"version": "1.36.3"}));
    f.world.now = at("2026-02-06T21:00:00Z");
    f.cluster.metadata.creation_timestamp = Some(Time(f.world.now));
    f.cluster.spec.hibernation.schedules = serde_json::from_value(office()).unwrap();
    for _ in 0..5 {
        f.reconcile();
        f.others();
    }
    f.comes_up();
    assert_eq!((f.hibernation().state, f.replicas()), (SleepState::Awake, vec![1, 1, 1]));
    assert_eq!(f.next().1.duration_since(at("2026-02-09T19:00:00Z")).as_hours(), 0, "{}", f.next().1);
    f.goes_to("2026-02-09T19:00:00Z");
    assert_eq!(f.hibernation().state, SleepState::FallingAsleep);
}

#[test]
fn a_person_is_above_the_time_before_and_below_the_time_after() {
    let mut f = Fixture::with_schedules(office());
    f.requests("sleep");
    f.all_end();
    f.etcd_sleeps();
    assert_eq!(f.hibernation().state, SleepState::Asleep);
    assert_eq!(f.next().0, SleepState::Awake);
    f.goes_to("2026-02-05T19:30:00Z");
    f.requests("wake");
    f.comes_up();
    assert_eq!((f.hibernation().state, f.next().0), (SleepState::Awake, SleepState::Asleep));
    f.goes_to("2026-02-06T18:57:00Z");
    assert_eq!(f.hibernation().state, SleepState::Awake);
    f.goes_to("2026-02-06T19:00:00Z");
    assert_eq!(f.hibernation().state, SleepState::FallingAsleep);
    // Above both.
    f.all_end();
    f.etcd_sleeps();
    f.wants_sleep(true);
    assert_eq!(f.hibernation().next, None, "no time changes it");
    f.goes_to("2026-02-09T12:00:00Z");
    assert_eq!(f.hibernation().state, SleepState::Asleep);
}

#[test]
fn schedules_that_are_written_later_count_from_before_and_taken_away_leave_it_awake() {
    let mut f = Fixture::with_schedules(json!([]));
    assert_eq!(f.cluster.status.as_ref().unwrap().hibernation, None);
    f.world.now = at("2026-02-05T21:00:00Z");
    f.cluster.spec.hibernation.schedules = serde_json::from_value(office()).unwrap();
    f.reconcile();
    assert_eq!(f.hibernation().state, SleepState::FallingAsleep, "it is one of the hours in which it sleeps");
    f.all_end();
    f.etcd_sleeps();
    f.cluster.spec.hibernation.schedules.clear();
    f.reconcile();
    assert_eq!(f.hibernation().state, SleepState::Waking);
}

#[test]
fn schedules_that_cannot_be_read_leave_it_as_it_is_and_are_named() {
    let both = json!([{"sleep": "0 20 * * *"}, {"wake": "0 20 * * 1-5"}]);
    for asleep in [false, true] {
        let mut f = Fixture::with_schedules(office());
        f.goes_to(if asleep { "2026-02-05T19:00:00Z" } else { "2026-02-05T13:00:00Z" });
        if asleep {
            f.all_end();
            f.etcd_sleeps();
        }
        let (state, pods) = if asleep { (SleepState::Asleep, 0) } else { (SleepState::Awake, 1) };
        f.cluster.spec.hibernation.schedules = serde_json::from_value(both.clone()).unwrap();
        f.goes_to(if asleep { "2026-02-06T12:00:00Z" } else { "2026-02-05T23:00:00Z" });
        assert_eq!((f.hibernation_state(), f.replicas()), (state, vec![pods; 3]));
        let (ready, reason, message) = f.condition("Ready");
        assert_eq!((&*ready, &*reason), ("False", "InvalidSpec"), "{message}");
        assert!(message.contains("schedules[0].sleep and spec.hibernation.schedules[1].wake are both at"), "{message}");
        // What a person asks for meanwhile is heard.
        f.requests(if asleep { "wake" } else { "sleep" });
        let begun = if asleep { SleepState::Waking } else { SleepState::FallingAsleep };
        assert_eq!(f.hibernation_state(), begun);
    }
    let mut new = Fixture::new(json!({"version": "1.36.3", "hibernation": {"schedules": [{"timeZone": "UTC"}]}}));
    let planned = new.reconcile();
    let said = blocked(&planned, StageId::Spec, Reason::InvalidSpec);
    assert!(said.contains("spec.hibernation.schedules[0]: neither sleep nor wake is set"), "{said}");
    assert!(new.world.observed.get(&Fixture::namespace()).is_none(), "nothing is made");
}

impl Fixture {
    fn hibernation_state(&self) -> SleepState {
        self.cluster.status.as_ref().unwrap().hibernation.as_ref().map(|h| h.state).unwrap_or_default()
    }
}

#[test]
fn one_that_is_restored_asleep_sleeps_on() {
    let mut f = Fixture::with_schedules(office());
    f.goes_to("2026-02-05T19:00:00Z");
    f.all_end();
    f.etcd_sleeps();
    // The meta cluster was restored: its Cluster is created anew.
    f.cluster.metadata.creation_timestamp = Some(Time(f.world.now));
    f.cluster.status = None;
    f.reconcile();
    assert_eq!((f.hibernation().state, f.replicas()), (SleepState::Asleep, vec![0, 0, 0]));
}
