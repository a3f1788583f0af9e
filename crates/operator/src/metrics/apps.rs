//! How far apps are in tenants, as the statuses of `AppInstallation`s say it.

use berth_render::{Kind, ObjectKey};
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;
use serde_json::Value;

/// What people want to know of one.
#[derive(Clone, Debug)]
pub(super) struct InstallationMetrics {
    phase: String,
    /// Tries that failed in a row.
    failures: i64,
    /// Objects that are not as Helm left them. None: nobody looked.
    drifted: Option<i64>,
}

impl InstallationMetrics {
    /// Of a status. None: it is none of an `AppInstallation`.
    pub(super) fn of(key: &ObjectKey, status: &Value) -> Option<Self> {
        let said = || Self {
            phase: status["phase"].as_str().unwrap_or_default().to_owned(),
            failures: status["failures"].as_i64().unwrap_or_default(),
            drifted: status["drift"]["count"].as_i64(),
        };
        (key.kind == Kind::AppInstallation).then(said)
    }
}

/// Adds those that are known now to a registry.
pub(super) fn register<'a>(
    all: impl Iterator<Item = (&'a ObjectKey, &'a InstallationMetrics)>,
    registry: &mut Registry,
) {
    let phases = Family::<[(&'static str, String); 1], Gauge>::default();
    let failures = Family::<[(&'static str, String); 2], Gauge>::default();
    let drifted = Family::<[(&'static str, String); 2], Gauge>::default();
    for (key, said) in all {
        phases.get_or_create(&[("phase", said.phase.clone())]).inc();
        let namespace = key.namespace.clone().unwrap_or_default();
        let labels = [("namespace", namespace), ("name", key.name.clone())];
        failures.get_or_create(&labels).set(said.failures);
        if let Some(count) = said.drifted {
            drifted.get_or_create(&labels).set(count);
        }
    }
    registry.register("app_installations", "AppInstallations, by phase", phases);
    let what = "Tries of an AppInstallation that failed in a row, until one succeeds or what is asked for changes";
    registry.register("app_installation_failures", what, failures);
    let what = "Objects of an AppInstallation that are not as Helm left them, and were not set back, when that was looked for last";
    registry.register("app_drifted_objects", what, drifted);
}
