//! The command against a tenant that the operator made: what the operator is done with, the command line plans nothing for.

#![allow(clippy::unwrap_used, clippy::panic, reason = "helpers of tests fail by panicking")]

#[path = "../../operator/tests/common/mod.rs"]
mod common;

use berth_api::names;
use berth_operator::{meta, run};
use berth_plan::meta::MetaRanges;
use berth_testkit::{FaultPlan, canary};
use common::Team;
use common::team::ACME;
use serde_json::{Value, json};
use std::process::{Command, Output};
use std::sync::Arc;
use tokio_util::sync::CancellationToken;

/// An operator that has looked at the meta cluster's addresses, as the real one does.
async fn tenant() -> Team {
    let server = common::server().await;
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
    common::background(async move {
        let config = server.config_as(common::OPERATOR, &["system:masters"]);
        let context = common::context(server, config, &FaultPlan::new());
        assert!(meta::look(&context, &MetaRanges::default()).await, "addresses of the meta cluster");
        run(Arc::new(context), CancellationToken::new()).await;
    });
    let team = Team::with_cluster(server).await;
    team.ready().await.expect("ready");
    team
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
    let team = tenant().await;
    let server = common::server().await;
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
    let home = &team.home;
    let restart = |name: &str| json!({"workload": format!("Deployment {home}/{name}"), "pods": 1});
    let all = [names::APISERVER, names::CONTROLLER_MANAGER, names::SCHEDULER].map(restart);
    assert_eq!(plan["restarts"], json!(all));
    let wrote = server.audit_since(mark).into_iter().filter(|e| e.user == "cli" && e.is_write()).count();
    assert_eq!(wrote, 0);

    // Nothing of it holds a key.
    let request = http::Request::get(format!("/api/v1/namespaces/{home}/secrets")).body(vec![]).unwrap();
    let secrets: Value = server.client().request(request).await.unwrap();
    let needles = canary::needles(secrets["items"].as_array().unwrap());
    assert!(needles.len() > 20, "{}", needles.len());
    for args in [&["plan", ACME][..], &["plan", ACME, "-o", "yaml"], &["status", ACME, "-o", "yaml"]] {
        let output = berth(args);
        let all = [text(&output.stdout), text(&output.stderr)].concat();
        assert_eq!(canary::found(&needles, &all), None, "{args:?}");
    }
    assert!(canary::found(&needles, text(&berth(&["kubeconfig", ACME]).stdout)).is_some(), "that is what it is for");
    // The operator, asked for the same, does that first.
    let mark = server.audit_mark();
    team.spec(json!({"version": "1.36.2"})).await.unwrap();
    team.ready().await.expect("ready with the other version");
    let audit = server.audit_since(mark);
    let written = |e: &&berth_testkit::apiserver::AuditEvent| {
        let counts = ["namespaces", "deployments", "networkpolicies", "configmaps", "services"].contains(&&*e.resource);
        e.user == common::OPERATOR && e.is_write() && counts && (e.namespace == *home || e.name == *home)
    };
    let first: Vec<_> = audit.iter().filter(written).take(2).map(|e| (&*e.resource, &*e.name)).collect();
    assert_eq!(first, [("namespaces", &**home), ("deployments", "kube-apiserver")]);
    let changes = plan["stages"].as_array().unwrap().iter().flat_map(|s| s["changes"].as_array().unwrap());
    let planned: Vec<_> = changes.map(|c| c["what"].as_str().unwrap().to_owned()).collect();
    assert_eq!(planned, [format!("apply Namespace {home}"), format!("apply Deployment {home}/kube-apiserver")]);
    exits(&berth(&["plan", ACME]), 0);
    team.wipe().await;
}
