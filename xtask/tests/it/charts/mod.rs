//! The charts: what they render, and applied to a real API server, what the operator's service account may do and what it may not.

mod access;
mod apps;
mod cluster_access;
mod configuration;
mod controllers;
mod decisions;
mod examples;
mod gateway;
mod gitops;
mod monitoring;
mod protection;
mod registration;
mod rendered;
mod rights;
mod routes;
mod vpc;

use berth_api::{labels, names};
use berth_render::Kind;
use berth_testkit::fixtures::eventually;
use berth_testkit::{ApiServer, gateway_api, yaml};
use k8s_openapi::api::core::v1::Namespace;
use kube::api::{Api, ApiResource, DeleteParams, DynamicObject, GroupVersionKind, Patch, PatchParams, PostParams};
use kube::{Client, ResourceExt as _, discovery};
use serde_json::{Value, json};
use std::process::{Command, Output};
use std::time::Duration;
use tokio::sync::OnceCell;

const OPERATOR: &str = "system:serviceaccount:berth-system:berth-operator";
const ENFORCE: &str = "pod-security.kubernetes.io/enforce";
const GROUPS: [&str; 2] = ["system:serviceaccounts", "system:serviceaccounts:berth-system"];

fn helm(arguments: &[&str]) -> Output {
    let helm = berth_testkit::apiserver::binary("tools", "helm-3.22.0", "helm").expect("helm");
    let charts = berth_testkit::fixtures::package().join("../charts");
    Command::new(helm).current_dir(charts).args(arguments).output().expect("helm runs")
}

fn render(chart: &str, values: &[&str]) -> Vec<Value> {
    let name = chart.rsplit('/').next().unwrap_or(chart);
    let output = helm(&[&["template", name, chart, "-n", "berth-system", "--kube-version", "1.36.3"], values].concat());
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let text = String::from_utf8(output.stdout).expect("UTF-8");
    let documents = text.split("\n---\n").map(|d| d.trim_start_matches("---\n"));
    documents
        .filter(|d| d.lines().any(|l| !l.is_empty() && !l.starts_with('#')))
        .map(berth_testkit::fixtures::from_yaml)
        .collect()
}

/// The server of this test binary with both charts, once their policies are in force.
async fn server() -> &'static ApiServer {
    static READY: OnceCell<()> = OnceCell::const_new();
    let server = ApiServer::shared().await;
    READY.get_or_init(|| install(server)).await;
    server
}

/// Installs both charts, and waits until their policies are in force.
async fn install(server: &ApiServer) {
    let client = server.client();
    let system: Namespace = yaml!("{{apiVersion: v1, kind: Namespace, metadata: {{name: berth-system}}}}");
    Api::all(client.clone()).create(&PostParams::default(), &system).await.expect("namespace");
    let crds = render("berth-crds", &[]).into_iter().map(berth_testkit::fixtures::from_json).collect::<Vec<_>>();
    server.install_crds(&crds).await.expect("CRDs");
    server.install_crds(&[gateway_api::tls_route(&["v1"]).expect("TLSRoute")]).await.expect("CRD");
    let values = ["etcdNamespaces={etcd-team}", "writers.images.registries={mirror.example.com/k8s}"];
    let values =
        values.iter().chain(&gateway::ON).chain(&routes::ON).chain(&cluster_access::ON).chain(&registration::ON);
    let values: Vec<&str> = values.flat_map(|value| ["--set", value]).collect();
    for object in render("berth", &values) {
        if object["metadata"]["namespace"] == "etcd-team" {
            let team: Namespace = yaml!("{{apiVersion: v1, kind: Namespace, metadata: {{name: etcd-team}}}}");
            let _ = Api::all(client.clone()).create(&PostParams::default(), &team).await;
        }
        apply(&client, object).await.expect("the charts' objects are valid");
    }
    // A policy takes a moment to be in force, each its own.
    let operator = operator(server);
    let probe = async || {
        let secret = json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "probe"}});
        denied(create(&operator, "Secret", "default", secret, true).await)?;
        denied(
            create(
                &operator,
                "Namespace",
                "",
                json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "probe"}}),
                true,
            )
            .await,
        )?;
        denied(binding(&operator, "default", "berth-control-plane-namespace", &["berth-operator"], true).await)?;
        let name = server.unique("probe");
        let made = create(&client, "Cluster", "default", cluster(&name), false).await;
        made.map_err(|e| e.to_string())?;
        denied(
            dynamic(&client, "Cluster", "default")
                .delete(&name, &DeleteParams { dry_run: true, ..DeleteParams::default() })
                .await
                .map(|_| DynamicObject::new("", &secret_resource())),
        )?;
        protection::in_force(server).await?;
        decisions::in_force(server).await?;
        cluster_access::in_force(server).await?;
        gateway::in_force(server).await?;
        apps::in_force(server).await?;
        registration::in_force(server).await?;
        routes::in_force(server).await?;
        rights::services_in_force(server).await
    };
    eventually(Duration::from_secs(30), "the policies are in force", probe).await.expect("policies");
}

