//! A platform whose admission rewrites what Berth applies: resources, and images.

use crate::common::state::second_reconcile;
use crate::common::{Running, SOON, Team, alone_at_a_server, settings};
use berth_api::conditions::ConditionType;
use berth_api::{labels, names};
use berth_plan::Settings;
use berth_plan::settings::Config;
use berth_testkit::fixtures::{eventually, until};
use berth_testkit::{ApiServer, FaultPlan};
use k8s_openapi::api::apps::v1::{Deployment, StatefulSet};
use k8s_openapi::api::core::v1::{Namespace, PodTemplateSpec};
use kube::api::{ListParams, Patch, PatchParams, PostParams};
use kube::{Api, ResourceExt};
use serde_json::{Value, json};

const GROUP: &str = "/apis/admissionregistration.k8s.io/v1";

/// What no registry says.
const DIGEST: &str = "@sha256:00000000000000000000000000000000000000000000000000000000000000ab";

/// Where a container's resources, and its image, are rewritten by the first patch of a policy.
const CPU: &str =
    r#"[JSONPatch{op: "replace", path: "/spec/template/spec/containers/0/resources/requests/cpu", value: "250m"}]"#;

/// The image from a mirror, or as it is, by its digest.
fn image(mirror: &str) -> String {
    let image = "object.spec.template.spec.containers[0].image";
    format!(
        r#"{image}.contains("@") ? [] : [JSONPatch{{op: "replace", path: "/spec/template/spec/containers/0/image", value: "{mirror}" + {image} + "{DIGEST}"}}]"#
    )
}

async fn post(team: &Team, url: &str, object: Value) {
    let request = http::Request::post(url).header("content-type", "application/json");
    let request = request.body(object.to_string().into_bytes()).expect("request");
    team.client.request::<Value>(request).await.unwrap_or_else(|e| panic!("{url}: {e}"));
}

/// Whoever writes a workload of the team gets it so. It is in force when this returns: `result` is in what comes of a patch.
async fn install(server: &ApiServer, team: &Team, name: &str, patch: &str, result: &str) {
    let metadata = json!({"name": format!("{}-{name}", team.ns)});
    let policy = json!({
        "apiVersion": "admissionregistration.k8s.io/v1", "kind": "MutatingAdmissionPolicy", "metadata": metadata,
        "spec": {
            "reinvocationPolicy": "Never",
            "failurePolicy": "Ignore",
            "matchConstraints": {
                "namespaceSelector": {"matchLabels": {labels::CLUSTER_NAMESPACE: team.ns}},
                "resourceRules": [
                    {"apiGroups": ["apps"], "apiVersions": ["v1"], "resources": ["deployments", "statefulsets"], "operations": ["CREATE", "UPDATE"]},
                ],
            },
            "mutations": [{"patchType": "JSONPatch", "jsonPatch": {"expression": patch}}],
        },
    });
    let binding = json!({
        "apiVersion": "admissionregistration.k8s.io/v1", "kind": "MutatingAdmissionPolicyBinding", "metadata": metadata,
        "spec": {"policyName": metadata["name"]},
    });
    post(team, &format!("{GROUP}/mutatingadmissionpolicies"), policy).await;
    post(team, &format!("{GROUP}/mutatingadmissionpolicybindings"), binding).await;
    let probe = server.namespace("probe").await;
    let label = json!({"metadata": {"labels": {labels::CLUSTER_NAMESPACE: team.ns}}});
    let namespaces = Api::<Namespace>::all(team.client.clone());
    namespaces.patch(&probe, &PatchParams::default(), &Patch::Merge(label)).await.expect("label");
    let pods = json!({"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [
        {"name": "a", "image": "example.com/a:1", "resources": {"requests": {"cpu": "1m"}}}]}});
    let asked: Deployment = serde_json::from_value(json!({
        "metadata": {"name": "probe"}, "spec": {"selector": {"matchLabels": {"a": "b"}}, "template": pods},
    }))
    .expect("a Deployment");
    let dry = PostParams { dry_run: true, ..PostParams::default() };
    let deployments = Api::<Deployment>::namespaced(team.client.clone(), &probe);
    until(SOON, "the policy in force", async || {
        let answer = deployments.create(&dry, &asked).await.expect("dry run");
        json!(answer.spec).to_string().contains(result)
    })
    .await;
}

async fn uninstall(team: &Team, name: &str) {
    for what in ["mutatingadmissionpolicybindings", "mutatingadmissionpolicies"] {
        let url = format!("{GROUP}/{what}/{}-{name}", team.ns);
        let request = http::Request::delete(url).body(vec![]).expect("request");
        team.client.request::<Value>(request).await.expect("delete");
    }
}

/// (name, image, requested CPU) of each workload's first container.
async fn containers(team: &Team) -> Vec<(String, String, String)> {
    let mut all: Vec<(String, Option<PodTemplateSpec>)> = vec![];
    for d in team.inside::<Deployment>().list(&ListParams::default()).await.expect("list") {
        all.push((d.name_any(), d.spec.map(|s| s.template)));
    }
    for s in team.inside::<StatefulSet>().list(&ListParams::default()).await.expect("list") {
        all.push((s.name_any(), s.spec.map(|s| s.template)));
    }
    let one = |(name, template): (String, Option<PodTemplateSpec>)| {
        let container = template.and_then(|t| t.spec).expect("pods").containers.remove(0);
        let cpu = container.resources.and_then(|r| r.requests?.get("cpu").cloned()).unwrap_or_default();
        (name, container.image.unwrap_or_default(), cpu.0)
    };
    all.into_iter().map(one).collect()
}

