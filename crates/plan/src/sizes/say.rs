//! What people are told of sizes that do not follow usage. Nothing of it changes from minute to minute: at rest nothing is written.

use super::asked::Part;
use super::seen::{Hold, SizedPod, Usage};
use super::step::Known;
use berth_api::conditions::{self, ConditionType, Reason};
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;

/// What `metrics.k8s.io` answered.
#[derive(Clone, Debug, PartialEq)]
pub enum Metrics {
    /// What pods use.
    Answered(Usage),
    /// The meta cluster does not have it.
    Missing,
    /// Nothing, or an error.
    Failed,
    /// The operator may not ask it.
    Denied,
}

impl Metrics {
    /// What pods use, if it is known.
    pub fn usage(&self) -> Option<&Usage> {
        if let Self::Answered(usage) = self { Some(usage) } else { None }
    }
}

/// What is said of it until somebody has looked: what was said before. A new operator would write each status twice otherwise.
pub fn said_before(conditions: &[Condition]) -> Option<(Reason, String)> {
    let ready = conditions::find(conditions, ConditionType::Ready)?;
    (ready.reason == Reason::SizeHeld.as_str()).then(|| (Reason::SizeHeld, ready.message.clone()))
}

/// Why the size of a part does not follow its usage. None: it does.
pub fn say(part: &Part, pods: &[&SizedPod], metrics: &Metrics, known: &Known, now: Timestamp) -> Option<String> {
    let Part { field: of, container, .. } = part;
    let first = pods.first()?;
    let off = format!("or set {of}.mode to Off");
    // What metrics-server misses for a moment is nothing to tell.
    let is_fresh = known.history.is_fresh(now);
    let usage = match metrics {
        Metrics::Answered(usage) => Some(usage),
        Metrics::Failed if is_fresh => None,
        Metrics::Missing => {
            return Some(format!(
                "{of}: the meta cluster does not serve metrics.k8s.io, so nobody knows what {container} uses. Install metrics-server there, {off}"
            ));
        }
        Metrics::Failed => {
            return Some(format!(
                "{of}: metrics.k8s.io of the meta cluster does not answer, so nobody knows what {container} uses. Look at metrics-server there, and at its APIService v1beta1.metrics.k8s.io"
            ));
        }
        Metrics::Denied => {
            return Some(format!(
                "{of}: the operator may not read metrics.k8s.io of the meta cluster. Restore the chart's rights with helm upgrade and the same values, {off}"
            ));
        }
    };
    if let Some(said) = pods.iter().find_map(|pod| of_pod(part, pod, known, now)) {
        return Some(said);
    }
    let is_known = usage.is_none_or(|usage| pods.iter().any(|pod| usage.contains_key(&pod.key())));
    (!is_fresh && !is_known && first.is_old(now)).then(|| {
        format!(
            "{of}: metrics.k8s.io of the meta cluster tells nothing of pod {}. Look at the log of metrics-server: it may not reach that node's kubelet",
            first.name
        )
    })
}

/// Why a pod does not have the size of its part.
fn of_pod(part: &Part, pod: &SizedPod, known: &Known, now: Timestamp) -> Option<String> {
    let (Part { field: of, container, .. }, name) = (part, &pod.name);
    if let Some(tried) = known.tried.get(&pod.uid).filter(|tried| tried.failed(now)) {
        return Some(match &tried.why {
            Some(why) => format!("{of}: the meta cluster does not resize pod {name}: {why}"),
            None => format!(
                "{of}: the requests of pod {name} are not those that Berth gave it. See who changes them, such as a webhook or VerticalPodAutoscaler: kubectl -n {} get pod {name} -o yaml --show-managed-fields",
                pod.namespace
            ),
        });
    }
    match &pod.pending {
        Some((reason, why)) if reason == "Infeasible" => {
            let why = if why.is_empty() { String::new() } else { format!(": {why}") };
            return Some(format!(
                "{of}: the node of pod {name} can never hold what {container} needs (Infeasible{why}). Lower {of}.max, or give the pod a larger node"
            ));
        }
        Some(_) => {
            return Some(format!(
                "{of}: the node of pod {name} has no room now for what {container} needs (Deferred). It is resized once there is: make room, or lower {of}.max"
            ));
        }
        None => {}
    }
    let off = format!("or set {of}.mode to Off");
    // Of a container that has just begun kubelet may tell it in a moment.
    let hold = known.held.get(&pod.uid).filter(|hold| **hold != Hold::Kubelet || pod.is_old(now))?;
    Some(match hold {
        Hold::Class => {
            let (class, limits) = (&pod.class, of.replace("autoscaling", "resources.limits"));
            format!(
                "{of}: pod {name} is {class}, and a resize may not change that. Set {limits} above the requests, {off}"
            )
        }
        Hold::Restarts => format!(
            "{of}: container {container} of pod {name} would restart with other requests (resizePolicy RestartContainer), so it keeps what it has. Have nobody set that for Berth's pods, {off}"
        ),
        Hold::Stopped => return None,
        Hold::Kubelet => format!(
            "{of}: the kubelet of pod {name} does not tell what it gave {container}, so it may not resize in place. Run Kubernetes 1.33 or newer on that node, {off}"
        ),
    })
}
