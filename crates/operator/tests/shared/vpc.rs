//! Tenants whose API servers have addresses in a VPC, against a real API server.

use crate::common::{Team, shared_operator};
use anyhow::{Result, ensure};
use berth_api::conditions::ConditionType;
use berth_api::{Cluster, labels};
use berth_testkit::fixtures::eventually;
use k8s_openapi::api::apps::v1::{Deployment, StatefulSet};
use k8s_openapi::api::core::v1::{ConfigMap, Pod};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::{ApiResource, DynamicObject, GroupVersionKind, ListParams, Patch, PatchParams};
use kube::{Api, Client, ResourceExt as _};
use serde_json::{Value, json};

const DEFINITIONS: &str = "network-attachment-definitions";

/// The kind as its specification has it: a CNI meta-plugin brings it.
async fn install(client: &Client) {
    let names = json!({"plural": DEFINITIONS, "singular": "network-attachment-definition", "kind": "NetworkAttachmentDefinition"});
    let schema = json!({"openAPIV3Schema": {"type": "object", "properties": {
        "spec": {"type": "object", "properties": {"config": {"type": "string"}}}}}});
    let crd = json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": format!("{DEFINITIONS}.k8s.cni.cncf.io")},
        "spec": {"group": "k8s.cni.cncf.io", "scope": "Namespaced", "names": names,
            "versions": [{"name": "v1", "served": true, "storage": true, "schema": schema}]},
    });
    let crds = Api::<CustomResourceDefinition>::all(client.clone());
    let apply = PatchParams::apply("test").force();
    crds.patch(&format!("{DEFINITIONS}.k8s.cni.cncf.io"), &apply, &Patch::Apply(&crd)).await.expect("CRD");
}

fn definitions(client: &Client, namespace: &str) -> Api<DynamicObject> {
    let kind = GroupVersionKind::gvk("k8s.cni.cncf.io", "v1", "NetworkAttachmentDefinition");
    Api::namespaced_with(client.clone(), namespace, &ApiResource::from_gvk_with_plural(&kind, DEFINITIONS))
}

async fn define(team: &Team, annotations: Value) {
    let object = json!({
        "apiVersion": "k8s.cni.cncf.io/v1", "kind": "NetworkAttachmentDefinition",
        "metadata": {"name": "vpc-acme", "annotations": annotations}, "spec": {"config": "{}"},
    });
    eventually(crate::common::SOON, "the kind to be served", async || {
        let apply = PatchParams::apply("test").force();
        definitions(&team.client, &team.ns).patch("vpc-acme", &apply, &Patch::Apply(&object)).await
    })
    .await
    .expect("the kind is served");
}

fn vpc(addresses: &[&str]) -> Value {
    json!({"attachment": {"name": "vpc-acme", "interface": "net1"}, "addresses": addresses})
}

/// With an address that moves.
fn moving(addresses: &[&str]) -> Value {
    let mut all = vpc(addresses);
    all["virtualIP"] = json!("172.20.0.10");
    all
}

const ADDRESSES: [&str; 3] = ["172.20.0.2/24", "172.20.0.3/24", "172.20.0.4/24"];

async fn replicas(team: &Team) -> Result<Vec<i32>> {
    let sets = team.inside::<StatefulSet>();
    let mut all = vec![];
    for slot in 0..3 {
        all.push(sets.get(&format!("kube-apiserver-{slot}")).await?.spec.and_then(|s| s.replicas).unwrap_or_default());
    }
    Ok(all)
}

