//! How far `Cluster`s are known to Argo CD, as their condition `Registered` says it.

use berth_api::conditions::{ConditionType, Reason};
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;

const STATES: [&str; 3] = ["Registered", "Waiting", "Failed"];
/// Of these somebody has to do something.
const FAILED: [Reason; 3] = [Reason::Rejected, Reason::ForeignObject, Reason::NotAllowed];

/// Adds what is known now to a registry. `conditions`: those of `Cluster`s, by type, reason and number of the status.
pub(super) fn register<'a>(conditions: impl Iterator<Item = &'a (String, String, i64)>, registry: &mut Registry) {
    let states = Family::<[(&'static str, &'static str); 1], Gauge>::default();
    for (_, reason, value) in conditions.filter(|(type_, ..)| type_ == ConditionType::Registered.as_str()) {
        // All of them, once there is one: what went back to 0 is said.
        for state in STATES {
            states.get_or_create(&[("state", state)]).inc_by(i64::from(state == state_of(reason, *value)));
        }
    }
    let what = "Clusters that are registered with Argo CD, or are to be, or to be no more, by how far that is";
    registry.register("cluster_registrations", what, states);
}

fn state_of(reason: &str, value: i64) -> &'static str {
    let failed = FAILED.iter().any(|failed| failed.to_string() == reason);
    match value {
        1 => "Registered",
        _ if failed => "Failed",
        _ => "Waiting",
    }
}
