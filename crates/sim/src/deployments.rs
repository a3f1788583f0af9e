//! Deployments: rolling updates with surge and unavailability, or `Recreate`, without ReplicaSets in between.

use super::controllers::{Step, count, name, some};
use super::pods::{from_template, template_hash};
use berth_plan::object_meta::{deleting, label};
use berth_plan::workload::pod_ready;
use berth_render::Kind;
use jiff::Timestamp;
use serde_json::{Value, json};

/// Label by which pods say what they were made from.
pub(super) const HASH: &str = "pod-template-hash";

/// Pods that are wanted, that may be more, and that may be missing meanwhile.
fn wanted(deployment: &Value) -> (usize, usize, usize) {
    let (spec, rolling) = (&deployment["spec"], &deployment["spec"]["strategy"]["rollingUpdate"]);
    let (surge, unavailable) = (count(&rolling["maxSurge"], 0), count(&rolling["maxUnavailable"], 0));
    (count(&spec["replicas"], 1), surge, unavailable.max(usize::from(surge == 0)))
}

pub(super) fn step(deployment: &Value, pods: &[Value]) -> Step {
    let mut step = Step::default();
    if deployment["spec"]["paused"] == true {
        return step;
    }
    let ((replicas, surge, unavailable), hash) = (wanted(deployment), template_hash(deployment));
    let (alive, ending): (Vec<&Value>, Vec<_>) = pods.iter().partition(|p| !deleting(p));
    let (mut new, old): (Vec<_>, Vec<_>) = alive.into_iter().partition(|p| label(p, HASH) == Some(&hash));
    let mut missing = replicas.saturating_sub(new.len());
    if deployment["spec"]["strategy"]["type"] == "Recreate" {
        missing = if old.is_empty() && ending.is_empty() { missing } else { 0 };
        step.delete(Kind::Pod, old);
    } else {
        missing = missing.min((replicas + surge).saturating_sub(new.len() + old.len()));
        let ready = new.iter().chain(&old).filter(|p| pod_ready(p)).count();
        let spare = ready.saturating_sub(replicas.saturating_sub(unavailable));
        let (up, down): (Vec<_>, Vec<_>) = old.into_iter().partition(|p| pod_ready(p));
        step.delete(Kind::Pod, down.into_iter().chain(up.into_iter().take(spare)));
    }
    // Scaled down: the ones that are not ready go first.
    new.sort_by_key(|p| pod_ready(p));
    let extra = new.len().saturating_sub(replicas);
    step.delete(Kind::Pod, new.into_iter().take(extra));
    let free = (0..).map(|n| format!("{}-{hash}-{n}", name(deployment))).filter(|n| pods.iter().all(|p| name(p) != n));
    step.create.extend(free.take(missing).map(|name| from_template(deployment, &name, &[(HASH, &hash)])));
    step
}

pub(super) fn status(deployment: &Value, pods: &[Value], now: Timestamp) -> Value {
    let ((replicas, _, unavailable), hash) = (wanted(deployment), template_hash(deployment));
    let alive: Vec<_> = pods.iter().filter(|p| !deleting(p)).collect();
    let ready = alive.iter().filter(|p| pod_ready(p)).count();
    let (available, reason) = if ready + unavailable >= replicas {
        ("True", "MinimumReplicasAvailable")
    } else {
        ("False", "MinimumReplicasUnavailable")
    };
    json!({
        "observedGeneration": deployment["metadata"]["generation"],
        "replicas": some(alive.len()), "readyReplicas": some(ready), "availableReplicas": some(ready),
        "updatedReplicas": some(alive.iter().filter(|p| label(p, HASH) == Some(&hash)).count()),
        "unavailableReplicas": some(replicas.max(alive.len()) - ready),
        "conditions": [{
            "type": "Available", "status": available, "reason": reason, "message": reason,
            "lastTransitionTime": now, "lastUpdateTime": now,
        }],
    })
}
