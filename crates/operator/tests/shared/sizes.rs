//! Requests follow usage, against a real API server with its `pods/resize`. Nobody else than this test serves `metrics.k8s.io`.

use crate::common::{Running, SOON, Team, crds, me, operator_world};
use anyhow::{Context as _, Result, ensure};
use berth_api::conditions::ConditionType::Ready;
use berth_api::{labels, names};
use berth_fence::{Fence, FencedClient};
use berth_kubeio::Io;
use berth_operator::sizes::asked::Sizes;
use berth_testkit::FaultPlan;
use berth_testkit::fixtures::eventually;
use http::{Request, Response};
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::{Node, Pod};
use kube::api::{DeleteParams, ListParams, Patch, PatchParams, PostParams};
use kube::client::Body;
use kube::{Api, Client, ResourceExt as _};
use parking_lot::Mutex;
use serde_json::{Value, json};
use std::sync::Arc;
use std::time::Duration;

/// What `metrics.k8s.io` answers. None: the server does not have it.
type Metrics = Arc<Mutex<Option<Value>>>;

/// The operator's access to the meta cluster, with `metrics.k8s.io` in front of it.
#[expect(clippy::disallowed_methods, reason = "what it stands in front of asks the fence")]
fn with_metrics(inner: Client, metrics: Metrics) -> Io {
    let service = tower::service_fn(move |request: Request<Body>| {
        let (inner, answer) = (inner.clone(), metrics.lock().clone());
        async move {
            if !request.uri().path().starts_with("/apis/metrics.k8s.io/") || answer.is_none() {
                return inner.send(request).await;
            }
            Ok(Response::new(Body::from(answer.unwrap_or_default().to_string().into_bytes())))
        }
    });
    let client = FencedClient::new(Client::new(service, "default"), Fence::open());
    Io::new(client, Arc::default(), Duration::from_secs(10))
}

async fn pods(team: &Team, label: (&str, &str)) -> Vec<Pod> {
    let of = ListParams::default().labels(&format!("{}={}", label.0, label.1));
    team.inside::<Pod>().list(&of).await.expect("pods").items
}

/// What a container of the only such pod requests, and the pod's UID.
async fn requests(team: &Team, label: (&str, &str)) -> Result<(Value, String)> {
    let pods = pods(team, label).await;
    ensure!(pods.len() == 1, "{} pods", pods.len());
    let pod = json!(pods[0]);
    let name = if label.1 == names::ETCD { names::ETCD } else { label.1 };
    let containers = pod["spec"]["containers"].as_array().context("containers")?;
    let container = containers.iter().find(|one| one["name"] == name).context("container")?;
    Ok((container["resources"]["requests"].clone(), pods[0].uid().unwrap_or_default()))
}

/// Returns the pod's UID; `after`: of another pod than that one.
async fn comes_to(team: &Team, label: (&str, &str), wanted: Value, after: &str) -> String {
    let attempt = async || {
        let (requests, uid) = requests(team, label).await?;
        ensure!(requests == wanted, "{requests}; Ready: {:?}", team.condition(Ready).await?);
        ensure!(uid != after, "it is the former pod");
        Ok(uid)
    };
    eventually(SOON, "requests", attempt).await.unwrap_or_else(|e| panic!("{label:?} {wanted}: {e:#}"))
}

/// The node of all pods: admission of a resize asks what its kubelet can do, and what it has.
async fn node(client: &Client) {
    let nodes = Api::<Node>::all(client.clone());
    let node = json!({"metadata": {"name": "node-1"}});
    nodes.create(&PostParams::default(), &serde_json::from_value(node).expect("a Node")).await.expect("node");
    let room = json!({"cpu": "4", "memory": "8Gi", "pods": "110"});
    let info = json!({"kubeletVersion": "v1.36.3"});
    let status = json!({"status": {"nodeInfo": info, "capacity": room, "allocatable": room}});
    nodes.patch_status("node-1", &PatchParams::default(), &Patch::Merge(&status)).await.expect("status");
}

