//! Pods: made from a template, and what kubelet says of them.

use berth_plan::digest::sha256;
use jiff::Timestamp;
use serde_json::{Value, json};

/// What becomes of a pod.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Fate {
    /// Running and Ready.
    #[default]
    Ready,
    /// Pending: scheduled, its containers are being created.
    Pending,
    /// Pending: its image cannot be pulled.
    ImagePullBackOff,
    /// Running, not ready: its containers end again and again.
    CrashLoop,
    /// Running, not ready: its readiness probe fails.
    Unready,
    /// Running, not ready: a member of etcd whose guard finds its volume empty, again and again.
    Lost,
}

/// The hash of a workload's pod template.
pub fn template_hash(workload: &Value) -> String {
    sha256(workload["spec"]["template"].to_string().as_bytes()).chars().take(10).collect()
}

/// A pod from the workload's template, bound to a node, with more labels.
pub(super) fn from_template(workload: &Value, name: &str, labels: &[(&str, &str)]) -> Value {
    let template = &workload["spec"]["template"];
    let mut pod =
        json!({"apiVersion": "v1", "kind": "Pod", "metadata": template["metadata"], "spec": template["spec"]});
    pod["metadata"]["name"] = json!(name);
    pod["metadata"]["namespace"] = workload["metadata"]["namespace"].clone();
    for (key, value) in labels {
        pod["metadata"]["labels"][key] = json!(value);
    }
    pod["spec"]["nodeName"] = json!("node-1");
    pod
}

/// What kubelet says of a pod. What went on before goes on since then.
pub fn pod_status(pod: &Value, fate: Fate, now: Timestamp) -> Value {
    let (ready, begun) = (fate == Fate::Ready, !matches!(fate, Fate::Pending | Fate::ImagePullBackOff));
    let fails = matches!(fate, Fate::CrashLoop | Fate::Lost);
    let statuses = |containers: &str, list: &str, ready: bool, state: Value| -> Vec<Value> {
        let all = pod["spec"][containers].as_array().into_iter().flatten();
        let status = |container: &Value| {
            let before = pod["status"][list].as_array().into_iter().flatten().find(|c| c["name"] == container["name"]);
            let before = before.map_or(&Value::Null, |c| &c["state"]);
            let can_continue = ["running", "terminated"].iter().any(|s| before[s].is_object() && state[s].is_object());
            let mut status = json!({"name": container["name"], "image": container["image"], "ready": ready,
                   "restartCount": if fails { 5 } else { 0 },
                   "state": if can_continue { before } else { &state }});
            if state["running"].is_object() && container["resources"].is_object() {
                status["resources"] = container["resources"].clone();
            }
            if fate == Fate::Lost && list == "containerStatuses" {
                let member = pod["metadata"]["name"].as_str().unwrap_or_default();
                let said = format!("DataLost: the volume of etcd member {member} is empty");
                status["lastState"] =
                    json!({"terminated": {"exitCode": 42, "message": said, "startedAt": now, "finishedAt": now}});
            }
            status
        };
        all.map(status).collect()
    };
    let state = match fate {
        Fate::Ready | Fate::Unready => json!({"running": {"startedAt": now}}),
        Fate::Pending => json!({"waiting": {"reason": "ContainerCreating"}}),
        Fate::ImagePullBackOff => json!({"waiting": {"reason": "ImagePullBackOff"}}),
        Fate::CrashLoop | Fate::Lost => json!({"waiting": {"reason": "CrashLoopBackOff"}}),
    };
    let prepared = if begun {
        json!({"terminated": {"exitCode": 0, "reason": "Completed", "startedAt": now, "finishedAt": now}})
    } else {
        json!({"waiting": {"reason": "PodInitializing"}})
    };
    let conditions = [("PodScheduled", true), ("Initialized", begun), ("ContainersReady", ready), ("Ready", ready)];
    let condition = |(kind, holds): (&str, bool)| {
        let (status, reason) = if holds { ("True", None) } else { ("False", Some("ContainersNotReady")) };
        json!({"type": kind, "status": status, "reason": reason, "lastTransitionTime": now})
    };
    let mut status = json!({
        "phase": if begun { "Running" } else { "Pending" }, "conditions": conditions.map(condition),
        "containerStatuses": statuses("containers", "containerStatuses", ready, state),
        "initContainerStatuses": statuses("initContainers", "initContainerStatuses", begun, prepared),
    });
    if begun {
        status["podIP"] = json!(address(pod));
    }
    status
}

/// An address that no other pod has, as far as chance goes, and that it keeps.
fn address(pod: &Value) -> String {
    let meta = &pod["metadata"];
    let digest = sha256(format!("{}/{}", meta["namespace"], meta["name"]).as_bytes());
    let octet = |at: usize| u8::from_str_radix(&digest[at..at + 2], 16).unwrap_or_default();
    format!("10.{}.{}.{}", octet(0), octet(2), octet(4).clamp(1, 254))
}
