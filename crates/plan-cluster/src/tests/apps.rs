//! What a tenant has while there are apps in it, and loses afterwards.

use super::*;
use berth_api::labels;
use berth_render::stamp_key;

fn installation() -> ObjectKey {
    ObjectKey::namespaced(Kind::AppInstallation, "team-a", "acme-web-12345678")
}

fn with_an_app(f: &mut Fixture) {
    let release = json!({"chart": {"oci": "oci://10.9.9.9:5000/web", "version": "1.0.0"}});
    let app = json!({"namespace": "berth-system", "name": "web", "uid": "u"});
    let object = json!({
        "apiVersion": "berth.dev/v1alpha1", "kind": "AppInstallation",
        "metadata": {
            "name": "acme-web-12345678", "namespace": "team-a",
            "labels": {labels::MANAGED_BY: labels::MANAGED_BY_VALUE, labels::CLUSTER_NAME: "acme"},
        },
        "spec": {"app": app, "cluster": {"name": "acme", "uid": "u"}, "release": release, "digest": "d"},
    });
    f.world.put(installation(), object);
}

fn rights(f: &Fixture) -> (bool, bool) {
    let binding = ObjectKey::cluster(Kind::ClusterRoleBinding, "berth:apps");
    (f.world.inside.contains_key(&binding), f.world.inside.contains_key(&stamp_key("apps")))
}

fn way_out(f: &Fixture) -> Option<Value> {
    f.world.observed.get(&Fixture::key(Kind::NetworkPolicy, names::APPS)).map(|policy| policy["spec"].clone())
}

#[test]
fn rights_and_a_way_out_come_with_the_first_app_and_go_after_the_last() {
    let mut f = Fixture::up(json!({"version": "1.36.3"}));
    f.settings.apps.image = "reg/apps:1".into();
    f.rest();
    assert_eq!((rights(&f), way_out(&f)), ((false, false), None));
    with_an_app(&mut f);
    f.rest();
    assert_eq!(rights(&f), (true, true));
    let egress = way_out(&f).unwrap()["egress"].clone();
    let ports: Vec<_> = egress.as_array().unwrap().iter().map(|rule| rule["ports"][0]["port"].clone()).collect();
    assert_eq!(ports, [json!(6443), json!(53), json!(5000)]);
    f.world.remove(&installation());
    f.rest();
    f.rest();
    assert_eq!((rights(&f), way_out(&f)), ((false, false), None));
    assert_eq!(f.condition("Ready").0, "True");
}

/// An App that the tenant has to have, as its team wrote it.
pub(super) fn requires(f: &mut Fixture, change: impl FnOnce(&mut Value)) {
    f.settings.apps.image = "reg/apps:1".into();
    f.settings.apps.namespace = "berth-system".into();
    let chart = json!({"oci": "oci://10.9.9.9:5000/net", "version": "1.0.0"});
    let mut app = json!({
        "apiVersion": "berth.dev/v1alpha1", "kind": "App",
        "metadata": {"name": "net", "namespace": "berth-system", "uid": "app-uid", "generation": 1},
        "spec": {"clusterSelector": {}, "chart": chart, "required": true},
    });
    change(&mut app);
    f.world.observed.put(ObjectKey::namespaced(Kind::App, "berth-system", "net"), app);
}

/// Its installation says that. `revision`: of the release that is there.
pub(super) fn installation_says(f: &mut Fixture, phase: &str, revision: Option<i64>, message: &str) {
    let app = f.world.observed.get(&ObjectKey::namespaced(Kind::App, "berth-system", "net")).unwrap().clone();
    let app: berth_api::App = serde_json::from_value(app).unwrap();
    let release = app.spec.release_of("net");
    let name = names::app_installation("berth-system", "net", "acme");
    let status = if phase == "Deployed" { "True" } else { "False" };
    let ready = json!({
        "type": "Ready", "status": status, "reason": "Waiting", "message": message, "lastTransitionTime": "2026-01-01T00:00:00Z",
    });
    let there = revision.map(|revision| {
        json!({
            "namespace": "default", "name": "net", "asked": "a", "revision": revision, "chart": "net", "version": "1.0.0",
            "chartDigest": "c", "valuesDigest": "v",
        })
    });
    let failures = i64::from(phase == "Failed");
    let object = json!({
        "apiVersion": "berth.dev/v1alpha1", "kind": "AppInstallation",
        "metadata": {
            "name": name, "namespace": "team-a", "generation": 1,
            "labels": {labels::MANAGED_BY: labels::MANAGED_BY_VALUE, labels::CLUSTER_NAME: "acme"},
        },
        "spec": {
            "app": {"namespace": "berth-system", "name": "net", "uid": "app-uid"},
            "cluster": {"name": "acme", "uid": "cluster-uid"},
            "digest": berth_plan::apps::digest(&release, &berth_plan::apps::ValuesDigests::default()), "release": release,
        },
        "status": {
            "observedGeneration": 1, "phase": phase, "failures": failures, "message": message, "release": there, "conditions": [ready],
        },
    });
    f.world.observed.put(ObjectKey::namespaced(Kind::AppInstallation, "team-a", name), object);
}

