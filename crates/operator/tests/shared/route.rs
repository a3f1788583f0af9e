//! A tenant that a `Gateway` of the platform's own leads to, against a real API server with the real `TLSRoute`. The controller of that
//! `Gateway` is this test.

use crate::common::{Running, SOON, Team, crds, operator_world, settings};
use anyhow::{Context as _, Result, ensure};
use berth_api::conditions::ConditionType::{Ready, RouteAccepted};
use berth_api::{labels, names};
use berth_plan::Settings;
use berth_plan::settings::{Engine, Gateway, Parent};
use berth_testkit::fixtures::{eventually, until};
use berth_testkit::{FaultPlan, gateway_api};
use k8s_openapi::api::core::v1::Service;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::ResourceExt as _;
use kube::api::{Api, ApiResource, DeleteParams, DynamicObject, GroupVersionKind, Patch, PatchParams};
use serde_json::{Value, json};

fn with(engines: &[Engine]) -> Settings {
    let parent = Parent { namespace: "edge".into(), name: "tls".into(), section_name: Some("tenants".into()) };
    let parents = engines.contains(&Engine::GatewayAPI).then_some(parent).into_iter().collect();
    let of = settings();
    let gateway = of.gateway.clone().map(|gateway| Gateway { engines: engines.to_vec(), parents, ..gateway });
    Settings { gateway, ..of }
}

fn routes(team: &Team) -> Api<DynamicObject> {
    let kind = GroupVersionKind::gvk("gateway.networking.k8s.io", "v1", "TLSRoute");
    let resource = ApiResource::from_gvk_with_plural(&kind, "tlsroutes");
    Api::namespaced_with(team.client.clone(), &team.cp_namespace, &resource)
}

async fn route(team: &Team) -> Option<DynamicObject> {
    routes(team).get_opt(names::APISERVER).await.expect("TLSRoutes are served")
}

async fn there(team: &Team) -> DynamicObject {
    let attempt = async || route(team).await.context("no TLSRoute");
    eventually(SOON, "the TLSRoute", attempt).await.unwrap_or_else(|e| panic!("{e:#}"))
}

/// As the specification has it: an entry for each parent that the controller knows.
async fn answer(team: &Team, accepted: (&str, &str)) {
    let live = there(team).await;
    let of = |type_: &str, (status, reason): (&str, &str)| {
        json!({
            "type": type_, "status": status, "reason": reason, "message": "by a test", "observedGeneration": live.metadata.generation,
            "lastTransitionTime": "2026-01-01T00:00:00Z",
        })
    };
    let parent_ref = live.data["spec"]["parentRefs"][0].clone();
    let status = json!({"status": {"parents": [{
        "parentRef": parent_ref, "controllerName": "test.berth.dev/controller",
        "conditions": [of("Accepted", accepted), of("ResolvedRefs", ("True", "ResolvedRefs"))],
    }]}});
    let written = routes(team).patch_status(names::APISERVER, &PatchParams::default(), &Patch::Merge(&status)).await;
    written.expect("a status as the schema has it");
}

/// When it was last written, but for its status.
fn written(route: &DynamicObject) -> Option<Time> {
    let all = route.metadata.managed_fields.iter().flatten();
    all.filter(|write| write.subresource.as_deref() != Some("status")).filter_map(|write| write.time.clone()).max()
}

async fn has_endpoints(team: &Team, hosts: &[&str]) {
    let attempt = async || -> Result<()> {
        let status = team.cluster().await.status.context("no status")?;
        let told: Vec<&str> = status.endpoints.iter().map(|endpoint| &*endpoint.host).collect();
        ensure!(told == hosts, "{told:?}");
        Ok(())
    };
    eventually(SOON, "endpoints", attempt).await.unwrap_or_else(|e| panic!("{e:#}"));
}

