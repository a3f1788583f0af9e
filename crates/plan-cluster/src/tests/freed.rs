//! Nobody keeps a turn that is of no use: whatever becomes of a tenant that has begun, others go on.

use super::*;
use berth_api::cluster::{TurnState, TurnStatus};
use berth_api::revision::RevisionOutcome;
use berth_plan::fleet::Answer;

const OLD: &str = "1.36.2";
const NEW: &str = "1.36.3";

impl Fixture {
    fn of_fleet(&self) -> TurnStatus {
        self.cluster.status.as_ref().unwrap().turn.clone().unwrap()
    }

    fn newest(&self) -> Option<RevisionOutcome> {
        self.cluster.status.as_ref().unwrap().history[0].outcome
    }

    /// Kubernetes does its part, and the API does not answer.
    fn silent(&mut self) {
        for _ in 0..4 {
            self.reconcile();
            self.others();
            self.world.observed.api = ApiProbe::Failed("refused".into());
        }
        self.reconcile();
    }

    fn api_servers(&mut self) -> i64 {
        self.live(Kind::Deployment, names::APISERVER)["spec"]["replicas"].as_i64().unwrap()
    }
}

/// It has begun.
fn begun() -> Fixture {
    let mut f = Fixture::two_of_each();
    f.ordered(None);
    f.turn_towards(Some(NEW));
    f.version(NEW);
    f.reconcile();
    assert_eq!(f.of_fleet().state, TurnState::Running);
    f
}

#[test]
fn one_of_which_no_pod_fails_and_that_is_not_through_is_held() {
    let mut f = begun();
    f.silent();
    let rollout = f.cluster.status.as_ref().unwrap().rollout.clone().unwrap();
    assert_eq!((&*rollout.step, f.of_fleet().state), ("waiting", TurnState::Running));
    f.seconds(299);
    f.reconcile();
    assert_eq!(f.newest(), None);
    f.seconds(1);
    f.reconcile();
    assert_eq!(
        (f.newest(), f.of_fleet().state, f.of_fleet().came_back),
        (Some(RevisionOutcome::Held), TurnState::Failed, true)
    );
    let (_, reason, says) = f.condition("Ready");
    assert!(reason == "Held" && says.contains("No rollback: no pod of it fails"), "{says}");
    // It comes through by itself.
    f.others();
    f.reconcile();
    f.seconds(60);
    f.reconcile();
    assert_eq!((f.newest(), f.of_fleet().state), (Some(RevisionOutcome::Succeeded), TurnState::Succeeded));
}

#[test]
fn one_that_is_paused_or_refused_is_no_reason_to_wait() {
    let mut f = begun();
    f.cluster.spec.paused = true;
    f.reconcile();
    assert_eq!(f.of_fleet().state, TurnState::Blocked);
    f.cluster.spec.paused = false;
    f.reconcile();
    assert_eq!(f.of_fleet().state, TurnState::Running, "it goes on");
    // Refused beside it, what has begun goes on, and ends.
    f.flag("etcd-servers");
    f.reconcile();
    assert_eq!(f.of_fleet().state, TurnState::Running, "{:?}", f.condition("Ready"));
    f.rest();
    f.seconds(61);
    f.rest();
    assert_eq!((f.of_fleet().state, f.condition("Ready").1), (TurnState::Succeeded, "InvalidSpec".into()));
}

#[test]
fn one_of_which_nothing_can_be_looked_at_is_no_reason_to_wait() {
    for begins in [true, false] {
        let mut f = Fixture::two_of_each();
        f.ordered(Some(Answer::Full { most: 1, on: None }));
        f.turn_towards(begins.then_some(NEW));
        f.version(NEW);
        f.reconcile();
        assert_eq!(f.of_fleet().state, if begins { TurnState::Running } else { TurnState::Waiting });
        f.world.remove(&Fixture::namespace());
        f.world.observed.objects.retain(|key, _| key.namespace.as_deref() != Some(&*Fixture::cp_namespace()));
        let input = Input { object: &f.cluster, observed: &f.world.observed, settings: &f.settings, now: f.world.now };
        let planned = ClusterPlanner::plan(input);
        assert!(planned.plan.stage(StageId::ControlPlane(Binary::ApiServer)).is_none());
        assert_eq!(status(input, &planned, None).turn.unwrap().state, TurnState::Blocked);
    }
}

