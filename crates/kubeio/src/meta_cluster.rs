//! What the meta cluster says of itself, apart from any tenant.

use crate::calls::Io;
use crate::error::IoError;
use berth_api::common::AgentDelivery;
use berth_plan::meta_cluster::addresses::MetaRanges;
use berth_plan::meta_cluster::nodes;
use berth_plan::room::Node;
use berth_plan::settings::flags::Delivery;
use berth_render::Kind;
use serde_json::Value;

/// Objects in one answer: a node's object has tens of KiB.
const PAGE: u32 = 50;

/// Why addresses of the meta cluster are not known.
#[derive(Debug, thiserror::Error)]
pub enum RangesError {
    /// A call failed.
    #[error(transparent)]
    Call(#[from] IoError),
    /// The nodes do not say them.
    #[error("{0}")]
    NotSaid(String),
}

/// All nodes, reduced to names, versions and addresses.
async fn list_nodes(io: &Io) -> Result<Vec<Value>, IoError> {
    items(io, NODES).await
}

const NODES: &str = "/api/v1/nodes";

/// What nodes say, by one list of them.
#[derive(Debug)]
pub struct MetaNodes {
    /// What all have for pods.
    pub room: Vec<Node>,
    /// Names, versions and addresses.
    all: Vec<Value>,
}

/// Lists the nodes.
///
/// # Errors
///
/// They cannot be read.
pub async fn meta_nodes(io: &Io) -> Result<MetaNodes, IoError> {
    let (mut room, mut all) = (vec![], vec![]);
    let page = |items: Vec<Value>| {
        room.extend(items.iter().map(Node::of));
        all.extend(items.into_iter().map(slim));
    };
    io.pages(Kind::Node, &format!("get {NODES}"), &format!("{NODES}?limit={PAGE}"), page).await?;
    Ok(MetaNodes { room, all })
}

/// What is given, and what is empty filled from the meta cluster: pods and nodes from its nodes, Services from `ServiceCIDR` objects,
/// API servers from the endpoints of Service `default/kubernetes`.
///
/// # Errors
///
/// Why what is not given is not known.
pub async fn meta_ranges(
    io: &Io,
    given: MetaRanges,
    nodes: &Result<MetaNodes, IoError>,
) -> Result<MetaRanges, RangesError> {
    let mut all = given;
    if all.services.is_empty() {
        let objects = items(io, "/apis/networking.k8s.io/v1/servicecidrs").await?;
        all.services = nodes::service_ranges(&objects);
    }
    if all.api_servers.is_empty() {
        let url = "/apis/discovery.k8s.io/v1/namespaces/default/endpointslices/kubernetes";
        all.api_servers = nodes::endpoints(&io.raw(url).await?);
    }
    if all.pods.is_empty() || all.nodes.is_empty() {
        let found = &nodes.as_ref().map_err(IoError::clone)?.all;
        if all.pods.is_empty() {
            all.pods = nodes::pod_ranges(found).map_err(RangesError::NotSaid)?;
        }
        if all.nodes.is_empty() {
            all.nodes = nodes::addresses(found);
        }
    }
    Ok(all)
}

/// How the agent gets into the pods of new tenants, and why: by what the nodes of the meta cluster can do, if it is not configured. The error
/// is why it is assumed.
pub async fn agent_delivery(io: &Io, configured: Delivery) -> (AgentDelivery, Result<String, IoError>) {
    match configured {
        Delivery::Always(delivery) => (delivery, Ok("as configured".to_owned())),
        Delivery::Auto => match list_nodes(io).await.map(|all| nodes::no_image_volumes(&all)) {
            Ok(None) => (AgentDelivery::ImageVolume, Ok("all nodes have image volumes".to_owned())),
            Ok(Some(why)) => (AgentDelivery::InitContainer, Ok(why)),
            Err(error) => (AgentDelivery::InitContainer, Err(error)),
        },
    }
}

/// All objects there, page by page: of each only what is used is kept.
async fn items(io: &Io, url: &str) -> Result<Vec<Value>, IoError> {
    let mut all = vec![];
    let page = |items: Vec<Value>| all.extend(items.into_iter().map(slim));
    io.pages(Kind::Node, &format!("get {url}"), &format!("{url}?limit={PAGE}"), page).await?;
    Ok(all)
}

/// Without what a thousand nodes would fill memory with.
fn slim(mut object: Value) -> Value {
    if let Some(status) = object.get_mut("status").and_then(Value::as_object_mut) {
        status.retain(|k, _| k == "addresses" || k == "nodeInfo");
    }
    if let Some(metadata) = object.get_mut("metadata").and_then(Value::as_object_mut) {
        metadata.retain(|k, _| k == "name");
    }
    object
}
