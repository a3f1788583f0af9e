//! How the fleet changes its version.

use berth_api::cluster::{ClusterStatus, TurnState, TurnStatus};
use berth_plan::fleet::TenantId;
use jiff::Timestamp;
use parking_lot::Mutex;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::{Histogram, exponential_buckets};
use prometheus_client::registry::Registry;
use std::collections::BTreeMap;

/// Names of labels with their values.
type Labels<const N: usize> = [(&'static str, String); N];

/// What is known of changes of releases.
#[derive(Debug)]
pub struct Rollouts {
    changes: Mutex<BTreeMap<TenantId, TurnStatus>>,
    stopped: Mutex<BTreeMap<String, usize>>,
    durations: Family<Labels<1>, Histogram, fn() -> Histogram>,
}

/// From 8 seconds to 9 hours.
fn buckets() -> Histogram {
    Histogram::new(exponential_buckets(8.0, 2.0, 13))
}

impl Default for Rollouts {
    fn default() -> Self {
        Self { changes: Mutex::default(), stopped: Mutex::default(), durations: Family::new_with_constructor(buckets) }
    }
}

impl Rollouts {
    /// Takes in a status, and the one before.
    pub fn say(&self, id: &TenantId, (old, new): (&ClusterStatus, &ClusterStatus), now: Timestamp) {
        let mut changes = self.changes.lock();
        match &new.turn {
            // What is through is no news.
            Some(turn) if turn.state != TurnState::Succeeded => drop(changes.insert(id.clone(), turn.clone())),
            _ => drop(changes.remove(id)),
        }
        for revision in &new.history {
            let ran = |old: &&berth_api::cluster::RevisionSummary| old.revision == revision.revision;
            let was = old.history.iter().find(ran).is_some_and(|old| old.outcome.is_none());
            if let (true, Some(outcome), Some(started)) = (was, revision.outcome, &revision.started) {
                let seconds = now.duration_since(started.0).as_secs_f64().max(0.0);
                self.durations.get_or_create(&[("outcome", outcome.to_string())]).observe(seconds);
            }
        }
    }

    /// Forgets a tenant that is gone.
    pub fn forget(&self, id: &TenantId) {
        self.changes.lock().remove(id);
    }

    /// Takes in the versions towards which nobody starts, and how many came back from each.
    pub fn stopped(&self, all: BTreeMap<String, usize>) {
        *self.stopped.lock() = all;
    }

    /// Adds what is known now to a registry.
    pub(super) fn register(&self, registry: &mut Registry) {
        let (changes, stopped) = (Family::<Labels<4>, Gauge>::default(), Family::<Labels<1>, Gauge>::default());
        for (TenantId { namespace, name }, turn) in self.changes.lock().iter() {
            let change = [
                ("namespace", namespace.clone()),
                ("name", name.clone()),
                ("version", turn.to.clone()),
                ("state", turn.state.to_string()),
            ];
            changes.get_or_create(&change).set(i64::from(turn.came_back) + 1);
        }
        for (version, tenants) in self.stopped.lock().iter() {
            let tenants = i64::try_from(*tenants).unwrap_or(i64::MAX);
            stopped.get_or_create(&[("version", version.clone())]).set(tenants);
        }
        let what =
            "A change of the version that is not through; 2: it came back, by a change of nothing else; otherwise 1";
        registry.register("rollout", what, changes);
        let what = "Tenants that came back from a version, towards which nobody else starts";
        registry.register("rollouts_stopped", what, stopped);
        let what = "How long releases took until they came to that outcome";
        registry.register("rollout_duration_seconds", what, self.durations.clone());
    }
}
