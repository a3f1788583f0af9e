//! How far rights of people are given in tenants.

use parking_lot::Mutex;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;
use std::collections::BTreeMap;

/// What is known of them.
#[derive(Debug, Default)]
pub struct Users(Mutex<BTreeMap<&'static str, i64>>);

impl Users {
    /// So many there are in each state.
    pub fn set(&self, all: BTreeMap<&'static str, i64>) {
        *self.0.lock() = all;
    }

    /// Adds what is known now to a registry.
    pub(super) fn register(&self, registry: &mut Registry) {
        let grants = Family::<[(&'static str, &'static str); 1], Gauge>::default();
        for (state, n) in self.0.lock().iter() {
            grants.get_or_create(&[("state", state)]).set(*n);
        }
        let what = "ClusterAccesses in Clusters: each counts once in each Cluster, by how far it is there";
        registry.register("cluster_access_grants", what, grants);
    }
}
