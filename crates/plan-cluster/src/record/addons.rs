//! What a namespace records of add-ons.

use super::networks::LONGEST;
use super::pin;
use crate::subject::Tenant;
use berth_api::labels;
use berth_plan::object_meta::annotation;
use berth_render::images::Layout;
use serde::{Deserialize, Serialize};

/// What a namespace records of add-ons.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct AddonsRecord {
    /// Whether they are on where the spec does not say.
    #[serde(default)]
    pub(crate) by_default: bool,
    /// The operator's registry when the version was set: another one restarts no pod.
    #[serde(default)]
    pub(crate) registry: String,
    /// Where that has upstream's images.
    #[serde(default, skip_serializing_if = "Layout::is_flat")]
    pub(crate) layout: Layout,
    /// The image of the add-on apiProxy when it was turned on, or the version was set: another operator's restarts no pod.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) api_proxy: Option<String>,
}

/// What is, or is to be, recorded of add-ons. None: a build without add-ons made the tenant, and its version did not change since.
pub(crate) fn addons(t: &Tenant<'_>) -> Option<AddonsRecord> {
    let (registry, layout) = (t.settings.registry.clone(), t.settings.image_layout);
    let api_proxy = t.cluster.spec.addons.api_proxy.is_on().then(|| t.settings.api_proxy_image.clone());
    let Some(live) = t.live_namespace() else {
        return Some(AddonsRecord { by_default: true, registry, layout, api_proxy });
    };
    let text = annotation(live, labels::ADDONS).filter(|text| text.len() <= LONGEST);
    let recorded: Option<AddonsRecord> = text.and_then(|text| serde_json::from_str(text).ok());
    if pin(live).is_some_and(|old| old.version == t.pin().version) {
        return recorded.map(|r| AddonsRecord { api_proxy: api_proxy.map(|new| r.api_proxy.unwrap_or(new)), ..r });
    }
    Some(AddonsRecord { by_default: recorded.is_some_and(|r| r.by_default), registry, layout, api_proxy })
}

/// The annotation of that.
pub(crate) fn addons_annotation(t: &Tenant<'_>) -> Option<String> {
    serde_json::to_string(&addons(t)?).ok()
}
