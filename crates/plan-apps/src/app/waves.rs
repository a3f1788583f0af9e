//! In which wave a `Cluster` is, and what else of it says when it gets an app.

use super::rollout::Rest;
use berth_api::App;
use berth_api::app::AppSpec;
use berth_api::conditions::{ConditionType, Reason};
use jiff::Timestamp;
use serde_json::Value;
use std::collections::BTreeMap;

/// The wave of a `Cluster` with these labels, from 0: the first that fits, or the last.
pub fn of(spec: &AppSpec, labels: &BTreeMap<String, String>) -> usize {
    spec.waves.iter().position(|wave| wave.cluster_selector.fits(labels)).unwrap_or(spec.waves.len())
}

/// A wave, from 0, for people.
pub fn name(spec: &AppSpec, wave: usize) -> String {
    let number = format!("wave {} of {}", wave + 1, spec.waves.len() + 1);
    match spec.waves.get(wave).and_then(|wave| wave.name.as_ref()) {
        Some(name) => format!("{number} ({name})"),
        None => number,
    }
}

/// Whether a condition says that the namespace of a `Cluster` ends, and that the `Cluster` stays.
pub fn says_namespace_ends(condition: &Value) -> bool {
    condition["type"] == ConditionType::Degraded.as_str()
        && condition["status"] == "True"
        && condition["reason"] == Reason::NamespaceDeleting.as_str()
}

/// Whether its namespace ends: nothing can be made there.
pub(super) fn namespace_ends(cluster: &Value) -> bool {
    cluster["status"]["conditions"].as_array().is_some_and(|all| all.iter().any(says_namespace_ends))
}

/// Whether it cannot be asked: it sleeps, is paused or does not answer.
pub(super) fn is_away(cluster: &Value) -> bool {
    let conditions = cluster["status"]["conditions"].as_array().map_or(&[][..], Vec::as_slice);
    let is_available = |c: &Value| c["type"] == ConditionType::Available.as_str() && c["status"] == "True";
    cluster["spec"]["paused"] == true || !conditions.iter().any(is_available)
}

/// Whether it is away since somebody meant it to be, so that nobody may wake it for long.
pub(super) fn rests(cluster: &Value) -> Option<Rest> {
    if cluster["spec"]["paused"] == true {
        return Some(Rest::Paused);
    }
    let conditions = cluster["status"]["conditions"].as_array().map_or(&[][..], Vec::as_slice);
    let available = conditions.iter().find(|c| c["type"] == ConditionType::Available.as_str())?;
    let reason = available["reason"].as_str().and_then(|reason| reason.parse().ok());
    let sleeps = matches!(reason, Some(Reason::Asleep | Reason::FallingAsleep)) && available["status"] != "True";
    sleeps.then_some(Rest::Asleep)
}

/// Since when there is the tenant. None: not known yet. Not since when there is the `Cluster`: after a restore of the meta cluster all of these are new.
pub(super) fn since(cluster: &Value) -> Option<Timestamp> {
    cluster["status"]["since"].as_str()?.parse().ok()
}

/// Whether the tenant was made after the `App`.
pub(super) fn is_younger(cluster: &Value, app: &App) -> bool {
    since(cluster).zip(app.metadata.creation_timestamp.as_ref()).is_some_and(|(cluster, app)| cluster > app.0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    /// A restore of the meta cluster makes `Cluster`s and Apps anew, in any order.
    #[test]
    fn a_tenant_is_as_old_as_its_ca_whenever_its_cluster_was_created() {
        let mut app = App::default();
        app.metadata.creation_timestamp = serde_json::from_value(json!("2026-01-02T00:00:00Z")).unwrap();
        let of = |since: Value| {
            let metadata = json!({"creationTimestamp": "2026-02-01T00:00:00Z"});
            is_younger(&json!({"metadata": metadata, "status": {"since": since}}), &app)
        };
        assert!(of(json!("2026-01-03T00:00:00Z")));
        assert!(!of(json!("2026-01-01T00:00:00Z")), "it was restored");
        assert!(!of(Value::Null), "nobody knows yet");
    }
}
