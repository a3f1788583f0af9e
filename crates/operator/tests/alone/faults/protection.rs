//! With the admission policies of the chart, and the operator as its own service account: what deletes a tenant by one command is
//! refused, and the operator itself deletes as it always did.

use super::lack::{ACCOUNT, GROUPS, grant};
use super::templates;
use crate::common::{Running, SOON, Team, crds, operator_world};
use berth_api::conditions::ConditionType;
use berth_api::{EtcdCluster, labels, names};
use berth_testkit::fixtures::{from_yaml, until};
use berth_testkit::{ApiServer, FaultPlan, apiserver};
use k8s_openapi::api::core::v1::{ConfigMap, Namespace, PersistentVolumeClaim, Secret};
use kube::Api;
use kube::api::{DeleteParams, ListParams, Patch, PatchParams};
use serde_json::{Value, json};
use std::process::Command;

/// The chart's policies and bindings.
fn policies() -> Vec<Value> {
    let helm = apiserver::binary("tools", "helm-3.22.0", "helm").expect("helm");
    let charts = berth_testkit::fixtures::package().join("../../charts");
    let mut command = Command::new(helm);
    command.current_dir(charts).args(["template", "berth", "berth", "-n", "berth-system", "--kube-version", "1.36.3"]);
    let output = command.output().expect("helm runs");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let text = String::from_utf8(output.stdout).expect("UTF-8");
    let ours = text.split("\n---\n").filter(|d| d.contains("kind: ValidatingAdmissionPolicy"));
    ours.map(|document| from_yaml(document.trim_start_matches("---\n"))).collect()
}

async fn install(server: &ApiServer) {
    for policy in policies() {
        let binding = policy["kind"] == "ValidatingAdmissionPolicyBinding";
        let plural = if binding { "validatingadmissionpolicybindings" } else { "validatingadmissionpolicies" };
        let request = http::Request::post(format!("/apis/admissionregistration.k8s.io/v1/{plural}"))
            .header("content-type", "application/json")
            .body(policy.to_string().into_bytes())
            .expect("request");
        server.client().request::<Value>(request).await.unwrap_or_else(|e| panic!("{}: {e}", policy["metadata"]));
    }
}

/// Whether a policy of the chart refuses.
fn refused<T>(result: kube::Result<T>) -> bool {
    matches!(result, Err(kube::Error::Api(e)) if e.code == 403 && e.message.contains("ValidatingAdmissionPolicy 'berth-"))
}

#[tokio::test]
async fn nobody_deletes_a_protected_tenant_by_one_command_and_the_operator_does_when_it_is_told() {
    let (server, _world) = operator_world(&crds()).await;
    grant(server).await;
    install(server).await;
    let (team, plan) = (Team::new(server).await, FaultPlan::new());
    let _running = Running::start_as(server, server.config_as(ACCOUNT, &GROUPS), &plan);
    team.create(json!({"deletion": {"protected": true}})).await.expect("Cluster");
    team.ready().await.unwrap_or_else(|e| panic!("{e:#}"));
    let before = (team.root_keys().await, templates(&team).await);
    let namespaces: Api<Namespace> = team.namespaces();
    let dry = DeleteParams::default().dry_run();
    until(SOON, "the policies", async || {
        let inside = team.inside::<Secret>().delete("acme-ca", &dry).await;
        refused(namespaces.delete(&team.cp_namespace, &dry).await)
            && refused(team.clusters().delete("acme", &dry).await)
            && refused(inside)
    })
    .await;

    // As cluster-admin.
    let (now, all) = (DeleteParams::default(), ListParams::default());
    assert!(refused(namespaces.delete(&team.cp_namespace, &now).await), "the namespace");
    assert!(refused(team.inside::<EtcdCluster>().delete(names::ETCD, &now).await), "etcd");
    assert!(refused(team.inside::<PersistentVolumeClaim>().delete_collection(&now, &all).await), "its volume");
    assert!(refused(team.inside::<ConfigMap>().delete("etcd-bootstrap", &now).await), "its record");
    for root in ["acme-ca", "acme-proxy", "acme-sa", names::APISERVER_ENCRYPTION, "etcd-peer-ca", "etcd-client-ca"] {
        assert!(refused(team.inside::<Secret>().delete(root, &now).await), "{root}");
    }
    team.reconciled(&plan).await;
    team.ready().await.unwrap_or_else(|e| panic!("{e:#}"));
    assert_eq!((team.root_keys().await, templates(&team).await), before);

    // The team's namespace takes the kubeconfig along, and neither Cluster nor control plane.
    let protect = |value: Value| Patch::Merge(json!({"metadata": {"labels": {labels::PROTECTED: value}}}));
    namespaces.patch(&team.ns, &PatchParams::default(), &protect("true".into())).await.expect("label");
    assert!(refused(namespaces.delete(&team.ns, &now).await), "its owner said so");
    namespaces.patch(&team.ns, &PatchParams::default(), &protect(Value::Null)).await.expect("unlabel");
    namespaces.delete(&team.ns, &now).await.expect("delete");
    let said = team.says(ConditionType::Degraded, "NamespaceDeleting").await;
    assert!(said.contains("so this Cluster and its control plane in namespace"), "{said}");
    let published = Api::<Secret>::namespaced(team.client.clone(), &team.ns);
    let _ = published.delete("acme-kubeconfig", &now).await;
    team.reconciled(&plan).await;
    let cluster = team.cluster().await;
    assert_eq!(cluster.metadata.deletion_timestamp, None, "nobody could tell it to end");
    assert_eq!(team.condition(ConditionType::Degraded).await.expect("condition").message, said, "and no other failure");
    assert_eq!(team.condition(ConditionType::Available).await.expect("condition").status, "True");
    assert_eq!((team.root_keys().await, templates(&team).await), before);

    // ADR 12, with the policies in force: the operator ends it, and the namespace controller finds it empty.
    team.spec(json!({"deletion": {"protected": false}})).await.expect("patch");
    team.gone().await.unwrap_or_else(|e| panic!("{e:#}"));
    for ns in [&team.cp_namespace, &team.ns] {
        until(SOON, &format!("{ns} is gone"), async || namespaces.get_opt(ns).await.is_ok_and(|n| n.is_none())).await;
    }
}
