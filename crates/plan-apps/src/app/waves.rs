//! In which wave a `Cluster` is, and what else of it says when it gets an app.

use berth_api::App;
use berth_api::app::AppSpec;
use berth_api::conditions::ConditionType;
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

/// Whether it cannot be asked: it sleeps, is paused or does not answer.
pub(super) fn is_away(cluster: &Value) -> bool {
    let conditions = cluster["status"]["conditions"].as_array().map_or(&[][..], Vec::as_slice);
    let is_available = |c: &Value| c["type"] == ConditionType::Available.as_str() && c["status"] == "True";
    cluster["spec"]["paused"] == true || !conditions.iter().any(is_available)
}

/// Whether it was created after the `App`.
pub(super) fn is_younger(cluster: &Value, app: &App) -> bool {
    let created: Option<Timestamp> =
        cluster["metadata"]["creationTimestamp"].as_str().and_then(|created| created.parse().ok());
    created.zip(app.metadata.creation_timestamp.as_ref()).is_some_and(|(cluster, app)| cluster > app.0)
}
