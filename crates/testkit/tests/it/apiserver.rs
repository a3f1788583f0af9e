//! The harness: start, users, audit log, stop, pause.

use std::time::{Duration, Instant};

use berth_testkit::{ApiServer, World, yaml};
use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::{ApiResource, DeleteParams, DynamicObject, GroupVersionKind, ListParams, PostParams};
use kube::{Api, Client, Config, ResourceExt as _};

fn config_map(name: &str) -> ConfigMap {
    yaml!("{{apiVersion: v1, kind: ConfigMap, metadata: {{name: {name}}}, data: {{a: b}}}}")
}

#[tokio::test]
async fn shared_server_serves_admin_and_refuses_others() {
    let server = ApiServer::shared().await;
    let ns = server.namespace("rbac").await;
    let secrets = |client: Client| Api::<Secret>::namespaced(client, &ns);
    secrets(server.client()).list(&ListParams::default()).await.expect("the admin may list");
    let alice = secrets(server.client_as("alice", &["team-a", "team-b"]));
    let refused = alice.list(&ListParams::default()).await.expect_err("alice has no rights");
    assert!(matches!(&refused, kube::Error::Api(e) if e.code == 403 && e.message.contains("alice")), "{refused}");

    for group in ["team-a", "team-b"] {
        let binding: k8s_openapi::api::rbac::v1::RoleBinding = yaml!(
            "{{apiVersion: rbac.authorization.k8s.io/v1, kind: RoleBinding, metadata: {{name: {group}}},
               roleRef: {{apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: cluster-admin}},
               subjects: [{{apiGroup: rbac.authorization.k8s.io, kind: Group, name: {group}}}]}}"
        );
        let api = Api::namespaced(server.client(), &ns);
        api.create(&PostParams::default(), &binding).await.expect("binding");
        let list = async || alice.list(&ListParams::default()).await;
        berth_testkit::fixtures::eventually(Duration::from_secs(30), group, list).await.expect("a group counts");
        api.delete(group, &DeleteParams::default()).await.expect("unbinding");
        let gone = async || alice.list(&ListParams::default()).await.is_err();
        berth_testkit::fixtures::until(Duration::from_secs(30), "the right is gone", gone).await;
    }
    let many = secrets(server.client_as("bob", &["a", "b", "system:masters"]));
    many.list(&ListParams::default()).await.expect("more groups come by impersonation");
}

#[tokio::test]
async fn audit_names_user_object_and_dry_run() {
    let server = ApiServer::shared().await;
    let ns = server.namespace("audit").await;
    let mark = server.audit_mark();
    let api = Api::<ConfigMap>::namespaced(server.client_as("carol", &["system:masters"]), &ns);
    let dry = PostParams { dry_run: true, ..PostParams::default() };
    api.create(&dry, &config_map("x")).await.expect("dry run");
    api.create(&PostParams::default(), &config_map("x")).await.expect("create");
    api.create(&PostParams::default(), &config_map("x")).await.expect_err("it exists");
    let events: Vec<_> = server.audit_since(mark).into_iter().filter(|e| e.user == "carol").collect();
    let seen: Vec<_> =
        events.iter().map(|e| (&*e.verb, &*e.resource, &*e.namespace, &*e.name, e.code, e.dry_run)).collect();
    let event = |code, dry_run| ("create", "configmaps", &*ns, "x", code, dry_run);
    assert_eq!(seen, [event(201, true), event(201, false), event(409, false)]);
    assert_eq!(events.iter().filter(|e| e.is_write()).count(), 1);
}

#[tokio::test]
async fn private_server_stops_starts_and_pauses() {
    let started = Instant::now();
    let server = ApiServer::start().await.expect("start");
    println!("started in {:?}", started.elapsed());
    let ns = server.namespace("keep").await;
    let mut config = server.config();
    config.default_retry = false;
    let api = Api::<ConfigMap>::namespaced(Client::try_from(config).expect("client"), &ns);
    api.create(&PostParams::default(), &config_map("x")).await.expect("create");

    server.stop_apiserver();
    api.get("x").await.expect_err("it is down");
    server.start_apiserver().await.expect("start again");
    api.get("x").await.expect("the store was kept");

    server.pause();
    let answer = tokio::time::timeout(Duration::from_millis(300), api.get("x")).await;
    assert!(answer.is_err(), "a paused server does not answer");
    server.resume();
    api.get("x").await.expect("resumed");

    let text = server.kubeconfig_as("dave", &["system:masters"]);
    let parsed = kube::config::Kubeconfig::from_yaml(&text).expect("kubeconfig");
    let config = Config::from_custom_kubeconfig(parsed, &kube::config::KubeConfigOptions::default()).await;
    let client = Client::try_from(config.expect("config")).expect("client");
    assert_eq!(client.apiserver_version().await.expect("version").minor, "36");

    let dir = server.dir().to_owned();
    drop(server);
    assert!(!dir.exists(), "a clean stop leaves nothing");
}

#[tokio::test]
async fn crds_are_served_once_installed_and_the_world_knows_them() {
    let server = ApiServer::shared().await;
    let crd: CustomResourceDefinition = yaml!(
        "{{apiVersion: apiextensions.k8s.io/v1, kind: CustomResourceDefinition, metadata: {{name: things.example.com}},
           spec: {{group: example.com, scope: Namespaced, names: {{plural: things, singular: thing, kind: Thing}},
             versions: [{{name: v1, served: true, storage: true, subresources: {{status: {{}}}},
               schema: {{openAPIV3Schema: {{type: object, x-kubernetes-preserve-unknown-fields: true}}}}}}]}}}}"
    );
    server.install_crds(std::slice::from_ref(&crd)).await.expect("installed");
    server.install_crds(&[crd]).await.expect("twice is fine");
    let ns = server.namespace("crd").await;
    let mine = ns.clone();
    let _world = World::builder(server.client()).namespaces(move |n| n == mine).start().await.expect("world");
    let things = ApiResource::from_gvk(&GroupVersionKind::gvk("example.com", "v1", "Thing"));
    let things = Api::<DynamicObject>::namespaced_with(server.client(), &ns, &things);
    let thing: DynamicObject = yaml!("{{apiVersion: example.com/v1, kind: Thing, metadata: {{name: t}}}}");
    let owner = things.create(&PostParams::default(), &thing).await.expect("create").uid().expect("uid");
    let maps = Api::<ConfigMap>::namespaced(server.client(), &ns);
    let child: ConfigMap = yaml!(
        "{{apiVersion: v1, kind: ConfigMap, metadata: {{name: m, ownerReferences: [
           {{apiVersion: example.com/v1, kind: Thing, name: t, uid: {owner}}}]}}}}"
    );
    maps.create(&PostParams::default(), &child).await.expect("create");
    things.delete("t", &DeleteParams::default()).await.expect("delete");
    let gone = async || maps.get_opt("m").await.expect("get").is_none();
    berth_testkit::fixtures::until(Duration::from_secs(10), "what it owned is gone", gone).await;
}

#[test]
fn a_missing_binary_says_what_to_run() {
    let error = berth_testkit::apiserver::binary("kubernetes", "v0.0.0", "kube-apiserver").expect_err("not there");
    assert!(error.to_string().contains("run `make binaries`"), "{error}");
}
