//! The order of the fleet, and windows: what waits, what does not, and what is said meanwhile.

use super::*;
use berth_api::cluster::{Day, TurnState, TurnStatus, Window};
use berth_api::labels;
use berth_api::revision::RevisionOutcome;
use berth_plan::fleet::{Answer, TenantId};
use berth_plan::observed::Turns;

const OLD: &str = "1.36.2";
const NEW: &str = "1.36.3";

impl Fixture {
    /// The fleet has an order, and this is what the tenant waits for.
    pub(super) fn ordered(&mut self, answer: Option<Answer>) {
        self.world.observed.turns = Turns::Ordered { answer, revoked: false };
    }

    pub(super) fn turn_towards(&mut self, version: Option<&str>) {
        self.home_object()["metadata"]["annotations"][labels::TURN] = json!(version);
    }

    pub(super) fn window(&mut self, start: &str, zone: &str) {
        let window = Window { days: vec![], start: start.into(), duration: "1h".into(), time_zone: zone.into() };
        self.cluster.spec.upgrade.window = Some(window);
    }

    fn turn(&self) -> Option<TurnStatus> {
        self.cluster.status.as_ref().unwrap().turn.clone()
    }

    fn state(&self) -> Option<(String, TurnState)> {
        self.turn().map(|turn| (turn.to, turn.state))
    }

    fn api_version(&self) -> String {
        let d = self.world.observed.get(&Self::key(Kind::Deployment, names::APISERVER)).unwrap();
        berth_plan::workload::version_of(d).unwrap().to_string()
    }

    fn ready_is(&self) -> (String, String) {
        let (status, reason, _) = self.condition("Ready");
        (status, reason)
    }
}

fn waits() -> (String, String) {
    ("True".into(), "WaitingForTurn".into())
}

#[allow(clippy::unnecessary_wraps, reason = "as it is compared")]
fn at(version: &str, state: TurnState) -> Option<(String, TurnState)> {
    Some((version.to_owned(), state))
}

pub(super) fn other() -> TenantId {
    TenantId { namespace: "team-b".into(), name: "shop".into() }
}

#[test]
fn who_has_no_turn_stays_as_it_is_and_is_repaired() {
    let mut f = Fixture::two_of_each();
    f.ordered(Some(Answer::Full { most: 10, on: Some(other()) }));
    f.reconcile();
    assert!(f.world.log.is_empty() && f.turn().is_none(), "at rest: {:?}", f.turn());
    f.version(NEW);
    f.reconcile();
    assert!(f.world.log.is_empty(), "{:#?}", f.world.log);
    assert_eq!((f.ready_is(), f.state()), (waits(), at(NEW, TurnState::Waiting)));
    assert!(
        f.condition("Ready").2.contains("10 Clusters change at once (rollouts.maxConcurrent), such as team-b/shop")
    );
    let conditions = f.cluster.status.clone().unwrap().conditions;
    assert!(conditions.iter().all(|c| c.type_ != "Reconciling" && c.type_ != "Stalled"));
    // Drift is repaired with what runs.
    f.live(Kind::Deployment, names::APISERVER)["spec"]["replicas"] = json!(7);
    f.reconcile();
    assert_eq!(f.world.log, ["apply Deployment acme-9201d5e7/kube-apiserver"]);
    assert_eq!(
        (f.api_version(), f.live(Kind::Deployment, names::APISERVER)["spec"]["replicas"].clone()),
        (OLD.into(), json!(2))
    );
    f.others();
    // A turn towards another version is none; nor one that is being taken back.
    f.world.log.clear();
    f.turn_towards(Some("1.36.9"));
    f.reconcile();
    f.turn_towards(Some(NEW));
    f.world.observed.turns = Turns::Ordered { answer: None, revoked: true };
    f.reconcile();
    assert!(f.world.log.is_empty(), "{:#?}", f.world.log);
    f.ordered(None);
    f.reconcile();
    assert_eq!((f.api_version(), f.state()), (NEW.into(), at(NEW, TurnState::Running)));
    f.rest();
    f.seconds(61);
    f.reconcile();
    assert_eq!(f.state(), at(NEW, TurnState::Succeeded));
    f.turn_towards(None);
    f.world.log.clear();
    // What it asks for beside the version waits for nobody.
    f.flag("v");
    f.reconcile();
    assert!(f.world.log.iter().any(|line| line.contains("kube-apiserver")), "{:#?}", f.world.log);
    assert_eq!(f.state(), at(NEW, TurnState::Succeeded));
}

#[test]
fn creation_never_waits() {
    let mut f = Fixture::new(json!({"version": OLD}));
    f.ordered(Some(Answer::Full { most: 0, on: None }));
    f.window("03:00", "UTC");
    f.rest();
    assert_eq!(f.condition("Ready").0, "True");
}

/// It has tried the version, alone, and came back.
fn came_back() -> Fixture {
    let mut f = Fixture::two_of_each();
    f.ordered(None);
    f.version(NEW);
    f.turn_towards(Some(NEW));
    f.does_not_come_up();
    assert_eq!(f.state(), at(NEW, TurnState::Failed));
    f
}