#[tokio::test]
async fn a_route_is_made_and_followed_and_goes_with_limits_and_with_the_engine() {
    let (server, _world) = operator_world(&crds()).await;
    let plan = FaultPlan::new();
    let both = [Engine::Berth, Engine::GatewayAPI];
    let operator = Running::start_with(server, with(&both), &plan);
    let team = Team::new(server).await;
    team.create(json!({"endpoint": {"type": "Gateway", "host": "api.acme.example"}})).await.expect("Cluster");
    team.ready().await.unwrap_or_else(|e| panic!("{e:#}"));
    team.says_of(RouteAccepted, "NoGatewayAPI", "the meta cluster does not have it, so nothing").await;

    // An older release: `v1` is not served.
    let older = gateway_api::tls_route(&["v1alpha3"]).expect("its CustomResourceDefinition");
    server.install_crds(&[older]).await.expect("CRD");
    team.touch().await;
    team.says_of(RouteAccepted, "NoGatewayAPI", "the meta cluster has it only as v1alpha3, so nothing").await;
    team.ready().await.unwrap_or_else(|e| panic!("{e:#}"));

    let crd = gateway_api::tls_route(&["v1"]).expect("its CustomResourceDefinition");
    server.install_crds(&[crd]).await.expect("CRD");
    team.touch().await;
    let live = there(&team).await;
    let own = format!("{}.{}", team.cp_namespace, crate::common::GATEWAY);
    let group = "gateway.networking.k8s.io";
    assert_eq!(
        live.data["spec"],
        json!({
            "hostnames": [own, "api.acme.example"],
            "parentRefs": [{"group": group, "kind": "Gateway", "namespace": "edge", "name": "tls", "sectionName": "tenants"}],
            "rules": [{"backendRefs": [{"group": "", "kind": "Service", "name": names::APISERVER, "port": 6443, "weight": 1}]}],
        })
    );
    assert_eq!(live.labels().get(labels::CLUSTER_NAMESPACE), Some(&team.ns));
    team.says_of(RouteAccepted, "Waiting", "waiting for Gateway edge/tls (listener tenants) to answer").await;
    team.ready().await.unwrap_or_else(|e| panic!("{e:#}"));
    team.reconciled(&plan).await;
    assert_eq!(there(&team).await.resource_version(), live.resource_version(), "at rest nothing is written");

    // From here on nothing else leads there.
    drop(operator);
    let operator = Running::start_with(server, with(&[Engine::GatewayAPI]), &plan);
    answer(&team, ("False", "NotAllowedByListeners")).await;
    team.says_of(Ready, "RouteNotAccepted", "NotAllowedByListeners (by a test). Let allowedRoutes").await;
    has_endpoints(&team, &[]).await;
    answer(&team, ("True", "Accepted")).await;
    has_endpoints(&team, &["api.acme.example"]).await;
    team.ready().await.unwrap_or_else(|e| panic!("{e:#}"));
    team.says(RouteAccepted, "AsExpected").await;

    // A change of the platform's gateways: when the route was written is known, so these have their time to answer.
    let before = written(&there(&team).await);
    drop(operator);
    let mut other = with(&[Engine::GatewayAPI]);
    other.gateway.as_mut().expect("a gateway").parents[0].name = "other".into();
    let operator = Running::start_with(server, other, &plan);
    team.says_of(RouteAccepted, "Waiting", "waiting for Gateway edge/other (listener tenants) to answer").await;
    assert!(written(&there(&team).await) > before, "its status was written since");
    drop(operator);
    let operator = Running::start_with(server, with(&[Engine::GatewayAPI]), &plan);
    team.says_of(RouteAccepted, "Waiting", "waiting for Gateway edge/tls (listener tenants) to look").await;
    answer(&team, ("True", "Accepted")).await;
    team.ready().await.unwrap_or_else(|e| panic!("{e:#}"));

    // One that somebody deletes comes back.
    routes(&team).delete(names::APISERVER, &DeleteParams::default()).await.expect("delete");
    team.says_of(RouteAccepted, "Waiting", "to answer").await;
    answer(&team, ("True", "Accepted")).await;
    team.ready().await.unwrap_or_else(|e| panic!("{e:#}"));

    team.spec(json!({"endpoint": {"gateway": {"maxConnections": 9}}})).await.expect("patch");
    team.says_of(Ready, "NotAllowed", "spec.endpoint.gateway.maxConnections is not allowed").await;
    until(SOON, "no TLSRoute", async || route(&team).await.is_none()).await;
    has_endpoints(&team, &[]).await;
    team.spec(json!({"endpoint": {"gateway": null}})).await.expect("patch");
    answer(&team, ("True", "Accepted")).await;
    team.ready().await.unwrap_or_else(|e| panic!("{e:#}"));
    has_endpoints(&team, &["api.acme.example"]).await;

    drop(operator);
    let _operator = Running::start_with(server, with(&[Engine::Berth]), &plan);
    until(SOON, "no TLSRoute", async || route(&team).await.is_none()).await;
    let is_marked = async || {
        let service = team.inside::<Service>().get(names::APISERVER).await.expect("the Service");
        service.annotations().contains_key(labels::TLS_ROUTE)
    };
    until(SOON, "nobody to look for it any more", async || !is_marked().await).await;
    team.ready().await.unwrap_or_else(|e| panic!("{e:#}"));
    let conditions: Value =
        serde_json::to_value(team.cluster().await.status.expect("status").conditions).expect("JSON");
    assert!(!conditions.to_string().contains("RouteAccepted"), "{conditions}");
}
