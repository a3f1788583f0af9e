//! The command against a tenant that the operator made: what the operator is done with, the command line plans nothing for.

use crate::common::Team;
use crate::common::team::ACME;
use berth_api::{labels, names};
use berth_operator::{meta, run};
use berth_plan::meta_cluster::addresses::MetaRanges;
use berth_plan_cluster::components;
use berth_testkit::fixtures::eventually;
use berth_testkit::{FaultPlan, canary};
use k8s_openapi::api::core::v1::Secret;
use kube::Api;
use kube::api::{DeleteParams, Patch, PatchParams};
use serde_json::{Value, json};
use std::process::{Command, Output};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::oneshot;
use tokio_util::sync::CancellationToken;

/// An operator beside the test.
struct Operator {
    stop: CancellationToken,
    ended: oneshot::Receiver<()>,
}

impl Operator {
    /// Ends it, and waits for its last reconcile.
    async fn end(self) {
        self.stop.cancel();
        self.ended.await.expect("the operator ends when it is told to");
    }
}

/// A tenant, and an operator that has looked at the meta cluster's addresses, as the real one does.
async fn tenant() -> (Team, Operator) {
    let server = crate::common::server().await;
    // The test's API server does not say where it is.
    let slice = json!({
        "apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice", "metadata": {"name": "kubernetes"},
        "addressType": "IPv4", "endpoints": [{"addresses": ["192.0.2.7"]}],
    });
    let request = http::Request::post("/apis/discovery.k8s.io/v1/namespaces/default/endpointslices")
        .header("content-type", "application/json")
        .body(serde_json::to_vec(&slice).unwrap())
        .unwrap();
    server.client().request::<Value>(request).await.unwrap();
    let stop = CancellationToken::new();
    let (stopped, (end, ended)) = (stop.clone(), oneshot::channel());
    crate::common::background(async move {
        let config = server.config_as(crate::common::OPERATOR, &["system:masters"]);
        let context = crate::common::context(server, config, &FaultPlan::new());
        assert!(meta::refresh(&context, &MetaRanges::default()).await, "addresses of the meta cluster");
        run(Arc::new(context), stopped).await;
        let _ = end.send(());
    });
    let team = Team::with_cluster(server).await;
    team.ready().await.expect("ready");
    (team, Operator { stop, ended })
}

async fn secrets(team: &Team) -> Vec<Value> {
    let request = http::Request::get(format!("/api/v1/namespaces/{}/secrets", team.cp_namespace)).body(vec![]).unwrap();
    let mut list: Value = team.client.request(request).await.unwrap();
    serde_json::from_value(list["items"].take()).unwrap()
}

/// How keys begin, as they are and in base64.
const PEM: [&str; 2] = ["-----BEGIN", "LS0tLS1CRUdJTi"];

/// Nothing that the command prints holds a key, of these or another.
fn tells_no_key(needles: &[(String, String)], output: &Output) {
    let all = [text(&output.stdout), text(&output.stderr)].concat();
    assert_eq!(canary::found(needles, &all), None, "{all}");
    assert!(!PEM.iter().any(|begin| all.contains(begin)), "{all}");
}

/// A leaf certificate that is gone, one with the private key of a CA, and a Secret with another label.
async fn break_secrets(team: &Team) {
    let secrets: Api<Secret> = team.inside();
    secrets.delete(names::SCHEDULER_PKI, &DeleteParams::default()).await.unwrap();
    let ca = secrets.get(&names::ca(ACME)).await.unwrap();
    let label = json!({"metadata": {"labels": {labels::CLUSTER_NAMESPACE: "x"}}});
    for (name, patch) in [
        (
            names::APISERVER_PKI,
            json!({"data": {"apiserver-kubelet-client.key": ca.data.unwrap_or_default()["tls.key"]}}),
        ),
        (names::CONTROLLER_MANAGER_PKI, label),
    ] {
        secrets.patch(name, &PatchParams::default(), &Patch::Merge(patch)).await.unwrap();
    }
}

fn text(bytes: &[u8]) -> &str {
    std::str::from_utf8(bytes).unwrap()
}

#[track_caller]
fn exits(output: &Output, code: i32) {
    assert_eq!(output.status.code(), Some(code), "{}\n{}", text(&output.stdout), text(&output.stderr));
}

