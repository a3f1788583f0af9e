//! What an `App` does in each situation, from observation to status.

mod removal;
mod values;
mod words;

use super::*;
use berth_api::app::{AppChart, AppInstallationStatus, AppRelease, AppSpec, AppWave, OtherApp, phase};
use berth_api::conditions::{self, ConditionType};
use berth_api::selector::{ClusterSelector, NamedCluster};
use berth_plan::{Observed, Settings};

const OPERATOR: &str = "berth-system";

struct Fixture {
    app: App,
    observed: Observed,
    settings: Settings,
}

impl Fixture {
    fn new(namespace: &str) -> Self {
        let chart =
            AppChart { oci: Some("oci://reg/charts/web".into()), version: Some("1.0.0".into()), ..AppChart::default() };
        let mut app = App::new(
            "web",
            AppSpec {
                cluster_selector: Some(ClusterSelector::default()),
                release: AppRelease { chart, ..AppRelease::default() },
                max_concurrent: 10,
                max_failed: 1,
                ..AppSpec::default()
            },
        );
        app.metadata.namespace = Some(namespace.into());
        app.metadata.uid = Some("app-uid".into());
        app.metadata.generation = Some(1);
        let mut settings = Settings::default();
        settings.apps.image = "reg/apps:1".into();
        settings.apps.namespace = OPERATOR.into();
        settings.apps.sources = vec!["oci://reg/charts/*".into()];
        Self { app, observed: Observed::default(), settings }
    }

    fn cluster(&mut self, namespace: &str, name: &str) {
        let key = ObjectKey::namespaced(Kind::Cluster, namespace, name);
        let metadata =
            json!({"name": name, "namespace": namespace, "uid": format!("uid-{name}"), "labels": {"env": "prod"}});
        let available = json!({"type": "Available", "status": "True"});
        self.observed.objects.insert(key, json!({"metadata": metadata, "status": {"conditions": [available]}}));
    }

    fn input(&self) -> Input<'_, App> {
        Input {
            object: &self.app,
            observed: &self.observed,
            settings: &self.settings,
            now: jiff::Timestamp::UNIX_EPOCH,
        }
    }

    /// One reconcile: what is planned is done.
    fn reconcile(&mut self) -> AppPlan {
        let planned = AppPlanner::plan(self.input());
        for action in planned.plan.actions().cloned().collect::<Vec<_>>() {
            match action {
                Action::Apply(object) => {
                    let mut live = object.value().clone();
                    let old = self.observed.get(object.key()).cloned().unwrap_or_default();
                    live["metadata"]["uid"] = "installation".into();
                    live["metadata"]["generation"] =
                        (old["metadata"]["generation"].as_i64().unwrap_or_default() + 1).into();
                    live["status"] = old["status"].clone();
                    self.observed.objects.insert(object.key().clone(), live);
                }
                Action::Delete { key, .. } => drop(self.observed.objects.remove(&key)),
                other => panic!("{other:?}"),
            }
        }
        self.app.status = Some(AppPlanner::status(self.input(), &planned, None));
        planned
    }

    /// What an installation says of its spec as it is now.
    fn says(&mut self, cluster: &str, phase: &str, failures: i64) {
        let of = |(key, live): &(&ObjectKey, &mut Value)| {
            key.kind == Kind::AppInstallation && live["spec"]["cluster"]["name"] == cluster
        };
        let (_, live) = self.observed.objects.iter_mut().find(of).expect(cluster);
        let status = AppInstallationStatus {
            observed_generation: live["metadata"]["generation"].as_i64(),
            phase: Some(phase.into()),
            asked: (phase != phase::WAITING).then(|| "asked".to_owned()),
            failures: Some(failures),
            conditions: serde_json::from_value(json!([{
                "type": "Ready", "status": "False", "reason": "Waiting", "lastTransitionTime": "2026-01-01T00:00:00Z",
                "message": match phase {
                    phase::FAILED => "UPGRADE FAILED: no",
                    phase::WAITING => "waiting for Cluster team-a/acme to be available: it sleeps",
                    _ => "waiting for its Job to install or upgrade it",
                },
            }]))
            .unwrap(),
            ..AppInstallationStatus::default()
        };
        live["status"] = serde_json::to_value(status).unwrap();
    }

    /// What a Job came to there.
    fn fails_with(&mut self, cluster: &str, message: &str, foreign: bool) {
        let of = |(key, live): &(&ObjectKey, &mut Value)| {
            key.kind == Kind::AppInstallation && live["spec"]["cluster"]["name"] == cluster
        };
        let (_, live) = self.observed.objects.iter_mut().find(of).expect(cluster);
        live["status"]["message"] = message.into();
        live["status"]["foreign"] = foreign.into();
        let cluster = ObjectKey::namespaced(Kind::Cluster, "team-a", cluster);
        if live["status"]["phase"] == phase::WAITING {
            let live = self.observed.objects.get_mut(&cluster).unwrap();
            live["status"]["conditions"][0]["status"] = "False".into();
        }
    }

    /// The tenant has no pods.
    fn sleeps(&mut self, cluster: &str) {
        let live = self.observed.objects.get_mut(&ObjectKey::namespaced(Kind::Cluster, "team-a", cluster)).unwrap();
        live["status"]["conditions"] = json!([{"type": "Available", "status": "False", "reason": "Asleep"}]);
    }

    /// The installation there is being deleted.
    fn leaves(&mut self, cluster: &str) {
        let of = |(key, live): &(&ObjectKey, &mut Value)| {
            key.kind == Kind::AppInstallation && live["spec"]["cluster"]["name"] == cluster
        };
        let (_, live) = self.observed.objects.iter_mut().find(of).expect(cluster);
        live["metadata"]["deletionTimestamp"] = "2026-01-31T12:00:00Z".into();
    }

    fn installed(&self) -> Vec<String> {
        let all = self.observed.objects.iter().filter(|(key, _)| key.kind == Kind::AppInstallation);
        let name = |of: &Value| of["spec"]["cluster"]["name"].as_str().unwrap_or_default().to_owned();
        all.map(|(key, of)| format!("{}/{}", key.namespace.as_deref().unwrap_or_default(), name(of))).collect()
    }

    fn ready(&self) -> String {
        let status = self.app.status.clone().unwrap_or_default();
        let ready = conditions::find(&status.conditions, ConditionType::Ready).unwrap();
        format!("{} {}: {}", ready.status, ready.reason, ready.message)
    }
}

