//! How a Deployment or StatefulSet and its pods are doing.

mod helpers;
mod images;
mod inside;
mod last_words;
mod pods;
mod proxy;
mod refusal;
mod rules;

use crate::object_meta::label;
use crate::objects::additions::exempt;
use berth_api::labels;
use berth_api::version::{Minor, Version};
use berth_render::ObjectKey;
use serde_json::Value;
use std::hash::{DefaultHasher, Hash, Hasher};

pub use helpers::{helpers, job};
pub use images::{
    OwnImage, has_agent, image_of, images, lacks_its_image, missing_pull_secrets, of_another_version, own_image,
    waits_for, waits_for_an_image, with_registry_annotation,
};
pub use inside::why_not;
pub use pods::{
    REVISION, SLOW_START, condition, found_data, has_lost_its_data, pod_problem, pod_ready, pod_running, pod_start,
    pods_of, ready_since, started_at, unscheduled_since,
};
pub use proxy::{BY_NAME, injected_proxy};
pub use refusal::explained;

/// A workload's rollout.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Rollout {
    /// Pods that are wanted.
    pub desired: i32,
    /// Pods that are up to date and ready.
    pub ready: i32,
    /// Pods of an earlier template.
    pub old: i32,
    /// Every pod is of the newest template, ready, and no other is left.
    pub settled: bool,
    /// At least one pod serves.
    pub serving: bool,
}

impl Rollout {
    /// Of two workloads of one component.
    #[must_use]
    pub fn and(self, other: Self) -> Self {
        Self {
            desired: self.desired + other.desired,
            ready: self.ready + other.ready,
            old: self.old + other.old,
            settled: self.settled && other.settled,
            serving: self.serving || other.serving,
        }
    }
}

/// What decisions take from a workload or a pod, as one number: an update that leaves it as it was is no change. The spec of a
/// workload tells by its generation, that of a pod does not change.
pub fn fingerprint(object: &Value) -> u64 {
    let mut state = DefaultHasher::new();
    for field in ["uid", "generation", "labels", "annotations", "ownerReferences", "finalizers"] {
        object["metadata"][field].hash(&mut state);
    }
    object["metadata"]["deletionGracePeriodSeconds"].hash(&mut state);
    match object["kind"].as_str() {
        Some("Pod") => {
            (pod_ready(object), pod_running(object), started_at(object), pod_problem(object)).hash(&mut state);
        }
        Some("Deployment") => (rollout(object), replica_failure(object)).hash(&mut state),
        _ => object["status"].hash(&mut state),
    }
    state.finish()
}

/// What pods run that the template of their workload does not have. Pods that end may be of another template.
pub fn injected<'a>(workload: &Value, pods: impl Iterator<Item = (&'a ObjectKey, &'a Value)>) -> Vec<String> {
    let template = &workload["spec"]["template"]["spec"];
    let has = |name: &Value| {
        let lists = ["containers", "initContainers"].map(|list| template[list].as_array()).into_iter().flatten();
        lists.flatten().any(|container| container["name"] == *name)
    };
    let ends = |pod: &Value| {
        crate::object_meta::deleting(pod) || ["Failed", "Succeeded"].iter().any(|p| pod["status"]["phase"] == **p)
    };
    pods.filter(|(_, pod)| !ends(pod))
        .filter_map(|(key, pod)| {
            let more: Vec<_> =
                pods::container_statuses(pod).filter(|c| !has(&c["name"])).filter_map(|c| c["name"].as_str()).collect();
            (!more.is_empty()).then(|| {
                format!(
                    "{key} runs more than its template: container {}. {}, and delete the pod",
                    more.join(", "),
                    exempt(key)
                )
            })
        })
        .collect()
}

/// Why the pods of a Deployment cannot be made.
pub fn replica_failure(deployment: &Value) -> Option<&str> {
    let failure = condition(deployment, "ReplicaFailure").filter(|c| c["status"] == "True")?;
    Some(failure["message"].as_str().unwrap_or_default())
}

/// Whether its controller has seen the newest spec.
pub fn taken_up(workload: &Value) -> bool {
    let number = |path: &str| workload.pointer(path).and_then(Value::as_i64);
    number("/status/observedGeneration") == number("/metadata/generation")
}

