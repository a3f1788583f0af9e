//! How the agent gets into the pods of new tenants: by what the nodes of the meta cluster can do.

use berth_api::common::AgentDelivery;
use berth_kubeio::{Io, agent_delivery};
use berth_plan::settings::flags::Delivery;
use std::time::Duration;

const DEADLINE: Duration = Duration::from_secs(30);

/// What new tenants get. It is asked once: nodes that join later are not seen.
pub async fn decide(configured: Delivery, io: &Io) -> AgentDelivery {
    let late = |_| (AgentDelivery::InitContainer, Ok("the API server did not list the nodes in time".to_owned()));
    let decided = tokio::time::timeout(DEADLINE, agent_delivery(io, configured)).await;
    let (delivery, why) = decided.unwrap_or_else(late);
    let why = why.unwrap_or_else(|error| error.to_string());
    tracing::info!(delivery = delivery.as_str(), why, "how the agent gets into pods of new tenants");
    delivery
}