#[test]
fn one_of_the_operators_namespace_is_for_all_and_one_of_a_teams_for_its_own() {
    for (namespace, wanted) in [(OPERATOR, &["team-a/acme", "team-b/beta"][..]), ("team-a", &["team-a/acme"])] {
        let mut it = Fixture::new(namespace);
        it.cluster("team-a", "acme");
        it.cluster("team-b", "beta");
        it.reconcile();
        assert_eq!(it.installed(), wanted);
        let planned = it.reconcile();
        assert!(planned.plan.is_empty(), "{:?}", planned.plan);
        let selector = ClusterSelector {
            match_labels: [("env".to_owned(), "test".to_owned())].into(),
            ..ClusterSelector::default()
        };
        it.app.spec.cluster_selector = Some(selector);
        it.reconcile();
        assert_eq!(it.installed(), [""; 0]);
        it.reconcile();
        assert_eq!(it.ready(), "True AsExpected: no Cluster is selected");
    }
}

#[test]
fn a_teams_app_has_what_the_platform_allows() {
    let mut it = Fixture::new("team-a");
    it.cluster("team-a", "acme");
    it.settings.apps.sources.clear();
    it.reconcile();
    assert!(it.installed().is_empty());
    assert_eq!(
        it.ready(),
        "False NotAllowed: spec.chart: charts from oci://reg/charts/web are not allowed in this namespace: none is. Set another one, or ask the platform team to add it to writers.apps.sources in the values of Berth's chart"
    );
    it.settings.apps.sources = vec!["oci://reg/charts/*".into()];
    it.reconcile();
    assert_eq!(it.installed(), ["team-a/acme"]);
    it.app.spec.cluster_selector = None;
    it.app.spec.cluster_refs = vec![NamedCluster { name: "beta".into(), namespace: Some("team-b".into()) }];
    it.reconcile();
    assert!(
        it.ready().starts_with("False NotAllowed: spec.clusterRefs: namespace team-b is another one"),
        "{}",
        it.ready()
    );
    assert_eq!(it.installed(), ["team-a/acme"], "what is there stays");
    it.app.spec.cluster_refs = vec![NamedCluster { name: "gone".into(), namespace: None }];
    it.says("acme", phase::DEPLOYED, 0);
    it.reconcile();
    it.reconcile();
    assert!(it.ready().contains("Cluster team-a/gone does not exist"), "{}", it.ready());
}

