//! The pin: what a namespace records of how its tenant is rendered.

use super::direct::recorded;
use crate::validate::jwt::platform;
use berth_api::common::AgentDelivery;
use berth_api::labels;
use berth_api::version::Version;
use berth_plan::object_meta::annotation;
use berth_plan::settings::Settings;
use berth_render::Catalog;
use serde_json::Value;
use std::collections::BTreeMap;

/// What a tenant is rendered with. Recorded on its namespace, and of each release; a new operator does not change it.
pub use berth_api::revision::RevisionPin as Pin;

/// The pin that a namespace records, if it has one.
pub(crate) fn pin(live: &Value) -> Option<Pin> {
    Some(Pin {
        version: annotation(live, labels::KUBERNETES_VERSION)?.parse().ok()?,
        templates: annotation(live, labels::TEMPLATES)?.to_owned(),
        agent_image: annotation(live, labels::AGENT_IMAGE)?.to_owned(),
        agent_delivery: AgentDelivery::of(annotation(live, labels::AGENT_DELIVERY)),
        helper_resources: annotation(live, labels::HELPER_RESOURCES).and_then(|text| serde_json::from_str(text).ok()),
        proxy: annotation(live, labels::PROXY).and_then(|text| serde_json::from_str(text).ok()),
        no_proxy: annotation(live, labels::NO_PROXY).and_then(|text| serde_json::from_str(text).ok()),
        jwt: annotation(live, labels::JWT).and_then(|text| serde_json::from_str(text).ok()).unwrap_or_default(),
        sizes: annotation(live, labels::SIZES).and_then(|text| serde_json::from_str(text).ok()).unwrap_or_default(),
    })
}

/// What a tenant of that version is rendered with by this operator. None: it does not have that minor.
pub(crate) fn new_pin(version: Version, settings: &Settings) -> Option<Pin> {
    let set = Catalog::builtin().kubernetes(version.minor())?;
    let Settings { agent_image, agent_delivery, helpers, proxy, .. } = settings;
    let (agent_image, agent_delivery) = (agent_image.clone(), *agent_delivery);
    let (helper_resources, proxy) = (helpers.resources.clone(), proxy.clone());
    let no_proxy = recorded(&settings.direct);
    let jwt = platform::guarded(&settings.jwt);
    let (templates, sizes) = (set.digest(), BTreeMap::new());
    Some(Pin { version, templates, agent_image, agent_delivery, helper_resources, proxy, no_proxy, jwt, sizes })
}
