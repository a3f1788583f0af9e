//! A tenant behind the platform's gateway, against a real API server.

use crate::common::team::ACME;
use crate::common::{GATEWAY, SOON, Team, shared_operator};
use crate::refusals::workloads;
use anyhow::{Context as _, Result, ensure};
use berth_api::conditions::ConditionType;
use berth_api::gateway::{ANNOTATION, ClusterName, Exposed, LABEL, LABELLED};
use berth_api::names;
use berth_testkit::fixtures::{eventually, until};
use k8s_openapi::api::core::v1::{Secret, Service};
use kube::{Api, ResourceExt as _};
use serde_json::json;

/// What the gateway is told. None: it does not look at the Service.
async fn told(team: &Team) -> Option<Exposed> {
    let service = team.inside::<Service>().get(names::APISERVER).await.expect("the Service");
    let (label, text) = (service.labels().get(LABEL), service.annotations().get(ANNOTATION));
    assert_eq!((label.is_some(), label.is_none_or(|label| label == LABELLED)), (text.is_some(), true));
    text.map(|text| serde_json::from_str(text).expect("as gateways read it"))
}

/// The kubeconfig of the team names this server.
async fn leads_to(team: &Team, server: &str) {
    let secrets: Api<Secret> = Api::namespaced(team.client.clone(), &team.ns);
    let attempt = async || -> Result<()> {
        let secret = secrets.get(&names::kubeconfig(ACME)).await?;
        let text = secret.data.as_ref().and_then(|data| data.get("value")).context("no kubeconfig")?;
        let text = String::from_utf8_lossy(&text.0).into_owned();
        ensure!(text.contains(&format!("server: \"{server}\"\n")), "it names another");
        Ok(())
    };
    eventually(SOON, server, attempt).await.unwrap_or_else(|e| panic!("{e:#}"));
}

#[tokio::test]
async fn a_host_is_the_first_ones_until_it_gives_it_up() {
    let server = shared_operator().await;
    let (first, second) = (Team::new(server).await, Team::new(server).await);
    let asked = || json!({"endpoint": {"type": "Gateway", "host": "shared.acme.example"}});
    first.create(asked()).await.expect("Cluster");
    first.ready().await.unwrap_or_else(|e| panic!("{e:#}"));
    second.create(asked()).await.expect("Cluster");
    let of = format!("shared.acme.example is the name of Cluster {}/{ACME}, which had it first", first.ns);
    second.says_of(ConditionType::Ready, "NotAllowed", &of).await;
    first.spec(json!({"endpoint": {"host": null}})).await.expect("patch");
    second.ready().await.unwrap_or_else(|e| panic!("{e:#}"));
    leads_to(&second, "https://shared.acme.example:8443").await;
}

#[tokio::test]
async fn a_tenant_goes_behind_the_gateway_and_comes_back_and_restarts_nothing() {
    let team = Team::new(shared_operator().await).await;
    team.create(json!({"endpoint": {"type": "Gateway", "host": "api.acme.example"}})).await.expect("Cluster");
    team.ready().await.unwrap_or_else(|e| panic!("{e:#}"));
    let own = format!("{}.{GATEWAY}", team.cp_namespace);
    let cluster = ClusterName { namespace: team.ns.clone(), name: ACME.to_owned() };
    let of = |names: &[&str]| {
        let names = names.iter().map(|name| (*name).to_owned()).collect();
        let former_names = vec![];
        let (source_ranges, max_connections, hibernation) = (None, None, None);
        Exposed { cluster: cluster.clone(), names, former_names, source_ranges, max_connections, hibernation }
    };
    assert_eq!(told(&team).await, Some(of(&[&own, "api.acme.example"])));
    leads_to(&team, "https://api.acme.example:8443").await;
    team.says_of(ConditionType::PodsReachAPI, "NoIPAddress", "spec.addons.apiProxy.enabled").await;

    let before = workloads(&team).await;
    team.spec(json!({"endpoint": {"type": "ClusterIP", "host": null}})).await.expect("patch");
    team.ready().await.unwrap_or_else(|e| panic!("{e:#}"));
    until(SOON, "the gateway to be told nothing", async || told(&team).await.is_none()).await;
    let service = team.inside::<Service>().get(names::APISERVER).await.expect("the Service");
    let address = service.spec.and_then(|spec| spec.cluster_ip).expect("an address");
    leads_to(&team, &format!("https://{address}:6443")).await;

    team.spec(json!({"endpoint": {"type": "Gateway"}})).await.expect("patch");
    leads_to(&team, &format!("https://{own}:8443")).await;
    team.ready().await.unwrap_or_else(|e| panic!("{e:#}"));
    assert_eq!(told(&team).await, Some(of(&[&own])));
    let limits = json!({"sourceRanges": ["203.0.113.0/24"], "maxConnections": 9});
    team.spec(json!({"endpoint": {"gateway": limits}})).await.expect("patch");
    team.ready().await.unwrap_or_else(|e| panic!("{e:#}"));
    let source_ranges = Some(vec!["203.0.113.0/24".parse().expect("a network")]);
    assert_eq!(told(&team).await, Some(Exposed { source_ranges, max_connections: Some(9), ..of(&[&own]) }));
    team.spec(json!({"endpoint": {"gateway": null}})).await.expect("patch");
    team.ready().await.unwrap_or_else(|e| panic!("{e:#}"));
    assert_eq!(workloads(&team).await, before, "nobody touched what runs");

    team.spec(json!({"endpoint": {"host": "api.other.example"}})).await.expect("patch");
    team.says_of(ConditionType::Ready, "NotAllowed", "spec.endpoint.host: api.other.example is not allowed").await;
    assert_eq!(told(&team).await, Some(of(&[&own])), "it stays");
}