#[test]
fn a_bad_version_stops_and_set_back_it_goes_on() {
    let mut it = Fixture::new(OPERATOR);
    let names = ["a", "b", "c", "d"];
    for name in names {
        it.cluster("team-a", name);
    }
    it.reconcile();
    for name in names {
        it.says(name, phase::DEPLOYED, 0);
    }
    it.reconcile();
    assert_eq!(it.ready(), "True AsExpected: deployed in 4 Clusters");
    it.app.spec.max_concurrent = 1;
    it.app.spec.release.chart.version = Some("2.0.0".into());
    it.reconcile();
    it.says("a", phase::FAILED, 1);
    let planned = it.reconcile();
    assert!(planned.plan.is_empty());
    let status = it.app.status.clone().unwrap();
    assert_eq!((status.failed, status.queued, status.deployed), (Some(1), Some(3), Some(0)));
    assert!(it.ready().starts_with("False AppFailed: failed in team-a/a. Nobody else gets it"), "{}", it.ready());
    // While it is tried again it counts as failed all the same.
    it.says("a", phase::RUNNING, 1);
    assert!(it.reconcile().plan.is_empty());
    it.app.spec.release.chart.version = Some("1.0.0".into());
    let planned = it.reconcile();
    assert_eq!(planned.plan.actions().count(), 1, "only one is not as it says");
    it.says("a", phase::DEPLOYED, 0);
    it.reconcile();
    assert_eq!(it.ready(), "True AsExpected: deployed in 4 Clusters");
}

#[test]
fn a_deleted_app_waits_until_its_installations_are_gone() {
    let mut it = Fixture::new(OPERATOR);
    it.cluster("team-a", "acme");
    it.reconcile();
    it.app.metadata.deletion_timestamp = Some(serde_json::from_value(json!("2026-01-31T12:00:00Z")).unwrap());
    let planned = it.reconcile();
    assert!(!planned.plan.finished && it.installed().is_empty());
    assert!(it.reconcile().plan.finished);
}

/// Else a quota of one team, or its namespace that ends, would stop the App for all after it.
#[test]
fn what_is_refused_in_one_cluster_is_a_stage_of_its_own() {
    let mut it = Fixture::new(OPERATOR);
    for name in ["a", "b", "c"] {
        it.cluster("team-a", name);
    }
    let stages = |planned: &AppPlan| {
        let all = planned.plan.stages.iter().filter(|stage| !stage.actions.is_empty());
        all.map(|stage| (stage.of.as_ref().unwrap().name.clone(), stage.actions.len())).collect::<Vec<_>>()
    };
    let expected = ["a", "b", "c"].map(|name| (name.to_owned(), 1));
    assert_eq!(stages(&it.reconcile()), expected);
    it.app.metadata.deletion_timestamp = Some(serde_json::from_value(json!("2026-01-31T12:00:00Z")).unwrap());
    let planned = it.reconcile();
    assert_eq!(stages(&planned), expected);
    assert!(planned.plan.stages.iter().all(|stage| stage.id == StageId::Deletion));
}

