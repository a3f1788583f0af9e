//! Pods of add-ons, inside a tenant: nothing of what is said there is trusted, so nothing of it becomes a command.

use super::pods::{condition, container_statuses, pod_ready};
use crate::object_meta::deleting;
use serde_json::Value;

/// Why the first of these pods that says so does not serve; one of a failing container before one that is on its way.
pub fn why_not<'a>(pods: impl IntoIterator<Item = &'a Value>) -> Option<String> {
    let all: Vec<_> = pods.into_iter().filter(|pod| !deleting(pod) && !pod_ready(pod)).collect();
    let name = |pod: &Value| pod.pointer("/metadata/name").and_then(Value::as_str).unwrap_or("?").to_owned();
    let say = |pod: &&Value| Some(format!("pod {}: {}", name(pod), trouble(pod)?));
    all.iter().find_map(say).or_else(|| all.first().map(|pod| format!("pod {} is not ready", name(pod))))
}

fn trouble(pod: &Value) -> Option<String> {
    if let Some(placed) = condition(pod, "PodScheduled").filter(|placed| placed["status"] == "False") {
        return Some(format!("not scheduled: {}", placed["message"].as_str().unwrap_or("no node takes it")));
    }
    container_statuses(pod).find_map(|container| {
        let (name, state) = (container["name"].as_str().unwrap_or("?"), &container["state"]);
        let last = [&state["terminated"], &container["lastState"]["terminated"]];
        let ended = last.into_iter().find(|ended| ended.is_object()).filter(|_| container["ready"] != true);
        let waiting = state["waiting"]["reason"].as_str().filter(|why| !is_on_its_way(why));
        if waiting.is_none() && ended.is_none() {
            return None;
        }
        let mut all: Vec<String> = waiting.into_iter().map(str::to_owned).collect();
        // For how long kubelet backs off says nothing about the error.
        let message = state["waiting"]["message"].as_str().filter(|_| waiting != Some("CrashLoopBackOff"));
        all.extend(message.filter(|_| waiting.is_some()).map(str::to_owned));
        if let Some(ended) = ended {
            let why = ended["reason"].as_str().filter(|why| *why != "Error");
            let code = ended["exitCode"].as_i64().map(|code| format!("exit code {code}"));
            // What a container said last may hold what nobody else is to read.
            all.extend([why.map(str::to_owned), code].into_iter().flatten());
        }
        Some(format!("container {name}: {}", all.join(": ")))
    })
}

fn is_on_its_way(why: &str) -> bool {
    ["ContainerCreating", "PodInitializing"].contains(&why)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn the_pod_that_says_most_is_told_of() {
        let pod = |name: &str, status: Value| json!({"metadata": {"name": name}, "status": status});
        let container =
            |state: Value| json!({"containerStatuses": [{"name": "coredns", "ready": false, "state": state}]});
        let well = pod("a", json!({"conditions": [{"type": "Ready", "status": "True"}]}));
        let placed = pod(
            "b",
            json!({"conditions": [{"type": "PodScheduled", "status": "False", "message": "0/1 nodes are available"}]}),
        );
        let comes = pod("c", container(json!({"waiting": {"reason": "ContainerCreating", "message": "x"}})));
        let image = pod("d", container(json!({"waiting": {"reason": "ErrImagePull", "message": "not found"}})));
        let mut fails =
            pod("e", container(json!({"waiting": {"reason": "CrashLoopBackOff", "message": "back-off 5m0s"}})));
        fails["status"]["containerStatuses"][0]["lastState"] =
            json!({"terminated": {"reason": "Error", "exitCode": 1, "message": "a\nplugin/forward: no such file\n"}});
        let memory = pod("f", container(json!({"terminated": {"reason": "OOMKilled", "exitCode": 137}})));
        let mut goes = image.clone();
        goes["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z".into();
        for (pods, says) in [
            (vec![], None),
            (vec![&well], None),
            (vec![&well, &goes], None),
            (vec![&well, &comes], Some("pod c is not ready")),
            (vec![&comes, &placed], Some("pod b: not scheduled: 0/1 nodes are available")),
            (vec![&comes, &image], Some("pod d: container coredns: ErrImagePull: not found")),
            (vec![&fails], Some("pod e: container coredns: CrashLoopBackOff: exit code 1")),
            (vec![&memory], Some("pod f: container coredns: OOMKilled: exit code 137")),
            (vec![&json!({})], Some("pod ? is not ready")),
        ] {
            assert_eq!(why_not(pods.iter().copied()).as_deref(), says);
        }
    }
}
