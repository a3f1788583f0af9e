//! How a Deployment or StatefulSet and its pods are doing.

use crate::observed::{Observed, annotation, deleting, label};
use berth_api::common::Images;
use berth_api::conditions::Reason;
use berth_api::etcd_bootstrap::Hold;
use berth_api::labels;
use berth_api::version::Version;
use berth_render::{Component, Kind, Object, ObjectKey, image, relocated};
use serde_json::Value;
use std::hash::{DefaultHasher, Hash, Hasher};

/// A workload's rollout.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
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

fn int(v: &Value, path: &str) -> i32 {
    v.pointer(path).and_then(Value::as_i64).and_then(|n| i32::try_from(n).ok()).unwrap_or(0)
}

/// What decisions take from a workload or a pod, as one number: an update that leaves it as it was is no news. The spec of a
/// workload tells by its generation, that of a pod does not change.
pub fn outlook(object: &Value) -> u64 {
    let mut state = DefaultHasher::new();
    for field in ["uid", "generation", "labels", "annotations", "ownerReferences", "finalizers"] {
        object["metadata"][field].hash(&mut state);
    }
    object["metadata"]["deletionGracePeriodSeconds"].hash(&mut state);
    match object["kind"].as_str() {
        Some("Pod") => {
            (pod_ready(object), pod_running(object), started_at(object), pod_problem(object)).hash(&mut state);
        }
        Some("Deployment") => (deployment(object), replica_failure(object)).hash(&mut state),
        _ => object["status"].hash(&mut state),
    }
    state.finish()
}

/// Why the pods of a Deployment cannot be made.
pub(crate) fn replica_failure(deployment: &Value) -> Option<&str> {
    let conditions = deployment.pointer("/status/conditions").and_then(Value::as_array)?;
    let failure = conditions.iter().find(|c| c["type"] == "ReplicaFailure" && c["status"] == "True")?;
    Some(failure["message"].as_str().unwrap_or_default())
}

/// Whether its controller has seen the newest spec.
pub(crate) fn taken_up(workload: &Value) -> bool {
    let number = |path: &str| workload.pointer(path).and_then(Value::as_i64);
    number("/status/observedGeneration") == number("/metadata/generation")
}

/// Reads a Deployment's status.
pub fn deployment(d: &Value) -> Rollout {
    let desired = int(d, "/spec/replicas");
    let current = taken_up(d);
    let (updated, total, available) =
        (int(d, "/status/updatedReplicas"), int(d, "/status/replicas"), int(d, "/status/availableReplicas"));
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

/// The image of a workload's first container.
pub fn image_of(workload: &Value) -> Option<&str> {
    workload.pointer("/spec/template/spec/containers/0/image").and_then(Value::as_str)
}

/// The agent's image, which a workload's pods copy or mount.
pub(crate) fn agent_of(workload: &Value) -> Option<&str> {
    let pods = workload.pointer("/spec/template/spec")?;
    let all = |list: &str| pods[list].as_array().into_iter().flatten();
    let mounted = all("volumes").filter_map(|v| v.pointer("/image/reference"));
    all("initContainers").map(|c| &c["image"]).chain(mounted).find_map(Value::as_str)
}

/// What kubelet says of a container whose image it does not get.
const NO_IMAGE: [&str; 4] = ["ErrImagePull", "ImagePullBackOff", "InvalidImageName", "ErrImageNeverPull"];

/// Whether a pod waits in vain for that image. Of a volume's only kubelet's message tells.
pub(crate) fn waits_for(pod: &Value, image: &str) -> bool {
    without_image(pod)
        .any(|c| c["image"] == image || c["state"]["waiting"]["message"].as_str().is_some_and(|m| m.contains(image)))
}

/// Whether a pod waits in vain for any image: then it does nothing yet.
pub(crate) fn waits_for_an_image(pod: &Value) -> bool {
    without_image(pod).next().is_some()
}

fn without_image(pod: &Value) -> impl Iterator<Item = &Value> {
    let waits = |c: &&Value| c["state"]["waiting"]["reason"].as_str().is_some_and(|r| NO_IMAGE.contains(&r));
    container_statuses(pod).filter(waits).filter(|_| !deleting(pod))
}

/// Whether one of its pods waits in vain for its first container's image: then another registry loses nothing.
pub(crate) fn lacks_its_image<'a>(
    workload: &Value,
    mut pods: impl Iterator<Item = (&'a ObjectKey, &'a Value)>,
) -> bool {
    image_of(workload).is_some_and(|image| pods.any(|(_, pod)| waits_for(pod, image)))
}

