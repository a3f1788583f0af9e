//! Admission of the meta cluster that takes what Berth writes, and changes it.

use crate::common::{OPERATOR, SOON, Team, shared_operator};
use berth_api::conditions::ConditionType;
use berth_api::{labels, names};
use berth_testkit::fixtures::until;
use k8s_openapi::api::apps::v1::Deployment;
use kube::api::{Patch, PatchParams};
use serde_json::{Value, json};

const POLICIES: &str = "/apis/admissionregistration.k8s.io/v1/mutatingadmissionpolicies";
const BINDINGS: &str = "/apis/admissionregistration.k8s.io/v1/mutatingadmissionpolicybindings";

async fn post(team: &Team, url: &str, object: Value) {
    let request = http::Request::post(url).header("content-type", "application/json");
    let request = request.body(object.to_string().into_bytes()).expect("request");
    team.client.request::<Value>(request).await.unwrap_or_else(|e| panic!("{url}: {e}"));
}

/// Whoever writes the tenant's scheduler gets five replicas.
async fn five_schedulers(team: &Team) {
    let metadata = json!({"name": team.cp_namespace});
    let policy = json!({
        "apiVersion": "admissionregistration.k8s.io/v1", "kind": "MutatingAdmissionPolicy", "metadata": metadata,
        "spec": {
            "reinvocationPolicy": "Never",
            "matchConstraints": {
                "namespaceSelector": {"matchLabels": {labels::CLUSTER_NAMESPACE: team.ns}},
                "resourceRules": [
                    {"apiGroups": ["apps"], "apiVersions": ["v1"], "resources": ["deployments"], "operations": ["CREATE", "UPDATE"]},
                ],
            },
            "matchConditions": [{"name": "scheduler", "expression": "object.metadata.name == 'kube-scheduler'"}],
            "mutations": [{
                "patchType": "ApplyConfiguration",
                "applyConfiguration": {"expression": "Object{spec: Object.spec{replicas: 5}}"},
            }],
        },
    });
    let binding = json!({
        "apiVersion": "admissionregistration.k8s.io/v1", "kind": "MutatingAdmissionPolicyBinding", "metadata": metadata,
        "spec": {"policyName": team.cp_namespace},
    });
    post(team, POLICIES, policy).await;
    post(team, BINDINGS, binding).await;
    let deployments = team.inside::<Deployment>();
    until(SOON, "the policy", async || {
        let (patch, dry) = (json!({"metadata": {"annotations": {"a": "b"}}}), PatchParams::default().dry_run());
        let answer = deployments.patch(names::SCHEDULER, &dry, &Patch::Merge(patch)).await;
        answer.is_ok_and(|d| d.spec.and_then(|s| s.replicas) == Some(5))
    })
    .await;
}

#[tokio::test]
async fn what_is_changed_on_its_way_is_reported_and_not_sent_for_ever() {
    let server = shared_operator().await;
    let team = Team::with_cluster(server).await;
    team.ready().await.unwrap_or_else(|e| panic!("{e:#}"));
    five_schedulers(&team).await;
    let mark = server.audit_mark();
    team.spec(json!({"scheduler": {"extraArgs": [{"name": "v", "value": "3"}]}})).await.expect("patch");
    let said = team.says(ConditionType::Degraded, "Rejected").await;
    let why = "a mutating webhook or policy changes what Berth writes: /spec/replicas: asked for 1, became 5. Berth needs /spec/replicas as asked for";
    assert!(said.contains(&format!("apply Deployment {}/kube-scheduler: {why}", team.cp_namespace)), "{said}");
    let events = server.audit_since(mark);
    let count = |verb: &str, what: &str| {
        events.iter().filter(|e| e.user == OPERATOR && e.verb == verb && e.uri.contains(what)).count()
    };
    let written = count("patch", &format!("/namespaces/{}/deployments/kube-scheduler?", team.cp_namespace));
    let passes = count("get", &format!("/namespaces/{}/clusters/", team.ns));
    assert!((1..=passes).contains(&written), "{written} writes in {passes} passes");
    let request = http::Request::delete(format!("{BINDINGS}/{}", team.cp_namespace)).body(vec![]).expect("request");
    team.client.request::<Value>(request).await.expect("delete");
    team.ready().await.unwrap_or_else(|e| panic!("{e:#}"));
}
