//! A tenant sleeps and wakes, through the world of a plan.

mod by_itself;

use super::*;
use berth_api::hibernation::SleepState;
use berth_api::labels;
use jiff::SignedDuration;

impl Fixture {
    /// Up, with a pod of each component.
    pub(super) fn awake() -> Self {
        let mut f = Self::up(json!({"version": "1.36.3"}));
        f.pods_run();
        f.reconcile();
        f.world.log.clear();
        f
    }

    fn pods_run(&mut self) {
        components().for_each(|name| self.pods_of(name, Some("Running")));
    }

    pub(super) fn wants_sleep(&mut self, enabled: bool) {
        self.cluster.spec.hibernation.enabled = enabled;
        self.reconcile();
    }

    /// As `kubectl berth sleep` and `wake` do.
    pub(super) fn requests(&mut self, verb: &str) {
        let at = self.world.now.strftime("%Y-%m-%dT%H:%M:%SZ");
        let annotations = self.cluster.metadata.annotations.get_or_insert_default();
        annotations.insert(labels::HIBERNATE.into(), format!("{verb}@{at}"));
        self.reconcile();
    }

    fn sleep_state(&self) -> SleepState {
        let live = self.world.observed.get(&Self::namespace()).unwrap();
        let text = live["metadata"]["annotations"][labels::SLEEP].as_str();
        text.map(|text| berth_api::hibernation::SleepRecord::parse(text).unwrap().state).unwrap_or_default()
    }

    fn etcd_is_told(&self) -> bool {
        let etcd = self.world.observed.get(&Self::key(Kind::EtcdCluster, names::ETCD)).unwrap();
        etcd["spec"]["hibernation"]["enabled"] == true
    }

    /// Controllers end the pods of that one.
    pub(super) fn ends(&mut self, name: &str) {
        self.roll_out(name);
        self.pods_of(name, None);
        if name == names::APISERVER {
            self.world.observed.api = ApiProbe::default();
        }
        self.reconcile();
    }

    pub(super) fn all_end(&mut self) {
        for name in [names::CONTROLLER_MANAGER, names::SCHEDULER, names::APISERVER] {
            self.ends(name);
        }
    }

    pub(super) fn etcd_sleeps(&mut self) {
        let key = Self::key(Kind::EtcdCluster, names::ETCD);
        let live = self.world.observed.objects.get_mut(&key).unwrap();
        let condition = |type_: &str, status: &str| {
            json!({"type": type_, "status": status, "reason": "Asleep", "message": "etcd sleeps",
                "lastTransitionTime": "2026-01-01T00:00:00Z"})
        };
        let generation = live["metadata"]["generation"].clone();
        live["status"]["observedGeneration"] = generation;
        live["status"]["conditions"] = json!([condition("Ready", "True"), condition("Available", "False")]);
        live["status"]["operation"] =
            json!({"id": 3, "type": "Sleep", "target": "etcd", "phase": "Asleep", "since": "2026-01-01T00:00:00Z"});
        self.reconcile();
    }

    pub(super) fn asleep() -> Self {
        let mut f = Self::awake();
        f.wants_sleep(true);
        f.all_end();
        f.etcd_sleeps();
        assert_eq!(f.sleep_state(), SleepState::Asleep);
        f
    }

    pub(super) fn comes_up(&mut self) {
        self.pods_run();
        for _ in 0..4 {
            self.others();
            self.reconcile();
        }
    }
}

#[test]
fn what_works_by_the_api_stops_first_then_the_api_then_etcd() {
    let mut f = Fixture::awake();
    f.wants_sleep(true);
    assert_eq!((f.sleep_state(), f.replicas()), (SleepState::FallingAsleep, vec![1, 0, 0]), "{:#?}", f.world.log);
    assert!(f.world.log[0].contains("Namespace"), "the record first: {:#?}", f.world.log);
    f.ends(names::CONTROLLER_MANAGER);
    assert_eq!((f.replicas(), f.etcd_is_told()), (vec![1, 0, 0], false));
    f.ends(names::SCHEDULER);
    assert_eq!((f.replicas(), f.etcd_is_told()), (vec![0, 0, 0], false));
    f.ends(names::APISERVER);
    assert_eq!((f.sleep_state(), f.etcd_is_told()), (SleepState::FallingAsleep, true));
    assert_eq!(f.condition("Ready").0, "False");
    f.etcd_sleeps();
    assert_eq!(f.sleep_state(), SleepState::Asleep);
    let last = f.reconcile();
    assert!(last.requeue_after.unwrap() >= SignedDuration::from_mins(15), "{:?}", last.requeue_after);
    for (type_, status) in [("Ready", "True"), ("Available", "False"), ("EtcdAvailable", "False")] {
        let (is, reason, message) = f.condition(type_);
        assert_eq!((&*is, &*reason), (status, "Asleep"), "{type_}: {message}");
    }
    assert_eq!(f.condition("Degraded").0, "False", "{:?}", f.condition("Degraded"));
    assert_eq!(f.condition("Progressing").0, "False");
    let status = f.cluster.status.as_ref().unwrap();
    assert_eq!(status.phase.as_deref(), Some("Asleep"));
    assert_eq!(status.hibernation.as_ref().unwrap().cause, "spec.hibernation.enabled");
    f.world.log.clear();
    f.reconcile();
    assert!(f.world.log.is_empty(), "asleep nothing is written: {:#?}", f.world.log);
}

