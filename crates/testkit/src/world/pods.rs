//! The kubelet: pods become what their fate says, and terminating pods go.

use std::{collections::BTreeMap, time::Instant};

use kube::{ResourceExt as _, api::DynamicObject};
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};

use super::{
    Fate,
    context::{Context, now, terminating},
};

/// Where all pods run.
const NODE: &str = "node-1";

pub(super) async fn pass(context: &Context, seen: &mut BTreeMap<String, Instant>) -> bool {
    let (judge, ready_delay, stop_delay) = context.knob(|k| (k.fate.clone(), k.ready_delay, k.stop_delay));
    let pods = context.list("Pod");
    let mut busy = false;
    for pod in &pods {
        let ending = terminating(pod);
        let uid = format!("{}{}", pod.uid().unwrap_or_default(), if ending { "-ending" } else { "" });
        let age = seen.entry(uid).or_insert_with(Instant::now).elapsed();
        if ending {
            busy = true;
            if age >= stop_delay && pod.finalizers().is_empty() {
                context.delete("Pod", pod, Some(0)).await;
            }
            continue;
        }
        let mut fate = judge(&serde_json::to_value(&**pod).expect("a pod serializes"));
        if fate == Fate::Ready && age < ready_delay && !is_ready(pod) {
            (fate, busy) = (Fate::Pending, true);
        }
        busy |= context.set_status("Pod", pod, status(pod, fate)).await;
    }
    let known: Vec<String> = pods.iter().filter_map(|p| p.uid()).collect();
    seen.retain(|uid, _| known.iter().any(|k| uid.starts_with(k)));
    busy
}

/// Whether the pod has condition Ready.
pub(super) fn is_ready(pod: &DynamicObject) -> bool {
    let conditions = pod.data["status"]["conditions"].as_array().into_iter().flatten();
    !terminating(pod) && conditions.into_iter().any(|c| c["type"] == "Ready" && c["status"] == "True")
}

fn status(pod: &DynamicObject, fate: Fate) -> Value {
    let (old, time) = (&pod.data["status"], now());
    let ready = fate == Fate::Ready;
    let (phase, reason) = match fate {
        Fate::Ready => ("Running", None),
        Fate::Pending => ("Pending", Some("ContainerCreating")),
        Fate::ImagePullBackOff => ("Pending", Some("ImagePullBackOff")),
        Fate::CrashLoop => ("Running", Some("CrashLoopBackOff")),
    };
    let was = |list: &str, name: &Value, pointer: &str| {
        let containers = old[list].as_array().into_iter().flatten();
        containers.into_iter().find(|c| c["name"] == *name).and_then(|c| c.pointer(pointer).cloned())
    };
    let entry = |list: &str, container: &Value, state: Value, ready: bool, restarts: u32| {
        let image = container["image"].as_str().unwrap_or_default();
        json!({
            "name": container["name"], "image": image, "imageID": if reason.is_none() { digest(image) } else { String::new() },
            "ready": ready, "started": ready, "restartCount": restarts, "state": state, "lastState": {},
            "containerID": was(list, &container["name"], "/containerID"),
        })
    };
    let containers = pod.data["spec"]["containers"].as_array().into_iter().flatten().map(|container| {
        let since = was("containerStatuses", &container["name"], "/state/running/startedAt");
        let state = match reason {
            None => json!({"running": {"startedAt": since.unwrap_or_else(|| time.clone())}}),
            Some(reason) => json!({"waiting": {"reason": reason}}),
        };
        entry("containerStatuses", container, state, ready, if fate == Fate::CrashLoop { 5 } else { 0 })
    });
    let begun = matches!(fate, Fate::Ready | Fate::CrashLoop);
    let init = pod.data["spec"]["initContainers"].as_array().into_iter().flatten().map(|container| {
        let ended = was("initContainerStatuses", &container["name"], "/state/terminated");
        let end = || json!({"exitCode": 0, "reason": "Completed", "startedAt": time, "finishedAt": time});
        let state = if begun {
            json!({"terminated": ended.unwrap_or_else(end)})
        } else {
            json!({"waiting": {"reason": "PodInitializing"}})
        };
        entry("initContainerStatuses", container, state, begun, 0)
    });
    let init: Vec<Value> = init.collect();
    let condition = |kind: &str, holds: bool| {
        let status = if holds { "True" } else { "False" };
        let reason = (!holds).then_some("ContainersNotReady");
        json!({"type": kind, "status": status, "reason": reason, "lastTransitionTime": time, "lastProbeTime": null})
    };
    let ip = address(pod);
    json!({
        "phase": phase,
        "conditions": [
            condition("PodScheduled", true),
            condition("Initialized", begun),
            condition("ContainersReady", ready),
            condition("Ready", ready),
        ],
        "containerStatuses": containers.collect::<Vec<_>>(),
        "initContainerStatuses": if init.is_empty() { Value::Null } else { json!(init) },
        "hostIP": "192.0.2.1", "hostIPs": [{"ip": "192.0.2.1"}], "podIP": ip, "podIPs": [{"ip": ip}],
        "startTime": old.get("startTime").cloned().unwrap_or(time.clone()),
        "qosClass": old.get("qosClass"), "observedGeneration": old.get("observedGeneration"),
    })
}

/// A stable address in 10.244.0.0/16.
fn address(pod: &DynamicObject) -> String {
    let hash = Sha256::digest(pod.uid().unwrap_or_default());
    format!("10.244.{}.{}", hash[0], hash[1].clamp(1, 254))
}

fn digest(image: &str) -> String {
    format!("{}@sha256:{}", image.split('@').next().unwrap_or_default(), hex(image.as_bytes(), 64))
}

/// The beginning of a SHA-256 in hex.
pub(super) fn hex(bytes: &[u8], length: usize) -> String {
    use std::fmt::Write as _;
    let mut text = String::new();
    for byte in Sha256::digest(bytes) {
        let _ = write!(text, "{byte:02x}");
    }
    text.truncate(length);
    text
}

/// The hash of a pod template.
pub(super) fn template_hash(owner: &DynamicObject) -> String {
    hex(owner.data["spec"]["template"].to_string().as_bytes(), 10)
}

/// A pod from the owner's template, bound to the node, with more labels.
pub(super) fn from_template(owner: &DynamicObject, name: &str, labels: &[(&str, &str)]) -> Value {
    let template = &owner.data["spec"]["template"];
    let mut pod =
        json!({"apiVersion": "v1", "kind": "Pod", "metadata": template["metadata"], "spec": template["spec"]});
    if !pod["metadata"].is_object() {
        pod["metadata"] = json!({});
    }
    let types = owner.types.clone().unwrap_or_default();
    pod["metadata"]["name"] = json!(name);
    pod["metadata"]["namespace"] = json!(owner.namespace());
    pod["metadata"]["ownerReferences"] = json!([{
        "apiVersion": types.api_version, "kind": types.kind, "name": owner.name_any(), "uid": owner.uid(),
        "controller": true, "blockOwnerDeletion": true,
    }]);
    for (key, value) in labels {
        pod["metadata"]["labels"][key] = json!(value);
    }
    pod["spec"]["nodeName"] = json!(NODE);
    pod
}