/// The component's image and the agent's. The registry that the spec asks for counts at once. One that the operator is configured
/// with anew counts from the next version on, and rolls nothing by itself: what runs stays if it is the same image and version.
/// `live`: the workload, unless it [`lacks_its_image`].
pub(crate) fn images(
    live: Option<&Value>,
    asked: &Images,
    registry: &str,
    (binary, version): (Component, Version),
    agent: &str,
) -> (String, String) {
    if let Some(registry) = &asked.registry {
        return (image(registry, binary, version), relocated(registry, agent));
    }
    let wanted = image(registry, binary, version);
    let tail = |image: &str| image.rsplit('/').next().map(str::to_owned);
    let pinned = live.filter(|l| annotation(l, labels::IMAGE_REGISTRY).is_none()).and_then(image_of);
    let image = pinned.filter(|runs| tail(runs) == tail(&wanted)).map_or(wanted, str::to_owned);
    (image, agent.to_owned())
}

/// Notes on a workload which registry the spec asked for, see [`images`].
pub(crate) fn noted(object: Object, asked: &Images) -> Object {
    match &asked.registry {
        Some(registry) if matches!(object.key().kind, Kind::Deployment | Kind::StatefulSet) => {
            object.with_annotation(labels::IMAGE_REGISTRY, registry)
        }
        _ => object,
    }
}

/// What a person should know about pods that are not ready: (reason, text). Judged from container states and scheduling.
pub fn pod_problem(pod: &Value) -> Option<(Reason, String)> {
    let name = pod.pointer("/metadata/name").and_then(Value::as_str).unwrap_or("?");
    if deleting(pod) {
        return None;
    }
    for c in pod.pointer("/status/conditions").and_then(Value::as_array).into_iter().flatten() {
        if c["type"] == "PodScheduled" && c["status"] == "False" {
            let m = c["message"].as_str().unwrap_or("no node takes it");
            return Some((Reason::Unschedulable, format!("pod {name}: not scheduled: {m}")));
        }
    }
    for c in container_statuses(pod) {
        let container = c["name"].as_str().unwrap_or("?");
        if let Some((reason, text)) = data_problem(c) {
            return Some((reason, format!("pod {name}: {text}")));
        }
        let waiting = &c["state"]["waiting"];
        let why = waiting["reason"].as_str().unwrap_or_default();
        let message = waiting["message"].as_str().unwrap_or_default();
        match why {
            _ if NO_IMAGE.contains(&why) => {
                let image = c["image"].as_str().unwrap_or("?");
                return Some((Reason::ImageUnavailable, format!("pod {name}: image {image}: {why}: {message}")));
            }
            "CrashLoopBackOff" | "CreateContainerConfigError" | "CreateContainerError" | "RunContainerError" => {
                let last = &c["lastState"]["terminated"];
                // `Error` says no more than the exit code does.
                let cause =
                    last["reason"].as_str().filter(|r| *r != "Error").map_or(String::new(), |r| format!(", {r}"));
                let code = last["exitCode"].as_i64().map_or(String::new(), |n| format!(" (last exit code {n}{cause})"));
                let message = if message.is_empty() { String::new() } else { format!("; {message}") };
                let said = last["message"].as_str().map_or(String::new(), |m| format!(": {}", m.trim()));
                return Some((
                    Reason::ContainerFailing,
                    format!("pod {name}: container {container}: {why}{code}{said}{message}"),
                ));
            }
            _ => {}
        }
    }
    None
}

/// Statuses of a pod's containers, those that prepare it first.
fn container_statuses(pod: &Value) -> impl Iterator<Item = &Value> {
    let lists = ["initContainerStatuses", "containerStatuses"];
    lists.into_iter().filter_map(|s| pod["status"][s].as_array()).flatten()
}

/// What the guard of an etcd member said about its volume.
fn data_problem(container: &Value) -> Option<(Reason, String)> {
    let hold = ["/state/terminated", "/lastState/terminated"].iter().find_map(|p| {
        let ended = container.pointer(p)?;
        Hold::of(ended["exitCode"].as_i64()?, ended["message"].as_str().unwrap_or_default())
    })?;
    // A guard that has passed since has nothing to complain about.
    if container["ready"] == true || container.pointer("/state/terminated/exitCode").and_then(Value::as_i64) == Some(0)
    {
        return None;
    }
    Some((hold.reason.into(), hold.to_string()))
}

/// Pods of a component, by label.
pub fn pods_of<'a>(
    observed: &'a Observed,
    namespace: &'a str,
    name: &'a str,
    value: &'a str,
) -> impl Iterator<Item = (&'a ObjectKey, &'a Value)> {
    observed.of_kind(Kind::Pod, namespace).filter(move |(_, p)| label(p, name) == Some(value))
}