#[test]
fn a_second_step_that_makes_no_progress_gives_its_turn_back_and_counts() {
    let mut f = Fixture::up_for_upgrade(json!({"version": "1.35.4", "upgrade": {"soak": "0s"}}));
    f.ordered(None);
    f.turn_towards(Some(NEW));
    f.version(NEW);
    f.rest();
    f.later(10);
    // A pod is lost: a turn would be of no use.
    f.turn_towards(None);
    f.live(Kind::Deployment, names::SCHEDULER)["status"]["availableReplicas"] = json!(0);
    f.reconcile();
    assert_eq!(f.of_fleet().state, TurnState::Emulating, "{:?}", f.condition("Ready"));
    f.others();
    f.reconcile();
    assert_eq!(f.of_fleet().state, TurnState::Waiting);
    f.turn_towards(Some(NEW));
    f.reconcile();
    assert_eq!(f.of_fleet().state, TurnState::Running);
    f.stuck(names::APISERVER, 1);
    f.reconcile();
    f.seconds(299);
    f.reconcile();
    assert_eq!(f.of_fleet().state, TurnState::Running);
    f.seconds(1);
    f.reconcile();
    assert_eq!((f.of_fleet().state, f.of_fleet().came_back), (TurnState::Failed, true));
    assert_eq!(f.newest(), Some(RevisionOutcome::Succeeded), "it can only go on");
    f.world.remove(&Fixture::key(Kind::Pod, &format!("{}-7d9f8-x2x4z", names::APISERVER)));
    f.rest();
    assert_eq!((f.of_fleet().state, f.of_fleet().came_back), (TurnState::Succeeded, false));
    assert_eq!(f.cluster.status.as_ref().unwrap().rollout, None);
}

#[test]
fn one_that_was_not_well_before_says_nothing_of_the_version() {
    for well in [true, false] {
        let mut f = Fixture::two_of_each();
        f.ordered(None);
        f.turn_towards(Some(NEW));
        let available = if well { "True" } else { "False" };
        f.live(Kind::EtcdCluster, names::ETCD)["status"]["conditions"][1]["status"] = json!(available);
        f.version(NEW);
        f.reconcile();
        f.stuck(names::APISERVER, 2);
        f.reconcile();
        f.seconds(300);
        f.reconcile();
        assert_eq!((f.of_fleet().state, f.of_fleet().came_back), (TurnState::Failed, well));
    }
}

#[test]
fn how_many_there_are_waits_for_nobody() {
    let mut f = Fixture::two_of_each();
    f.ordered(Some(Answer::Full { most: 0, on: None }));
    f.window("03:00", "UTC");
    f.version(NEW);
    f.flag("v");
    f.reconcile();
    assert!(f.world.log.is_empty(), "{:#?}", f.world.log);
    f.cluster.spec.api_server.replicas = Some(3);
    f.rest();
    f.seconds(60);
    f.reconcile();
    assert_eq!((f.api_servers(), f.of_fleet().state), (3, TurnState::Window));
    assert!(f.image(names::APISERVER).ends_with(":v1.36.2"));
    assert!(!f.live(Kind::Deployment, names::APISERVER)["spec"]["template"].to_string().contains("--v=1"));
    let history = f.cluster.status.as_ref().unwrap().history[0].clone();
    assert_eq!((&*history.version, history.outcome), (OLD, Some(RevisionOutcome::Succeeded)));
    f.world.log.clear();
    f.reconcile();
    assert!(f.world.log.is_empty(), "at rest: {:#?}", f.world.log);
    // Alone, too.
    let mut f = Fixture::two_of_each();
    f.window("03:00", "UTC");
    f.cluster.spec.api_server.replicas = Some(3);
    f.reconcile();
    assert_eq!(f.api_servers(), 3);
    // Of one that came back, it is a wish for the same once more, and waits.
    let mut f = begun();
    f.stuck(names::APISERVER, 2);
    f.reconcile();
    f.seconds(300);
    f.reconcile();
    f.turn_towards(None);
    f.cluster.spec.api_server.replicas = Some(3);
    f.reconcile();
    assert_eq!((f.api_servers(), f.of_fleet().state), (2, TurnState::Waiting));
}

#[test]
fn the_way_back_may_lead_further_than_to_the_last() {
    let mut f = Fixture::two_of_each();
    f.ordered(None);
    for version in [NEW, "1.36.4"] {
        f.turn_towards(Some(version));
        f.version(version);
        f.rest();
        f.seconds(61);
        f.rest();
    }
    f.turn_towards(None);
    f.window("03:00", "UTC");
    f.version(OLD);
    f.reconcile();
    assert!(f.image(names::APISERVER).ends_with(":v1.36.2"), "{:?}", f.condition("Ready"));
    f.rest();
    f.version(NEW);
    f.reconcile();
    assert!(f.image(names::APISERVER).ends_with(":v1.36.2"), "forth is no way back");
}
