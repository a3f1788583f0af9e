//! When to reconcile again without an event.

use super::inside::serving;
use super::subject::Tenant;
use super::{ClusterPlan, endpoint};
use berth_api::{labels, names};
use berth_plan::model::StageId;
use berth_plan::observed::ApiProbe;
use berth_plan::workload;
use berth_render::{Binary, Kind};
use jiff::SignedDuration;

/// There is nobody to ask. What is watched announces itself.
const ASLEEP: SignedDuration = SignedDuration::from_mins(15);

/// How soon to reconcile again, if no event comes first.
pub(super) fn after(t: &Tenant<'_>, out: &ClusterPlan) -> SignedDuration {
    if t.sleep.is_asleep() && out.plan.first_problem().is_none() {
        return ASLEEP;
    }
    let ready = workload::pods_of(t.observed, &t.cp_namespace, labels::COMPONENT, names::APISERVER)
        .filter_map(|(_, p)| workload::ready_since(p))
        .max();
    // The Service follows its pods within a moment. An API that does not answer then is no hurry.
    let fresh = ready.is_some_and(|s| t.now.duration_since(s) < SignedDuration::from_secs(60));
    let answered = matches!(t.observed.api, ApiProbe::Answered { .. });
    // A port of nodes that another Service has comes free when it does.
    let taken = endpoint::refused_node_port(t).is_some();
    let settled = out.plan.stages.iter().all(|s| s.state.is_done() || (taken && s.id == StageId::Endpoint));
    let made = t.workloads(Binary::ApiServer).first().is_some();
    let runs = workload::pods_of(t.observed, &t.cp_namespace, labels::COMPONENT, names::APISERVER)
        .any(|(_, p)| workload::pod_running(p));
    // What kubelet does before a container runs is not announced, and is told of when it takes long.
    let starts = t.observed.of_kind(Kind::Pod, &t.cp_namespace).any(|(_, p)| workload::pod_start(p).is_some());
    match (answered, fresh, settled) {
        (false, true, _) => SignedDuration::from_millis(250),
        // That its pods come is announced. With a thousand that wait for nodes it is the reconciles that cost.
        (_, _, false) if made && !runs && !starts => SignedDuration::from_mins(1),
        (_, _, false) if made => SignedDuration::from_secs(10),
        (_, _, false) => SignedDuration::from_secs(5),
        _ if serving::settles(t, out.addons.as_deref().unwrap_or_default()) => SignedDuration::from_secs(10),
        // `Available` promises an answer within the last minute, or little more.
        (_, _, true) => SignedDuration::from_mins(1),
    }
}
