//! An `App` against a real API server. The test is the Jobs' controller and their pods.
#![allow(clippy::disallowed_methods, reason = "a test fails by panicking")]

use crate::backup::gone;
use crate::common::{Running, SOON, SYSTEM, Team, alone_at_a_server, settings};
use anyhow::{Context as _, ensure};
use berth_api::app::{APP_SECRET, Drift};
use berth_api::apps::{Checked, Deployed, Drifted, Object, Outcome, TASK, Task, What};
use berth_api::conditions::ConditionType;
use berth_api::{App, AppInstallation, labels, names};
use berth_plan::settings::Apps;
use berth_testkit::fixtures::eventually;
use berth_testkit::{ApiServer, FaultPlan};
use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::api::core::v1::{ConfigMap, Pod, Secret};
use k8s_openapi::api::networking::v1::NetworkPolicy;
use kube::Api;
use kube::api::{DeleteParams, ListParams, Patch, PatchParams, PostParams};
use serde_json::json;

const AT: &str = "2026-01-01T00:00:10Z";

/// Waits for a Job with that kind of task, and ends it as its controller and kubelet would.
async fn ends(team: &Team, name: &str, is_it: impl Fn(&Task) -> bool, outcome: &Outcome) -> (Job, Secret) {
    let (jobs, pods) = (team.inside::<Job>(), team.inside::<Pod>());
    let found = eventually(SOON, "the Job", async || {
        let job = jobs.get(name).await.context("no Job")?;
        let env = job.spec.clone().unwrap().template.spec.unwrap().containers[0].env.clone().unwrap_or_default();
        let task = env.into_iter().find(|e| e.name == TASK).and_then(|e| e.value).context("no task")?;
        ensure!(job.metadata.deletion_timestamp.is_none() && is_it(&serde_json::from_str(&task)?), "{task}");
        Ok(job)
    });
    let job = found.await.unwrap_or_else(|e| panic!("{e:#}"));
    let secret = team.inside::<Secret>().get(name).await.expect("a Secret beside the Job");
    let template = job.spec.clone().unwrap().template;
    let mut labels = template.metadata.unwrap().labels.unwrap();
    labels.insert(labels::JOB_NAME.into(), name.into());
    let uid = job.metadata.uid.clone().unwrap();
    labels.insert("batch.kubernetes.io/controller-uid".into(), uid.clone());
    let pod_name = format!("pod-{uid}");
    let pod = json!({
        "apiVersion": "v1", "kind": "Pod", "metadata": {"name": pod_name, "labels": labels}, "spec": template.spec,
    });
    pods.create(&PostParams::default(), &serde_json::from_value(pod).unwrap()).await.unwrap();
    let end = json!({
        "exitCode": 0, "message": serde_json::to_string(outcome).unwrap(), "startedAt": AT, "finishedAt": AT,
    });
    let container = json!({"name": "apps", "image": "i", "imageID": "i", "ready": false, "restartCount": 0, "state": {"terminated": end}});
    let status = json!({"status": {"phase": "Succeeded", "containerStatuses": [container]}});
    pods.patch_status(&pod_name, &PatchParams::default(), &Patch::Merge(&status)).await.unwrap();
    let met = |type_: &str| json!({"type": type_, "status": "True", "reason": "Test", "message": "m", "lastTransitionTime": AT, "lastProbeTime": AT});
    let status = json!({"startTime": AT, "completionTime": AT, "succeeded": 1, "conditions": [met("SuccessCriteriaMet"), met("Complete")]});
    jobs.patch_status(name, &PatchParams::default(), &Patch::Merge(&json!({"status": status}))).await.unwrap();
    gone(jobs, name).await.unwrap_or_else(|e| panic!("{e:#}"));
    let _ = pods.delete(&pod_name, &DeleteParams::default().grace_period(0)).await;
    (job, secret)
}

fn apps() -> Apps {
    Apps {
        image: "apps:1".into(),
        namespace: SYSTEM.into(),
        sources: vec!["oci://reg.example.com:5000/charts/*".into()],
        ..Apps::default()
    }
}

