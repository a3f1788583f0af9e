//! Surroundings that are not as they should be.

use crate::common::log::Log;
use crate::common::{Running, SOON, Team, crds, operator_world};
use berth_api::conditions::ConditionType;
use berth_testkit::FaultPlan;
use berth_testkit::fault::Verb;
use berth_testkit::fixtures::{from_json, until};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use serde_json::json;

/// As a CRD of another version might be: it takes whatever there is.
fn loose(crd: &CustomResourceDefinition) -> CustomResourceDefinition {
    let mut crd = serde_json::to_value(crd).expect("JSON");
    crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"] =
        json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true});
    from_json(crd)
}

#[tokio::test]
async fn a_cluster_that_cannot_be_read_keeps_no_other_waiting() {
    let crds: Vec<_> = crds().iter().map(loose).collect();
    let (server, _world) = operator_world(&crds).await;
    let (strange, good, plan) = (Team::new(server).await, Team::new(server).await, FaultPlan::new());
    for spec in [json!({"version": 5}), json!({"fromTheFuture": true})] {
        let _ = strange.create(spec).await;
    }
    let url = |kind: &str| format!("/apis/berth.dev/v1alpha1/namespaces/{}/{kind}", strange.ns);
    let etcd = json!({
        "apiVersion": "berth.dev/v1alpha1", "kind": "EtcdCluster", "metadata": {"name": "odd"}, "spec": {"version": 5},
    });
    let request = http::Request::post(url("etcdclusters")).header("content-type", "application/json");
    let request = request.body(etcd.to_string().into_bytes()).expect("request");
    strange.client.request::<serde_json::Value>(request).await.expect("EtcdCluster");
    let _running = Running::start(server, &plan);
    good.create(json!({})).await.expect("Cluster");
    good.ready().await.unwrap_or_else(|e| panic!("{e:#}"));
    for object in ["clusters/acme", "etcdclusters/odd"] {
        until(SOON, "it says so", async || {
            let request = http::Request::get(url(object)).body(vec![]).expect("request");
            let seen = strange.client.request::<serde_json::Value>(request).await.expect("get");
            let all = seen["status"]["conditions"].to_string();
            all.contains("InvalidSpec")
                && all.contains("this operator cannot read the object: invalid type: integer `5`, expected a string")
        })
        .await;
    }
    assert!(strange.namespaces().get_opt(&strange.cp_namespace).await.expect("get").is_none());
    good.condition(ConditionType::Ready).await.expect("condition");
}

#[tokio::test]
async fn without_crds_the_operator_waits_and_says_for_what() {
    let log = Log::default();
    let _guard = log.listen();
    let (server, _world) = operator_world(&[]).await;
    let plan = FaultPlan::new();
    let _running = Running::start(server, &plan);
    until(SOON, "it says so", async || {
        let text = log.text();
        text.contains("waiting: CustomResourceDefinition")
            && text.contains("is not there; install the chart berth-crds")
    })
    .await;
    assert!(
        plan.calls().iter().all(|c| c.verb == Verb::Get && c.resource == "customresourcedefinitions"),
        "{:?}",
        plan.calls()
    );
    server.install_crds(&crds()).await.expect("CRDs");
    until(SOON, "it begins", async || plan.calls().iter().any(|c| c.verb == Verb::Watch && c.resource == "clusters"))
        .await;
}
