//! Tenants whose API servers have addresses in a VPC, against a real API server.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

mod common;

use anyhow::{Result, ensure};
use berth_api::conditions::ConditionType;
use berth_api::{Cluster, labels};
use berth_testkit::fixtures::eventually;
use common::{Team, shared_operator};
use k8s_openapi::api::apps::v1::{Deployment, StatefulSet};
use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::{ApiResource, DynamicObject, GroupVersionKind, Patch, PatchParams};
use kube::{Api, Client};
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
    eventually(common::SOON, "the kind to be served", async || {
        let apply = PatchParams::apply("test").force();
        definitions(&team.client, &team.ns).patch("vpc-acme", &apply, &Patch::Apply(&object)).await
    })
    .await
    .expect("the kind is served");
}

fn vpc(addresses: &[&str]) -> Value {
    json!({"attachment": {"name": "vpc-acme", "interface": "net1"}, "addresses": addresses})
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
    eventually(common::SOON, "the spare to rest", attempt).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_tenant_in_a_vpc_has_an_api_server_for_each_address() {
    let server = shared_operator().await;
    let team = Team::new(server).await;
    team.create(json!({"replicas": 2, "vpc": vpc(&ADDRESSES)})).await.expect("valid");
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
        told.iter().any(|e| (e.name.as_str(), e.host.as_str(), e.port) == ("nodes", "172.20.0.2", 6443)),
        "{told:?}"
    );
    assert!(team.inside::<Deployment>().get_opt("kube-apiserver").await.expect("get").is_none());
    rests(&team).await;
    let pod = team.inside::<Pod>().get("kube-apiserver-1-0").await.expect("pod");
    let asked = &pod.metadata.annotations.unwrap_or_default()["k8s.v1.cni.cncf.io/networks"];
    assert!(asked.contains(r#""ips":["172.20.0.3/24"]"#), "{asked}");

    // Another template: the same end, and new pods.
    let before = pod.metadata.uid;
    team.spec(json!({"apiServer": {"extraArgs": [{"name": "v", "value": "1"}]}})).await.expect("patch");
    eventually(common::SOON, "new arguments", async || -> Result<()> {
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
    let with: Cluster = team.create(json!({"vpc": vpc(&ADDRESSES)})).await.expect("valid");
    assert!(with.spec.vpc.is_some());
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
        ("acme", json!({"addresses": ["172.20.0.9/24"]}), "the first address cannot change while there is no vpc.host"),
    ] {
        let why = patch(name, vpc.clone()).await.expect_err("refused");
        assert!(why.contains(said), "{name} {vpc}: {why}");
    }
    patch("acme", json!({"addresses": ["172.20.0.2/24", "172.20.0.9/24"]})).await.expect("one more, one replaced");
    patch("acme", json!({"host": "acme.vpc.example.com"})).await.expect("a name");
}
