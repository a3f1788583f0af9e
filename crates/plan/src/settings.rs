//! What the operator is configured with; the same for all tenants.

use berth_api::common::AgentDelivery;
use berth_pki::Lifetime;

/// Configuration that plans depend on.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Registry (and path) that holds upstream's images under upstream's names. Default: empty, upstream's own.
    pub registry: String,
    /// Image of Berth's agent that new tenants are pinned to.
    pub agent_image: String,
    /// How the agent gets into the pods of new tenants. Default: by an init container.
    pub agent_delivery: AgentDelivery,
    /// Service account of the operator, as (namespace, name). It is bound to the namespace role in every control-plane
    /// namespace. None: the operator runs with rights of its own (outside of the meta cluster).
    pub service_account: Option<(String, String)>,
    /// Life of leaf certificates. Default 90 days.
    pub leaf_lifetime: Lifetime,
    /// Life of CAs. Default 10 years.
    pub ca_lifetime: Lifetime,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            registry: String::new(),
            agent_image: "berth.dev/agent:dev".into(),
            agent_delivery: AgentDelivery::default(),
            service_account: None,
            leaf_lifetime: Lifetime::LEAF_90D,
            ca_lifetime: Lifetime::CA_10Y,
        }
    }
}