const API: (&str, &str) = (labels::COMPONENT, names::APISERVER);
const ETCD: (&str, &str) = (labels::ETCD_CLUSTER, names::ETCD);

#[tokio::test]
async fn requests_of_running_pods_follow_usage_and_no_pod_is_made_anew() {
    let (server, _world) = operator_world(&crds()).await;
    let plan = FaultPlan::new();
    let metrics: Metrics = Arc::new(Mutex::new(Some(json!({"items": []}))));
    let io = {
        let (plan, metrics) = (plan.clone(), metrics.clone());
        move |context: &mut berth_operator::Context| {
            context.io = with_metrics(plan.client(me(server)), metrics);
            context.sizes = Arc::new(Sizes::every(Duration::from_millis(300)));
        }
    };
    let operator = Running::start_changed(server, me(server), &plan, io);
    let team = Team::new(server).await;
    node(&team.client).await;
    let sized = |min: Value| json!({"autoscaling": {"mode": "InPlace", "min": min}});
    let bounds = json!({"cpu": "150m", "memory": "512Mi"});
    let spec = json!({
        "version": "1.36.2", "upgrade": {"soak": "0s"},
        "apiServer": sized(bounds.clone()), "etcd": sized(json!({"cpu": "90m"})),
    });
    team.create(spec).await.expect("Cluster");
    team.ready().await.unwrap_or_else(|e| panic!("{e:#}"));
    let template = async || {
        let live = team.inside::<Deployment>().get(names::APISERVER).await.expect("Deployment");
        json!(live.spec.expect("spec").template)
    };
    let before = template().await;
    let first = comes_to(&team, API, bounds.clone(), "").await;
    let (of_etcd, _) = requests(&team, ETCD).await.expect("a member");
    comes_to(&team, ETCD, json!({"cpu": "90m", "memory": of_etcd["memory"]}), "").await;
    assert_eq!(template().await, before, "what a new pod is made with stays");

    // A pod that is made anew begins as its template, and is resized.
    team.inside::<Pod>().delete(&pods(&team, API).await[0].name_any(), &DeleteParams::default()).await.expect("delete");
    let second = comes_to(&team, API, bounds, &first).await;
    team.reconciled(&plan).await;
    assert!(operator.metrics().contains("berth_fleet_requested_memory_bytes{component=\"kube-apiserver\"}"));

    // More, and the other bounds at once, in the same pod.
    team.spec(json!({"apiServer": sized(json!({"cpu": "200m", "memory": "600Mi"}))})).await.expect("spec");
    let third = comes_to(&team, API, json!({"cpu": "200m", "memory": "600Mi"}), "").await;
    assert_eq!(second, third, "no pod was made anew");

    // Another version makes all pods anew: they begin with what those before had come to.
    team.spec(json!({"version": "1.36.3", "apiServer": {"autoscaling": {"min": null}}})).await.expect("spec");
    let anew = comes_to(&team, API, json!({"cpu": "200m", "memory": "600Mi"}), &third).await;
    team.ready().await.unwrap_or_else(|e| panic!("{e:#}"));
    let of = &template().await["spec"]["containers"][0]["resources"]["requests"];
    assert_eq!(*of, json!({"cpu": "200m", "memory": "600Mi"}));

    // What the API server refuses is told, and what runs stays.
    team.spec(json!({"apiServer": sized(json!({"cpu": "5", "memory": "600Mi"}))})).await.expect("spec");
    team.says_of(Ready, "SizeHeld", "enough allocatable resources: cpu").await;
    team.ready().await.unwrap_or_else(|e| panic!("{e:#}"));

    let fourth = comes_to(&team, API, json!({"cpu": "200m", "memory": "600Mi"}), "").await;
    assert_eq!(anew, fourth);

    // Nobody tells what pods use any more.
    *metrics.lock() = None;
    team.says_of(Ready, "SizeHeld", "does not serve metrics.k8s.io").await;
    team.spec(json!({"apiServer": {"autoscaling": null}, "etcd": {"autoscaling": null}})).await.expect("spec");
    team.says_of(Ready, "AsExpected", "").await;
}