/// A person writes another image of kube-scheduler, and it goes back to one that begins so, with the policy's digest.
async fn is_set_back(team: &Team, image: &str, to: &str) {
    let edit = json!({"spec": {"template": {"spec": {"containers": [{"name": names::SCHEDULER, "image": image}]}}}});
    let person = PatchParams::apply("somebody");
    team.inside::<Deployment>().patch(names::SCHEDULER, &person, &Patch::Strategic(edit)).await.expect("edit");
    until(SOON, "it is set back", async || {
        let all = containers(team).await;
        all.iter().any(|(name, image, _)| name == names::SCHEDULER && image.starts_with(to) && image.ends_with(DIGEST))
    })
    .await;
}

async fn at_rest(team: &Team, plan: &FaultPlan) {
    // It may have been ready before the operator saw the last edit. Who writes for ever never comes to rest.
    eventually(SOON, "it rests", async || second_reconcile(team, plan).await).await.unwrap_or_else(|e| panic!("{e:#}"));
    for _ in 0..3 {
        second_reconcile(team, plan).await.unwrap_or_else(|e| panic!("{e:#}"));
    }
}

fn declared() -> Settings {
    let paths = "[/spec/template/spec/containers/*/resources, /spec/template/spec/containers/*/image]";
    let file = format!("admission: {{mayChange: [{{kinds: [Deployment, StatefulSet, Job], paths: {paths}}}]}}");
    Settings { may_change: Config::parse(&file).expect("it is right").may_change, ..settings() }
}

#[tokio::test]
async fn where_it_is_declared_a_tenant_comes_up_changes_its_version_and_rests() {
    let (_turn, server) = alone_at_a_server().await;
    let (team, plan) = (Team::new(server).await, FaultPlan::new());
    install(server, &team, "resources", CPU, "250m").await;
    install(server, &team, "images", &image("mirror.example.com/"), DIGEST).await;
    team.create(json!({"version": "1.36.2"})).await.expect("Cluster");
    let _running = Running::start_with(server, declared(), &plan);
    team.ready().await.unwrap_or_else(|e| panic!("{e:#}"));
    at_rest(&team, &plan).await;
    team.spec(json!({"version": "1.36.3"})).await.expect("spec");
    team.ready().await.unwrap_or_else(|e| panic!("{e:#}"));
    let all = containers(&team).await;
    assert_eq!(all.len(), 4, "{all:?}");
    for (name, image, cpu) in &all {
        let rewritten = image.starts_with("mirror.example.com/registry.k8s.io/") && image.ends_with(DIGEST);
        assert!(rewritten && cpu == "250m", "{name}: {image} {cpu}");
        assert!(name == names::ETCD || image.contains(":v1.36.3@"), "{name}: {image}");
    }
    at_rest(&team, &plan).await;
    let said = team.says_of(ConditionType::Degraded, "ForeignFields", "became 250m").await;
    let image = format!("became mirror.example.com/registry.k8s.io/{}:v1.36.3", names::SCHEDULER);
    assert!(said.contains("/resources/requests/cpu: asked for ") && said.contains(&image), "{said}");
    // A person's edit of such a field is no admission's.
    is_set_back(&team, "example.com/other:1@sha256:ab", "mirror.example.com/registry.k8s.io/").await;
    team.ready().await.unwrap_or_else(|e| panic!("{e:#}"));
    at_rest(&team, &plan).await;
    for name in ["resources", "images"] {
        uninstall(&team, name).await;
    }
    team.wipe().await;
}

#[tokio::test]
async fn where_it_is_not_declared_digests_are_the_same_and_for_resources_the_line_is_told() {
    let (_turn, server) = alone_at_a_server().await;
    let (team, plan) = (Team::new(server).await, FaultPlan::new());
    install(server, &team, "images", &image(""), DIGEST).await;
    team.create(json!({"version": "1.36.2"})).await.expect("Cluster");
    let running = Running::start(server, &plan);
    team.ready().await.unwrap_or_else(|e| panic!("{e:#}"));
    at_rest(&team, &plan).await;
    // What a person pins the same tag to is something else.
    let tag = format!("registry.k8s.io/{}:v1.36.2@", names::SCHEDULER);
    is_set_back(&team, &format!("{tag}sha256:{:064}", 1), &tag).await;
    team.ready().await.unwrap_or_else(|e| panic!("{e:#}"));
    at_rest(&team, &plan).await;
    install(server, &team, "resources", CPU, "250m").await;
    team.spec(json!({"version": "1.36.3"})).await.expect("spec");
    let said = team.says_of(ConditionType::Ready, "Rejected", "became 250m").await;
    let line = "add to the chart's values: admission.mayChange: [{kinds: [Deployment], paths: [/spec/template/spec/containers/*/resources]}]";
    let field = format!("/spec/template/spec/containers/{}/resources/requests/cpu: asked for ", names::APISERVER);
    assert!(said.contains(&field) && said.contains(line), "{said}");
    drop(running);
    // Whoever does what the message says is through.
    let _running = Running::start_with(server, declared(), &plan);
    team.ready().await.unwrap_or_else(|e| panic!("{e:#}"));
    for (name, image, _) in containers(&team).await {
        assert!(image.ends_with(DIGEST) && image.starts_with("registry.k8s.io/"), "{name}: {image}");
        assert!(name == names::ETCD || image.contains(":v1.36.3@"), "{name}: {image}");
    }
    at_rest(&team, &plan).await;
    for name in ["resources", "images"] {
        uninstall(&team, name).await;
    }
    team.wipe().await;
}
