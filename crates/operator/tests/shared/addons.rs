//! Add-ons inside a tenant: on by default, off, on again, and what is refused.

use crate::common::{GATEWAY, SOON, Team, shared_operator};
use anyhow::{Context as _, Result, ensure};
use berth_api::cluster::AddonStatus;
use berth_api::conditions::ConditionType;
use berth_testkit::fixtures::{eventually, until};
use k8s_openapi::api::apps::v1::{DaemonSet, Deployment};
use k8s_openapi::api::core::v1::{ConfigMap, Service, ServiceAccount};
use k8s_openapi::api::discovery::v1::EndpointSlice;
use kube::Api;
use kube::api::ListParams;
use serde_json::json;

async fn status(team: &Team) -> Vec<(String, Option<String>)> {
    let addons = team.cluster().await.status.unwrap_or_default().addons;
    addons.into_iter().map(|AddonStatus { name, version, .. }| (name, version)).collect()
}

/// Waits until the status lists these add-ons, all of them written.
async fn lists(team: &Team, wanted: &[(&str, &str)]) {
    let wanted: Vec<_> = wanted.iter().map(|(name, v)| ((*name).to_owned(), Some((*v).to_owned()))).collect();
    let attempt = async || -> Result<()> {
        let now = status(team).await;
        ensure!(now == wanted, "{now:?}");
        Ok(())
    };
    eventually(SOON, "status.addons", attempt).await.unwrap_or_else(|e| panic!("{e:#}"));
}

#[tokio::test]
async fn addons_are_on_by_default_go_and_come_back() {
    let team = Team::with_cluster(shared_operator().await).await;
    team.ready().await.unwrap_or_else(|e| panic!("{e:#}"));
    let system = format!("{}-system", team.tenant().await.unwrap());
    let client = team.client.clone();
    let deployments: Api<Deployment> = Api::namespaced(client.clone(), &system);
    let daemons: Api<DaemonSet> = Api::namespaced(client.clone(), &system);
    let maps: Api<ConfigMap> = Api::namespaced(client.clone(), &system);
    let services: Api<Service> = Api::namespaced(client.clone(), &system);
    let accounts: Api<ServiceAccount> = Api::namespaced(client, &system);
    let version = team.cluster().await.spec.version;
    lists(&team, &[("coredns", "1.14.2"), ("kube-proxy", &version)]).await;
    assert_eq!(deployments.get("coredns").await.unwrap().spec.unwrap().replicas, Some(2));
    let daemon = daemons.get("kube-proxy").await.unwrap().spec.unwrap().template.spec.unwrap();
    assert!(daemon.containers[0].image.as_deref().unwrap().ends_with(&format!("/kube-proxy:v{version}")));

    let patch = json!({"spec": {"addons": {"kubeProxy": {"config": {"mode": "ipvs"}}}}});
    team.merge("acme", &patch).await;
    let says = team.says_of(ConditionType::Ready, "InvalidSpec", "kubeProxy.config.mode").await;
    assert!(says.contains("Set spec.addons.kubeProxy.mode"), "{says}");
    daemons.get("kube-proxy").await.expect("what is refused leaves what runs");
    let patch = json!({"spec": {"addons": {"kubeProxy": {"mode": "nftables", "config": {"mode": null, "conntrack": {"min": 0}}}}}});
    team.merge("acme", &patch).await;
    team.ready().await.unwrap_or_else(|e| panic!("{e:#}"));
    let data = maps.get("kube-proxy").await.unwrap().data.context("data").unwrap();
    let config: serde_json::Value = serde_saphyr::from_str(&data["config.conf"]).unwrap();
    assert_eq!((&config["mode"], &config["conntrack"]), (&json!("nftables"), &json!({"min": 0})));

    let off = json!({"spec": {"addons": {"coreDNS": {"enabled": false}, "kubeProxy": {"enabled": false}}}});
    team.merge("acme", &off).await;
    lists(&team, &[]).await;
    assert!(deployments.get_opt("coredns").await.unwrap().is_none());
    assert!(daemons.get_opt("kube-proxy").await.unwrap().is_none());
    assert!(services.get_opt("kube-dns").await.unwrap().is_none());
    for name in ["coredns", "kube-proxy"] {
        assert!(accounts.get_opt(name).await.unwrap().is_none(), "{name}");
        assert!(maps.get_opt(name).await.unwrap().is_none(), "{name}");
        assert!(maps.get_opt(&format!("berth-{name}")).await.unwrap().is_none(), "{name}");
    }
    let on = json!({"spec": {"addons": {"coreDNS": {"enabled": null, "replicas": 3}, "kubeProxy": {"enabled": null}}}});
    team.merge("acme", &on).await;
    lists(&team, &[("coredns", "1.14.2"), ("kube-proxy", &version)]).await;
    assert_eq!(deployments.get("coredns").await.unwrap().spec.unwrap().replicas, Some(3));
}

#[tokio::test]
async fn pods_are_led_to_the_api_by_an_address_of_their_node_and_back() {
    let team = Team::new(shared_operator().await).await;
    team.create(json!({"endpoint": {"type": "Gateway"}})).await.expect("Cluster");
    team.ready().await.unwrap_or_else(|e| panic!("{e:#}"));
    let tenant = team.tenant().await.unwrap();
    let daemons: Api<DaemonSet> = Api::namespaced(team.client.clone(), &format!("{tenant}-system"));
    // Whose slices are called what is the simulation's.
    let slices: Api<EndpointSlice> = Api::all(team.client.clone());
    let is_led_to = async |address: &str| {
        let all = slices.list(&ListParams::default()).await.expect("list");
        all.items.iter().flat_map(|slice| &slice.endpoints).any(|of| of.addresses.iter().any(|is| is == address))
    };
    team.spec(json!({"addons": {"apiProxy": {"enabled": true}}})).await.expect("patch");
    team.says_of(ConditionType::PodsReachAPI, "AsExpected", "from where the add-on api-proxy on each node leads").await;
    team.ready().await.unwrap_or_else(|e| panic!("{e:#}"));
    let pod = daemons.get("api-proxy").await.unwrap().spec.unwrap().template.spec.unwrap();
    let name = format!("{}.{GATEWAY}", team.cp_namespace);
    let command = pod.containers[0].command.clone().unwrap();
    assert_eq!(command[1..], ["--listen=240.0.0.1:8443", &format!("--to={name}:8444"), &format!("--name={name}")]);
    assert_eq!((pod.host_network, pod.automount_service_account_token), (Some(true), Some(false)));

    team.spec(json!({"endpoint": {"advertiseAddress": "240.7.0.46"}})).await.expect("patch");
    until(SOON, "the other address", async || is_led_to("240.7.0.46").await).await;
    // An address of its pods is none of its nodes', and what runs stays.
    team.spec(json!({"endpoint": {"advertiseAddress": "10.160.0.7"}})).await.expect("patch");
    team.says_of(ConditionType::Ready, "InvalidSpec", "10.160.0.7 is in 10.160.0.0/16 of spec.network.podCIDRs").await;
    assert!(is_led_to("240.7.0.46").await);

    let off = json!({"endpoint": {"advertiseAddress": null}, "addons": {"apiProxy": {"enabled": null}}});
    team.spec(off).await.expect("patch");
    team.says_of(ConditionType::PodsReachAPI, "NoIPAddress", "spec.addons.apiProxy.enabled").await;
    team.ready().await.unwrap_or_else(|e| panic!("{e:#}"));
    assert!(!is_led_to("240.7.0.46").await);
    assert!(daemons.get_opt("api-proxy").await.unwrap().is_none());
}