fn operator(server: &ApiServer) -> Client {
    server.client_as(OPERATOR, &GROUPS)
}

fn secret_resource() -> ApiResource {
    ApiResource::from_gvk(&GroupVersionKind::gvk("", "v1", "Secret"))
}

/// Ok if a policy of ours refused; else what happened.
fn denied<T>(result: kube::Result<T>) -> Result<(), String> {
    match result {
        Err(kube::Error::Api(e)) if e.message.contains("ValidatingAdmissionPolicy 'berth-") => Ok(()),
        Err(e) => Err(e.to_string()),
        Ok(_) => Err("was let through".into()),
    }
}

fn refusal<T>(result: kube::Result<T>) -> String {
    match result {
        Err(kube::Error::Api(e)) if e.code == 403 => e.message,
        Err(e) => panic!("not a refusal: {e}"),
        Ok(_) => panic!("was let through"),
    }
}

fn dynamic(client: &Client, kind: &str, namespace: &str) -> Api<DynamicObject> {
    let known = Kind::ALL.into_iter().find(|known| known.name() == kind);
    let (group, version) = match (known, kind) {
        (Some(known), _) => (known.group(), known.version()),
        (None, "CustomResourceDefinition") => ("apiextensions.k8s.io", "v1"),
        (None, "EndpointSlice") => ("discovery.k8s.io", "v1"),
        (None, _) => ("", "v1"),
    };
    let resource = ApiResource::from_gvk(&GroupVersionKind::gvk(group, version, kind));
    match namespace {
        "" => Api::all_with(client.clone(), &resource),
        namespace => Api::namespaced_with(client.clone(), namespace, &resource),
    }
}

async fn create(
    client: &Client,
    kind: &str,
    namespace: &str,
    object: Value,
    dry_run: bool,
) -> kube::Result<DynamicObject> {
    let object = berth_testkit::fixtures::from_json(object);
    dynamic(client, kind, namespace).create(&PostParams { dry_run, ..PostParams::default() }, &object).await
}

async fn apply(client: &Client, object: Value) -> anyhow::Result<DynamicObject> {
    let object: DynamicObject = serde_json::from_value(object)?;
    let types = object.types.clone().unwrap_or_default();
    let (resource, capabilities) = discovery::pinned_kind(client, &GroupVersionKind::try_from(&types)?).await?;
    let api: Api<DynamicObject> = match object.namespace() {
        Some(ns) if capabilities.scope == discovery::Scope::Namespaced => {
            Api::namespaced_with(client.clone(), &ns, &resource)
        }
        _ => Api::all_with(client.clone(), &resource),
    };
    Ok(api.patch(&object.name_any(), &PatchParams::apply("helm").force(), &Patch::Apply(&object)).await?)
}

/// The binding as the operator applies it.
async fn binding(
    client: &Client,
    namespace: &str,
    role: &str,
    subjects: &[&str],
    dry_run: bool,
) -> kube::Result<DynamicObject> {
    named_binding(client, namespace, "berth-operator", role, subjects, dry_run).await
}

async fn named_binding(
    client: &Client,
    namespace: &str,
    name: &str,
    role: &str,
    subjects: &[&str],
    dry_run: bool,
) -> kube::Result<DynamicObject> {
    let subjects: Vec<_> =
        subjects.iter().map(|s| json!({"kind": "ServiceAccount", "namespace": "berth-system", "name": s})).collect();
    let object = json!({
        "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "RoleBinding", "metadata": {"name": name},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": role},
        "subjects": subjects,
    });
    let parameters = PatchParams { dry_run, ..PatchParams::apply("berth-cluster").force() };
    dynamic(client, "RoleBinding", namespace).patch(name, &parameters, &Patch::Apply(&object)).await
}

fn cluster(name: &str) -> Value {
    json!({"apiVersion": "berth.dev/v1alpha1", "kind": "Cluster", "metadata": {"name": name}, "spec": {"version": "1.36.3"}})
}

/// A control-plane namespace, as the planner writes it.
fn home(team: &str, name: &str) -> Value {
    let labels = json!({
        labels::MANAGED_BY: labels::MANAGED_BY_VALUE, labels::CLUSTER_NAME: name, labels::CLUSTER_NAMESPACE: team,
        labels::CLUSTER_UID: "123e4567-e89b-42d3-a456-426614174000",
        ENFORCE: "restricted", "pod-security.kubernetes.io/warn": "restricted",
    });
    let name = names::control_plane_namespace(team, name);
    json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, "labels": labels}})
}

/// A namespace as the operator makes it.
async fn cp_namespace(server: &ApiServer) -> String {
    let namespace = home("team", &server.unique("home"));
    let made = create(&operator(server), "Namespace", "", namespace, false).await;
    made.expect("the operator makes its namespaces").name_any()
}