fn deployed(revision: i64) -> Outcome {
    Outcome::Deployed(Deployed { revision, chart: "web".into(), version: "1.0.0".into(), ..Deployed::default() })
}

/// An operator with apps switched on.
fn operator(server: &'static ApiServer) -> Running {
    Running::start_with(server, berth_plan::Settings { apps: apps(), ..settings() }, &FaultPlan::new())
}

#[tokio::test(flavor = "multi_thread")]
async fn an_app_is_installed_upgraded_and_uninstalled_by_jobs() {
    let (_turn, server) = alone_at_a_server().await;
    let team = Team::with_cluster(server).await;
    let _operator = operator(server);
    team.ready().await.unwrap_or_else(|e| panic!("{e:#}"));
    let policies = team.inside::<NetworkPolicy>();
    assert!(policies.get_opt(names::APPS).await.unwrap().is_none(), "no way out without an app");

    let all: Api<App> = Api::namespaced(team.client.clone(), &team.ns);
    let app = json!({
        "apiVersion": "berth.dev/v1alpha1", "kind": "App", "metadata": {"name": "web"},
        "spec": {
            "clusterSelector": {}, "namespace": "shop", "values": {"replicas": 1}, "required": true, "drift": {"mode": "Ignore"},
            "chart": {"oci": "oci://reg.example.com:5000/charts/web", "version": "1.0.0"},
        },
    });
    let paths = json!([{"kind": "Secret", "paths": ["data"]}]);
    for (drift, says) in [
        (json!({"intervalSeconds": 10}), "should be greater than or equal to 600"),
        (json!({"ignore": paths}), "should match"),
        (json!({"ignore": [{"kind": "secrets"}]}), "should match"),
    ] {
        let mut bad = app.clone();
        bad["spec"]["drift"] = drift;
        let refused = all.create(&PostParams::default(), &serde_json::from_value(bad).unwrap()).await;
        assert!(refused.as_ref().is_err_and(|e| e.to_string().contains(says)), "{refused:?}");
    }
    all.create(&PostParams::default(), &serde_json::from_value(app).unwrap()).await.unwrap();
    let installations: Api<AppInstallation> = Api::namespaced(team.client.clone(), &team.ns);
    let name = names::app_installation(&team.ns, "web", "acme");
    let job = names::app_job(&name);
    let missing = team.says(ConditionType::AppsReady, "AppsNotReady").await;
    assert!(missing.contains(&format!("App {}/web", team.ns)), "{missing}");
    let deploys = |task: &Task| matches!(task, Task::Deploy(_));
    let (made, secret) = ends(&team, &job, deploys, &deployed(1)).await;
    let pod = made.spec.unwrap().template.spec.unwrap();
    assert_eq!(pod.automount_service_account_token, Some(false));
    let kubeconfig = String::from_utf8(secret.data.unwrap()["value"].0.clone()).unwrap();
    assert!(kubeconfig.contains(&format!("https://kube-apiserver.{}.svc:6443", team.cp_namespace)), "the tenant's");
    let policy = serde_json::to_value(policies.get(names::APPS).await.unwrap().spec).unwrap();
    let ports: Vec<_> =
        policy["egress"].as_array().unwrap().iter().map(|rule| rule["ports"][0]["port"].clone()).collect();
    assert_eq!(ports, [json!(6443), json!(53), json!(5000)]);
    let settled = |revision: i64| {
        let (installations, all, name) = (installations.clone(), all.clone(), name.clone());
        async move {
            eventually(SOON, "the App to be ready", async || {
                let release = installations.get(&name).await?.status.and_then(|s| s.release).context("no release")?;
                ensure!(release.revision == revision, "{release:?}");
                let status = all.get("web").await?.status.context("no status")?;
                ensure!(status.deployed == Some(1) && status.selected == Some(1), "{status:?}");
                Ok(())
            })
            .await
            .unwrap_or_else(|e| panic!("{e:#}"));
        }
    };
    settled(1).await;
    team.says(ConditionType::AppsReady, "AsExpected").await;
    team.ready().await.unwrap_or_else(|e| panic!("{e:#}"));

    // Somebody deletes it alone: it comes back, and nothing is uninstalled.
    let first = installations.get(&name).await.unwrap().metadata.uid;
    installations.delete(&name, &DeleteParams::default()).await.unwrap();
    ends(&team, &job, deploys, &deployed(1)).await;
    settled(1).await;
    assert_ne!(installations.get(&name).await.unwrap().metadata.uid, first);

    let change = json!({"spec": {"values": {"replicas": 2}}});
    all.patch("web", &PatchParams::default(), &Patch::Merge(&change)).await.unwrap();
    ends(&team, &job, deploys, &deployed(2)).await;
    settled(2).await;
    assert!(team.inside::<Secret>().get_opt(&job).await.unwrap().is_none(), "no key stays");

    // Looked at because somebody asks for it, which holds up nobody.
    let look = json!({"metadata": {"annotations": {labels::CHECK: "now"}}, "spec": {"drift": {"mode": "Report"}}});
    all.patch("web", &PatchParams::default(), &Patch::Merge(&look)).await.unwrap();
    let object = Object { kind: "Service".into(), namespace: "shop".into(), name: "web".into() };
    let missing = Drifted { object, what: What::Missing, ..Drifted::default() };
    let found = Outcome::Checked(Checked { count: 1, objects: vec![missing], ..Checked::default() });
    ends(&team, &job, |task| matches!(task, Task::Check(check) if check.release.name == "web"), &found).await;
    let said = eventually(SOON, "drift to be said", async || {
        let drift = installations.get(&name).await?.status.and_then(|s| s.drift).context("no drift")?;
        ensure!(drift.count == Some(1) && drift.objects[0].what == Drift::Missing, "{drift:?}");
        let status = all.get("web").await?.status.context("no status")?;
        ensure!(status.drifted == Some(1) && status.deployed == Some(1), "{status:?}");
        Ok(())
    });
    said.await.unwrap_or_else(|e| panic!("{e:#}"));

    all.delete("web", &DeleteParams::default()).await.unwrap();
    ends(&team, &job, |task| matches!(task, Task::Uninstall(_)), &Outcome::Uninstalled).await;
    gone(installations, &name).await.unwrap();
    gone(all, "web").await.unwrap();
    gone(policies, names::APPS).await.unwrap();
    let pods = team.inside::<Pod>().list(&ListParams::default().labels(labels::APP_INSTALLATION)).await.unwrap();
    assert!(pods.items.is_empty());
}