#[test]
fn a_wake_starts_etcd_and_the_api_at_once_and_then_the_others() {
    let mut f = Fixture::asleep();
    f.wants_sleep(false);
    assert_eq!((f.sleep_state(), f.etcd_is_told()), (SleepState::Waking, false));
    let last = f.plan();
    assert_eq!(f.replicas(), [1, 0, 0], "{:#?}", last.plan.stages);
    assert_eq!(f.condition("Ready").0, "False");
    f.comes_up();
    assert_eq!((f.sleep_state(), f.replicas()), (SleepState::Awake, vec![1, 1, 1]));
    assert_eq!(f.condition("Ready").0, "True", "{:?}", f.condition("Ready"));
}

#[test]
fn what_changes_meanwhile_begins_once_it_is_awake() {
    let mut f = Fixture::asleep();
    let image = f.image(names::APISERVER);
    f.cluster.spec.version = "1.36.4".into();
    f.reconcile();
    assert_eq!((f.image(names::APISERVER), f.replicas()), (image.clone(), vec![0, 0, 0]));
    let (ready, reason, message) = f.condition("Ready");
    assert_eq!((&*ready, &*reason), ("True", "Asleep"), "{message}");
    assert!(message.contains("the change begins once it is awake"), "{message}");
    let live = f.world.observed.get(&Fixture::namespace()).unwrap();
    assert_eq!(live["metadata"]["annotations"][labels::KUBERNETES_VERSION], "1.36.3");
    f.wants_sleep(false);
    assert_eq!((f.image(names::APISERVER), f.sleep_state()), (image.clone(), SleepState::Waking));
    f.comes_up();
    assert_ne!(f.image(names::APISERVER), image, "awake it takes its turn");
}

#[test]
fn how_many_there_are_to_be_and_what_ran_before_wait_for_the_wake_too() {
    let mut f = Fixture::asleep();
    let history = f.world.observed.of_kind(Kind::ClusterRevision, &Fixture::cp_namespace()).count();
    f.cluster.spec.replicas = 2;
    f.reconcile();
    assert_eq!(f.replicas(), [0, 0, 0]);
    assert_eq!(f.world.observed.of_kind(Kind::ClusterRevision, &Fixture::cp_namespace()).count(), history);
    assert_eq!(f.condition("Ready").1, "Asleep", "{:?}", f.condition("Ready"));
    f.wants_sleep(false);
    assert_eq!(f.replicas()[0], 1);
    f.comes_up();
    f.comes_up();
    assert_eq!(f.replicas(), [2, 2, 2]);
}

#[test]
fn a_release_and_a_sleep_do_not_begin_at_once() {
    let mut f = Fixture::awake();
    f.cluster.spec.version = "1.36.4".into();
    f.wants_sleep(true);
    assert_eq!((f.sleep_state(), f.replicas()), (SleepState::Awake, vec![1, 1, 1]));
    assert!(f.image(names::APISERVER).contains("1.36.4"), "the release goes on");
    f.pods_run();
    f.others();
    f.reconcile();
    assert_eq!(f.sleep_state(), SleepState::Awake, "its end is not recorded yet");
}

#[test]
fn a_record_that_somebody_wrote_stops_nobody_who_is_to_be_awake() {
    let mut f = Fixture::awake();
    let record = r#"{"state":"Asleep","since":"2026-01-01T00:00:00Z","cause":"a hand"}"#;
    let live = f.world.observed.objects.get_mut(&Fixture::namespace()).unwrap();
    live["metadata"]["annotations"][labels::SLEEP] = record.into();
    f.reconcile();
    assert_eq!((f.replicas(), f.etcd_is_told()), (vec![1, 1, 1], false), "{:#?}", f.world.log);
    let live = f.world.observed.objects.get_mut(&Fixture::namespace()).unwrap();
    live["metadata"]["annotations"][labels::SLEEP] = record.into();
    f.wants_sleep(true);
    assert_eq!((f.replicas(), f.etcd_is_told()), (vec![1, 0, 0], false), "in order");
}