/// The first two run, and the spare does not.
async fn rests(team: &Team) {
    let attempt = async || {
        let all = replicas(team).await?;
        ensure!(all == [1, 1, 0], "{all:?}");
        Ok(())
    };
    eventually(crate::common::SOON, "the spare to rest", attempt).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_tenant_in_a_vpc_has_an_api_server_for_each_address() {
    let server = shared_operator().await;
    let team = Team::new(server).await;
    team.create(json!({"replicas": 2, "vpc": moving(&ADDRESSES)})).await.expect("valid");
    let said = team.says(ConditionType::VPCReady, "InvalidSpec").await;
    assert!(
        said.contains("vpc-acme does not exist. Create it; or, if the meta cluster does not know the kind"),
        "{said}"
    );
    assert!(team.namespaces().get_opt(&team.cp_namespace).await.expect("get").is_none(), "nothing is made");

    install(&team.client).await;
    define(&team, json!({})).await;
    let cluster = team.ready().await.expect("ready");
    let told: Vec<_> = cluster.status.unwrap_or_default().endpoints;
    assert!(
        told.iter().any(|e| (e.name.as_str(), e.host.as_str(), e.port) == ("nodes", "172.20.0.10", 6443)),
        "{told:?}"
    );
    assert!(team.inside::<Deployment>().get_opt("kube-apiserver").await.expect("get").is_none());
    rests(&team).await;
    let pod = team.inside::<Pod>().get("kube-apiserver-1-0").await.expect("pod");
    let asked = &pod.metadata.annotations.unwrap_or_default()["k8s.v1.cni.cncf.io/networks"];
    assert!(asked.contains(r#""ips":["172.20.0.3/24"]"#), "{asked}");
    // By a copy beside it, so that a meta-plugin may keep namespaces apart.
    assert!(asked.contains(&format!(r#""namespace":"{}""#, team.cp_namespace)), "{asked}");
    let copy = definitions(&team.client, &team.cp_namespace).get("vpc-acme").await.expect("the copy");
    assert_eq!(copy.data["spec"], json!({"config": "{}"}));

    let first = pod.spec.as_ref().and_then(|s| s.init_containers.as_ref()?.first()).expect("an init container");
    assert_eq!((first.name.as_str(), first.restart_policy.as_deref()), ("vpc", Some("Always")));
    let labels =
        team.namespaces().get(&team.cp_namespace).await.expect("namespace").metadata.labels.unwrap_or_default();
    assert_eq!((labels[labels::VPC].as_str(), labels[labels::POD_SECURITY].as_str()), ("true", "privileged"));
    let net = net(&team).await;
    assert_eq!((&net["virtualIP"], &net["slots"]), (&json!("172.20.0.10"), &json!(ADDRESSES)));
    assert_eq!(net["open"][0]["port"], 2379);

    // A route: the pods' container reads it, and kube-apiserver gets its flag.
    let routes = json!([{"dst": "10.160.0.0/16", "via": "172.20.0.1"}]);
    team.spec(json!({"vpc": {"routes": routes}})).await.expect("patch");
    eventually(crate::common::SOON, "the route", async || {
        let net = self::net(&team).await;
        ensure!(net["routes"] == routes, "{net}");
        Ok(())
    })
    .await
    .expect("told");

    // Another template: the same end, and new pods. One after the other: a spare that proves it, and two slots.
    let before = pod.metadata.uid;
    team.spec(json!({"apiServer": {"extraArgs": [{"name": "v", "value": "1"}]}})).await.expect("patch");
    eventually(2 * crate::common::SOON, "new arguments", async || -> Result<()> {
        for slot in 0..2 {
            let pod = team.inside::<Pod>().get(&format!("kube-apiserver-{slot}-0")).await?;
            let args = pod.spec.and_then(|s| s.containers.into_iter().next()?.args).unwrap_or_default();
            ensure!(args.iter().any(|arg| arg == "--v=1"), "slot {slot} has the old arguments");
        }
        Ok(())
    })
    .await
    .expect("rolled");
    team.ready().await.expect("ready");
    rests(&team).await;
    assert_ne!(team.inside::<Pod>().get("kube-apiserver-1-0").await.expect("pod").metadata.uid, before);
    team.delete().await;
    team.gone().await.expect("gone");
}

/// What the container `vpc` is told.
async fn net(team: &Team) -> Value {
    let map = team.inside::<ConfigMap>().get("kube-apiserver-vpc").await.expect("the ConfigMap");
    serde_json::from_str(&map.data.expect("data")["net.json"]).expect("JSON")
}

/// The test's world is no network plugin.
#[tokio::test(flavor = "multi_thread")]
async fn addresses_may_be_the_providers() {
    let server = shared_operator().await;
    let team = Team::new(server).await;
    install(&team.client).await;
    define(&team, json!({})).await;
    let attachment = json!({"name": "vpc-acme", "interface": "net1"});
    let why = team.create(json!({"vpc": {"attachment": attachment}})).await.expect_err("nobody knows where the API is");
    assert!(why.to_string().contains("vpc.host is required without vpc.addresses"), "{why}");
    let vpc = json!({"attachment": attachment, "host": "acme.vpc.example.com"});
    team.create(json!({"replicas": 2, "vpc": vpc})).await.expect("valid");
    let pods = team.inside::<Pod>();
    let of_it = ListParams::default().labels("app.kubernetes.io/component=kube-apiserver");
    let attach = async || -> Result<()> {
        let all = pods.list(&of_it).await?.items;
        ensure!(all.len() == 2, "{} pods", all.len());
        for (n, pod) in all.iter().enumerate() {
            let annotations = pod.annotations();
            let asked = annotations.get("k8s.v1.cni.cncf.io/networks").map(String::as_str).unwrap_or_default();
            ensure!(asked.contains("vpc-acme") && !asked.contains("ips"), "{asked}");
            let status = json!([{"interface": "net1", "ips": [format!("172.20.0.20{n}")]}]).to_string();
            let patch = json!({"metadata": {"annotations": {"k8s.v1.cni.cncf.io/network-status": status}}});
            pods.patch(&pod.name_any(), &PatchParams::default(), &Patch::Merge(patch)).await?;
        }
        Ok(())
    };
    eventually(crate::common::SOON, "two API servers", attach).await.expect("attached");
    let cluster = team.ready().await.expect("ready");
    let told = cluster.status.unwrap_or_default().endpoints;
    assert!(told.iter().any(|e| (e.name.as_str(), e.host.as_str()) == ("nodes", "acme.vpc.example.com")), "{told:?}");
    let said = team.says(ConditionType::VPCReady, "AsExpected").await;
    assert!(said.contains("172.20.0.200, 172.20.0.201"), "{said}");
    assert_eq!(net(&team).await["slots"], Value::Null);
}

#[tokio::test(flavor = "multi_thread")]
async fn another_teams_network_counts_only_where_it_says_so() {
    let server = shared_operator().await;
    let (owner, team) = (Team::new(server).await, Team::new(server).await);
    install(&team.client).await;
    define(&owner, json!({})).await;
    let mut elsewhere = vpc(&ADDRESSES[..1]);
    elsewhere["attachment"]["namespace"] = json!(owner.ns);
    team.create(json!({"vpc": elsewhere})).await.expect("valid");
    let said = team.says(ConditionType::VPCReady, "NotAllowed").await;
    assert!(said.contains(labels::ALLOW_FROM) && said.contains(&team.ns), "{said}");
    assert!(team.namespaces().get_opt(&team.cp_namespace).await.expect("get").is_none(), "nothing is made");
    define(&owner, json!({labels::ALLOW_FROM: team.ns})).await;
    team.ready().await.expect("ready");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_cannot_work_is_refused_at_once() {
    let server = shared_operator().await;
    let team = Team::new(server).await;
    let refused = |vpc: Value| {
        let team = team.clone();
        async move { team.create(json!({"vpc": vpc})).await.expect_err("refused").to_string() }
    };
    for (addresses, said) in [
        (&["172.20.0.2"][..], "an IPv4 address with the prefix length"),
        (&["fd00::2/64"][..], "an IPv4 address with the prefix length"),
        (&["172.20.0.0/24"][..], "not the address of the subnet itself"),
        (&["172.20.0.2/24", "172.20.1.3/24"][..], "all must be of one subnet"),
        (&["172.20.0.2/24", "172.20.0.2/24"][..], "Duplicate value"),
    ] {
        let why = refused(vpc(addresses)).await;
        assert!(why.contains(said), "{addresses:?}: {why}");
    }
    for (interface, said) in [("eth0", "eth0 and lo are the pod's own"), ("a234567890123456", "15")] {
        let mut all = vpc(&ADDRESSES);
        all["attachment"]["interface"] = json!(interface);
        let why = refused(all).await;
        assert!(why.contains(said), "{interface}: {why}");
    }
    for (fields, said) in [
        (json!({"virtualIP": "172.20.1.10"}), "vpc.virtualIP must be in the subnet"),
        (json!({"virtualIP": "172.20.0.3"}), "vpc.virtualIP must not be one of vpc.addresses"),
        (json!({"virtualIP": "fd00::10"}), "vpc.virtualIP must be an IPv4 address"),
        (
            json!({"virtualIP": "172.20.0.10", "addresses": null, "host": "a.example"}),
            "vpc.virtualIP needs vpc.addresses",
        ),
        (json!({"routes": [{"dst": "10.160.0.1/16", "via": "172.20.0.1"}]}), "dst must be an IPv4 network"),
        (json!({"routes": [{"dst": "fd00:1::/64", "via": "172.20.0.1"}]}), "dst must be an IPv4 network"),
        (json!({"routes": [{"dst": "10.160.0.0/16", "via": "fd00::1"}]}), "via must be the IPv4 address"),
        (json!({"podLabels": {"a/b/c": "x"}}), "vpc.podLabels: each key"),
    ] {
        let mut all = vpc(&ADDRESSES);
        all.as_object_mut().unwrap().extend(fields.as_object().unwrap().clone());
        if all["addresses"].is_null() {
            all.as_object_mut().unwrap().remove("addresses");
        }
        let why = refused(all).await;
        assert!(why.contains(said), "{fields}: {why}");
    }
    let with: Cluster = team.create(json!({"vpc": vpc(&ADDRESSES)})).await.expect("valid");
    assert!(with.spec.vpc.is_some());
    let said = team.says(ConditionType::VPCReady, "InvalidSpec").await;
    assert!(said.contains("set spec.vpc.virtualIP to a free address"), "{said}");
    team.create_as("moving", json!({"vpc": moving(&ADDRESSES)})).await.expect("valid");
    team.create_as("without", json!({})).await.expect("valid");
    let patch = |name: &'static str, vpc: Value| {
        let clusters = team.clusters();
        async move {
            let patch = Patch::Merge(json!({"spec": {"vpc": vpc}}));
            clusters.patch(name, &PatchParams::default(), &patch).await.map(|_| ()).map_err(|e| e.to_string())
        }
    };
    for (name, vpc, said) in [
        ("acme", Value::Null, "vpc cannot be added to a Cluster or removed from it"),
        ("without", vpc(&ADDRESSES), "vpc cannot be added to a Cluster or removed from it"),
        ("acme", json!({"attachment": {"name": "another"}}), "vpc.attachment is immutable"),
        ("acme", json!({"addresses": ["172.20.1.2/24"]}), "the subnet cannot change"),
        (
            "acme",
            json!({"addresses": ["172.20.0.9/24"]}),
            "the first address cannot change while there is neither vpc.host nor",
        ),
        ("acme", json!({"virtualIP": "172.20.0.10"}), "vpc.virtualIP is immutable"),
        ("moving", json!({"virtualIP": "172.20.0.11"}), "vpc.virtualIP is immutable"),
        ("moving", json!({"virtualIP": null}), "vpc.virtualIP is immutable"),
        ("acme", json!({"addresses": null, "host": "a.example"}), "vpc.addresses cannot be added or removed"),
    ] {
        let why = patch(name, vpc.clone()).await.expect_err("refused");
        assert!(why.contains(said), "{name} {vpc}: {why}");
    }
    patch("acme", json!({"addresses": ["172.20.0.2/24", "172.20.0.9/24"]})).await.expect("one more, one replaced");
    patch("moving", json!({"addresses": ["172.20.0.9/24", "172.20.0.3/24"]}))
        .await
        .expect("nodes know another address");
    patch("acme", json!({"host": "acme.vpc.example.com"})).await.expect("a name");
}
