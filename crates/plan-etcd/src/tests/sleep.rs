//! A sleep and a wake through the world of a plan.

use super::*;
use crate::procedures::sleep::PATIENCE;
use berth_api::etcd_bootstrap::{OperationKind, Phase};
use berth_api::labels;

impl Etcd {
    /// Formed, with the claims of its members.
    pub(super) fn with_claims(replicas: i32) -> Self {
        let mut e = Self::formed(replicas);
        for member in 0..replicas {
            e.world.put(claim(member), json!({"metadata": {"labels": {labels::ETCD_CLUSTER: NAME}}}));
        }
        e.reconcile();
        e.world.log.clear();
        e
    }

    pub(super) fn wants_sleep(&mut self, enabled: bool) {
        self.cr.spec.hibernation.enabled = enabled;
        self.reconcile();
    }

    /// Asleep.
    pub(super) fn asleep(replicas: i32) -> Self {
        let mut e = Self::with_claims(replicas);
        e.wants_sleep(true);
        e.pods_end();
        e.reconcile();
        e
    }

    fn step(&self) -> Option<Phase> {
        let operation = self.cr.status.as_ref().unwrap().operation.as_ref()?;
        assert_eq!(operation.kind, OperationKind::Sleep);
        Some(operation.phase)
    }

    fn template(&self) -> Value {
        self.get(&Self::set())["spec"]["template"].clone()
    }
}

fn claim(member: i32) -> ObjectKey {
    Etcd::key(Kind::PersistentVolumeClaim, &format!("data-etcd-{member}"))
}

#[test]
fn all_members_stop_and_start_as_they_were() {
    for n in [1, 3] {
        let mut e = Etcd::with_claims(n);
        let template = e.template();
        e.wants_sleep(true);
        assert_eq!((e.step(), e.replicas()), (Some(Phase::Stop), 0));
        assert!(e.world.log[0].starts_with("apply ConfigMap"), "the record first: {:#?}", e.world.log);
        assert_eq!(e.condition(ConditionType::Available).0, "True", "its pods are still there");
        e.pods_end();
        e.reconcile();
        e.reconcile();
        assert_eq!(e.step(), Some(Phase::Asleep));
        assert_eq!(e.condition(ConditionType::Ready), is("True", Reason::Asleep));
        assert_eq!(e.condition(ConditionType::Available), is("False", Reason::Asleep));
        assert_eq!(e.condition(ConditionType::Degraded).0, "False");
        assert_eq!(e.cr.status.as_ref().unwrap().phase.as_deref(), Some("Asleep"));
        assert!(e.plan().requeue_after.unwrap() >= SignedDuration::from_mins(15));
        e.world.log.clear();
        e.reconcile();
        assert!(e.world.log.is_empty(), "asleep nothing is written: {:?}", e.world.log);

        // What is asked for meanwhile is not what it wakes with.
        e.cr.spec.snapshot_count = Some(20_000);
        e.wants_sleep(false);
        assert_eq!((e.step(), e.replicas(), e.template() == template), (Some(Phase::Start), n, true));
        assert_eq!(e.condition(ConditionType::Ready), is("False", Reason::Waking));
        e.members_run();
        e.all_answer();
        e.reconcile();
        assert_eq!(e.cr.status.as_ref().unwrap().operation, None);
        assert!(e.template() != template, "now it is given to one after the other");
        assert_eq!(e.condition(ConditionType::Available).0, "True");
    }
}

#[test]
fn one_that_is_not_well_stays_awake_and_says_why() {
    type Trouble = fn(&mut Etcd);
    let cases: [(Trouble, &str); 4] = [
        (|e| e.answer(&[0, 1], 0), "2 of 3 are ready"),
        (|e| e.probe().alarms = vec![alarm("NOSPACE", 1)], ""),
        (|e| e.cr.spec.replicas = 5, ""),
        (|e| e.cr.spec.snapshot_count = Some(20_000), ""),
    ];
    for (trouble, said) in cases {
        let mut e = Etcd::with_claims(3);
        trouble(&mut e);
        e.reconcile();
        e.wants_sleep(true);
        assert_eq!(e.replicas().min(3), 3, "{said}");
        let sleeps = e.cr.status.as_ref().unwrap().operation.as_ref().is_some_and(|o| o.kind == OperationKind::Sleep);
        assert!(!sleeps, "{said}");
        assert_eq!(e.condition(ConditionType::Ready).0, "False", "{said}");
        assert!(e.message(ConditionType::Ready).contains(said), "{}", e.message(ConditionType::Ready));
    }
}