#[test]
fn a_wake_that_nobody_carried_out_begins_when_somebody_does() {
    let mut f = Fixture::asleep();
    f.cluster.spec.version = "1.36.4".into();
    f.wants_sleep(false);
    // As if nothing of it had been written.
    let names: Vec<_> = components().collect();
    for name in names {
        let live = f.world.observed.objects.get_mut(&Fixture::key(Kind::Deployment, name)).unwrap();
        live["spec"]["replicas"] = 0.into();
        f.roll_out(name);
    }
    f.world.now += super::super::sleep::PATIENCE;
    f.reconcile();
    assert_eq!(f.sleep_state(), SleepState::Waking);
    assert!(!f.image(names::APISERVER).contains("1.36.4"), "it starts what ran");
}

#[test]
fn one_in_the_middle_of_something_stays_awake_and_says_so() {
    let mut f = Fixture::awake();
    let etcd = Fixture::key(Kind::EtcdCluster, names::ETCD);
    let live = f.world.observed.objects.get_mut(&etcd).unwrap();
    live["status"]["operation"] =
        json!({"id": 3, "type": "Grow", "target": "etcd-1", "phase": "Add", "since": "2026-01-01T00:00:00Z"});
    f.wants_sleep(true);
    assert_eq!((f.sleep_state(), f.replicas()), (SleepState::Awake, vec![1, 1, 1]));
    let (ready, reason, message) = f.condition("Ready");
    assert_eq!((&*ready, &*reason), ("True", "FallingAsleep"), "{message}");
    assert!(message.contains("Grow etcd-1"), "{message}");

    let mut new = Fixture::new(json!({"version": "1.36.3", "hibernation": {"enabled": true}}));
    new.reconcile();
    assert_eq!(new.sleep_state(), SleepState::Awake, "it comes up once");

    for component in [names::ETCD_BACKUP, names::APPS] {
        let mut f = Fixture::awake();
        let key = Fixture::key(Kind::Pod, "job-x");
        let labels = json!({"app.kubernetes.io/component": component});
        f.world.put(key.clone(), json!({"metadata": {"labels": labels}, "status": {"phase": "Running"}}));
        f.wants_sleep(true);
        assert_eq!(f.sleep_state(), SleepState::Awake, "{component}");
        f.world.observed.objects.remove(&key);
        f.reconcile();
        assert_eq!(f.sleep_state(), SleepState::FallingAsleep, "{component}");
    }
}

#[test]
fn the_latest_request_counts_unless_the_spec_says_that_it_sleeps() {
    let mut f = Fixture::awake();
    f.requests("sleep");
    assert_eq!(f.sleep_state(), SleepState::FallingAsleep);
    f.requests("wake");
    assert_eq!(f.sleep_state(), SleepState::Waking);
    f.comes_up();
    assert_eq!(f.sleep_state(), SleepState::Awake);
    f.requests("wake");
    f.wants_sleep(true);
    assert_eq!(f.sleep_state(), SleepState::FallingAsleep);
    f.cluster.metadata.annotations = Some([(labels::HIBERNATE.to_owned(), "nap".to_owned())].into());
    f.wants_sleep(false);
    assert_eq!(f.sleep_state(), SleepState::Waking, "what says neither is nothing");
}

#[test]
fn one_that_does_not_come_to_sleep_is_awake_again_and_is_tried_later() {
    let mut f = Fixture::awake();
    f.wants_sleep(true);
    f.world.now += super::super::sleep::PATIENCE;
    f.reconcile();
    assert_eq!(f.sleep_state(), SleepState::Waking);
    f.comes_up();
    assert_eq!((f.sleep_state(), f.replicas()), (SleepState::Awake, vec![1, 1, 1]));
    let (_, reason, message) = f.condition("Ready");
    assert_eq!(reason, "FallingAsleep");
    assert!(message.contains("since it did not come to sleep within 10 minutes"), "{message}");
    f.world.now += super::super::sleep::AGAIN;
    f.reconcile();
    assert_eq!(f.sleep_state(), SleepState::FallingAsleep);
}

#[test]
fn the_namespace_says_what_runs_whatever_becomes_of_the_cluster() {
    let mut f = Fixture::asleep();
    f.cluster.status = None;
    f.reconcile();
    assert_eq!((f.sleep_state(), f.replicas()), (SleepState::Asleep, vec![0, 0, 0]));
    f.cluster.spec.paused = true;
    f.wants_sleep(false);
    assert_eq!((f.sleep_state(), f.replicas()), (SleepState::Asleep, vec![0, 0, 0]), "paused nothing changes");
}

#[test]
fn one_that_never_sleeps_has_no_record_of_it() {
    let f = Fixture::awake();
    let live = f.world.observed.get(&Fixture::namespace()).unwrap();
    assert_eq!(live["metadata"]["annotations"][labels::SLEEP], Value::Null);
    assert_eq!(f.cluster.status.as_ref().unwrap().hibernation, None);
    assert!(!f.etcd_is_told());
}
