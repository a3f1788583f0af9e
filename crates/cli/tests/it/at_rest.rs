//! Under a chart with every value set `plan` knows what the operator goes by: of a tenant at rest it says that nothing is to be done.

use crate::common::{self, SYSTEM, Team};
use berth_operator::args::Args;
use berth_operator::{meta, run};
use berth_plan::Settings;
use berth_plan::settings::Config;
use berth_testkit::apiserver::binary;
use berth_testkit::fixtures::{eventually, from_yaml, package};
use berth_testkit::{ApiServer, FaultPlan};
use clap::Parser as _;
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::{ConfigMap, Namespace};
use kube::api::{Api, Patch, PatchParams};
use serde_json::{Value, json};
use std::path::Path;
use std::process::{Command, Output};
use std::sync::Arc;
use std::time::Duration;
use tokio_util::sync::CancellationToken;

/// What tests with pods do not set, since their machines have other addresses and images. Writers may ask for what the tenants here do.
fn more() -> [String; 4] {
    let meta = json!({
        "podCIDRs": ["10.1.0.0/16"], "serviceCIDRs": ["10.2.0.0/16"], "nodeCIDRs": ["10.3.0.0/16"], "apiServerIPs": ["10.4.0.9"],
    });
    let writers = json!({"nodeSelectors": ["pool"], "tolerations": ["pool"], "priorityClasses": ["p"]});
    [
        format!("meta={meta}"),
        format!("writers.placement={writers}"),
        r#"imageRegistry="mirror.example.com/k8s""#.to_owned(),
        r#"vpc.rules="Interface""#.to_owned(),
    ]
}

/// The chart's objects, with every value set.
fn chart() -> Vec<Value> {
    let helm = binary("tools", "helm-3.22.0", "helm").expect("helm");
    let root = package().join("../..");
    let values = root.join("e2e/values.yaml");
    let output = Command::new(helm)
        .current_dir(root.join("charts"))
        .args(["template", "berth", "berth", "-n", SYSTEM, "--kube-version", "1.36.3", "-f"])
        .arg(values)
        .args(more().iter().flat_map(|value| ["--set-json", value.as_str()]))
        .output()
        .expect("helm runs");
    assert!(output.status.success(), "{}", text(&output.stderr));
    let documents = text(&output.stdout).split("\n---\n").map(|d| d.trim_start_matches("---\n"));
    documents.filter(|d| d.lines().any(|l| !l.is_empty() && !l.starts_with('#'))).map(from_yaml).collect()
}

fn operators<'a>(chart: &'a [Value], kind: &str) -> &'a Value {
    let found = chart.iter().find(|o| o["kind"] == kind && o["metadata"]["name"] == "berth-operator");
    found.unwrap_or_else(|| panic!("the chart has no {kind} berth-operator"))
}

/// As the operator makes them: from its arguments, and the file that is mounted.
fn settings(chart: &[Value]) -> (Settings, Config) {
    let args = operators(chart, "Deployment")["spec"]["template"]["spec"]["containers"][0]["args"].clone();
    let args: Vec<String> = serde_json::from_value(args).expect("arguments");
    let args = Args::parse_from([vec!["berth-operator".to_owned()], args].concat());
    let text = operators(chart, "ConfigMap")["data"]["config.yaml"].as_str().expect("a file");
    let config = Config::parse(text).expect("valid");
    // There are no nodes that could mount an image.
    (args.settings(&config, berth_api::common::AgentDelivery::InitContainer), config)
}

