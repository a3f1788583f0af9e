//! Newer templates: `UpdateAvailable`, and `spec.upgrade.templates: Newest`. And what is pinned while a release is rolled out.

use super::configuration::of_format;
use super::*;
use berth_api::cluster::{Templates, TurnState};
use berth_api::labels;
use berth_api::revision::{RevisionCause, RevisionOutcome};
use berth_plan::fleet::Answer;
use berth_render::Catalog;

const OLD: &str = "1.36.2";
const NEW: &str = "1.36.3";

fn builtin() -> String {
    Catalog::builtin().kubernetes("1.36".parse().unwrap()).unwrap().digest()
}

impl Fixture {
    fn pinned(&self, note: &str) -> String {
        let live = self.world.observed.get(&Self::namespace()).unwrap();
        berth_plan::object_meta::annotation(live, note).unwrap().to_owned()
    }

    fn has(&self, type_: &str) -> bool {
        self.cluster.status.as_ref().unwrap().conditions.iter().any(|c| c.type_ == type_)
    }

    fn turned(&self) -> Option<(String, TurnState, bool)> {
        self.cluster.status.clone().unwrap().turn.map(|turn| (turn.to, turn.state, turn.came_back))
    }

    fn templates_of_pods(&self) -> Vec<String> {
        components().map(|name| self.component(name)["template"].to_string()).collect()
    }
}

/// For docs/reference/messages.md.
pub(super) fn situations() -> Vec<(&'static str, Fixture)> {
    let mut with_version = of_format(2);
    with_version.reconcile();
    let mut waits = of_format(2);
    waits.window("03:00", "UTC");
    waits.cluster.spec.upgrade.templates = Templates::Newest;
    waits.reconcile();
    let (mut back, _) = failed();
    back.unstuck(names::APISERVER);
    back.rest();
    vec![
        ("the operator has newer templates", with_version),
        ("newer templates wait for the window", waits),
        ("newer templates did not come up", back),
    ]
}

/// Newer templates with which an API server does not come up.
fn failed() -> (Fixture, (Vec<String>, String)) {
    let mut f = of_format(2);
    let before = (f.templates_of_pods(), f.pinned(labels::TEMPLATES));
    f.cluster.spec.upgrade.templates = Templates::Newest;
    f.does_not_come_up();
    (f, before)
}

#[test]
fn by_default_newer_templates_are_shown_and_roll_nobody() {
    let mut f = of_format(2);
    let before = f.pinned(labels::TEMPLATES);
    f.rest();
    assert!(f.world.log.is_empty(), "{:#?}", f.world.log);
    let (status, reason, message) = f.condition("UpdateAvailable");
    assert_eq!((&*status, &*reason), ("True", "OtherTemplates"));
    for says in [&builtin()[..12], &before[..12], "spec.upgrade.templates Newest"] {
        assert!(message.contains(says), "{message}");
    }
    assert_eq!(f.condition("Ready").0, "True");
    // The next version brings them.
    f.version(NEW);
    f.rest();
    f.seconds(61);
    f.rest();
    assert_eq!((f.pinned(labels::TEMPLATES), f.has("UpdateAvailable")), (builtin(), false));
}

#[test]
fn newest_takes_them_up_as_a_change_of_its_own() {
    let mut f = of_format(2);
    let before = f.pinned(labels::TEMPLATES);
    f.cluster.spec.upgrade.templates = Templates::Newest;
    f.window("03:00", "UTC");
    f.ordered(Some(Answer::Full { most: 1, on: None }));
    f.reconcile();
    assert!(f.world.log.is_empty(), "{:#?}", f.world.log);
    assert_eq!(f.condition("Ready").1, "WaitingForWindow");
    f.later(181);
    f.reconcile();
    assert!(f.world.log.is_empty(), "{:#?}", f.world.log);
    let to = format!("{OLD}+{}", &builtin()[..8]);
    assert_eq!(f.condition("Ready").1, "WaitingForTurn");
    assert_eq!(f.turned(), Some((to.clone(), TurnState::Waiting, false)));
    f.turn_towards(Some(OLD));
    f.reconcile();
    assert!(f.world.log.is_empty(), "that is another one: {:#?}", f.world.log);
    f.turn_towards(Some(&to));
    f.reconcile();
    assert_eq!(f.recorded()[1], (2, RevisionCause::Templates, None));
    assert_eq!(f.turned(), Some((to.clone(), TurnState::Running, false)));
    assert_eq!(f.pinned(labels::TEMPLATES), before, "not before it has succeeded");
    let api = f.component(names::APISERVER);
    assert_eq!(api["minReadySeconds"], 60, "with a canary");
    f.rest();
    assert_eq!(f.pinned(labels::TEMPLATES), before);
    f.seconds(61);
    f.rest();
    assert_eq!(f.recorded()[1], (2, RevisionCause::Templates, Some(RevisionOutcome::Succeeded)));
    assert_eq!((f.pinned(labels::TEMPLATES), f.has("UpdateAvailable")), (builtin(), false));
    assert_eq!(f.turned(), Some((to, TurnState::Succeeded, false)));
    f.turn_towards(None);
    f.world.log.clear();
    f.rest();
    assert!(f.world.log.is_empty(), "{:#?}", f.world.log);
    assert!(f.image(names::APISERVER).ends_with(OLD));
}