#[test]
fn a_cluster_whose_namespace_ends_gets_none_and_nobody_waits_for_it() {
    let mut it = Fixture::new(OPERATOR);
    in_waves(&mut it.app);
    it.app.spec.max_concurrent = 1;
    for name in ["acme", "beta"] {
        it.cluster("team-a", name);
    }
    tier(&mut it, "acme", "canary");
    let ends = |it: &mut Fixture, reason: &str| {
        let key = ObjectKey::namespaced(Kind::Cluster, "team-a", "acme");
        let conditions = &mut it.observed.objects.get_mut(&key).unwrap()["status"]["conditions"];
        let degraded = json!({"type": "Degraded", "status": "True", "reason": reason});
        *conditions = json!([conditions[0], degraded]);
    };
    ends(&mut it, "NamespaceDeleting");
    it.reconcile();
    assert_eq!(it.installed(), ["team-a/beta"]);
    it.says("beta", phase::DEPLOYED, 0);
    it.reconcile();
    assert_eq!(it.ready(), "True AsExpected: deployed in 1 Cluster");
    assert_eq!(it.app.status.as_ref().unwrap().selected, Some(1));
    ends(&mut it, "Rejected");
    it.reconcile();
    assert_eq!(it.installed(), ["team-a/acme", "team-a/beta"]);

    // What is there is deleted by that namespace's controller, and stays in view until then.
    it.says("acme", phase::DEPLOYED, 0);
    ends(&mut it, "NamespaceDeleting");
    assert!(it.reconcile().plan.is_empty());
    assert_eq!(it.app.status.as_ref().unwrap().deployed, Some(2));
    it.leaves("acme");
    assert!(it.reconcile().plan.is_empty());
    let status = it.app.status.as_ref().unwrap();
    assert_eq!((status.selected, status.deployed, status.deleting), (Some(1), Some(1), Some(1)));
}

#[test]
fn one_that_comes_after_another_waits_for_it_in_each_cluster() {
    let mut first = Fixture::new(OPERATOR);
    for name in ["a", "b"] {
        first.cluster("team-a", name);
    }
    first.cluster("team-b", "c");
    first.app.metadata.name = Some("first".into());
    first.app.metadata.uid = Some("first-uid".into());
    first.app.spec.cluster_selector = None;
    let named = |name: &str| NamedCluster { name: name.into(), namespace: Some("team-a".into()) };
    first.app.spec.cluster_refs = vec![named("a"), named("b")];
    first.reconcile();
    first.says("a", phase::DEPLOYED, 0);
    first.says("b", phase::RUNNING, 0);

    let mut it = Fixture::new(OPERATOR);
    it.observed.objects.clone_from(&first.observed.objects);
    it.app.spec.after = vec![OtherApp { name: "first".into() }];
    it.reconcile();
    assert_eq!(
        it.ready(),
        "False Waiting: waiting for App berth-system/first, which spec.after names: create it, or correct the name"
    );
    let app = |app: &App| (ObjectKey::namespaced(Kind::App, OPERATOR, app.name_any()), json!(app));
    let (key, object) = app(&first.app);
    it.observed.objects.insert(key, object);
    let ours = |it: &Fixture| {
        let all = it
            .observed
            .objects
            .iter()
            .filter(|(key, of)| key.kind == Kind::AppInstallation && of["spec"]["app"]["name"] == "web");
        all.map(|(_, of)| of["spec"]["cluster"]["name"].as_str().unwrap_or_default().to_owned()).collect::<Vec<_>>()
    };
    it.reconcile();
    assert_eq!(ours(&it), ["a", "c"], "c gets no first, so nothing comes before");
    let planned = it.reconcile();
    assert_eq!(planned.requeue_after, Some(WAITING));
    let why = &it.app.status.as_ref().unwrap().clusters.iter().find(|c| c.name == "b").unwrap().message;
    assert_eq!(why, "it comes after App berth-system/first, which is not deployed there as that says");
    // What is there stays while the first one changes, and no change comes before that has.
    let mut newer = first.app.clone();
    newer.spec.release.wait = true;
    let (key, object) = app(&newer);
    it.observed.objects.insert(key, object);
    it.app.spec.release.wait = true;
    let planned = it.reconcile();
    assert_eq!(planned.plan.actions().count(), 1, "c alone");

    newer.spec.after = vec![OtherApp { name: "web".into() }];
    let (key, object) = app(&newer);
    it.observed.objects.insert(key, object);
    assert!(it.reconcile().plan.is_empty());
    assert_eq!(
        it.ready(),
        "False InvalidSpec: spec.after: this App comes after itself: web, after first, after web. Take one of these out"
    );
}

#[test]
fn what_only_looks_like_an_installation_is_left_alone() {
    let mut it = Fixture::new(OPERATOR);
    it.cluster("team-a", "acme");
    it.reconcile();
    let (key, live) = it.observed.objects.iter().find(|(key, _)| key.kind == Kind::AppInstallation).unwrap();
    let (mut key, mut live) = (key.clone(), live.clone());
    "other".clone_into(&mut key.name);
    live["metadata"]["name"] = "other".into();
    live["spec"]["cluster"]["name"] = "other".into();
    it.observed.objects.insert(key, live);
    assert!(it.reconcile().plan.is_empty());
}

