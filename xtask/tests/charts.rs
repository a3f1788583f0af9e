//! The charts, applied to a real API server: what the operator's service account may do, and what it may not.

#![expect(clippy::panic, reason = "tests; clippy's own exception does not reach their helpers")]

use berth_testkit::fixtures::eventually;
use berth_testkit::{ApiServer, yaml};
use k8s_openapi::api::core::v1::{Namespace, Secret};
use kube::api::{
    Api, ApiResource, DeleteParams, DynamicObject, GroupVersionKind, ListParams, Patch, PatchParams, PostParams,
};
use kube::{Client, ResourceExt as _, discovery};
use serde_json::{Value, json};
use std::process::{Command, Output};
use std::time::Duration;
use tokio::sync::OnceCell;

const OPERATOR: &str = "system:serviceaccount:berth-system:berth-operator";
const GROUPS: [&str; 2] = ["system:serviceaccounts", "system:serviceaccounts:berth-system"];

fn helm(arguments: &[&str]) -> Output {
    let helm = berth_testkit::apiserver::binary("tools", "helm-3.22.0", "helm").expect("helm");
    let charts = concat!(env!("CARGO_MANIFEST_DIR"), "/../charts");
    Command::new(helm).current_dir(charts).args(arguments).output().expect("helm runs")
}

fn render(chart: &str, values: &[&str]) -> Vec<Value> {
    let output =
        helm(&[&["template", chart, chart, "-n", "berth-system", "--kube-version", "1.36.3"], values].concat());
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let text = String::from_utf8(output.stdout).expect("UTF-8");
    let documents = text.split("\n---\n").map(|d| d.trim_start_matches("---\n"));
    documents
        .filter(|d| d.lines().any(|l| !l.is_empty() && !l.starts_with('#')))
        .map(berth_testkit::fixtures::from_yaml)
        .collect()
}

/// A server with both charts, once their policies are in force.
async fn server() -> &'static ApiServer {
    static READY: OnceCell<()> = OnceCell::const_new();
    let server = ApiServer::shared().await;
    READY
        .get_or_init(|| async {
            let client = server.client();
            let system: Namespace = yaml!("{{apiVersion: v1, kind: Namespace, metadata: {{name: berth-system}}}}");
            Api::all(client.clone()).create(&PostParams::default(), &system).await.expect("namespace");
            let crds =
                render("berth-crds", &[]).into_iter().map(berth_testkit::fixtures::from_json).collect::<Vec<_>>();
            server.install_crds(&crds).await.expect("CRDs");
            for object in render("berth", &["--set", "etcdNamespaces={etcd-team}"]) {
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
                denied(
                    binding(&operator, "default", "berth-control-plane-namespace", &["berth-operator"], true).await,
                )?;
                let name = server.unique("probe");
                let made = create(&client, "Cluster", "default", cluster(&name), false).await;
                made.map_err(|e| e.to_string())?;
                denied(
                    dynamic(&client, "Cluster", "default")
                        .delete(&name, &DeleteParams { dry_run: true, ..DeleteParams::default() })
                        .await
                        .map(|_| DynamicObject::new("", &secret_resource())),
                )
            };
            eventually(Duration::from_secs(30), "the policies are in force", probe).await.expect("policies");
        })
        .await;
    server
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
    let (group, version) = match kind {
        "Cluster" => ("berth.dev", "v1alpha1"),
        "RoleBinding" => ("rbac.authorization.k8s.io", "v1"),
        _ => ("", "v1"),
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

/// A namespace as the operator makes it.
async fn home(server: &ApiServer) -> String {
    let name = server.unique("home");
    let namespace = json!({
        "apiVersion": "v1", "kind": "Namespace",
        "metadata": {"name": name, "labels": {"app.kubernetes.io/managed-by": "berth"}},
    });
    create(&operator(server), "Namespace", "", namespace, false).await.expect("the operator makes its namespaces");
    name
}

fn secret(name: &str, type_: &str, managed: bool) -> Secret {
    let label = if managed { "berth" } else { "somebody" };
    yaml!(
        "{{apiVersion: v1, kind: Secret, type: {type_}, data: {{value: c2VjcmV0}},
           metadata: {{name: {name}, labels: {{app.kubernetes.io/managed-by: {label}}}}}}}"
    )
}

const CAPI: &str = "cluster.x-k8s.io/secret";

