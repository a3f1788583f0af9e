//! Deployments: a rolling update with surge and unavailability, without `ReplicaSets` in between.

use std::{collections::BTreeMap, sync::Arc};

use kube::{ResourceExt as _, api::DynamicObject};
use serde_json::{Value, json};

use super::{
    context::{Context, controlled_by, now, terminating},
    pods::{from_template, is_ready, template_hash},
};

const KIND: &str = "Deployment.apps";
const HASH: &str = "pod-template-hash";
const REVISION: &str = "deployment.kubernetes.io/revision";

/// Last template and revision number by the Deployment's UID.
pub(super) type Revisions = BTreeMap<String, (String, u64)>;

pub(super) async fn pass(context: &Context, revisions: &mut Revisions) -> bool {
    let mut busy = false;
    let pods = context.list("Pod");
    for deployment in context.list(KIND).iter().filter(|d| !terminating(d)) {
        let mine = |p: &&Arc<DynamicObject>| p.namespace() == deployment.namespace() && controlled_by(p, deployment);
        let pods: Vec<_> = pods.iter().filter(mine).cloned().collect();
        revise(context, deployment, revisions).await;
        let paused = deployment.data["spec"]["paused"] == true;
        busy |= !paused && roll(context, deployment, &pods).await;
        busy |= context.set_status(KIND, deployment, status(deployment, &pods)).await;
    }
    busy
}

/// The annotation that the real controller writes on the Deployment itself.
async fn revise(context: &Context, deployment: &DynamicObject, revisions: &mut Revisions) {
    let stored = deployment.annotations().get(REVISION).and_then(|r| r.parse().ok());
    let hash = template_hash(deployment);
    let known = revisions.entry(deployment.uid().unwrap_or_default());
    let known = known.or_insert_with(|| (hash.clone(), stored.unwrap_or(1)));
    if known.0 != hash {
        *known = (hash, known.1 + 1);
    }
    if stored != Some(known.1) {
        let patch = json!({"metadata": {"annotations": {REVISION: known.1.to_string()}}});
        context.patch(KIND, deployment, patch).await;
    }
}

struct Wanted {
    replicas: usize,
    surge: usize,
    unavailable: usize,
    recreate: bool,
}

fn wanted(deployment: &DynamicObject) -> Wanted {
    let spec = &deployment.data["spec"];
    let replicas = count(&spec["replicas"], 1);
    let rolling = &spec["strategy"]["rollingUpdate"];
    let share = |value: &Value, up: bool| match value {
        Value::String(text) => {
            let percent: usize = text.trim_end_matches('%').parse().unwrap_or(25);
            (replicas * percent + if up { 99 } else { 0 }) / 100
        }
        value => count(value, 0),
    };
    let (surge, mut unavailable) = (share(&rolling["maxSurge"], true), share(&rolling["maxUnavailable"], false));
    if surge == 0 && unavailable == 0 {
        unavailable = 1;
    }
    Wanted { replicas, surge, unavailable, recreate: spec["strategy"]["type"] == "Recreate" }
}

pub(super) fn count(value: &Value, default: usize) -> usize {
    value.as_u64().map_or(default, |n| usize::try_from(n).unwrap_or(default))
}

/// One step of the rollout; whether it did something.
async fn roll(context: &Context, deployment: &DynamicObject, pods: &[Arc<DynamicObject>]) -> bool {
    let (wanted, hash) = (wanted(deployment), template_hash(deployment));
    let (alive, ending): (Vec<_>, Vec<_>) = pods.iter().partition(|p| !terminating(p));
    let (new, old): (Vec<_>, Vec<_>) = alive.into_iter().partition(|p| p.labels().get(HASH) == Some(&hash));
    let mut doomed: Vec<&Arc<DynamicObject>> = Vec::new();
    let mut missing = wanted.replicas.saturating_sub(new.len());
    if wanted.recreate {
        doomed.extend(&old);
        if !old.is_empty() || !ending.is_empty() {
            missing = 0;
        }
    } else {
        missing = missing.min((wanted.replicas + wanted.surge).saturating_sub(new.len() + old.len()));
        let ready = new.iter().chain(&old).filter(|p| is_ready(p)).count();
        let spare = ready.saturating_sub(wanted.replicas.saturating_sub(wanted.unavailable));
        let (up, down): (Vec<_>, Vec<_>) = old.into_iter().partition(|p| is_ready(p));
        doomed.extend(down);
        doomed.extend(up.into_iter().take(spare));
    }
    // Scaled down: the ones that are not ready go first.
    let mut extra = new.clone();
    extra.sort_by_key(|p| (is_ready(p), std::cmp::Reverse(number(p))));
    doomed.extend(extra.into_iter().take(new.len().saturating_sub(wanted.replicas)));
    for pod in &doomed {
        context.delete("Pod", pod, None).await;
    }
    let taken: Vec<_> = pods.iter().map(|p| p.name_any()).collect();
    let free = (0..).map(|n| format!("{}-{hash}-{n}", deployment.name_any())).filter(|n| !taken.contains(n));
    for name in free.take(missing) {
        let pod = from_template(deployment, &name, &[(HASH, &hash)]);
        context.create("Pod", &deployment.namespace().unwrap_or_default(), pod).await;
    }
    missing > 0 || !doomed.is_empty()
}

fn number(pod: &DynamicObject) -> u32 {
    pod.name_any().rsplit('-').next().and_then(|n| n.parse().ok()).unwrap_or(0)
}

fn status(deployment: &DynamicObject, pods: &[Arc<DynamicObject>]) -> Value {
    let (wanted, hash) = (wanted(deployment), template_hash(deployment));
    let alive: Vec<_> = pods.iter().filter(|p| !terminating(p)).collect();
    let updated = alive.iter().filter(|p| p.labels().get(HASH) == Some(&hash)).count();
    let ready = alive.iter().filter(|p| is_ready(p)).count();
    let available = ready + wanted.unavailable >= wanted.replicas;
    let done = updated == wanted.replicas && alive.len() == updated && ready == updated;
    let some = |n: usize| if n == 0 { Value::Null } else { json!(n) };
    let condition = |kind: &str, holds: bool, reason: &str| {
        json!({"type": kind, "status": if holds { "True" } else { "False" }, "reason": reason, "message": reason,
               "lastTransitionTime": now(), "lastUpdateTime": now()})
    };
    json!({
        "observedGeneration": deployment.metadata.generation,
        "replicas": some(alive.len()), "updatedReplicas": some(updated), "readyReplicas": some(ready),
        "availableReplicas": some(ready), "unavailableReplicas": some(wanted.replicas.max(alive.len()) - ready),
        "terminatingReplicas": deployment.data["status"].get("terminatingReplicas"),
        "conditions": [
            condition("Available", available, if available { "MinimumReplicasAvailable" } else { "MinimumReplicasUnavailable" }),
            condition("Progressing", true, if done { "NewReplicaSetAvailable" } else { "ReplicaSetUpdated" }),
        ],
    })
}