#[test]
fn a_template_that_no_tenant_can_use_is_refused_and_changes_nothing() {
    let mut it = Fixture::new(OPERATOR);
    it.cluster("team-a", "acme");
    it.app.spec.release.values_template = Some("a: {{ cluster.name }}\nb: {{ range(9) }}\n".into());
    it.reconcile();
    assert_eq!(it.ready(), "False InvalidSpec: spec.valuesTemplate, line 2: functions are not taken. Correct it");
    assert!(it.installed().is_empty());
    it.app.spec.release.values_template = Some("a: {{ cluster.name }}\n".into());
    it.reconcile();
    assert_eq!(it.installed(), ["team-a/acme"]);
}

fn tier(it: &mut Fixture, cluster: &str, tier: &str) {
    let key = ObjectKey::namespaced(Kind::Cluster, "team-a", cluster);
    it.observed.objects.get_mut(&key).unwrap()["metadata"]["labels"]["tier"] = tier.into();
}

/// Which `Cluster`s have the chart in this version.
fn with_version(it: &Fixture, version: &str) -> Vec<String> {
    let all = it.observed.objects.iter().filter(|(key, _)| key.kind == Kind::AppInstallation);
    let has = all.filter(|(_, of)| of["spec"]["release"]["chart"]["version"] == version);
    has.map(|(_, of)| of["spec"]["cluster"]["name"].as_str().unwrap_or_default().to_owned()).collect()
}

fn in_waves(app: &mut App) {
    let by = |tier: &str| ClusterSelector {
        match_labels: [("tier".to_owned(), tier.to_owned())].into(),
        ..ClusterSelector::default()
    };
    let canary = AppWave { name: Some("canary".into()), cluster_selector: by("canary") };
    app.spec.waves = vec![canary, AppWave { name: None, cluster_selector: by("gold") }];
}

#[test]
fn a_change_goes_wave_by_wave_and_a_new_tenant_waits_for_none() {
    let mut it = Fixture::new(OPERATOR);
    in_waves(&mut it.app);
    it.app.metadata.creation_timestamp = serde_json::from_value(json!("2026-01-01T00:00:00Z")).unwrap();
    let cluster = |it: &mut Fixture, name: &str, tier: &str, created: &str| {
        it.cluster("team-a", name);
        let live = it.observed.objects.get_mut(&ObjectKey::namespaced(Kind::Cluster, "team-a", name)).unwrap();
        live["metadata"]["labels"]["tier"] = tier.into();
        live["status"]["since"] = created.into();
    };
    for (name, tier) in [("rest", "none"), ("gold", "gold"), ("canary", "canary"), ("sleeper", "canary")] {
        cluster(&mut it, name, tier, "2025-01-01T00:00:00Z");
    }
    let key = ObjectKey::namespaced(Kind::Cluster, "team-a", "sleeper");
    it.observed.objects.get_mut(&key).unwrap()["status"]["conditions"][0]["status"] = "False".into();
    it.reconcile();
    assert_eq!(it.installed(), ["team-a/canary", "team-a/sleeper"], "also for the first time");
    it.says("canary", phase::DEPLOYED, 0);
    it.reconcile();
    assert_eq!(it.app.status.as_ref().unwrap().wave, Some(1));
    assert!(
        it.ready().contains("at wave 1 of 3 (canary): being installed or upgraded in team-a/sleeper"),
        "{}",
        it.ready()
    );
    it.says("sleeper", phase::WAITING, 0);
    it.reconcile();
    assert_eq!(it.installed(), ["team-a/canary", "team-a/gold", "team-a/sleeper"]);
    it.says("gold", phase::FAILED, 1);
    it.app.spec.max_failed = 5;
    cluster(&mut it, "young", "none", "2026-01-02T00:00:00Z");
    it.reconcile();
    it.reconcile();
    assert_eq!(with_version(&it, "1.0.0"), ["canary", "gold", "sleeper", "young"], "it is younger than the App");
    let says = "False AppFailed: failed in team-a/gold. It is at wave 2 of 3, and later ones do not get it before that is through. The first says: UPGRADE FAILED: no";
    assert_eq!(it.ready(), says);
    let status = it.app.status.clone().unwrap();
    let rest = status.clusters.iter().find(|cluster| cluster.name == "rest").unwrap();
    assert_eq!(&*rest.message, "it waits for wave 2 of 3: team-a/gold is Failed");
    assert_eq!((status.wave, status.queued, status.failed), (Some(2), Some(1), Some(1)));
    for name in ["gold", "young"] {
        it.says(name, phase::DEPLOYED, 0);
    }
    it.reconcile();
    it.says("rest", phase::DEPLOYED, 0);
    it.reconcile();
    assert_eq!(it.app.status.as_ref().unwrap().wave, None);

    it.app.spec.release.chart.version = Some("2.0.0".into());
    it.reconcile();
    assert_eq!(with_version(&it, "2.0.0"), ["canary", "sleeper"]);
    // It sleeps, and has no installation that says so.
    it.observed
        .objects
        .retain(|key, of| key.kind != Kind::AppInstallation || of["spec"]["cluster"]["name"] != "sleeper");
    it.says("canary", phase::DEPLOYED, 0);
    it.app.spec.max_concurrent = 1;
    it.reconcile();
    assert_eq!(with_version(&it, "2.0.0"), ["canary", "sleeper"], "one at once, and in the order of the waves");
    it.says("sleeper", phase::WAITING, 0);
    it.reconcile();
    assert_eq!(with_version(&it, "2.0.0"), ["canary", "gold", "sleeper"]);
}

