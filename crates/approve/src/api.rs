//! Calls of the tenant's API. Each takes a connection of its own, so that certificates on both sides are those of now; there are few.

use std::collections::BTreeMap;
use std::time::Duration;

use anyhow::{Context as _, Result};
use hyper_rustls::HttpsConnectorBuilder;
use hyper_timeout::TimeoutConnector;
use hyper_util::client::legacy;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;
use jiff::Timestamp;
use k8s_openapi::api::certificates::v1::CertificateSigningRequest;
use k8s_openapi::api::core::v1::{NodeAddress, NodeCondition};
use kube::Client;
use kube::api::{Api, GetParams, ListParams, ObjectList, Patch, PatchParams, PostParams, Request};
use kube::client::{Body, ClientBuilder, ConfigExt};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use crate::client::Kubelet;
use crate::decide::Node;
use crate::tls::{self, Files, Names, Seen};

/// Of one call, but for watches.
const DEADLINE: Duration = Duration::from_secs(5);
const CONNECT_DEADLINE: Duration = Duration::from_secs(3);
/// Longer than the client library lets API servers hold a watch on which nothing happens.
const READ_DEADLINE: Duration = Duration::from_secs(295);
/// Nodes in one answer: with the images that they list each may have 50 KiB.
const PAGE: u32 = 20;
const NODES: &str = "/api/v1/nodes";
const EVENTS: &str = "/api/v1/namespaces/default/events";

const STAMPS: &str = "/api/v1/namespaces/kube-system/configmaps";
const STAMP: &str = "berth-endpoint";
/// The operator's field manager: with one of its own, what the operator takes away later would stay.
pub(crate) const MANAGER: &str = "berth-cluster";

/// A tenant's API.
#[derive(Clone)]
pub(crate) struct Tenant {
    client: Client,
    seen: Seen,
}

impl Tenant {
    /// No call is made.
    pub(crate) fn new(server: &str, files: Files) -> Result<Self> {
        let (tls, seen) = tls::config(files)?;
        let mut http = HttpConnector::new();
        http.enforce_http(false);
        http.set_nodelay(true);
        // A watch has nothing to say for minutes; whether the other end is still there shows within half of one.
        http.set_keepalive(Some(Duration::from_secs(15)));
        http.set_keepalive_interval(Some(Duration::from_secs(5)));
        http.set_keepalive_retries(Some(3));
        let https = HttpsConnectorBuilder::new().with_tls_config(tls).https_only().enable_http1().wrap_connector(http);
        let mut connector = TimeoutConnector::new(https);
        connector.set_connect_timeout(Some(CONNECT_DEADLINE));
        connector.set_read_timeout(Some(READ_DEADLINE));
        connector.set_write_timeout(Some(DEADLINE));
        let service =
            legacy::Client::builder(TokioExecutor::new()).pool_max_idle_per_host(0).build::<_, Body>(connector);
        let config = kube::Config::new(server.parse().with_context(|| format!("--server: {server}"))?);
        let client = ClientBuilder::new(service, "default").with_layer(&config.base_uri_layer()).build();
        Ok(Self { client, seen })
    }

    /// The requests, for a watch.
    pub(crate) fn requests(&self) -> Api<CertificateSigningRequest> {
        Api::all(self.client.clone())
    }

    /// What the API server's certificate said in the last call.
    pub(crate) fn names(&self) -> Names {
        self.seen.names()
    }

    /// A node, if it is there.
    pub(crate) async fn node(&self, name: &str) -> Result<Option<Node>> {
        let request = Request::new(NODES).get(name, &GetParams::default())?;
        match self.call::<NodeObject>(request).await {
            Ok(node) => Ok(Some(node.into())),
            Err(kube::Error::Api(status)) if status.code == 404 => Ok(None),
            Err(error) => Err(error).with_context(|| format!("get Node {name}")),
        }
    }

    /// Some of the nodes, and where the next ones begin.
    pub(crate) async fn nodes(&self, from: &str) -> Result<(Vec<Node>, Option<String>)> {
        let page = ListParams::default().limit(PAGE).continue_token(from);
        let list: ObjectList<NodeObject> = self.call(Request::new(NODES).list(&page)?).await.context("list Nodes")?;
        let next = list.metadata.continue_.filter(|next| !next.is_empty());
        Ok((list.items.into_iter().map(Node::from).collect(), next))
    }

    /// Approves or denies, as the conditions say, unless the request changed since it was read.
    pub(crate) async fn conclude(&self, name: &str, version: &str, conditions: &[Value]) -> Result<(), kube::Error> {
        let patch = json!({"metadata": {"resourceVersion": version}, "status": {"conditions": conditions}});
        let (requests, params, patch) = (self.requests(), PatchParams::default(), Patch::Merge(patch));
        in_time(requests.patch_approval(name, &params, &patch)).await.map(drop)
    }

    /// Tells those who may read Events of a request why it is not approved.
    pub(crate) async fn tell(&self, name: &str, uid: &str, message: &str) -> Result<()> {
        let now = Timestamp::now().strftime("%Y-%m-%dT%H:%M:%SZ").to_string();
        let event = json!({
            "apiVersion": "v1", "kind": "Event",
            "metadata": {"generateName": format!("{name}."), "namespace": "default"},
            "involvedObject": {
                "apiVersion": "certificates.k8s.io/v1", "kind": "CertificateSigningRequest", "name": name, "uid": uid,
            },
            "type": "Warning", "reason": "NotApproved", "message": message, "count": 1,
            "firstTimestamp": now, "lastTimestamp": now, "source": {"component": crate::text::NAME},
        });
        let request = Request::new(EVENTS).create(&PostParams::default(), serde_json::to_vec(&event)?)?;
        self.call::<Value>(request).await.map(drop).context("create an Event")
    }