#[test]
fn newer_templates_that_fail_are_taken_back_and_not_tried_again_by_themselves() {
    let (mut f, before) = failed();
    assert_eq!(f.recorded()[1], (2, RevisionCause::Templates, Some(RevisionOutcome::RolledBack)));
    f.unstuck(names::APISERVER);
    f.rest();
    assert!((f.templates_of_pods(), f.pinned(labels::TEMPLATES)) == before);
    let ready = f.condition("Ready");
    assert!(ready.1 == "RolledBack" && ready.2.contains("set spec.upgrade.templates to WithVersion"), "{ready:?}");
    let to = format!("{OLD}+{}", &builtin()[..8]);
    assert_eq!(f.turned(), Some((to, TurnState::Failed, true)), "it counts for the fleet");
    f.world.log.clear();
    f.later(60);
    f.rest();
    assert!(f.world.log.is_empty(), "{:#?}", f.world.log);
    // Somebody asks for them once more.
    let mut again = f.copy();
    let generation = again.cluster.metadata.generation.unwrap().to_string();
    again.cluster.metadata.annotations = Some([(labels::ROLL.to_owned(), generation)].into());
    again.rest();
    again.seconds(61);
    again.rest();
    assert_eq!(again.recorded()[2], (3, RevisionCause::Templates, Some(RevisionOutcome::Succeeded)));
    assert_eq!(again.pinned(labels::TEMPLATES), builtin());
    // Or stays.
    f.cluster.spec.upgrade.templates = Templates::WithVersion;
    f.rest();
    f.seconds(61);
    f.rest();
    assert_eq!(f.condition("Ready").0, "True");
    assert!((f.templates_of_pods(), f.pinned(labels::TEMPLATES)) == before);
}

#[test]
fn what_ran_before_is_not_newer() {
    let mut f = of_format(2);
    let one = Fixture::key(Kind::ClusterRevision, "revision-1");
    let mut live = f.world.observed.get(&one).unwrap().clone();
    // An operator that goes a version back: its templates are those of an earlier revision.
    let two = Fixture::key(Kind::ClusterRevision, "revision-2");
    live["metadata"]["name"] = json!("revision-2");
    live["spec"]["number"] = json!(2);
    f.world.put(two, live.clone());
    f.live(Kind::ClusterRevision, "revision-1")["spec"]["pin"]["templates"] = builtin().into();
    f.cluster.spec.upgrade.templates = Templates::Newest;
    f.world.log.clear();
    f.rest();
    assert!(f.world.log.is_empty(), "{:#?}", f.world.log);
    assert!(f.has("UpdateAvailable"));
}

#[test]
fn the_pin_names_what_runs_until_a_new_version_has_succeeded() {
    let mut f = Fixture::two_of_each();
    f.settings.agent_image = "berth.dev/agent:newer".into();
    f.version(NEW);
    f.reconcile();
    assert_eq!(f.pinned(labels::KUBERNETES_VERSION), OLD);
    // Another operator goes on with what was begun.
    f.settings.agent_image = "berth.dev/agent:newest".into();
    f.stuck(names::APISERVER, 2);
    f.reconcile();
    assert!(f.component(names::APISERVER).to_string().contains("agent:newer"));
    f.seconds(301);
    f.reconcile();
    f.unstuck(names::APISERVER);
    f.rest();
    assert_eq!(f.condition("Ready").1, "RolledBack");
    assert!(!f.world.log.iter().any(|write| write.contains("Namespace")), "{:#?}", f.world.log);
    // And one that comes up.
    f.version("1.36.4");
    f.rest();
    assert_eq!(f.pinned(labels::KUBERNETES_VERSION), OLD);
    f.seconds(61);
    f.rest();
    assert_eq!(f.pinned(labels::KUBERNETES_VERSION), "1.36.4");
    assert_eq!(f.pinned(labels::AGENT_IMAGE), "berth.dev/agent:newest");
    f.world.log.clear();
    f.rest();
    assert!(f.world.log.is_empty(), "{:#?}", f.world.log);
}
