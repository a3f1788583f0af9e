//! What the platform team may apply beside the charts.

use super::*;

use std::{collections::BTreeMap, fs};

const OLDEST: &str = include_str!("../../../../examples/oldest-patch-releases.yaml");

#[tokio::test]
async fn writers_get_no_patch_release_older_than_the_platform_teams_oldest() {
    let server = server().await;
    let team = server.namespace("team").await;
    let made = async |name: &str, version: &str| {
        let mut object = cluster(name);
        object["spec"]["version"] = version.into();
        create(&server.client(), "Cluster", &team, object, false).await
    };
    made("older", "1.36.1").await.expect("there is no policy yet");
    for object in OLDEST.split("---\n") {
        apply(&server.client(), berth_testkit::fixtures::from_yaml(object)).await.expect("the example is valid");
    }
    let refused = async || {
        let name = server.unique("probe");
        let error = made(&name, "1.34.0").await.err().map(|e| e.to_string()).unwrap_or_default();
        let message = "spec.version 1.34.0 is too old: ask for 1.34.4, 1.35.4, 1.36.2 or newer";
        if error.contains(message) { Ok(()) } else { Err(error) }
    };
    eventually(Duration::from_secs(30), "the policy is in force", refused).await.expect("it refuses");
    for (name, version) in [("a", "1.34.4"), ("b", "1.35.12"), ("c", "1.36.2"), ("d", "1.37.0")] {
        made(name, version).await.expect(version);
    }
    // What runs is left as it is; another version is a choice.
    let client = server.client();
    let change = async |patch: Value| protection::merge(&client, "Cluster", &team, "older", patch).await;
    change(json!({"spec": {"replicas": 2}, "metadata": {"finalizers": ["berth.dev/control-plane"]}}))
        .await
        .expect("kept");
    refusal(change(json!({"spec": {"version": "1.35.3"}})).await);
    change(json!({"spec": {"version": "1.36.2"}})).await.expect("new enough");
}

/// Files of the catalog: name and text.
fn catalog() -> BTreeMap<String, String> {
    let folder = berth_testkit::fixtures::package().join("../examples/apps");
    let files = fs::read_dir(folder).expect("the catalog").map(|entry| entry.expect("a file").path());
    let apps = files.filter(|path| path.extension().is_some_and(|kind| kind == "yaml"));
    let name = |path: &std::path::Path| path.file_stem().expect("a name").to_string_lossy().into_owned();
    apps.map(|path| (name(&path), fs::read_to_string(&path).expect("a text"))).collect()
}

#[tokio::test]
async fn every_file_of_the_catalog_is_an_app_from_the_one_registry() {
    let server = server().await;
    let page = include_str!("../../../../docs/apps.md");
    let test = include_str!("../../../../e2e/tests/long/catalog.rs");
    let all = catalog();
    assert!(all.len() > 3, "{:?}", all.keys());
    for (name, text) in &all {
        let app: Value = berth_testkit::fixtures::from_yaml(text);
        let metadata = json!({"name": name, "namespace": "berth-system"});
        assert_eq!((&app["kind"], &app["metadata"]), (&json!("App"), &metadata), "{name}");
        let chart = app["spec"]["chart"]["oci"].as_str().expect("a chart");
        assert!(chart.starts_with("oci://registry.example.com/charts/"), "{name}: {chart}");
        let others = app["spec"]["after"].as_array().into_iter().flatten();
        for other in others {
            assert!(all.contains_key(other["name"].as_str().expect("a name")), "{name} comes after {other}");
        }
        create(&server.client(), "App", "berth-system", app, true).await.unwrap_or_else(|e| panic!("{name}: {e}"));
        assert!(page.contains(&format!("| `{name}` |")), "docs/apps.md does not list {name}");
        let is_run = test.contains(&format!("\"{name}\""));
        let says = if is_run { "e2e/tests/long/catalog.rs runs it." } else { "No test runs it" };
        assert!(text.contains(says), "{name} is to say: {says}");
    }
}

#[tokio::test]
async fn the_charts_of_the_catalog_render_what_the_api_takes() {
    let server = server().await;
    let name = server.unique("router");
    let values = ["api.host=10.0.0.7", "serviceCIDRs={10.112.0.0/16,10.113.0.0/16}", "extraArgs={--v=2}"];
    let values: Vec<&str> = values.iter().flat_map(|value| ["--set", value]).collect();
    let output =
        helm(&[&["template", &*name, "../examples/apps/charts/kube-router", "-n", "berth-system"], &*values].concat());
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let text = String::from_utf8(output.stdout).expect("UTF-8");
    let objects = text.split("---\n").filter(|object| object.contains("kind:"));
    let mut kinds = Vec::new();
    for object in objects {
        let object: Value = berth_testkit::fixtures::from_yaml(object);
        kinds.push(object["kind"].as_str().expect("a kind").to_owned());
        apply(&server.client(), object).await.expect("the API takes it");
    }
    assert_eq!(kinds, ["ServiceAccount", "ClusterRole", "ClusterRoleBinding", "DaemonSet"]);
}