#[test]
fn the_way_back_never_waits_and_counts_until_it_is_set_back_or_well() {
    let mut f = came_back();
    assert!(f.turn().unwrap().came_back);
    f.turn_towards(None);
    f.rest();
    assert_eq!((f.api_version(), f.ready_is().1), (OLD.into(), "RolledBack".into()));
    // Once more, by the annotation: that takes a turn, and it still counts.
    f.cluster.metadata.annotations = Some([(labels::ROLL.to_owned(), "2".to_owned())].into());
    f.reconcile();
    assert_eq!((f.ready_is(), f.state()), (waits(), at(NEW, TurnState::Waiting)));
    assert!(f.turn().unwrap().came_back);
    f.cluster.metadata.annotations = None;
    f.reconcile();
    assert_eq!(f.state(), at(NEW, TurnState::Failed));
    // Another one, which is better.
    f.version("1.36.1");
    f.reconcile();
    assert_eq!((f.ready_is(), f.state()), (waits(), at("1.36.1", TurnState::Waiting)));
    assert!(!f.turn().unwrap().came_back, "of another version");
    f.version(OLD);
    f.rest();
    assert_eq!((f.ready_is(), f.state()), (("True".into(), "AsExpected".into()), None));
}

#[test]
fn who_changed_more_than_the_version_does_not_count() {
    let mut f = Fixture::two_of_each();
    f.ordered(None);
    f.turn_towards(Some(NEW));
    f.flag("nope");
    f.version(NEW);
    f.does_not_come_up();
    assert_eq!(f.state(), at(NEW, TurnState::Failed));
    assert!(!f.turn().unwrap().came_back);
}

#[test]
fn a_version_that_is_set_back_by_hand_waits_for_nobody() {
    let mut f = Fixture::two_of_each();
    f.ordered(None);
    f.turn_towards(Some(NEW));
    f.version(NEW);
    f.rest();
    f.seconds(61);
    f.rest();
    f.turn_towards(None);
    f.window("03:00", "UTC");
    f.version(OLD);
    f.reconcile();
    assert_eq!(f.api_version(), OLD);
    f.rest();
    f.seconds(61);
    f.rest();
    f.cluster.spec.upgrade.window = None;
    f.version(NEW);
    f.reconcile();
    assert_eq!((f.api_version(), f.ready_is()), (OLD.into(), waits()), "forth is no way back");
}

#[test]
fn a_quick_bump_waits_and_what_has_begun_ends() {
    let mut f = Fixture::two_of_each();
    f.ordered(None);
    f.turn_towards(Some("1.36.1"));
    f.version("1.36.1");
    f.reconcile();
    f.version(NEW);
    f.reconcile();
    assert_eq!((f.api_version(), f.state()), ("1.36.1".into(), at(NEW, TurnState::Waiting)));
    f.rest();
    f.seconds(61);
    f.reconcile();
    let history = f.cluster.status.clone().unwrap().history;
    assert_eq!((history[0].version.as_str(), history[0].outcome), ("1.36.1", Some(RevisionOutcome::Succeeded)));
    f.turn_towards(Some(NEW));
    f.rest();
    assert_eq!(f.api_version(), NEW);
}

#[test]
fn each_step_of_a_minor_takes_a_turn_and_what_is_blocked_takes_none() {
    let minor = "1.35.4";
    let mut f = Fixture::up_for_upgrade(json!({"version": minor, "upgrade": {"soak": "0s"}}));
    f.ordered(None);
    f.nodes(Some("1.32.9"));
    f.version(NEW);
    f.reconcile();
    assert_eq!((f.ready_is().1, f.state()), ("UpgradeBlocked".into(), at(NEW, TurnState::Blocked)));
    f.nodes(Some(minor));
    f.reconcile();
    assert_eq!((f.ready_is(), f.state()), (waits(), at(NEW, TurnState::Waiting)));
    assert!(f.world.observed.get(&Fixture::namespace()).unwrap()["metadata"]["annotations"][labels::UPGRADE].is_null());
    f.turn_towards(Some(NEW));
    f.reconcile();
    assert_eq!(f.state(), at(NEW, TurnState::Running));
    f.rest();
    assert_eq!((f.ready_is().1, f.state()), ("Emulating".into(), at(NEW, TurnState::Emulating)));
    assert_eq!(f.turn().unwrap().until.unwrap().0.to_string(), "2026-01-01T00:10:00Z");
    f.turn_towards(None);
    f.later(11);
    f.reconcile();
    assert_eq!((f.ready_is(), f.state()), (waits(), at(NEW, TurnState::Waiting)));
    assert!(f.condition("Ready").2.contains("1.36.3 runs and emulates 1.35; a rollback to 1.35.4 is still possible"));
    let served = |f: &Fixture| {
        f.world.observed.get(&Fixture::namespace()).unwrap()["metadata"]["annotations"][labels::SERVED_MINOR].clone()
    };
    assert_eq!(served(&f), "1.35");
    f.window("03:00", "UTC");
    f.turn_towards(Some(NEW));
    f.reconcile();
    assert_eq!((f.ready_is().1, f.state()), ("WaitingForWindow".into(), at(NEW, TurnState::Window)));
    assert_eq!(served(&f), "1.35");
    f.later(170);
    f.reconcile();
    assert_eq!((served(&f), f.state()), (json!("1.36"), at(NEW, TurnState::Running)));
    // It closes, and what has begun ends.
    f.later(120);
    f.rest();
    assert_eq!((f.state(), f.condition("Ready").1), (at(NEW, TurnState::Succeeded), "AsExpected".into()));
}

