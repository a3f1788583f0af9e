//! What becomes of those that an `App` selects no more.

use super::*;
use berth_api::app::OnRemoval;

fn nobody() -> ClusterSelector {
    let match_labels = [("env".to_owned(), "test".to_owned())].into();
    ClusterSelector { match_labels, ..ClusterSelector::default() }
}

/// Deployed in four `Cluster`s; two change at once.
pub(super) fn in_four() -> Fixture {
    let mut it = Fixture::new(OPERATOR);
    for name in ["a", "b", "c", "d"] {
        it.cluster("team-a", name);
    }
    it.reconcile();
    for name in ["a", "b", "c", "d"] {
        it.says(name, phase::DEPLOYED, 0);
    }
    it.app.spec.max_concurrent = 2;
    it
}

pub(super) fn deselects(it: &mut Fixture) {
    it.app.spec.cluster_selector = Some(nobody());
}

fn confirms(it: &mut Fixture, what: &str) {
    it.app.metadata.annotations = Some([(labels::CONFIRM_REMOVAL.to_owned(), what.to_owned())].into());
}

/// What the App says would confirm it.
fn code(it: &mut Fixture) -> String {
    it.reconcile();
    let ready = it.ready();
    let (_, rest) = ready.split_once("berth.dev/confirm-removal=").expect("it asks");
    rest.split(' ').next().unwrap().to_owned()
}

#[test]
fn a_typing_error_in_a_selector_uninstalls_nothing() {
    let mut it = in_four();
    deselects(&mut it);
    confirms(&mut it, "4");
    assert!(it.reconcile().plan.is_empty());
    let code = code(&mut it);
    assert!(code.starts_with("4-"), "{code}");
    let asks = "False ConfirmationRequired: 4 Clusters are not selected any more, which is more than spec.maxConcurrent at once, so nothing is uninstalled before that is confirmed: team-a/a, team-a/b, team-a/c and 1 more. If it is a mistake, correct spec.clusterSelector, spec.clusterRefs or the labels of these Clusters. If it is meant: kubectl annotate app web -n berth-system berth.dev/confirm-removal=CODE --overwrite";
    assert_eq!(it.ready(), asks.replace("CODE", &code));
    // Corrected, it is as it was.
    it.app.spec.cluster_selector = Some(ClusterSelector::default());
    assert!(it.reconcile().plan.is_empty());
    assert_eq!(it.ready(), "True AsExpected: deployed in 4 Clusters");
}

#[test]
fn what_is_confirmed_is_recorded_and_goes_on_to_its_end() {
    let mut it = in_four();
    deselects(&mut it);
    let confirmed = code(&mut it);
    confirms(&mut it, &confirmed);
    let planned = it.reconcile();
    assert!(planned.plan.is_empty() && planned.requeue_after == Some(SOON), "it is on record first");
    let confirmed = |it: &Fixture| it.app.status.as_ref().unwrap().confirmed;
    assert_eq!(confirmed(&it), Some(4));
    for left in [2, 0] {
        it.reconcile();
        assert_eq!(it.installed().len(), left);
    }
    it.reconcile();
    assert_eq!((confirmed(&it), &*it.ready()), (None, "True AsExpected: no Cluster is selected"));
}

#[test]
fn few_those_that_are_gone_what_is_kept_and_what_is_deleted_with_its_app_wait_for_nobody() {
    let goes = |change: fn(&mut Fixture)| {
        let mut it = in_four();
        change(&mut it);
        it.reconcile();
        4 - it.installed().len()
    };
    let named = |name: &str| NamedCluster { name: name.into(), namespace: Some("team-a".into()) };
    assert_eq!(goes(deselects), 0);
    assert_eq!(goes(|it| it.observed.objects.retain(|key, _| key.kind != Kind::Cluster)), 2);
    assert_eq!(
        goes(|it| {
            deselects(it);
            it.app.spec.on_removal = OnRemoval::Keep;
        }),
        2
    );
    assert_eq!(
        goes(|it| it.app.metadata.deletion_timestamp =
            Some(serde_json::from_value(json!("2026-01-31T12:00:00Z")).unwrap())),
        2
    );
    let mut it = in_four();
    it.app.spec.cluster_selector = None;
    it.app.spec.cluster_refs = vec![named("a"), named("b")];
    it.reconcile();
    assert_eq!(it.installed(), ["team-a/a", "team-a/b"]);
    // One after another: those before are being uninstalled by then.
    let mut it = in_four();
    for name in ["a", "b", "c", "d"] {
        let key = ObjectKey::namespaced(Kind::Cluster, "team-a", name);
        it.app.spec.cluster_selector = Some(ClusterSelector {
            match_labels: [("env".to_owned(), "prod".to_owned())].into(),
            ..ClusterSelector::default()
        });
        it.observed.objects.get_mut(&key).unwrap()["metadata"]["labels"] = json!({});
        it.reconcile();
    }
    assert!(it.installed().is_empty());
}

/// What sleeps is not uninstalled before it wakes, and until then it can be selected again.
#[test]
fn those_that_sleep_do_not_count() {
    let mut it = in_four();
    for name in ["b", "c"] {
        it.sleeps(name);
    }
    deselects(&mut it);
    it.reconcile();
    assert_eq!(it.installed().len(), 2);
}

#[test]
fn what_waits_for_a_confirmation_is_said_of_each_and_of_failures_beside_it() {
    let mut it = in_four();
    it.cluster("team-b", "e");
    it.reconcile();
    it.says("e", phase::FAILED, 1);
    it.app.spec.cluster_selector = None;
    it.app.spec.cluster_refs = vec![NamedCluster { name: "e".into(), namespace: Some("team-b".into()) }];
    it.reconcile();
    let ready = it.ready();
    assert!(
        ready.starts_with("False AppFailed: 4 Clusters are not") && ready.contains(". It has failed in team-b/e"),
        "{ready}"
    );
    let status = it.app.status.unwrap();
    let why = &status.clusters.iter().find(|cluster| cluster.name == "a").unwrap().message;
    assert_eq!(why, "it is not selected any more; that it loses this waits for a confirmation");
    assert_eq!((status.deleting, status.queued), (Some(0), Some(4)));
}
