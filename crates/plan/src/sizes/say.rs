//! What people are told of sizes that do not follow usage. Nothing of it changes from minute to minute: at rest nothing is written.

use super::asked::Part;
use super::seen::{SizedPod, Usage};
use super::step::Known;
use jiff::{SignedDuration, Timestamp};

/// A pod that has run for so long has usage, if there is any.
const USED: SignedDuration = SignedDuration::from_mins(5);

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

/// Why the size of a part does not follow its usage. None: it does.
pub fn say(part: &Part, pods: &[&SizedPod], metrics: &Metrics, known: &Known, now: Timestamp) -> Option<String> {
    let Part { field: of, container, .. } = part;
    let first = pods.first()?;
    let off = format!("or set {of}.mode to Off");
    let usage = match metrics {
        Metrics::Answered(usage) => usage,
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
    for pod in pods {
        let name = &pod.name;
        if let Some(refusal) = known.refused.get(&pod.uid) {
            return Some(format!("{of}: the meta cluster does not resize pod {name}: {}", refusal.why));
        }
        match pod.pending.as_deref() {
            Some("Infeasible") => {
                return Some(format!(
                    "{of}: the node of pod {name} can never hold what {container} needs (Infeasible). Lower {of}.max, or give the pod a larger node"
                ));
            }
            Some(_) => {
                return Some(format!(
                    "{of}: the node of pod {name} has no room now for what {container} needs (Deferred). It is resized once there is: make room, or lower {of}.max"
                ));
            }
            None => {}
        }
        let size = known.size.unwrap_or(part.bounds.min);
        let has = pod.containers.get(container).map(|one| one.requests);
        if has != Some(size) && !pod.keeps_class(container, size) {
            let class = &pod.class;
            let limits = of.replace("autoscaling", "resources.limits");
            return Some(format!(
                "{of}: pod {name} is {class}, and a resize may not change that. Set {limits} above the requests, {off}"
            ));
        }
    }
    let known_of = |pod: &&&SizedPod| usage.contains_key(&(pod.namespace.clone(), pod.name.clone()));
    let is_old = first.since.is_some_and(|since| now.duration_since(since) > USED);
    (is_old && !pods.iter().any(|pod| known_of(&pod))).then(|| {
        format!(
            "{of}: metrics.k8s.io of the meta cluster tells nothing of pod {}. Look at the log of metrics-server: it may not reach that node's kubelet",
            first.name
        )
    })
}
