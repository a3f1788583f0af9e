//! What the control-plane namespace records of minors: the change that is under way, and the highest one that was ever served.

use crate::record::Pin;
use berth_api::labels;
use berth_api::version::{Minor, Version};
use berth_plan::object_meta::annotation;
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// More than any record takes: whoever may write annotations does not decide how much is read.
const LONGEST: usize = 64 * 1024;

/// A change of the minor that is under way.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Upgrade {
    /// The version that ran before, which is emulated in the first step.
    pub(crate) from: Version,
    /// What the tenant is to be rendered with.
    #[serde(flatten)]
    pub(crate) to: Pin,
    /// Since when all components run the new version and emulate the old minor.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) proven: Option<Time>,
}

impl Upgrade {
    /// One that begins.
    pub(super) fn new(from: Version, to: Pin) -> Self {
        Self { from, to, proven: None }
    }

    /// The same, with the first step through since then, or not.
    pub(super) fn proven_since(self, proven: Option<Timestamp>) -> Self {
        Self { proven: proven.map(Time), ..self }
    }
}

/// The change that is under way.
pub(super) fn upgrade(namespace: &Value) -> Option<Upgrade> {
    let text = annotation(namespace, labels::UPGRADE).filter(|text| text.len() <= LONGEST)?;
    serde_json::from_str(text).ok()
}

/// The annotation of that.
pub(crate) fn annotation_of(upgrade: &Upgrade) -> String {
    serde_json::to_string(upgrade).unwrap_or_default()
}

/// The highest minor that was ever served there without emulation.
pub(crate) fn served(namespace: &Value) -> Option<Minor> {
    annotation(namespace, labels::SERVED_MINOR)?.parse().ok()
}

/// Digest of the templates of the change that is under way, beside those that the tenant is pinned to.
pub fn upgrade_templates(namespace: &Value) -> Option<String> {
    upgrade(namespace).map(|upgrade| upgrade.to.templates)
}

/// Whether a minor changes, and the new one counts as served.
pub(crate) fn is_in_second_step(namespace: &Value) -> bool {
    upgrade(namespace).is_some_and(|upgrade| served(namespace) >= Some(upgrade.to.version.minor()))
}

/// Whether no minor changes, by what is recorded.
pub(crate) fn is_at_rest(namespace: &Value) -> bool {
    upgrade(namespace).is_none()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    /// Earlier builds wrote it, and read it again after a rollback of the operator.
    #[test]
    fn a_change_is_recorded_in_these_words() {
        let text = r#"{"from":"1.35.4","version":"1.36.3","templates":"abc","agentImage":"agent:1","agentDelivery":"ImageVolume","proven":"2026-01-01T00:00:00Z"}"#;
        let live = json!({"metadata": {"annotations": {(labels::UPGRADE): text}}});
        let upgrade = upgrade(&live).unwrap();
        assert_eq!((annotation_of(&upgrade).as_str(), &*upgrade.to.templates), (text, "abc"));
        let without = annotation_of(&upgrade.proven_since(None));
        assert_eq!(without, text.replace(r#","proven":"2026-01-01T00:00:00Z""#, ""));
    }
}