    /// Objects in the namespace `default`, for a watch.
    pub(crate) fn in_default<K>(&self) -> Api<K>
    where
        K: kube::Resource<DynamicType = (), Scope = k8s_openapi::NamespaceResourceScope>,
    {
        Api::namespaced(self.client.clone(), "default")
    }

    /// The data of the stamp of the endpoints, if it is there.
    pub(crate) async fn endpoint_stamp(&self) -> Result<Option<BTreeMap<String, String>>> {
        let request = Request::new(STAMPS).get(STAMP, &GetParams::default())?;
        match self.call::<Stamp>(request).await {
            Ok(stamp) => Ok(Some(stamp.data)),
            Err(kube::Error::Api(status)) if status.code == 404 => Ok(None),
            Err(error) => Err(error).with_context(|| format!("get ConfigMap {STAMP}")),
        }
    }

    /// Writes an object as the operator does.
    pub(crate) async fn apply(&self, path: &str, name: &str, object: &Value) -> Result<()> {
        let params = PatchParams::apply(MANAGER).force();
        let request = Request::new(path).patch(name, &params, &Patch::Apply(object))?;
        self.call::<Value>(request).await.map(drop).with_context(|| format!("apply {path}/{name}"))
    }

    async fn call<T: DeserializeOwned>(&self, request: http::Request<Vec<u8>>) -> Result<T, kube::Error> {
        in_time(self.client.request(request)).await
    }
}

async fn in_time<T>(call: impl Future<Output = Result<T, kube::Error>>) -> Result<T, kube::Error> {
    let late = |_| Err(kube::Error::Service(format!("no answer within {} s", DEADLINE.as_secs()).into()));
    tokio::time::timeout(DEADLINE, call).await.unwrap_or_else(late)
}

/// What is read of a stamp.
#[derive(Clone, Deserialize)]
struct Stamp {
    #[serde(default)]
    data: BTreeMap<String, String>,
}

/// What is read of a `Node`: it has much more.
#[derive(Clone, Deserialize)]
struct NodeObject {
    metadata: NodeMetadata,
    #[serde(default)]
    status: NodeStatus,
}

#[derive(Clone, Deserialize)]
struct NodeMetadata {
    name: String,
}

#[derive(Clone, Default, Deserialize)]
struct NodeStatus {
    #[serde(default)]
    addresses: Vec<NodeAddress>,
    #[serde(default)]
    conditions: Vec<NodeCondition>,
}

impl From<NodeObject> for Node {
    /// As kubelets read it: what is an IP address counts as one, whatever its type.
    fn from(object: NodeObject) -> Self {
        let mut node = Self { name: object.metadata.name, ..Self::default() };
        for NodeAddress { address, .. } in object.status.addresses {
            match address.parse::<std::net::IpAddr>() {
                Ok(ip) => node.addresses.push(ip.to_canonical()),
                Err(_) => node.names.push(address.to_ascii_lowercase()),
            }
        }
        node.kubelet = match object.status.conditions.iter().find(|condition| condition.type_ == "Ready") {
            None => Kubelet::Never,
            // Kubernetes says it of a node that somebody made before its machine joins.
            Some(NodeCondition { reason: Some(reason), .. }) if reason == "NodeStatusNeverUpdated" => Kubelet::Never,
            Some(NodeCondition { status, last_transition_time: Some(since), .. }) if status == "Unknown" => {
                Kubelet::Silent { since: since.0 }
            }
            // Also if nobody says since when it is silent: whoever deletes the node says that it is gone.
            Some(_) => Kubelet::Reports,
        };
        node
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_writes_under_the_operators_name() {
        assert_eq!(MANAGER, berth_api::labels::MANAGER_CLUSTER);
    }

    #[test]
    fn whether_a_kubelet_reports_is_read_of_its_node() {
        let since = "2026-01-01T00:00:00Z";
        let kubelet = |conditions: Value| {
            let node = json!({"metadata": {"name": "n1"}, "status": {"conditions": conditions}});
            Node::from(serde_json::from_value::<NodeObject>(node).unwrap()).kubelet
        };
        let of = |type_: &str, status: &str| json!({"type": type_, "status": status, "lastTransitionTime": since});
        assert_eq!(kubelet(json!([])), Kubelet::Never);
        assert_eq!(kubelet(json!([of("MemoryPressure", "Unknown")])), Kubelet::Never);
        for status in ["True", "False"] {
            assert_eq!(kubelet(json!([of("MemoryPressure", "Unknown"), of("Ready", status)])), Kubelet::Reports);
        }
        assert_eq!(kubelet(json!([of("Ready", "Unknown")])), Kubelet::Silent { since: since.parse().unwrap() });
        assert_eq!(kubelet(json!([{"type": "Ready", "status": "Unknown"}])), Kubelet::Reports);
        let mut never = of("Ready", "Unknown");
        never["reason"] = "NodeStatusNeverUpdated".into();
        assert_eq!(kubelet(json!([never])), Kubelet::Never);
        let node = Node::from(serde_json::from_value::<NodeObject>(json!({"metadata": {"name": "n1"}})).unwrap());
        assert_eq!(node.kubelet, Kubelet::Never);
    }
}
