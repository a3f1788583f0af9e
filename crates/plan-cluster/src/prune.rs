//! Leftovers of what a tenant had.

use crate::subject::Tenant;
use berth_api::labels;
use berth_plan::model::{Action, Plan};
use berth_plan::object_meta::{deleting, label};
use berth_render::Kind;
use std::collections::BTreeSet;

/// Kinds whose leftovers are removed. Secrets are never: what holds keys goes only with its namespace.
const PRUNED: [Kind; 7] = [
    Kind::ConfigMap,
    Kind::Service,
    Kind::TLSRoute,
    Kind::NetworkPolicy,
    Kind::PodDisruptionBudget,
    Kind::Deployment,
    Kind::StatefulSet,
];

/// Objects in the control-plane namespace that carry this tenant's labels and that no stage owns.
pub(crate) fn prune(t: &Tenant<'_>, plan: &Plan) -> Vec<Action> {
    let owned: BTreeSet<_> = plan.stages.iter().flat_map(|s| &s.owns).collect();
    let wanted = t.labels();
    PRUNED
        .iter()
        .flat_map(|kind| t.observed.of_kind(*kind, &t.cp_namespace))
        .filter(|(key, o)| {
            !owned.contains(key)
                && wanted.iter().all(|(k, v)| label(o, k) == Some(v))
                && label(o, labels::ETCD_CLUSTER).is_none()
                && !deleting(o)
        })
        .map(|(key, o)| Action::delete(key, o, None))
        .collect()
}
