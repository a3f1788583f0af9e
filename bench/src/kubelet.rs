//! What a kubelet says of pods where there is none: each is ready as soon as it is there. Nothing runs in them.

use berth_sim::{Fate, pod_status};
use futures::{StreamExt as _, TryStreamExt as _};
use k8s_openapi::api::core::v1::Pod;
use kube::api::{Patch, PatchParams};
use kube::runtime::watcher::{self, Event, watcher};
use kube::{Api, Client, ResourceExt as _};
use serde_json::{Value, json};
use tokio::task::JoinHandle;

/// Pods whose status is written at once.
const AT_ONCE: usize = 16;

/// It ends with this.
pub(crate) struct Kubelet(JoinHandle<()>);

impl Drop for Kubelet {
    fn drop(&mut self) {
        self.0.abort();
    }
}

impl Kubelet {
    /// For all pods of the cluster.
    pub(crate) fn start(client: &Client) -> Self {
        let client = client.clone();
        Self(tokio::spawn(async move {
            let pods = watcher(Api::<Pod>::all(client.clone()), watcher::Config::default());
            let new = pods.filter_map(async |event| match event {
                Ok(Event::Apply(pod) | Event::InitApply(pod)) => Some(Ok(pod)),
                // A watch that broke begins anew.
                _ => None,
            });
            let done = new.try_for_each_concurrent(AT_ONCE, |pod: Pod| {
                let client = client.clone();
                async move {
                    say(&client, &pod).await;
                    Ok::<(), std::convert::Infallible>(())
                }
            });
            let _ = done.await;
        }))
    }
}

/// A pod without a node is gone as soon as it is deleted, so there is nothing to do then.
async fn say(client: &Client, pod: &Pod) {
    let live = json!(pod);
    if pod.metadata.deletion_timestamp.is_some() || is_ready(&live) {
        return;
    }
    let status = pod_status(&live, Fate::Ready, now());
    let api: Api<Pod> = Api::namespaced(client.clone(), &pod.namespace().unwrap_or_default());
    // Pods go meanwhile. One that is still there comes again with its next event.
    let _ = api.patch_status(&pod.name_any(), &PatchParams::default(), &Patch::Merge(json!({"status": status}))).await;
}

fn is_ready(pod: &Value) -> bool {
    let mut conditions = pod["status"]["conditions"].as_array().into_iter().flatten();
    conditions.any(|c| c["type"] == "Ready" && c["status"] == "True")
}

fn now() -> jiff::Timestamp {
    let now = jiff::Timestamp::now();
    now.round(jiff::Unit::Second).unwrap_or(now)
}