/// An API server with these objects of the chart, and an operator that goes by them.
async fn installed(chart: Vec<Value>) -> &'static ApiServer {
    let (server, world) = common::operator_world(&common::crds()).await;
    let client = server.client();
    let apply = PatchParams::apply("helm").force();
    let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": SYSTEM}});
    Api::<Namespace>::all(client.clone()).patch(SYSTEM, &apply, &Patch::Apply(&namespace)).await.expect("namespace");
    let (deployment, map) = (operators(&chart, "Deployment"), operators(&chart, "ConfigMap"));
    let deployments = Api::<Deployment>::namespaced(client.clone(), SYSTEM);
    deployments.patch("berth-operator", &apply, &Patch::Apply(deployment)).await.expect("Deployment");
    let maps = Api::<ConfigMap>::namespaced(client, SYSTEM);
    maps.patch("berth-operator", &apply, &Patch::Apply(map)).await.expect("ConfigMap");
    let (settings, config) = settings(&chart);
    common::background(async move {
        let _world = world;
        let mut context = common::context(server, common::me(server), &FaultPlan::new());
        context.settings = Arc::new(settings);
        assert!(meta::refresh(&context, &config.given).await, "addresses of the meta cluster");
        run(Arc::new(context), CancellationToken::new()).await;
    });
    server
}

fn text(bytes: &[u8]) -> &str {
    std::str::from_utf8(bytes).unwrap()
}

fn plan(team: &Team, kubeconfig: &Path, more: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_kubectl-berth"));
    command.args(["plan", "acme", "-n", &team.ns]).args(more).env("KUBECONFIG", kubeconfig).output().unwrap()
}

/// The kind of a VPC's network, which a CNI meta-plugin brings.
async fn define_networks(server: &ApiServer) {
    let names = json!({
        "plural": "network-attachment-definitions", "singular": "network-attachment-definition",
        "kind": "NetworkAttachmentDefinition",
    });
    let schema = json!({"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}});
    let crd = json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": "network-attachment-definitions.k8s.cni.cncf.io"},
        "spec": {"group": "k8s.cni.cncf.io", "scope": "Namespaced", "names": names,
            "versions": [{"name": "v1", "served": true, "storage": true, "schema": schema}]},
    });
    server.install_crds(&[serde_json::from_value(crd).unwrap()]).await.expect("CRD");
}

/// A network of that team's VPC.
async fn network(team: &Team) {
    let definition = json!({
        "apiVersion": "k8s.cni.cncf.io/v1", "kind": "NetworkAttachmentDefinition",
        "metadata": {"name": "vpc-acme"}, "spec": {"config": "{}"},
    });
    let path = format!("/apis/k8s.cni.cncf.io/v1/namespaces/{}/network-attachment-definitions", team.ns);
    let request = http::Request::post(path).header("content-type", "application/json");
    team.client.request::<Value>(request.body(definition.to_string().into_bytes()).unwrap()).await.expect("network");
}

/// Specs of tenants: what they are made of, each in another way.
fn specs() -> [Value; 7] {
    let vpc = json!({
        "attachment": {"name": "vpc-acme", "interface": "net1"}, "virtualIP": "172.20.0.10",
        "addresses": ["172.20.0.2/24", "172.20.0.3/24", "172.20.0.4/24"],
    });
    let placement = json!({"nodeSelector": {"pool": "a"}, "tolerations": [{"key": "pool", "operator": "Exists"}]});
    [
        json!({}),
        json!({"version": "1.35.4"}),
        json!({"replicas": 2, "etcd": {"replicas": 3}, "endpoint": {"type": "LoadBalancer"}}),
        json!({"endpoint": {"type": "NodePort", "host": "acme.example.com", "certSANs": ["other.example.com"]}}),
        json!({"addons": {"coreDNS": {"enabled": false}, "kubeProxy": {"enabled": false}}, "network": {"nodeCIDRs": ["10.250.251.0/25"]}}),
        json!({"apiServer": {"extraArgs": [{"name": "v", "value": "4"}], "placement": placement}, "deletion": {"protected": true}}),
        json!({"replicas": 2, "vpc": vpc}),
    ]
}