#[tokio::test]
async fn at_rest_all_is_well_and_a_change_is_planned_as_it_is_then_made() {
    let (team, operator) = tenant().await;
    let server = crate::common::server().await;
    let dir = tempfile::tempdir().unwrap();
    let meta = dir.path().join("meta");
    std::fs::write(&meta, server.kubeconfig_as("cli", &["system:masters"])).unwrap();
    let berth = |args: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_kubectl-berth"));
        command.args(args).args(["-n", &team.ns]).env("KUBECONFIG", &meta).output().unwrap()
    };
    let mark = server.audit_mark();
    let status = berth(&["status", ACME]);
    exits(&status, 0);
    let tree = text(&status.stdout);
    for part in ["Ready for", "etcd-0  ready", "kube-scheduler 1.36.3  1/1 ready", "next: nothing to do"] {
        assert!(tree.contains(part), "{part} is not in:\n{tree}");
    }
    exits(&berth(&["status"]), 0);
    let plan = berth(&["plan", ACME]);
    exits(&plan, 0);
    assert!(text(&plan.stdout).contains("no changes"), "{}", text(&plan.stdout));
    assert!(!text(&plan.stderr).contains("NetworkPolicies"), "{}", text(&plan.stderr));
    let kubeconfig = berth(&["kubeconfig", ACME]);
    exits(&kubeconfig, 0);
    assert!(text(&kubeconfig.stdout).contains("client-key-data"));
    exits(&berth(&["adopt", ACME, "--yes"]), 3);

    let newer = dir.path().join("newer.yaml");
    let cluster = json!({
        "apiVersion": "berth.dev/v1alpha1", "kind": "Cluster", "metadata": {"name": ACME}, "spec": {"version": "1.36.2"},
    });
    std::fs::write(&newer, cluster.to_string()).unwrap();
    let plan = berth(&["plan", "-f", newer.to_str().unwrap(), "-o", "json"]);
    exits(&plan, 3);
    let plan: Value = serde_json::from_slice(&plan.stdout).unwrap();
    let cp_namespace = &team.cp_namespace;
    let restart = |name: &str| json!({"workload": format!("Deployment {cp_namespace}/{name}"), "pods": 1});
    let all = components::ALL.map(|component| restart(component.name()));
    assert_eq!(plan["restarts"], json!(all));
    let wrote = server.audit_since(mark).into_iter().filter(|e| e.user == "cli" && e.is_write()).count();
    assert_eq!(wrote, 0);

    // Nothing of it holds a key.
    let needles = canary::needles(&secrets(&team).await);
    assert!(needles.len() > 20, "{}", needles.len());
    let file = ["plan", "-f", newer.to_str().unwrap()];
    for args in [&["plan", ACME][..], &file, &["status", ACME]] {
        tells_no_key(&needles, &berth(args));
        tells_no_key(&needles, &berth(&[args, &["-o", "yaml"]].concat()));
    }
    let kubeconfig = text(&kubeconfig.stdout);
    assert!(canary::found(&needles, kubeconfig).is_some() && kubeconfig.contains(PEM[1]), "that is what it is for");
    // The operator, asked for the same, does that first.
    let mark = server.audit_mark();
    team.spec(json!({"version": "1.36.2"})).await.unwrap();
    team.ready().await.expect("ready with the other version");
    let audit = server.audit_since(mark);
    let written = |e: &&berth_testkit::apiserver::AuditEvent| {
        let counts = ["namespaces", "clusterrevisions", "deployments", "networkpolicies", "configmaps", "services"]
            .contains(&&*e.resource);
        e.user == crate::common::OPERATOR
            && e.is_write()
            && counts
            && (e.namespace == *cp_namespace || e.name == *cp_namespace)
    };
    // Its turn is recorded in the namespace, too.
    let mut first: Vec<_> = audit.iter().filter(written).map(|e| (&*e.resource, &*e.name)).collect();
    first.dedup();
    first.truncate(3);
    let expected =
        [("namespaces", &**cp_namespace), ("clusterrevisions", "revision-2"), ("deployments", "kube-apiserver")];
    assert_eq!(first, expected);
    let changes = plan["stages"].as_array().unwrap().iter().flat_map(|s| s["changes"].as_array().unwrap());
    let planned: Vec<_> = changes.map(|c| c["what"].as_str().unwrap().to_owned()).collect();
    assert_eq!(
        planned,
        [format!("apply ClusterRevision {cp_namespace}/revision-2 (new)")],
        "the rest follows once that is recorded"
    );
    // That it has come to its end is recorded once it has run for `spec.upgrade.soak`, a minute.
    let rests = async || {
        let plan = berth(&["plan", ACME]);
        (plan.status.code() == Some(0)).then_some(()).ok_or_else(|| text(&plan.stdout).to_owned())
    };
    eventually(Duration::from_mins(5), "nothing to be planned any more", rests).await.unwrap();

    // Nor does a plan that is about Secrets.
    operator.end().await;
    let mut needles = canary::needles(&secrets(&team).await);
    break_secrets(&team).await;
    needles.extend(canary::needles(&secrets(&team).await));
    for args in [&["plan", ACME][..], &["plan", ACME, "-o", "yaml"]] {
        let plan = berth(args);
        exits(&plan, 3);
        for name in [names::SCHEDULER_PKI, names::APISERVER_PKI, names::CONTROLLER_MANAGER_PKI] {
            let secret = format!("Secret {cp_namespace}/{name}");
            assert!(text(&plan.stdout).contains(&secret), "{secret}: {}", text(&plan.stdout));
        }
        tells_no_key(&needles, &plan);
    }
    team.wipe().await;
}
