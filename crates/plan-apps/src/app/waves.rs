//! In which wave a `Cluster` is, and what else of it says when it gets an app.

use berth_api::App;
use berth_api::app::AppSpec;
use berth_api::hibernation::SleepState;
use berth_plan::apps::labels_of;
use jiff::Timestamp;
use serde_json::Value;

/// The wave of a `Cluster`, from 0: the first that fits, or the last.
pub(super) fn of(spec: &AppSpec, cluster: &Value) -> usize {
    let labels = labels_of(cluster);
    spec.waves.iter().position(|wave| wave.cluster_selector.fits(&labels)).unwrap_or(spec.waves.len())
}

/// A wave, from 0, for people.
pub fn name(spec: &AppSpec, wave: usize) -> String {
    let number = format!("wave {} of {}", wave + 1, spec.waves.len() + 1);
    match spec.waves.get(wave).and_then(|wave| wave.name.as_ref()) {
        Some(name) => format!("{number} ({name})"),
        None => number,
    }
}

/// Whether it sleeps, is about to, or is paused.
pub(super) fn is_away(cluster: &Value) -> bool {
    let state = &cluster["status"]["hibernation"]["state"];
    let sleep: Option<SleepState> = serde_json::from_value(state.clone()).ok();
    cluster["spec"]["paused"] == true || matches!(sleep, Some(SleepState::Asleep | SleepState::FallingAsleep))
}

/// Whether it was created after the `App`.
pub(super) fn is_younger(cluster: &Value, app: &App) -> bool {
    let created: Option<Timestamp> =
        cluster["metadata"]["creationTimestamp"].as_str().and_then(|created| created.parse().ok());
    created.zip(app.metadata.creation_timestamp.as_ref()).is_some_and(|(cluster, app)| cluster > app.0)
}