/// Waits until it is ready, and a plan without a change says so.
async fn rests(team: &Team, kubeconfig: &Path, what: &Value) {
    team.ready().await.unwrap_or_else(|e| panic!("{what}: {e:#}"));
    // What is `Ready` may have something to record yet.
    let attempt = async || {
        let plan = plan(team, kubeconfig, &[]);
        assert_eq!(text(&plan.stderr), "", "{what}: it knows all that the operator knows");
        (plan.status.code() == Some(0)).then_some(()).ok_or_else(|| text(&plan.stdout).to_owned())
    };
    eventually(Duration::from_mins(3), "no change", attempt).await.unwrap_or_else(|e| panic!("{what}: {e}"));
}

/// What a tenant becomes, one after the other.
fn changes() -> [Value; 7] {
    [
        // While there is one member: the pretended etcd hands no leadership over.
        json!({"etcd": {"version": "3.6.16"}}),
        json!({"etcd": {"replicas": 3}}),
        json!({"version": "1.36.2"}),
        json!({"version": "1.36.3", "apiServer": {"extraArgs": [{"name": "v", "value": "4"}]}}),
        json!({"endpoint": {"certSANs": ["acme.example.com"]}}),
        json!({"replicas": 2}),
        json!({"etcd": {"replicas": 1}}),
    ]
}

#[tokio::test(flavor = "multi_thread")]
async fn no_tenant_at_rest_has_a_plan() {
    let server = installed(chart()).await;
    let dir = tempfile::tempdir().unwrap();
    let kubeconfig = dir.path().join("meta");
    std::fs::write(&kubeconfig, server.kubeconfig_as("cli", &["system:masters"])).unwrap();
    define_networks(server).await;
    let mut teams = vec![];
    for spec in specs() {
        let team = Team::new(server).await;
        network(&team).await;
        team.create(spec.clone()).await.unwrap_or_else(|e| panic!("{spec}: {e}"));
        teams.push((spec, team));
    }
    for (spec, team) in &teams {
        rests(team, &kubeconfig, spec).await;
        let policies = team.inside::<k8s_openapi::api::networking::v1::NetworkPolicy>();
        policies.get("etcd-backup").await.expect("there is something to forget");
    }
    let changing = Team::new(server).await;
    let before = json!({
        "version": "1.35.4", "etcd": {"version": "3.5.35"}, "upgrade": {"soak": "0s", "finalizeAfter": "0s"},
    });
    changing.create(before.clone()).await.expect("valid");
    rests(&changing, &kubeconfig, &before).await;
    for change in changes() {
        changing.spec(change.clone()).await.unwrap_or_else(|e| panic!("{change}: {e}"));
        rests(&changing, &kubeconfig, &change).await;
    }
    // Who looks for the operator elsewhere is told, and shown what its defaults would come to.
    let (_, team) = &teams[0];
    let elsewhere = plan(team, &kubeconfig, &["--operator-namespace", &team.ns]);
    assert_eq!(elsewhere.status.code(), Some(3), "{}", text(&elsewhere.stdout));
    assert!(text(&elsewhere.stderr).contains("has no ConfigMap berth-operator"), "{}", text(&elsewhere.stderr));
    for forgotten in ["EtcdCluster", "NetworkPolicy"] {
        assert!(text(&elsewhere.stdout).contains(forgotten), "{forgotten}: {}", text(&elsewhere.stdout));
    }
    // What a newer operator's file says, this version does not know.
    let maps = Api::<ConfigMap>::namespaced(server.client(), SYSTEM);
    let mut map = maps.get("berth-operator").await.unwrap();
    let file = map.data.as_mut().unwrap().get_mut("config.yaml").unwrap();
    *file = file.replacen('{', r#"{"later": {}, "#, 1);
    maps.replace("berth-operator", &kube::api::PostParams::default(), &map).await.expect("ConfigMap");
    let newer = plan(team, &kubeconfig, &[]);
    assert_eq!(newer.status.code(), Some(0), "{}", text(&newer.stdout));
    assert!(
        text(&newer.stderr).contains("does not know later of the operator's configuration"),
        "{}",
        text(&newer.stderr)
    );
}