/// Each message that an `App` can have, for docs/reference/messages.md.
pub(crate) fn situations() -> Vec<berth_testkit::situations::Situation> {
    type Change = fn(&mut Fixture);
    let all: &[(&'static str, Change)] = &[
        ("it selects no Cluster", |w| w.observed.objects.clear()),
        ("a Cluster gets it", |_| {}),
        ("its Job runs in a Cluster", |w| w.says("acme", phase::RUNNING, 0)),
        ("it is deployed", |w| w.says("acme", phase::DEPLOYED, 0)),
        ("something of it was changed in a Cluster", |w| {
            w.says("acme", phase::DEPLOYED, 0);
            let live = w.observed.objects.values_mut().find(|live| live["spec"]["cluster"]["name"] == "acme");
            live.expect("its installation")["status"]["drift"] = json!({"count": 2});
        }),
        ("a Cluster waits for something of its own", |w| w.says("acme", phase::WAITING, 0)),
        ("a Cluster is no longer selected", |w| {
            let selector = ClusterSelector {
                match_labels: [("env".to_owned(), "test".to_owned())].into(),
                ..ClusterSelector::default()
            };
            w.app.spec.cluster_selector = Some(selector);
            w.leaves("acme");
        }),
        ("it fails in a Cluster", |w| w.says("acme", phase::FAILED, 1)),
        ("it fails in a Cluster, and others are held back", |w| {
            w.says("acme", phase::FAILED, 1);
            w.cluster("team-a", "beta");
        }),
        ("a Cluster that has an older spec waits for its turn", |w| {
            w.cluster("team-a", "beta");
            w.reconcile();
            w.says("beta", phase::DEPLOYED, 0);
            w.app.spec.max_concurrent = 1;
            w.app.spec.release.wait = true;
            w.reconcile();
            w.says("acme", phase::DEPLOYED, 0);
            w.leaves("acme");
        }),
        ("a Cluster has all places, and another one waits", |w| {
            w.app.spec.max_concurrent = 1;
            w.cluster("team-a", "beta");
            w.says("acme", phase::DEPLOYED, 0);
            w.leaves("acme");
            w.app.spec.cluster_selector = None;
            w.app.spec.cluster_refs = vec![NamedCluster { name: "beta".into(), namespace: Some("team-a".into()) }];
        }),
        ("it failed in a Cluster that sleeps by now", |w| {
            w.says("acme", phase::WAITING, 1);
            w.fails_with("acme", "UPGRADE FAILED: no", false);
            w.sleeps("acme");
        }),
        ("it selects four Clusters no more, and changes two at once", |w| {
            *w = removal::in_four();
            removal::deselects(w);
        }),
        ("it selects four Clusters no more, and fails in another one", |w| {
            *w = removal::in_four();
            w.cluster("team-b", "beta");
            w.reconcile();
            w.says("beta", phase::FAILED, 1);
            w.app.spec.cluster_selector = None;
            w.app.spec.cluster_refs = vec![NamedCluster { name: "beta".into(), namespace: Some("team-b".into()) }];
        }),
        ("it names a Cluster that does not exist", |w| {
            w.app.spec.cluster_selector = None;
            w.app.spec.cluster_refs = vec![NamedCluster { name: "gone".into(), namespace: Some("team-a".into()) }];
            w.observed.objects.clear();
        }),
        ("it names a Cluster of another namespace", |w| {
            w.app.metadata.namespace = Some("team-a".into());
            w.app.spec.cluster_selector = None;
            w.app.spec.cluster_refs = vec![NamedCluster { name: "beta".into(), namespace: Some("team-b".into()) }];
        }),
        ("it comes after an App that does not exist", |w| w.app.spec.after = vec![OtherApp { name: "gone".into() }]),
        ("it comes after itself", |w| w.app.spec.after = vec![OtherApp { name: "web".into() }]),
        ("it comes after an App that is not deployed there", |w| {
            let mut first = w.app.clone();
            (first.metadata.name, first.metadata.uid) = (Some("first".into()), Some("first-uid".into()));
            w.observed.objects.insert(ObjectKey::namespaced(Kind::App, OPERATOR, "first"), json!(first));
            w.app.spec.after = vec![OtherApp { name: "first".into() }];
            w.cluster("team-a", "beta");
            w.says("acme", phase::DEPLOYED, 0);
        }),
        ("it fails in a Cluster of the first wave", |w| {
            in_waves(&mut w.app);
            tier(w, "acme", "canary");
            w.cluster("team-a", "beta");
            w.app.spec.max_failed = 2;
            w.says("acme", phase::FAILED, 1);
        }),
        ("a Cluster of the first wave gets it, and those of others wait", |w| {
            in_waves(&mut w.app);
            w.app.spec.release.wait = true;
            w.cluster("team-a", "beta");
            tier(w, "beta", "canary");
        }),
        ("no source is allowed", |w| {
            w.app.metadata.namespace = Some("team-a".into());
            w.settings.apps.sources.clear();
        }),
        ("its source is not allowed", |w| {
            w.app.metadata.namespace = Some("team-a".into());
            w.settings.apps.sources = vec!["oci://other/*".into()];
        }),
        ("no Cluster can use its template of values", |w| {
            w.app.spec.release.values_template = Some("a: {{ range(9) }}".into());
        }),
        ("a ConfigMap with its values does not exist", |w| values::values_from(&mut w.app)),
        ("a Secret with its values does not exist", |w| values::values_from_secret(&mut w.app)),
        ("a ConfigMap with its values lacks the label", |w| {
            values::values_from(&mut w.app);
            values::hold(w, &json!({"values.yaml": "a: 1"}), "");
        }),
        ("a ConfigMap has no YAML of values", |w| {
            values::values_from(&mut w.app);
            values::hold(w, &json!({"values.yaml": "- a"}), "true");
        }),
        ("apps are switched off", |w| w.settings.apps.image.clear()),
        ("it is deleted", |w| {
            w.app.metadata.deletion_timestamp = Some(serde_json::from_value(json!("2026-01-31T12:00:00Z")).unwrap());
            w.leaves("acme");
        }),
        ("it is deleted while apps are switched off", |w| {
            w.app.metadata.deletion_timestamp = Some(serde_json::from_value(json!("2026-01-31T12:00:00Z")).unwrap());
            w.leaves("acme");
            w.settings.apps.image.clear();
        }),
    ];
    let situation = |(text, change): &(&'static str, Change)| {
        let mut world = Fixture::new(OPERATOR);
        world.cluster("team-a", "acme");
        world.reconcile();
        change(&mut world);
        let planned = AppPlanner::plan(world.input());
        world.app.status = Some(AppPlanner::status(world.input(), &planned, None));
        berth_testkit::situations::Situation::of("App", text, &world.app)
    };
    all.iter().map(situation).collect()
}