#[tokio::test]
async fn a_foreign_secret_is_neither_read_nor_written() {
    let server = server().await;
    let ns = server.namespace("team").await;
    let admin = Api::<Secret>::namespaced(server.client(), &ns);
    let mine = Api::<Secret>::namespaced(operator(server), &ns);
    for foreign in [secret("opaque", "Opaque", false), secret("label", "Opaque", true), secret("type", CAPI, false)] {
        admin.create(&PostParams::default(), &foreign).await.expect("create");
        let name = foreign.name_any();
        assert!(refusal(mine.get(&name).await).contains("cannot get resource \"secrets\""));
        // This is how the operator looks at its kubeconfig: an empty patch answers with the object, or with a refusal.
        for dry_run in [true, false] {
            let parameters = PatchParams { dry_run, ..PatchParams::default() };
            let message = refusal(mine.patch(&name, &parameters, &Patch::Merge(json!({}))).await);
            assert!(
                message.contains("this Secret was not made by Berth") && !message.contains("c2VjcmV0"),
                "{message}"
            );
            let adopt = json!({"metadata": {"labels": {"app.kubernetes.io/managed-by": "berth"}}});
            refusal(mine.patch(&name, &parameters, &Patch::Merge(adopt)).await);
            let parameters = DeleteParams { dry_run, ..DeleteParams::default() };
            assert!(refusal(mine.delete(&name, &parameters).await).contains("not made by Berth"));
        }
        let now = admin.get(&name).await.expect("it is there");
        assert_eq!((now.data, now.metadata.labels), (foreign.data, foreign.metadata.labels));
    }
    refusal(mine.list(&ListParams::default()).await);
    refusal(Api::<Secret>::all(operator(server)).list(&ListParams::default()).await);
}

#[tokio::test]
async fn its_own_kubeconfig_it_writes_looks_at_and_deletes() {
    let server = server().await;
    let ns = server.namespace("team").await;
    let mine = Api::<Secret>::namespaced(operator(server), &ns);
    let look = async |name: &str| {
        let parameters = PatchParams { dry_run: true, ..PatchParams::default() };
        mine.patch(name, &parameters, &Patch::Merge(json!({}))).await
    };
    assert!(
        matches!(look("acme-kubeconfig").await, Err(kube::Error::Api(e)) if e.code == 404),
        "absent is 404, not 403"
    );
    for other in [secret("a", "Opaque", true), secret("b", CAPI, false)] {
        refusal(mine.create(&PostParams::default(), &other).await);
    }
    let made = mine.create(&PostParams::default(), &secret("acme-kubeconfig", CAPI, true)).await.expect("create");
    let seen = look("acme-kubeconfig").await.expect("its own");
    assert_eq!((seen.data, seen.metadata.resource_version), (made.data, made.metadata.resource_version));
    let drop_label = json!({"metadata": {"labels": null}});
    refusal(mine.patch("acme-kubeconfig", &PatchParams::default(), &Patch::Merge(drop_label)).await);
    let change = json!({"data": {"value": "bmV3"}});
    mine.patch("acme-kubeconfig", &PatchParams::default(), &Patch::Merge(change)).await.expect("change");
    mine.delete("acme-kubeconfig", &DeleteParams::default()).await.expect("delete");
}

#[tokio::test]
async fn it_binds_itself_to_one_role_in_its_own_namespaces() {
    const ROLE: &str = "berth-control-plane-namespace";
    let server = server().await;
    let me = operator(server);
    let (team, home) = (server.namespace("team").await, home(server).await);
    assert!(
        refusal(binding(&me, &team, ROLE, &["berth-operator"], false).await).contains("only in namespaces that carry")
    );
    for (role, subjects, why) in [
        ("cluster-admin", &["berth-operator"][..], "attempting to grant RBAC permissions not currently held"),
        ("berth-operator", &["berth-operator"][..], "and no other"),
        (ROLE, &["default"][..], "binds itself and nobody else"),
        (ROLE, &["berth-operator", "default"][..], "binds itself and nobody else"),
        (ROLE, &[][..], "binds itself and nobody else"),
    ] {
        let message = refusal(binding(&me, &home, role, subjects, false).await);
        assert!(message.contains(why), "{role} {subjects:?}: {message}");
    }
    refusal(named_binding(&me, &home, "another", ROLE, &["berth-operator"], false).await);

    let secrets = |ns: &str| Api::<Secret>::namespaced(me.clone(), ns);
    refusal(secrets(&home).list(&ListParams::default()).await);
    binding(&me, &home, ROLE, &["berth-operator"], false).await.expect("its own namespace");
    let list = async || secrets(&home).list(&ListParams::default()).await;
    eventually(Duration::from_secs(5), "rights in its namespace", list).await.expect("it reads Secrets there");
    secrets(&home).create(&PostParams::default(), &secret("ca", "Opaque", true)).await.expect("any type there");
    refusal(secrets(&team).list(&ListParams::default()).await);
    // Once bound, it may not turn the binding over to somebody else.
    refusal(binding(&me, &home, ROLE, &["default"], false).await);
}

