//! What a kubelet says of pods where there is none: each is ready as soon as it is there, and a backup's ends well. Nothing runs in them. They are bound to a node that
//! is pretended, too: otherwise the scheduler says again and again that there is none for them.

use crate::backups;
use berth_sim::{Fate, pod_status};
use futures::future::BoxFuture;
use futures::{StreamExt as _, TryStreamExt as _};
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::{Node, Pod};
use kube::api::{DeleteParams, Patch, PatchParams, PostParams};
use kube::runtime::watcher::{self, Event, watcher};
use kube::{Api, Client, ResourceExt as _};
use serde_json::{Value, json};
use std::sync::Arc;
use std::time::Duration;
use tokio::task::JoinHandle;

/// Pods whose status is written at once.
const AT_ONCE: usize = 16;

/// The node. Nothing is scheduled to it: pods are bound.
const NODE: &str = "pretended";

/// How often it says that it is there.
const HEARTBEAT: Duration = Duration::from_secs(10);

/// What is done for a pod that is bound, or goes, in place of what is pretended: also what its status says. None: it is pretended. It is asked again with each event.
pub(crate) type Runs = Arc<dyn Fn(&Pod) -> Option<BoxFuture<'static, ()>> + Send + Sync>;

/// It ends with this.
pub(crate) struct Kubelet([JoinHandle<()>; 2]);

impl Drop for Kubelet {
    fn drop(&mut self) {
        self.0.iter().for_each(JoinHandle::abort);
    }
}

impl Kubelet {
    /// For all pods of the cluster.
    pub(crate) async fn start(client: &Client) -> anyhow::Result<Self> {
        Self::start_with(client, Arc::new(|_| None)).await
    }

    /// Likewise, but for those that are run.
    pub(crate) async fn start_with(client: &Client, runs: Runs) -> anyhow::Result<Self> {
        node(client).await?;
        let (lives, pods) = (client.clone(), client.clone());
        let beats = tokio::spawn(async move {
            loop {
                let _ = beat(&lives).await;
                tokio::time::sleep(HEARTBEAT).await;
            }
        });
        let says = tokio::spawn(async move {
            let client = pods;
            let pods = watcher(Api::<Pod>::all(client.clone()), watcher::Config::default());
            let new = pods.filter_map(async |event| match event {
                Ok(Event::Apply(pod) | Event::InitApply(pod)) => Some(Ok(pod)),
                // A watch that broke begins anew.
                _ => None,
            });
            let done = new.try_for_each_concurrent(AT_ONCE, |pod: Pod| {
                let (client, runs) = (client.clone(), runs.clone());
                async move {
                    say(&client, &pod, &runs).await;
                    Ok::<(), std::convert::Infallible>(())
                }
            });
            let _ = done.await;
        });
        Ok(Self([beats, says]))
    }

    /// Its node goes, too.
    pub(crate) async fn end(self, client: &Client) -> anyhow::Result<()> {
        drop(self);
        Api::<Node>::all(client.clone()).delete(NODE, &DeleteParams::default()).await?;
        Ok(())
    }
}

async fn node(client: &Client) -> anyhow::Result<()> {
    let nodes: Api<Node> = Api::all(client.clone());
    let node: Node = serde_json::from_value(json!({"metadata": {"name": NODE}, "spec": {"unschedulable": true}}))?;
    match nodes.create(&PostParams::default(), &node).await {
        Err(kube::Error::Api(e)) if e.code == 409 => {}
        other => drop(other?),
    }
    let ready = json!({"type": "Ready", "status": "True", "reason": "Pretended", "lastHeartbeatTime": now(), "lastTransitionTime": now()});
    let status = Patch::Merge(json!({"status": {"conditions": [ready]}}));
    nodes.patch_status(NODE, &PatchParams::default(), &status).await?;
    Ok(())
}

/// The node is there: otherwise its pods are evicted.
async fn beat(client: &Client) -> anyhow::Result<()> {
    let leases: Api<Lease> = Api::namespaced(client.clone(), "kube-node-lease");
    let renewed = jiff::Timestamp::now().strftime("%Y-%m-%dT%H:%M:%S.%6fZ").to_string();
    let lease = json!({
        "apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": {"name": NODE},
        "spec": {"holderIdentity": NODE, "leaseDurationSeconds": 40, "renewTime": renewed},
    });
    leases.patch(NODE, &PatchParams::apply("bench").force(), &Patch::Apply(lease)).await?;
    Ok(())
}

/// Pods go and change meanwhile: one that is still there comes again with its next event.
async fn say(client: &Client, pod: &Pod, runs: &Runs) {
    let (live, name) = (json!(pod), pod.name_any());
    let api: Api<Pod> = Api::namespaced(client.clone(), &pod.namespace().unwrap_or_default());
    if pod.metadata.deletion_timestamp.is_some() {
        if let Some(end) = runs(pod) {
            end.await;
        }
        let _ = api.delete(&name, &DeleteParams::default().grace_period(0)).await;
        return;
    }
    if pod.spec.as_ref().is_some_and(|spec| spec.node_name.is_none()) {
        let namespace = pod.namespace().unwrap_or_default();
        let binding = json!({
            "apiVersion": "v1", "kind": "Binding", "metadata": {"name": name},
            "target": {"apiVersion": "v1", "kind": "Node", "name": NODE},
        });
        let path = format!("/api/v1/namespaces/{namespace}/pods/{name}/binding");
        let request = http::Request::post(path).header(http::header::CONTENT_TYPE, "application/json");
        if let Ok(request) = request.body(binding.to_string().into_bytes()) {
            let _ = client.request::<Value>(request).await;
        }
        return;
    }
    if let Some(run) = runs(pod) {
        // Others do not wait for it.
        tokio::spawn(run);
        return;
    }
    let ended = live["status"]["phase"] == "Succeeded";
    if let Some(status) = if ended { None } else { backups::end(pod).await } {
        set_status(client, pod, &status).await;
        return;
    }
    if !ended {
        is_well(client, pod).await;
    }
}

/// Says that a pod runs and is ready, unless that is said.
pub(crate) async fn is_well(client: &Client, pod: &Pod) {
    let live = json!(pod);
    if !is_ready(&live) {
        set_status(client, pod, &pod_status(&live, Fate::Ready, now())).await;
    }
}

/// A pod that is gone has none.
pub(crate) async fn set_status(client: &Client, pod: &Pod, status: &Value) {
    let api: Api<Pod> = Api::namespaced(client.clone(), &pod.namespace().unwrap_or_default());
    let status = Patch::Merge(json!({"status": status}));
    let _ = api.patch_status(&pod.name_any(), &PatchParams::default(), &status).await;
}

fn is_ready(pod: &Value) -> bool {
    let conditions = pod["status"]["conditions"].as_array().into_iter().flatten();
    // The scheduler may say after it was bound that there is no node.
    ["Ready", "PodScheduled"]
        .iter()
        .all(|wanted| conditions.clone().any(|c| c["type"] == *wanted && c["status"] == "True"))
}

fn now() -> jiff::Timestamp {
    let now = jiff::Timestamp::now();
    now.round(jiff::Unit::Second).unwrap_or(now)
}
