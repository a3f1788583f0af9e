//! Who decides client certificates of machines that join a tenant.
//!
//! kube-controller-manager, if a binding of kubeadm's lets it, approves any name for whoever has a bootstrap token; `berth-approve`
//! refuses that of a node that is there. Which of them it is, the pods tell that run: a tenant's templates are pinned.

use crate::subject::Tenant;
use berth_api::labels;
use berth_plan::object_meta::annotation;
use berth_plan::workload;
use berth_render::{Kind, ObjectKey};
use jiff::{SignedDuration, Timestamp};
use serde_json::Value;

/// In turn each listing in the tenant is read within that time; see [`super::Turn`].
const A_TURN: SignedDuration = SignedDuration::from_mins(35);

/// The binding that lets kube-controller-manager approve them.
pub(super) fn binding() -> ObjectKey {
    ObjectKey::cluster(Kind::ClusterRoleBinding, "kubeadm:node-autoapprove-bootstrap")
}

/// Whether kube-controller-manager has to: some pod of it, or what makes its pods, is without an approver that does. A pod that ends runs on
/// for a while.
pub(super) fn is_left_to_controller_manager(t: &Tenant<'_>) -> bool {
    const MARK: &str = labels::CLIENT_CERTIFICATES;
    let workloads = t.workloads(t.distribution.signer);
    let is_made_without = match workloads.first() {
        Some(live) => annotation(&live["spec"]["template"], MARK).is_none(),
        None => !t.templates().is_some_and(|set| set.writes(t.distribution.signer, MARK)),
    };
    is_made_without || pods(t).any(|pod| annotation(pod, MARK).is_none())
}

/// Whether that changed lately, so that a binding may be left.
pub(crate) fn may_be_new(t: &Tenant<'_>) -> bool {
    let made = |pod: &Value| pod.pointer("/metadata/creationTimestamp")?.as_str()?.parse::<Timestamp>().ok();
    pods(t).filter_map(made).any(|made| t.now.duration_since(made) < A_TURN)
}

fn pods<'a>(t: &'a Tenant<'_>) -> impl Iterator<Item = &'a Value> {
    workload::pods_of(t.observed, &t.cp_namespace, labels::COMPONENT, t.distribution.signer.name()).map(|(_, pod)| pod)
}