#[tokio::test]
async fn namespaces_of_others_are_left_alone() {
    let server = server().await;
    let me = operator(server);
    let (team, home) = (server.namespace("team").await, home(server).await);
    let namespaces = dynamic(&me, "Namespace", "");
    let label = Patch::Merge(json!({"metadata": {"labels": {"app.kubernetes.io/managed-by": "berth"}}}));
    let unlabel = Patch::Merge(json!({"metadata": {"labels": null}}));
    assert!(refusal(namespaces.patch(&team, &PatchParams::default(), &label).await).contains("was not made by Berth"));
    assert!(refusal(namespaces.delete(&team, &DeleteParams::default()).await).contains("was not made by Berth"));
    refusal(namespaces.delete("kube-system", &DeleteParams::default()).await);
    let bare = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": server.unique("bare")}});
    refusal(create(&me, "Namespace", "", bare, false).await);
    refusal(namespaces.patch(&home, &PatchParams::default(), &unlabel).await);
    namespaces
        .patch(&home, &PatchParams::default(), &Patch::Merge(json!({"metadata": {"annotations": {"a": "b"}}})))
        .await
        .expect("its own");
    namespaces.delete(&home, &DeleteParams::default()).await.expect("its own");
}

#[tokio::test]
async fn stand_alone_etcd_namespaces_are_opened_by_a_value() {
    let server = server().await;
    let secrets = Api::<Secret>::namespaced(operator(server), "etcd-team");
    secrets.create(&PostParams::default(), &secret("etcd-peer-ca", "Opaque", true)).await.expect("create");
    secrets.get("etcd-peer-ca").await.expect("get");
    secrets.delete("etcd-peer-ca", &DeleteParams::default()).await.expect("delete");
}

#[tokio::test]
async fn a_protected_cluster_is_not_deleted_and_the_refusal_says_how() {
    let server = server().await;
    let ns = server.namespace("team").await;
    let clusters = dynamic(&server.client(), "Cluster", &ns);
    create(&server.client(), "Cluster", &ns, cluster("acme"), false).await.expect("create");
    let message = refusal(clusters.delete("acme", &DeleteParams::default()).await);
    let how = format!(
        "kubectl patch clusters.berth.dev acme -n {ns} --type merge -p '{{\"spec\":{{\"deletion\":{{\"protected\":false}}}}}}'"
    );
    assert!(message.contains(&how), "{message}");
    refusal(clusters.delete_collection(&DeleteParams::default(), &ListParams::default()).await);
    let open = json!({"spec": {"deletion": {"protected": false}}});
    clusters.patch("acme", &PatchParams::default(), &Patch::Merge(open)).await.expect("patch");
    clusters.delete("acme", &DeleteParams::default()).await.expect("delete");
}

#[tokio::test]
async fn policies_have_no_type_warnings() {
    let server = server().await;
    let resource = ApiResource::from_gvk(&GroupVersionKind::gvk(
        "admissionregistration.k8s.io",
        "v1",
        "ValidatingAdmissionPolicy",
    ));
    let api: Api<DynamicObject> = Api::all_with(server.client(), &resource);
    for policy in api.list(&ListParams::default()).await.expect("list") {
        let warnings = policy.data.pointer("/status/typeChecking/expressionWarnings");
        assert!(warnings.is_none(), "{}: {warnings:?}", policy.name_any());
    }
}

#[test]
fn values_that_make_no_sense_are_refused() {
    for (value, why) in [
        ("operator.replicas=99", "replicas"),
        ("operator.image.tag=latest", "tag"),
        ("operator.imge=x", "imge"),
        ("etcdNamespaces={A_B}", "etcdNamespaces"),
        ("imageRegistry=registry/", "imageRegistry"),
        ("imagePullPolicy=Sometimes", "imagePullPolicy"),
    ] {
        let output = helm(&["template", "berth", "berth", "--set", value]);
        let complaint = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(!output.status.success() && complaint.contains(why), "{value}: {complaint}");
    }
}

#[test]
fn crds_survive_the_uninstallation() {
    for crd in render("berth-crds", &[]) {
        assert_eq!(crd["metadata"]["annotations"]["helm.sh/resource-policy"], "keep", "{}", crd["metadata"]["name"]);
    }
}

#[test]
fn the_operator_runs_restricted_with_images_of_the_charts_version() {
    let objects = render("berth", &["--set", "imageRegistry=registry.example.com/k8s"]);
    let deployment = objects.iter().find(|o| o["kind"] == "Deployment").expect("a Deployment");
    let pod = &deployment["spec"]["template"]["spec"];
    let container = &pod["containers"][0];
    assert_eq!(container["image"], "ghcr.io/berth-dev/operator:0.1.0");
    let args = container["args"].to_string();
    for arg in [
        "--agent-image=ghcr.io/berth-dev/agent:0.1.0",
        "--agent-delivery=Auto",
        "--image-registry=registry.example.com/k8s",
        "--leaf-lifetime-minutes=129600",
    ] {
        assert!(args.contains(arg), "{arg}: {args}");
    }
    assert_eq!(container["securityContext"]["readOnlyRootFilesystem"], true);
    assert_eq!(pod["securityContext"]["runAsNonRoot"], true);
}
