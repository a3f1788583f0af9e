//! The pin: what a namespace records of how its tenant is rendered.

use berth_api::common::AgentDelivery;
use berth_api::labels;
use berth_api::version::Version;
use berth_plan::observed::annotation;
use berth_plan::settings::Settings;
use berth_render::Catalog;
use serde_json::Value;

/// What a tenant is rendered with. Recorded on its namespace; a new operator does not change it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Pin {
    /// Kubernetes version.
    pub version: Version,
    /// Digest of the template set.
    pub templates: String,
    /// Agent image.
    pub agent_image: String,
    /// How the agent gets into the pods.
    pub agent_delivery: AgentDelivery,
}

/// The pin that a namespace records, if it has one.
pub(crate) fn pin(live: &Value) -> Option<Pin> {
    Some(Pin {
        version: annotation(live, labels::KUBERNETES_VERSION)?.parse().ok()?,
        templates: annotation(live, labels::TEMPLATES)?.to_owned(),
        agent_image: annotation(live, labels::AGENT_IMAGE)?.to_owned(),
        agent_delivery: AgentDelivery::of(annotation(live, labels::AGENT_DELIVERY)),
    })
}

/// What a tenant of that version is rendered with by this operator. None: it does not have that minor.
pub(crate) fn new_pin(version: Version, settings: &Settings) -> Option<Pin> {
    let set = Catalog::builtin().kubernetes(version.minor())?;
    let Settings { agent_image, agent_delivery, .. } = settings;
    let (agent_image, agent_delivery) = (agent_image.clone(), *agent_delivery);
    Some(Pin { version, templates: set.digest(), agent_image, agent_delivery })
}
