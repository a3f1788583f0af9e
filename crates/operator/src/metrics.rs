//! What Prometheus reads. Names and labels are stable; docs/metrics.md lists them.

mod apps;
mod fleet_sizes;
mod registration;
mod rollouts;
mod tenants;
#[cfg(test)]
mod tests;
mod users;
mod wakes;

pub use fleet_sizes::FleetSizes;
pub use rollouts::Rollouts;
pub(crate) use tenants::part;
pub use tenants::{Orphan, Tenants};
pub use users::Users;
pub use wakes::Wakes;

use crate::controllers;
use berth_kubeio::Calls;
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::encoding::text::encode;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::{Histogram, exponential_buckets};
use prometheus_client::registry::Registry;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Labels of reconciles.
#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub struct ReconcileLabels {
    /// `cluster` or `etcdcluster`.
    pub controller: &'static str,
    /// `ok` or `error`.
    pub result: &'static str,
}

/// Labels of durations.
#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub struct Controller {
    /// `cluster` or `etcdcluster`.
    pub controller: &'static str,
}

/// All metrics.
#[derive(Clone, Debug)]
pub struct Metrics {
    /// Reconciles.
    pub reconciles: Family<ReconcileLabels, Counter>,
    /// Seconds of a reconcile.
    pub duration: Family<Controller, Histogram>,
    /// 1 while this process holds the lease.
    pub leader: Gauge,
    /// Seconds that this process' clock is ahead of the API server's.
    pub clock_ahead: Gauge<f64, AtomicU64>,
    /// How tenants are.
    pub tenants: Arc<Tenants>,
    /// How the fleet changes its version.
    pub rollouts: Arc<Rollouts>,
    /// What all tenants together reserve and use.
    pub fleet_sizes: Arc<FleetSizes>,
    /// Wakes that connections ask for.
    pub wakes: Arc<Wakes>,
    /// How far rights of people are given in tenants.
    pub users: Arc<Users>,
    /// Calls to the meta cluster.
    pub meta_calls: Arc<Calls>,
    /// Calls into tenants.
    pub tenant_calls: Arc<Calls>,
}

impl Default for Metrics {
    fn default() -> Self {
        let reconciles: Family<ReconcileLabels, Counter> = Family::default();
        // From the beginning, or the first failure would not count as a change.
        for controller in controllers::ALL {
            for result in ["ok", "error"] {
                let _ = reconciles.get_or_create(&ReconcileLabels { controller: controller.name, result });
            }
        }
        Self {
            reconciles,
            duration: Family::new_with_constructor(|| Histogram::new(exponential_buckets(0.002, 2.0, 14))),
            leader: Gauge::default(),
            clock_ahead: Gauge::default(),
            tenants: Arc::default(),
            rollouts: Arc::default(),
            fleet_sizes: Arc::default(),
            wakes: Arc::default(),
            users: Arc::default(),
            meta_calls: Arc::default(),
            tenant_calls: Arc::default(),
        }
    }
}

impl Metrics {
    /// The text that Prometheus reads.
    pub fn text(&self) -> String {
        let mut registry = Registry::with_prefix("berth");
        registry.register("reconcile", "Reconciles, by controller and result", self.reconciles.clone());
        registry.register("reconcile_duration_seconds", "Duration of reconciles", self.duration.clone());
        registry.register("leader", "1 while this process holds the lease", self.leader.clone());
        let clock = "Seconds that this clock is ahead of the API server's";
        registry.register("clock_ahead_seconds", clock, self.clock_ahead.clone());
        let calls: Family<[(&str, &str); 2], Counter> = Family::default();
        for (target, counted) in [("meta", &self.meta_calls), ("tenant", &self.tenant_calls)] {
            let sorts = [("read", &counted.reads), ("write", &counted.writes), ("failure", &counted.failures)];
            for (sort, n) in sorts {
                calls.get_or_create(&[("target", target), ("sort", sort)]).inc_by(n.load(Ordering::Relaxed));
            }
        }
        registry.register("api_calls", "Calls to API servers, by target and sort", calls);
        self.tenants.register(&mut registry);
        self.rollouts.register(&mut registry);
        self.fleet_sizes.register(&mut registry);
        self.wakes.register(&mut registry);
        self.users.register(&mut registry);
        let mut text = String::new();
        // Writing into a String cannot fail.
        let _ = encode(&mut text, &registry);
        text
    }
}
