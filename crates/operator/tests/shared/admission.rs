//! The file that kube-apiserver is given for `spec.apiServer.admission` does what it says.

use berth_render::values::ApiServerValues;
use berth_render::{Catalog, Kind, render_apiserver};
use berth_testkit::ApiServer;
use berth_testkit::apiserver::Options;
use k8s_openapi::api::core::v1::{Event, Namespace, Pod};
use kube::Client;
use kube::api::{Api, PostParams};
use serde_json::{Value, json};

/// As the newest minor's templates write it.
fn file(plugins: Vec<Value>) -> String {
    let catalog = Catalog::builtin();
    let set = catalog.minors().last().and_then(|minor| catalog.kubernetes(*minor)).unwrap();
    let mut values = ApiServerValues { admission: plugins, ..ApiServerValues::default() };
    values.meta.namespace = "acme-home".into();
    let objects = render_apiserver(set, &values).unwrap();
    let map = objects.iter().find(|object| object.key().kind == Kind::ConfigMap).unwrap();
    map.get("/data").unwrap()["admission.yaml"].as_str().unwrap().to_owned()
}

fn privileged() -> Pod {
    let container = json!({"name": "a", "image": "a", "securityContext": {"privileged": true}});
    serde_json::from_value(json!({"metadata": {"name": "privileged"}, "spec": {"containers": [container]}})).unwrap()
}

fn event(n: i32) -> Event {
    serde_json::from_value(json!({
        "metadata": {"name": format!("event-{n}"), "namespace": "default"},
        "involvedObject": {"kind": "Namespace", "name": "default", "namespace": "default"},
    }))
    .unwrap()
}

#[tokio::test]
async fn defaults_of_pod_security_and_limits_of_events_count() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("admission.yaml");
    let plugins = vec![
        json!({"name": "PodSecurity", "configuration": {
            "apiVersion": "pod-security.admission.config.k8s.io/v1", "kind": "PodSecurityConfiguration",
            "defaults": {"enforce": "baseline"}, "exemptions": {"namespaces": ["kube-system"]}}}),
        json!({"name": "EventRateLimit", "configuration": {
            "apiVersion": "eventratelimit.admission.k8s.io/v1alpha1", "kind": "Configuration",
            "limits": [{"type": "Namespace", "qps": 1, "burst": 3}]}}),
    ];
    std::fs::write(&path, file(plugins)).unwrap();
    let args = vec![
        format!("--admission-control-config-file={}", path.display()),
        "--enable-admission-plugins=NodeRestriction,DenyServiceExternalIPs,EventRateLimit".to_owned(),
    ];
    let server = ApiServer::start_with(Options { apiserver_args: args, ..Options::default() }).await.unwrap();
    let mut config = server.config();
    // A limit that is reached is an answer.
    config.default_retry = false;
    let client = Client::try_from(config).unwrap();
    let post = PostParams::default();
    let namespace: Namespace = serde_json::from_value(json!({"metadata": {"name": "team"}})).unwrap();
    Api::<Namespace>::all(client.clone()).create(&post, &namespace).await.unwrap();
    let pods = |namespace: &str| Api::<Pod>::namespaced(client.clone(), namespace);
    let refused = pods("team").create(&post, &privileged()).await.unwrap_err().to_string();
    assert!(refused.contains(r#"violates PodSecurity "baseline:latest""#), "{refused}");
    let system: Namespace = serde_json::from_value(json!({"metadata": {"name": "kube-system"}})).unwrap();
    // It makes that namespace itself, sooner or later.
    let _ = Api::<Namespace>::all(client.clone()).create(&post, &system).await;
    pods("kube-system").create(&post, &privileged()).await.unwrap();
    let events = Api::<Event>::namespaced(client.clone(), "default");
    let mut said = vec![];
    for n in 0..50 {
        said.extend(events.create(&post, &event(n)).await.err().map(|why| why.to_string()));
    }
    assert!(said.iter().any(|why| why.contains("limit reached")), "{said:?}");
}