#[test]
fn outside_of_its_window_nothing_begins_that_replaces_pods() {
    let mut f = Fixture::two_of_each();
    f.ordered(None);
    f.turn_towards(Some(NEW));
    f.window("03:00", "UTC");
    f.version(NEW);
    f.flag("v");
    let planned = f.reconcile();
    assert!(f.world.log.is_empty(), "{:#?}", f.world.log);
    assert_eq!((f.ready_is(), f.state()), (("True".into(), "WaitingForWindow".into()), at(NEW, TurnState::Window)));
    assert!(f.condition("Ready").2.contains("opens at 2026-01-01T03:00:00Z"));
    assert_eq!(planned.due, Some(jiff::SignedDuration::from_hours(3)));
    // What runs is repaired, and it is looked at again in time.
    f.live(Kind::Deployment, names::SCHEDULER)["spec"]["replicas"] = json!(7);
    f.reconcile();
    assert_eq!(f.world.log, ["apply Deployment acme-9201d5e7/kube-scheduler"]);
    f.others();
    // Somebody does not want to wait.
    let mut now = f.copy();
    let generation = now.cluster.metadata.generation.unwrap().to_string();
    now.cluster.metadata.annotations = Some([(labels::ROLL.to_owned(), generation)].into());
    now.reconcile();
    assert_eq!(now.api_version(), NEW);
    now.cluster.metadata.annotations = Some([(labels::ROLL.to_owned(), "1".to_owned())].into());
    f.later(180);
    f.reconcile();
    assert_eq!((f.api_version(), f.state()), (NEW.into(), at(NEW, TurnState::Running)));
    f.later(60);
    f.rest();
    assert_eq!(f.api_version(), NEW, "what has begun ends");
    // Flags alone wait, too.
    f.seconds(61);
    f.rest();
    f.world.log.clear();
    f.flag("w");
    f.reconcile();
    assert_eq!(f.ready_is(), ("True".into(), "WaitingForWindow".into()));
    assert!(f.world.log.is_empty(), "{:#?}", f.world.log);
}

#[test]
fn while_a_window_is_waited_for_an_idle_tenant_is_compared_with_what_runs() {
    let mut f = Fixture::two_of_each();
    f.ordered(None);
    let runs = wanted_inside(f.input());
    f.settings.writers.image_registries = vec!["*".into()];
    f.cluster.spec.images.registry = Some("mirror.example.com".into());
    f.window("03:00", "UTC");
    f.version(OLD);
    f.reconcile();
    assert_eq!(f.ready_is(), ("True".into(), "WaitingForWindow".into()));
    assert!(f.world.log.is_empty(), "{:#?}", f.world.log);
    // Add-ons have images of that registry: as the spec is written, what is inside would differ as long as it waits.
    let facts = Facts::judge(f.input());
    let written = crate::subject::Tenant { release: facts.release.clone().unwrap(), ..facts.written.clone() };
    assert_ne!(crate::Wanted::decide(&written).unwrap(), runs);
    assert_eq!(wanted_inside(f.input()), runs);
}

#[test]
fn a_window_that_cannot_be_read_is_refused_and_nothing_begins() {
    let mut f = Fixture::two_of_each();
    f.window("03:00", "Mars/Base");
    f.version(NEW);
    let message = blocked(&f.reconcile(), StageId::Spec, Reason::InvalidSpec);
    assert!(message.contains("spec.upgrade.window.timeZone: Mars/Base is no time zone"), "{message}");
    assert!(f.world.log.is_empty(), "{:#?}", f.world.log);
    assert_eq!(f.condition("Available").0, "True");
    f.window("03:00", "Europe/Berlin");
    f.cluster.spec.upgrade.window.as_mut().unwrap().days = vec![Day::Saturday];
    f.reconcile();
    assert!(f.condition("Ready").2.contains("opens at 2026-01-03T02:00:00Z"), "{}", f.condition("Ready").2);
    let mut fresh = Fixture::new(json!({"version": OLD}));
    fresh.window("03:00", "Mars/Base");
    blocked(&fresh.reconcile(), StageId::Spec, Reason::InvalidSpec);
    assert!(fresh.world.log.is_empty());
}
