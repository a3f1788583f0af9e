//! What an `App` says of those that hold others up, or do not.

use super::*;

fn message(it: &Fixture, cluster: &str) -> String {
    let status = it.app.status.clone().unwrap();
    status.clusters.into_iter().find(|of| of.name == cluster).expect(cluster).message
}

#[test]
fn one_whose_turn_has_not_come_names_those_that_have_the_places() {
    let mut it = Fixture::new(OPERATOR);
    it.cluster("team-a", "a");
    it.cluster("team-a", "b");
    it.app.spec.max_concurrent = 1;
    it.reconcile();
    it.reconcile();
    assert_eq!(message(&it, "b"), "its turn has not come: spec.maxConcurrent is 1, and it is at work in team-a/a");
    it.says("a", phase::FAILED, 1);
    it.reconcile();
    assert_eq!(message(&it, "b"), "its turn has not come: failed in team-a/a, and spec.maxFailed is 1");
    assert_eq!(
        it.ready(),
        "False AppFailed: failed in team-a/a. Nobody else gets it before it succeeds there, or spec changes. To have it go on all the same: kubectl patch app web -n berth-system --type=merge -p '{\"spec\":{\"maxFailed\":2}}'. The first says: UPGRADE FAILED: no"
    );
}

#[test]
fn one_that_fails_and_falls_asleep_holds_nobody_up_and_keeps_helms_words() {
    let mut it = Fixture::new(OPERATOR);
    for name in ["a", "b"] {
        it.cluster("team-a", name);
    }
    it.app.spec.max_concurrent = 1;
    it.reconcile();
    it.says("a", phase::WAITING, 1);
    it.fails_with("a", "UPGRADE FAILED: no", false);
    it.reconcile();
    assert_eq!(it.installed(), ["team-a/a"], "it does not answer, and the app may be why");
    it.sleeps("a");
    it.reconcile();
    assert_eq!(it.installed(), ["team-a/a", "team-a/b"]);
    it.says("b", phase::DEPLOYED, 0);
    it.reconcile();
    assert_eq!(
        it.ready(),
        "False AppFailed: failed in team-a/a. Nobody else waits for that. The first says: UPGRADE FAILED: no. Now: waiting for Cluster team-a/acme to be available: it sleeps. It is tried again once it is awake: kubectl berth wake a -n team-a"
    );
}

#[test]
fn a_release_that_is_somebody_elses_is_the_matter_of_that_tenant() {
    let mut it = Fixture::new(OPERATOR);
    in_waves(&mut it.app);
    for name in ["a", "b"] {
        it.cluster("team-a", name);
    }
    tier(&mut it, "a", "canary");
    it.reconcile();
    it.says("a", phase::FAILED, 1);
    it.fails_with("a", "UPGRADE FAILED: no", true);
    it.reconcile();
    assert_eq!(it.installed(), ["team-a/a", "team-a/b"]);
}

#[test]
fn what_is_to_be_uninstalled_from_those_that_sleep_keeps_nobody_waiting() {
    let mut it = Fixture::new(OPERATOR);
    it.cluster("team-a", "a");
    it.app.spec.max_concurrent = 1;
    it.reconcile();
    it.says("a", phase::DEPLOYED, 0);
    it.leaves("a");
    it.observed.objects.get_mut(&ObjectKey::namespaced(Kind::Cluster, "team-a", "a")).unwrap()["metadata"]["labels"] =
        json!({"env": "test"});
    it.cluster("team-a", "b");
    it.app.spec.cluster_selector = Some(ClusterSelector {
        match_labels: [("env".to_owned(), "prod".to_owned())].into(),
        ..ClusterSelector::default()
    });
    assert!(it.reconcile().plan.is_empty(), "one at once");
    it.sleeps("a");
    it.reconcile();
    assert_eq!(it.installed(), ["team-a/a", "team-a/b"]);
}

#[test]
fn a_deletion_says_that_it_waits_for_apps_to_be_switched_on() {
    let mut it = Fixture::new(OPERATOR);
    it.cluster("team-a", "a");
    it.reconcile();
    it.app.metadata.deletion_timestamp = Some(serde_json::from_value(json!("2026-01-31T12:00:00Z")).unwrap());
    it.leaves("a");
    it.settings.apps.image.clear();
    it.reconcile();
    assert!(
        it.ready().contains("set apps.enabled to true") && it.ready().contains("onRemoval to Keep"),
        "{}",
        it.ready()
    );
}
