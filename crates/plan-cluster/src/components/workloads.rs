//! The workloads of a component: what runs its pods, as one value.

use berth_api::version::{Minor, Version};
use berth_api::{Cluster, names};
use berth_plan::observed::Observed;
use berth_plan::workload::{self, Rollout};
use berth_render::{Binary, Kind, ObjectKey};
use serde_json::Value;

/// The workloads of one component, as far as they are there.
#[derive(Clone, Debug)]
pub(crate) struct Workloads<'a> {
    keys: Vec<ObjectKey>,
    live: Vec<&'a Value>,
}

impl<'a> Workloads<'a> {
    /// Of a control plane: a Deployment; or a StatefulSet for each of the addresses that `spec.vpc` gives API servers, in their order. Not all that is
    /// there under these names has to be Berth's.
    pub(crate) fn seen(cluster: &Cluster, observed: &'a Observed, cp_namespace: &str, binary: Binary) -> Self {
        let slot = |n| ObjectKey::namespaced(Kind::StatefulSet, cp_namespace, names::slot(binary.name(), n));
        let keys = match &cluster.spec.vpc {
            Some(vpc) if binary == Binary::ApiServer && !vpc.addresses.is_empty() => {
                (0..vpc.addresses.len()).map(slot).collect()
            }
            _ => vec![ObjectKey::namespaced(Kind::Deployment, cp_namespace, binary.name())],
        };
        let live = keys.iter().filter_map(|key| observed.get(key)).collect();
        Self { keys, live }
    }

    /// Only those that these hold for.
    pub(crate) fn that(mut self, holds: impl Fn(&Value) -> bool) -> Self {
        self.live.retain(|live| holds(live));
        self
    }

    /// What they are called, whether they are there or not.
    pub(crate) fn keys(&self) -> &[ObjectKey] {
        &self.keys
    }

    /// Those that are there.
    pub(crate) fn live(&self) -> impl Iterator<Item = &'a Value> {
        self.live.iter().copied()
    }

    /// Any of them: what all have in common is read from it.
    pub(crate) fn first(&self) -> Option<&'a Value> {
        self.live().next()
    }

    /// How they are doing, taken together. None: none is there.
    pub(crate) fn rollout(&self) -> Option<Rollout> {
        self.live().map(workload::rollout).reduce(Rollout::and)
    }

    /// The version that they run or roll out; of several the oldest.
    pub(crate) fn version(&self) -> Option<Version> {
        self.live().filter_map(workload::version_of).min()
    }

    /// The minor that they emulate, or are to; of several the oldest.
    pub(crate) fn emulates(&self) -> Option<Minor> {
        self.live().filter_map(workload::emulates).min()
    }
}
