//! How a pod is doing.

use super::images::NO_IMAGE;
use crate::observed::{Observed, deleting, label};
use berth_api::conditions::Reason;
use berth_api::etcd_bootstrap::Hold;
use berth_render::{Kind, ObjectKey};
use serde_json::Value;

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
pub(super) fn container_statuses(pod: &Value) -> impl Iterator<Item = &Value> {
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
