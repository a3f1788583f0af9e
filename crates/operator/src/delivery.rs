//! How the agent gets into the pods of new tenants: by what the nodes of the meta cluster can do.

use berth_api::common::AgentDelivery;
use berth_kubeio::{Io, list_nodes};
use berth_plan::meta_cluster::nodes::no_image_volumes;
use clap::ValueEnum;
use std::time::Duration;

/// What the operator is configured with.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
#[value(rename_all = "PascalCase")]
pub enum Delivery {
    /// As an image volume if all nodes can do it.
    #[default]
    Auto,
    /// Always by an init container.
    InitContainer,
    /// Always as an image volume.
    ImageVolume,
}

const DEADLINE: Duration = Duration::from_secs(30);

impl Delivery {
    /// What new tenants get. It is asked once: nodes that join later are not seen.
    pub async fn decide(self, io: &Io) -> AgentDelivery {
        let (delivery, why) = match self {
            Self::InitContainer => (AgentDelivery::InitContainer, "as configured".to_owned()),
            Self::ImageVolume => (AgentDelivery::ImageVolume, "as configured".to_owned()),
            Self::Auto => match tokio::time::timeout(DEADLINE, list_nodes(io)).await {
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
}
