//! How the agent gets into the pods of new tenants: by what the nodes of the meta cluster can do.

use berth_api::common::AgentDelivery;
use berth_kubeio::{Io, list_nodes};
use berth_plan::meta_cluster::nodes::no_image_volumes;
use berth_plan::settings::flags::Delivery;
use std::time::Duration;

const DEADLINE: Duration = Duration::from_secs(30);

/// What new tenants get. It is asked once: nodes that join later are not seen.
pub async fn decide(configured: Delivery, io: &Io) -> AgentDelivery {
    let (delivery, why) = match configured {
        Delivery::Always(delivery) => (delivery, "as configured".to_owned()),
        Delivery::Auto => match tokio::time::timeout(DEADLINE, list_nodes(io)).await {
            Ok(Ok(nodes)) => match no_image_volumes(&nodes) {
                None => (AgentDelivery::ImageVolume, "all nodes have image volumes".to_owned()),
                Some(why) => (AgentDelivery::InitContainer, why),
            },
            Ok(Err(error)) => (AgentDelivery::InitContainer, error.to_string()),
            Err(_) => (AgentDelivery::InitContainer, "the API server did not list the nodes in time".to_owned()),
        },
    };
    tracing::info!(delivery = delivery.as_str(), why, "how the agent gets into pods of new tenants");
    delivery
}