/// True if the pod's Ready condition is true and it is not being deleted.
pub fn pod_ready(pod: &Value) -> bool {
    !deleting(pod) && ready_condition(pod).is_some()
}

/// Since when the pod is ready.
pub fn ready_since(pod: &Value) -> Option<jiff::Timestamp> {
    ready_condition(pod).filter(|_| !deleting(pod))?["lastTransitionTime"].as_str()?.parse().ok()
}

fn ready_condition(pod: &Value) -> Option<&Value> {
    let conditions = pod.pointer("/status/conditions").and_then(Value::as_array)?;
    conditions.iter().find(|c| c["type"] == "Ready" && c["status"] == "True")
}

/// True once the pod's main containers have started.
pub fn pod_running(pod: &Value) -> bool {
    !deleting(pod)
        && pod
            .pointer("/status/containerStatuses")
            .and_then(Value::as_array)
            .is_some_and(|c| !c.is_empty() && c.iter().all(|c| c["state"]["running"].is_object()))
}

/// When the pod's last main container started.
pub fn started_at(pod: &Value) -> Option<jiff::Timestamp> {
    let all = pod.pointer("/status/containerStatuses").and_then(Value::as_array)?;
    all.iter().filter_map(|c| c.pointer("/state/running/startedAt")?.as_str()?.parse().ok()).max()
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
        assert!(deployment(&d(2, 2, 2, 2)).settled);
        assert!(!deployment(&d(1, 2, 2, 2)).settled, "not yet seen");
        assert!(!deployment(&d(2, 1, 3, 2)).settled, "old pod left");
        let r = deployment(&d(2, 1, 3, 2));
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
    fn only_what_decisions_take_is_news() {
        let pod =
            |status: Value| json!({"kind": "Pod", "metadata": {"uid": "1", "resourceVersion": "7"}, "status": status});
        let waiting =
            pod(json!({"containerStatuses": [{"name": "c", "state": {"waiting": {"reason": "PodInitializing"}}}]}));
        let mut later =
            pod(json!({"podIP": "10.0.0.1", "initContainerStatuses": [{"name": "i", "state": {"running": {}}}]}));
        later["metadata"]["resourceVersion"] = json!("8");
        assert_eq!(outlook(&waiting), outlook(&later));
        let up =
            json!({"containerStatuses": [{"name": "c", "state": {"running": {"startedAt": "2026-01-01T00:00:00Z"}}}]});
        assert_ne!(outlook(&later), outlook(&pod(up)));
        let failing =
            json!({"initContainerStatuses": [{"name": "i", "state": {"waiting": {"reason": "ErrImagePull"}}}]});
        assert_ne!(outlook(&later), outlook(&pod(failing)));
        later["metadata"]["deletionGracePeriodSeconds"] = json!(1);
        assert_ne!(outlook(&waiting), outlook(&later));

        let d = |status: Value| json!({"kind": "Deployment", "metadata": {"generation": 1}, "spec": {"replicas": 1}, "status": status});
        let seen = json!({"observedGeneration": 1, "replicas": 1, "updatedReplicas": 1});
        assert_ne!(
            outlook(&d(json!({}))),
            outlook(&d(json!({"observedGeneration": 1, "availableReplicas": 1, "updatedReplicas": 1})))
        );
        let mut told = seen.clone();
        told["conditions"] = json!([{"type": "Progressing", "status": "True"}]);
        assert_eq!(outlook(&d(seen.clone())), outlook(&d(told.clone())));
        told["conditions"] = json!([{"type": "ReplicaFailure", "status": "True", "message": "quota"}]);
        assert_ne!(outlook(&d(seen)), outlook(&d(told)));
    }

    #[test]
    fn pods_say_what_is_wrong() {
        let pod = |s: Value| json!({"metadata": {"name": "p"}, "status": s});
        let (r, m) = pod_problem(&pod(json!({"containerStatuses": [{"name": "c", "image": "x:1", "state": {"waiting": {"reason": "ImagePullBackOff", "message": "not found"}}}]}))).unwrap();
        assert_eq!(r, Reason::ImageUnavailable);
        assert!(m.contains("x:1") && m.contains("not found"));
        let held = json!({"containerStatuses": [{"name": "etcd", "ready": false, "state": {"waiting": {"reason": "CrashLoopBackOff"}}, "lastState": {"terminated": {"exitCode": 42, "message": "DataLost: the volume is empty"}}}]});
        assert_eq!(pod_problem(&pod(held)).unwrap().0, Reason::DataLost);
        assert_eq!(pod_problem(&pod(json!({"containerStatuses": [{"name": "c", "state": {"running": {}}}]}))), None);
    }
}