/// Somebody deletes it.
pub(super) fn is_deleted(f: &mut Fixture) {
    let name = names::app_installation("berth-system", "net", "acme");
    let key = ObjectKey::namespaced(Kind::AppInstallation, "team-a", name);
    let live = f.world.observed.objects.get_mut(&key).unwrap();
    live["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z".into();
}

fn says(f: &Fixture, type_: &str) -> String {
    let (status, reason, message) = f.condition(type_);
    format!("{status} {reason}: {message}")
}

#[test]
fn a_required_app_is_a_part_of_ready_and_of_nothing_else() {
    let mut f = Fixture::up(json!({"version": "1.36.3"}));
    let published = |f: &Fixture| f.cluster.status.as_ref().unwrap().conditions.iter().any(|c| c.type_ == "AppsReady");
    requires(&mut f, |app| app["spec"]["required"] = false.into());
    f.rest();
    assert!(!published(&f) && f.condition("Ready").0 == "True");
    requires(&mut f, |_| {});
    f.world.log.clear();
    let planned = f.reconcile();
    let missing = "False AppsNotReady: App berth-system/net is not installed yet: its turn has not come, or it comes after another App";
    assert_eq!((says(&f, "AppsReady"), says(&f, "Ready")), (missing.to_owned(), missing.to_owned()));
    // Nothing is held up: no stage waits, and what asks whether all is well is told so.
    assert!(planned.plan.first_problem().is_none() && planned.plan.is_empty() && planned.hold.is_none());
    let input = Input { object: &f.cluster, observed: &f.world.observed, settings: &f.settings, now: f.world.now };
    assert!(crate::well::is_well(input));
    assert_eq!((f.condition("Available").0, f.condition("Degraded").0), ("True".into(), "False".into()));
    assert!(
        says(&f, "Progressing").starts_with("True RollingOut: App berth-system/net"),
        "{}",
        says(&f, "Progressing")
    );

    installation_says(&mut f, "Running", None, "waiting for its Job to install or upgrade it");
    f.rest();
    assert_eq!(
        says(&f, "AppsReady"),
        "False AppsNotReady: App berth-system/net is not deployed yet since 2026-01-01T00:00:00Z: waiting for its Job to install or upgrade it"
    );
    installation_says(&mut f, "Failed", None, "INSTALLATION FAILED: no");
    f.rest();
    let failed = "AppsNotReady: App berth-system/net has failed since 2026-01-01T00:00:00Z: INSTALLATION FAILED: no";
    for (type_, status) in [("AppsReady", "False"), ("Ready", "False"), ("Degraded", "True")] {
        assert_eq!(says(&f, type_), format!("{status} {failed}"));
    }
    installation_says(&mut f, "Deployed", Some(1), "revision 1");
    is_deleted(&mut f);
    f.rest();
    let name = names::app_installation("berth-system", "net", "acme");
    let expected = format!(
        "False AppsNotReady: App berth-system/net is being uninstalled, and is installed anew after that: AppInstallation team-a/{name} says how far that is"
    );
    assert_eq!(says(&f, "AppsReady"), expected);
    installation_says(&mut f, "Deployed", Some(1), "revision 1");
    f.rest();
    assert_eq!(says(&f, "AppsReady"), "True AsExpected: all Apps that are required are deployed");
    assert_eq!((f.condition("Ready").0, f.condition("Degraded").0), ("True".into(), "False".into()));
    f.world.log.clear();
    let before = f.cluster.status.clone();
    f.world.now += jiff::SignedDuration::from_mins(1);
    assert!(f.reconcile().plan.is_empty());
    assert_eq!(f.cluster.status, before, "at rest nothing is written");

    // A change whose turn comes, or that goes on, makes nobody's tenant unready.
    requires(&mut f, |app| app["spec"]["values"] = json!({"a": 1}));
    f.rest();
    assert_eq!(
        says(&f, "AppsReady"),
        "True AsExpected: all Apps that are required are deployed; a change of App berth-system/net is on its way"
    );
    assert_eq!(f.condition("Ready").0, "True");
    f.settings.apps.image.clear();
    f.rest();
    assert!(!published(&f), "there are no apps");
}

#[test]
fn a_tenant_has_to_have_what_is_for_it() {
    let lacks = |change: fn(&mut Value)| {
        let mut f = Fixture::up(json!({"version": "1.36.3"}));
        requires(&mut f, change);
        f.reconcile();
        f.condition("Ready").1 == "AppsNotReady"
    };
    assert!(lacks(|_| {}));
    assert!(lacks(
        |app| app["spec"]["clusterSelector"] = json!({"matchExpressions": [{"key": "x", "operator": "DoesNotExist"}]})
    ));
    assert!(!lacks(|app| app["spec"]["clusterSelector"] = json!({"matchLabels": {"env": "test"}})));
    assert!(!lacks(|app| app["metadata"]["namespace"] = "team-b".into()));
    assert!(!lacks(|app| app["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z".into()));
}

/// The App waits for `Available`, and `Ready` for the App.
#[test]
fn a_new_tenant_is_available_without_the_apps_that_it_has_to_have() {
    let mut f = Fixture::new(json!({"version": "1.36.3"}));
    requires(&mut f, |_| {});
    installation_says(&mut f, "Waiting", None, "waiting for Cluster team-a/acme to be available: it comes up");
    for _ in 0..5 {
        f.reconcile();
        f.others();
    }
    f.reconcile();
    assert_eq!((f.condition("Available").0, f.condition("Ready").1), ("True".into(), "AppsNotReady".into()));
    assert!(rights(&f).0 && way_out(&f).is_some(), "its Job may come, though there is no node");
}

#[test]
fn without_an_image_for_apps_nobody_gets_rights() {
    let mut f = Fixture::up(json!({"version": "1.36.3"}));
    with_an_app(&mut f);
    f.rest();
    assert_eq!((rights(&f), way_out(&f)), ((false, false), None));
}

/// Helm would be left amid its work.
#[test]
fn rights_and_the_way_out_stay_while_a_job_works() {
    let mut f = Fixture::up(json!({"version": "1.36.3"}));
    f.settings.apps.image = "reg/apps:1".into();
    let pod = Fixture::key(Kind::Pod, "acme-web");
    let works = |f: &mut Fixture, phase: &str| {
        let labels = json!({"app.kubernetes.io/component": names::APPS});
        f.world.put(pod.clone(), json!({"metadata": {"labels": labels}, "status": {"phase": phase}}));
    };
    works(&mut f, "Running");
    f.rest();
    assert_eq!(rights(&f), (false, false), "a pod alone brings none");
    f.world.remove(&pod);
    with_an_app(&mut f);
    f.rest();
    works(&mut f, "Running");
    f.settings.apps.image.clear();
    f.rest();
    assert!(rights(&f) == (true, true) && way_out(&f).is_some(), "apps are switched off");
    f.world.remove(&installation());
    f.rest();
    assert!(rights(&f) == (true, true) && way_out(&f).is_some(), "and it is let go");
    works(&mut f, "Succeeded");
    f.rest();
    f.rest();
    assert_eq!((rights(&f), way_out(&f)), ((false, false), None));
}

#[test]
fn an_app_that_has_not_come_says_why_in_its_own_words() {
    let mut f = Fixture::up(json!({"version": "1.36.3"}));
    let says_of = |f: &mut Fixture, clusters: Value| {
        requires(f, |app| {
            app["status"] = json!({"observedGeneration": 1, "clusters": clusters, "conditions": [{
                "type": "Ready", "status": "False", "reason": "AppFailed", "lastTransitionTime": "2026-01-01T00:00:00Z",
                "message": "failed in team-b/x",
            }]});
        });
        f.reconcile();
        says(f, "AppsReady")
    };
    let told = json!([{"namespace": "team-a", "name": "acme", "state": "Queued", "message": "it waits for wave 1"}]);
    let begins = "False AppsNotReady: App berth-system/net is not installed yet: it";
    assert_eq!(says_of(&mut f, told), format!("{begins} waits for wave 1"));
    assert_eq!(
        says_of(&mut f, json!([])),
        format!("{begins}s turn has not come, or it comes after another App. The App says: failed in team-b/x")
    );
    installation_says(&mut f, "Deleting", Some(1), "");
    let name = names::app_installation("berth-system", "net", "acme");
    let key = ObjectKey::namespaced(Kind::AppInstallation, "team-a", name);
    f.world.observed.objects.get_mut(&key).unwrap()["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z".into();
    f.reconcile();
    let begins = "False AppsNotReady: App berth-system/net is being uninstalled, and is installed anew after that";
    assert!(says(&f, "AppsReady").starts_with(begins), "{}", says(&f, "AppsReady"));
}