/// What a Job is given of ConfigMaps.
fn plain(job: &Job) -> serde_json::Value {
    let env = job.spec.clone().unwrap().template.spec.unwrap().containers[0].env.clone().unwrap_or_default();
    let task = env.into_iter().find(|e| e.name == TASK).and_then(|e| e.value).expect("a task");
    let Task::Deploy(task) = serde_json::from_str(&task).unwrap() else { panic!("{task}") };
    task.plain.iter().map(|one| json!([one.at, one.values])).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn values_of_others_objects_get_to_tenants_and_what_cannot_be_used_changes_nothing() {
    let (_turn, server) = alone_at_a_server().await;
    let team = Team::with_cluster(server).await;
    let _operator = operator(server);
    team.ready().await.unwrap_or_else(|e| panic!("{e:#}"));
    let all: Api<App> = Api::namespaced(team.client.clone(), &team.ns);
    let maps: Api<ConfigMap> = Api::namespaced(team.client.clone(), &team.ns);
    let app = |from: serde_json::Value| -> App {
        serde_json::from_value(json!({
            "apiVersion": "berth.dev/v1alpha1", "kind": "App", "metadata": {"name": "web"},
            "spec": {
                "clusterSelector": {}, "drift": {"mode": "Ignore"}, "valuesFrom": from,
                "chart": {"oci": "oci://reg.example.com:5000/charts/web", "version": "1.0.0"},
            },
        }))
        .unwrap()
    };
    for from in [json!({"key": "k"}), json!({"secretRef": {"name": "s"}, "configMapRef": {"name": "m"}})] {
        let refused = all.create(&PostParams::default(), &app(json!([from]))).await;
        let says = "valuesFrom: set one of secretRef and configMapRef";
        assert!(refused.as_ref().is_err_and(|e| e.to_string().contains(says)), "{refused:?}");
    }
    all.create(&PostParams::default(), &app(json!([{"configMapRef": {"name": "sizes"}}]))).await.unwrap();
    let name = names::app_installation(&team.ns, "web", "acme");
    let job = names::app_job(&name);
    let installations: Api<AppInstallation> = Api::namespaced(team.client.clone(), &team.ns);
    let says = async |what: &str| {
        let said = eventually(SOON, what, async || {
            // Of ConfigMaps nobody is told: any new text has the App looked at.
            let look = json!({"metadata": {"annotations": {"example.com/look": jiff::Timestamp::now().to_string()}}});
            let app = all.patch("web", &PatchParams::default(), &Patch::Merge(&look)).await?;
            let conditions = app.status.unwrap_or_default().conditions;
            let ready = conditions.iter().find(|c| c.type_ == "Ready").context("no condition")?;
            ensure!(ready.message.contains(what), "{}", ready.message);
            Ok(())
        });
        said.await.unwrap_or_else(|e| panic!("{e:#}"));
    };
    says("key values.yaml of ConfigMap").await;
    let apply = async |name: &str, label: &str, text: &str, immutable: bool| {
        let labels = json!({labels::APP_VALUES: label});
        let map = json!({
            "apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "labels": labels},
            "data": {"values.yaml": text, "other": "x"}, "immutable": immutable,
        });
        maps.patch(name, &PatchParams::apply("test").force(), &Patch::Apply(&map)).await.unwrap();
    };
    apply("sizes", "false", "size: 1", false).await;
    says("lacks the label berth.dev/app-values").await;
    apply("sizes", "true", "size: [", false).await;
    says("is not YAML of an object").await;
    assert!(installations.get_opt(&name).await.unwrap().is_none());

    let deploys = |task: &Task| matches!(task, Task::Deploy(_));
    for (revision, text, size) in [(1, "size: 1", 1), (2, "size: 2 # more", 2)] {
        apply("sizes", "true", text, false).await;
        says("being installed or upgraded in").await;
        let (made, _) = ends(&team, &job, deploys, &deployed(revision)).await;
        assert_eq!(plain(&made), json!([[0, {"size": size}]]));
        says("deployed in 1 Cluster").await;
    }
    let before = installations.get(&name).await.unwrap();
    maps.delete("sizes", &DeleteParams::default()).await.unwrap();
    says("What is deployed stays as it is").await;
    // Once the last Job is gone.
    let stays = eventually(SOON, "it to be there as before", async || {
        says("What is deployed stays as it is").await;
        let status = all.get("web").await?.status.unwrap_or_default();
        ensure!((status.deployed, status.selected) == (Some(1), Some(1)), "{status:?}");
        Ok(())
    });
    stays.await.unwrap_or_else(|e| panic!("{e:#}"));
    let after = installations.get(&name).await.unwrap();
    assert_eq!((after.spec, after.metadata.deletion_timestamp), (before.spec, None));
    apply("sizes", "true", "size: 2", false).await;
    says("deployed in 1 Cluster").await;
    assert!(team.inside::<Job>().get_opt(&job).await.unwrap().is_none(), "the same values need no Job");

    apply("fixed", "true", "size: 3", true).await;
    let from =
        json!({"spec": {"valuesFrom": [{"configMapRef": {"name": "sizes"}}, {"configMapRef": {"name": "fixed"}}]}});
    all.patch("web", &PatchParams::default(), &Patch::Merge(&from)).await.unwrap();
    let (made, _) = ends(&team, &job, deploys, &deployed(3)).await;
    assert_eq!(plain(&made), json!([[0, {"size": 2}], [1, {"size": 3}]]));
    says("deployed in 1 Cluster").await;

    let secrets: Api<Secret> = Api::namespaced(team.client.clone(), &team.ns);
    let keep = async |name: &str, type_: &str, key: &str, text: &str| {
        let secret = json!({
            "apiVersion": "v1", "kind": "Secret", "metadata": {"name": name}, "type": type_, "stringData": {key: text},
        });
        secrets.patch(name, &PatchParams::apply("test").force(), &Patch::Apply(&secret)).await.unwrap();
    };
    let from = json!({"spec": {
        "valuesFrom": [{"secretRef": {"name": "words"}}], "chart": {"pullSecretRef": {"name": "login"}},
    }});
    all.patch("web", &PatchParams::default(), &Patch::Merge(&from)).await.unwrap();
    says("Secret").await;
    keep("words", "Opaque", "values.yaml", "word: one").await;
    says("berth.dev/app").await;
    secrets.delete("words", &DeleteParams::default()).await.unwrap();
    keep("login", APP_SECRET, ".dockerconfigjson", "{}").await;
    for (revision, text) in [(4, "word: one"), (5, "word: two")] {
        keep("words", APP_SECRET, "values.yaml", text).await;
        says("being installed or upgraded in").await;
        let (made, beside) = ends(&team, &job, deploys, &deployed(revision)).await;
        assert_eq!(plain(&made), json!([]));
        let held = beside.data.unwrap_or_default();
        assert_eq!(held.get("values-0.yaml").map(|v| &*v.0), Some(text.as_bytes()), "{:?}", held.keys());
        says("deployed in 1 Cluster").await;
    }
    keep("login", APP_SECRET, ".dockerconfigjson", "{\"auths\": {}}").await;
    secrets.delete("words", &DeleteParams::default()).await.unwrap();
    says("What is deployed stays as it is").await;
    let status = installations.get(&name).await.unwrap().status.unwrap();
    assert_eq!(status.phase.as_deref(), Some("Deployed"), "{status:?}");
    assert!(team.inside::<Job>().get_opt(&job).await.unwrap().is_none(), "neither is a reason for a Job");

    all.delete("web", &DeleteParams::default()).await.unwrap();
    ends(&team, &job, |task| matches!(task, Task::Uninstall(_)), &Outcome::Uninstalled).await;
    gone(installations, &name).await.unwrap();
    gone(all, "web").await.unwrap();
}

/// The namespace controller may delete it, and nobody asked for the protected `Cluster` to lose what it has.
#[tokio::test(flavor = "multi_thread")]
async fn the_end_of_a_teams_namespace_uninstalls_nothing() {
    let (_turn, server) = alone_at_a_server().await;
    let team = Team::new(server).await;
    let plan = FaultPlan::new();
    let _operator = Running::start_with(server, berth_plan::Settings { apps: apps(), ..settings() }, &plan);
    team.create(json!({"deletion": {"protected": true}})).await.expect("Cluster");
    team.ready().await.unwrap_or_else(|e| panic!("{e:#}"));
    let all: Api<App> = Api::namespaced(team.client.clone(), &team.ns);
    let app = json!({
        "apiVersion": "berth.dev/v1alpha1", "kind": "App", "metadata": {"name": "web"},
        "spec": {
            "clusterSelector": {}, "drift": {"mode": "Ignore"},
            "chart": {"oci": "oci://reg.example.com:5000/charts/web", "version": "1.0.0"},
        },
    });
    all.create(&PostParams::default(), &serde_json::from_value(app).unwrap()).await.unwrap();
    let installations: Api<AppInstallation> = Api::namespaced(team.client.clone(), &team.ns);
    let name = names::app_installation(&team.ns, "web", "acme");
    let job = names::app_job(&name);
    ends(&team, &job, |task| matches!(task, Task::Deploy(_)), &deployed(1)).await;

    team.namespaces().delete(&team.ns, &DeleteParams::default()).await.unwrap();
    team.says(ConditionType::Degraded, "NamespaceDeleting").await;
    // As that controller does it.
    let _ = installations.delete(&name, &DeleteParams::default()).await;
    gone(installations, &name).await.unwrap();
    team.reconciled(&plan).await;
    assert!(team.inside::<Job>().get_opt(&job).await.unwrap().is_none(), "nothing is uninstalled");
    assert_eq!(team.condition(ConditionType::Available).await.expect("condition").status, "True", "it serves on");

    let _ = all.delete("web", &DeleteParams::default()).await;
    gone(all, "web").await.unwrap();
    team.spec(json!({"deletion": {"protected": false}})).await.expect("patch");
    team.gone().await.unwrap_or_else(|e| panic!("{e:#}"));
}