/// Reads the status of a Deployment or StatefulSet.
pub fn rollout(workload: &Value) -> Rollout {
    let int = |path| workload.pointer(path).and_then(Value::as_i64).and_then(|n| i32::try_from(n).ok()).unwrap_or(0);
    let (desired, available) = (int("/spec/replicas"), int("/status/availableReplicas"));
    let (updated, total) = (int("/status/updatedReplicas"), int("/status/replicas"));
    let current = taken_up(workload);
    Rollout {
        desired,
        ready: if current { updated.min(available) } else { 0 },
        old: if current { (total - updated).max(0) } else { 0 },
        settled: current && updated == desired && total == desired && available == desired,
        serving: available > 0,
    }
}

/// The version that a workload runs, or rolls out.
pub fn version_of(workload: &Value) -> Option<Version> {
    label(workload.pointer("/spec/template")?, labels::VERSION)?.parse().ok()
}

/// The minor that a workload's component emulates.
pub fn emulates(workload: &Value) -> Option<Minor> {
    let containers = workload.pointer("/spec/template/spec/containers")?.as_array()?;
    let mut args = containers.iter().filter_map(|c| c["args"].as_array()).flatten().filter_map(Value::as_str);
    args.find_map(|arg| arg.strip_prefix("--emulated-version=")?.parse().ok())
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_rollout_is_settled_only_when_the_newest_template_is_everywhere() {
        let d = |generation: i64, updated: i32, total: i32, available: i32| {
            json!({"metadata": {"generation": 2}, "spec": {"replicas": 2},
                "status": {"observedGeneration": generation, "updatedReplicas": updated, "replicas": total, "availableReplicas": available}})
        };
        assert!(rollout(&d(2, 2, 2, 2)).settled);
        assert!(!rollout(&d(1, 2, 2, 2)).settled, "not yet seen");
        assert!(!rollout(&d(2, 1, 3, 2)).settled, "old pod left");
        let r = rollout(&d(2, 1, 3, 2));
        assert!(r.serving && r.ready == 1);
    }

    #[test]
    fn a_workload_tells_its_version() {
        let of = |labels: Value| {
            let template =
                json!({"metadata": {"labels": labels}, "spec": {"containers": [{"image": "r/etcd:3.5.1-0"}]}});
            version_of(&json!({"spec": {"template": template}}))
        };
        assert_eq!(of(json!({labels::VERSION: "3.6.16"})), Some("3.6.16".parse().unwrap()));
        assert_eq!((of(json!({labels::VERSION: "newest"})), of(json!({}))), (None, None));
    }

    #[test]
    fn only_what_decisions_take_changes_the_fingerprint() {
        let pod =
            |status: Value| json!({"kind": "Pod", "metadata": {"uid": "1", "resourceVersion": "7"}, "status": status});
        let waiting =
            pod(json!({"containerStatuses": [{"name": "c", "state": {"waiting": {"reason": "PodInitializing"}}}]}));
        let mut later =
            pod(json!({"podIP": "10.0.0.1", "initContainerStatuses": [{"name": "i", "state": {"running": {}}}]}));
        later["metadata"]["resourceVersion"] = json!("8");
        assert_eq!(fingerprint(&waiting), fingerprint(&later));
        let up =
            json!({"containerStatuses": [{"name": "c", "state": {"running": {"startedAt": "2026-01-01T00:00:00Z"}}}]});
        assert_ne!(fingerprint(&later), fingerprint(&pod(up)));
        let failing =
            json!({"initContainerStatuses": [{"name": "i", "state": {"waiting": {"reason": "ErrImagePull"}}}]});
        assert_ne!(fingerprint(&later), fingerprint(&pod(failing)));
        later["metadata"]["deletionGracePeriodSeconds"] = json!(1);
        assert_ne!(fingerprint(&waiting), fingerprint(&later));

        let d = |status: Value| json!({"kind": "Deployment", "metadata": {"generation": 1}, "spec": {"replicas": 1}, "status": status});
        let seen = json!({"observedGeneration": 1, "replicas": 1, "updatedReplicas": 1});
        assert_ne!(
            fingerprint(&d(json!({}))),
            fingerprint(&d(json!({"observedGeneration": 1, "availableReplicas": 1, "updatedReplicas": 1})))
        );
        let mut told = seen.clone();
        told["conditions"] = json!([{"type": "Progressing", "status": "True"}]);
        assert_eq!(fingerprint(&d(seen.clone())), fingerprint(&d(told.clone())));
        told["conditions"] = json!([{"type": "ReplicaFailure", "status": "True", "message": "quota"}]);
        assert_ne!(fingerprint(&d(seen)), fingerprint(&d(told)));
    }
}