#[test]
fn one_that_never_formed_does_not_sleep() {
    let mut e = Etcd::new(3);
    e.wants_sleep(true);
    assert_eq!(e.replicas(), 3);
    e.members_run();
    e.all_answer();
    e.reconcile();
    e.reconcile();
    assert_eq!((e.step(), e.replicas()), (Some(Phase::Stop), 0), "once it has, it does");
}

#[test]
fn it_turns_round_at_each_step() {
    let mut e = Etcd::with_claims(3);
    e.wants_sleep(true);
    for (_, pod) in e.world.observed.objects.iter_mut().filter(|(key, _)| key.kind == Kind::Pod) {
        pod["metadata"]["deletionTimestamp"] = "2026-01-31T12:00:00Z".into();
    }
    e.wants_sleep(false);
    e.reconcile();
    assert_eq!((e.step(), e.replicas()), (Some(Phase::Start), 3), "pods that end are not those that start");
    e.wants_sleep(true);
    assert_eq!((e.step(), e.replicas()), (Some(Phase::Stop), 0));
    for (_, pod) in e.world.observed.objects.iter_mut().filter(|(key, _)| key.kind == Kind::Pod) {
        pod["metadata"]["deletionTimestamp"].take();
    }
    e.pods_end();
    e.reconcile();
    e.wants_sleep(false);
    assert_eq!((e.step(), e.replicas()), (Some(Phase::Start), 3));
}

#[test]
fn members_that_do_not_come_back_are_treated_as_any_others_in_the_end() {
    let mut e = Etcd::asleep(3);
    e.wants_sleep(false);
    e.members_run();
    e.held("etcd-1", "DataLost: the volume of etcd member etcd-1 is empty");
    e.answer(&[0, 2], 0);
    e.reconcile();
    assert!(e.step_is_none_or_other(), "{:?}", e.cr.status.as_ref().unwrap().operation);

    let mut e = Etcd::asleep(3);
    e.wants_sleep(false);
    e.cr.spec.snapshot_count = Some(20_000);
    let template = e.template();
    e.reconcile();
    assert!(e.template() == template);
    e.passes(PATIENCE.as_secs());
    e.reconcile();
    assert!(e.template() != template, "what is new may be what helps");
}

#[test]
fn a_sleep_that_an_older_operator_ended_is_over() {
    let mut e = Etcd::asleep(3);
    e.rewrite(|record| {
        record["operation"]["type"] = "Other".into();
        record["operation"]["phase"] = "Other".into();
    });
    e.cr.spec.hibernation.enabled = false;
    for _ in 0..2 {
        e.reconcile();
        e.members_run();
        e.all_answer();
    }
    e.reconcile();
    assert_eq!(e.cr.status.as_ref().unwrap().operation, None);
    assert_eq!(
        e.condition(ConditionType::Ready),
        is("True", Reason::AsExpected),
        "{}",
        e.message(ConditionType::Ready)
    );
}

#[test]
fn paused_it_stays_as_it_is() {
    let mut e = Etcd::asleep(3);
    e.cr.spec.paused = true;
    e.wants_sleep(false);
    assert_eq!((e.step(), e.replicas()), (Some(Phase::Asleep), 0));
    e.cr.spec.paused = false;
    e.reconcile();
    assert_eq!(e.replicas(), 3);
}

#[test]
fn what_would_keep_it_from_waking_is_said_while_it_sleeps() {
    let mut e = Etcd::asleep(3);
    e.edit(&claim(1))["status"]["phase"] = "Lost".into();
    e.reconcile();
    assert_eq!(e.condition(ConditionType::Ready), is("False", Reason::DataLost));
    let mut e = Etcd::asleep(3);
    e.world.observed.objects.remove(&claim(2));
    e.reconcile();
    assert_eq!(e.condition(ConditionType::Ready), is("False", Reason::DataLost));
    assert!(e.message(ConditionType::Ready).contains("data-etcd-2"));
}

#[test]
fn one_that_sleeps_is_restored_and_sleeps_again() {
    let mut e = Etcd::asleep(1);
    e.asked(None);
    e.reconcile();
    let operation = || e.cr.status.as_ref().unwrap().operation.clone().unwrap();
    assert_eq!((operation().kind, operation().phase), (OperationKind::Restore, Phase::WaitingForClients));
}

impl Etcd {
    fn step_is_none_or_other(&self) -> bool {
        let operation = self.cr.status.as_ref().unwrap().operation.as_ref();
        operation.is_none_or(|o| o.kind != OperationKind::Sleep)
    }
}
