//! How a pod is doing.

use super::images::NO_IMAGE;
use super::last_words::last_words;
use super::rules;
use crate::object_meta::{deleting, label};
use crate::observed::Observed;
use crate::room::without_nodes;
use berth_api::conditions::Reason;
use berth_api::etcd_bootstrap::{FoundData, Hold, HoldReason};
use berth_api::{labels, names};
use berth_render::{Binary, Kind, ObjectKey};
use jiff::{SignedDuration, Timestamp};
use serde_json::Value;

/// What a person should know about pods that are not ready: (reason, text). Judged from container states and scheduling.
pub fn pod_problem(pod: &Value) -> Option<(Reason, String)> {
    let name = pod.pointer("/metadata/name").and_then(Value::as_str).unwrap_or("?");
    if deleting(pod) {
        return None;
    }
    if let Some(placed) = condition(pod, "PodScheduled").filter(|placed| placed["status"] == "False") {
        let why = without_nodes(placed["message"].as_str().unwrap_or_default());
        let namespace = pod.pointer("/metadata/namespace").and_then(Value::as_str).unwrap_or("?");
        let more = format!("for the platform team: kubectl -n {namespace} describe pod {name}");
        return Some((Reason::Unschedulable, format!("pod {name}: not scheduled: {why} ({more})")));
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
                let image = quoted_image(message).or(c["image"].as_str()).unwrap_or("?");
                return Some((Reason::ImageUnavailable, format!("pod {name}: image {image}: {why}: {message}")));
            }
            "CrashLoopBackOff" | "CreateContainerConfigError" | "CreateContainerError" | "RunContainerError" => {
                let last = &c["lastState"]["terminated"];
                if last["reason"] == OUT_OF_MEMORY {
                    return Some((Reason::ContainerFailing, out_of_memory(pod, name, c)));
                }
                // `Error` says no more than the exit code does.
                let cause =
                    last["reason"].as_str().filter(|r| *r != "Error").map_or(String::new(), |r| format!(", {r}"));
                let code = last["exitCode"].as_i64().map_or(String::new(), |n| format!(" (last exit code {n}{cause})"));
                // For how long kubelet backs off says nothing about the error, and would push it from the end of the message.
                let message = Some(message).filter(|m| !m.is_empty() && why != "CrashLoopBackOff");
                let message = message.map_or(String::new(), |m| format!("; {m}"));
                let said = last["message"].as_str().map_or(String::new(), |log| said(pod, container, log));
                return Some((
                    Reason::ContainerFailing,
                    format!("pod {name}: container {container}: {why}{code}{message}{said}"),
                ));
            }
            _ if c["state"]["terminated"]["reason"] == OUT_OF_MEMORY => {
                return Some((Reason::ContainerFailing, out_of_memory(pod, name, c)));
            }
            _ => {}
        }
    }
    None
}

/// The image that kubelet's message is about: of an image volume it says it in the status of a container, whose own image is another.
fn quoted_image(message: &str) -> Option<&str> {
    message.split_once("image \"")?.1.split_once('"').map(|(image, _)| image).filter(|image| !image.is_empty())
}

/// What a condition tells of the end of a container's log.
fn said(pod: &Value, container: &str, log: &str) -> String {
    if let Some(said) = last_words(container, log) {
        return format!(": {said}");
    }
    let at = |path: &str| pod.pointer(path).and_then(Value::as_str).unwrap_or("?");
    let (ns, name) = (at("/metadata/namespace"), at("/metadata/name"));
    format!(". Its log says why: kubectl -n {ns} logs {name} -c {container} --previous")
}

/// How kubelet says that a container was ended for its memory.
const OUT_OF_MEMORY: &str = "OOMKilled";

/// With the limit, if kubelet tells it, and the field to change.
fn out_of_memory(pod: &Value, name: &str, container: &Value) -> String {
    let component = label(pod, labels::COMPONENT);
    let component = Binary::ALL.into_iter().find(|binary| *binary != Binary::Etcd && Some(binary.name()) == component);
    let field = |what: &str| match component {
        Some(component) => format!("spec.{}.resources.{what}.memory", component.field()),
        None => {
            format!("spec.etcd.resources.{what}.memory (of a stand-alone EtcdCluster: spec.resources.{what}.memory)")
        }
    };
    let (resources, container) = (&container["resources"], container["name"].as_str().unwrap_or("?"));
    let field = |what: &str| match rules::of_helper(container) {
        Some(of) => format!("{of}.{what}.memory"),
        None => field(what),
    };
    let why = match resources["limits"]["memory"].as_str() {
        _ if container == names::APPROVER => format!(
            "it needs more memory than its limit. In the tenant, delete CertificateSigningRequests of kubelets that nobody needs, or raise {}",
            field("limits")
        ),
        Some(limit) => format!("it needs more memory than its limit of {limit}. Raise {}", field("limits")),
        None if resources.is_object() => format!("its node had no memory left. Set {}", field("requests")),
        None => format!("it needs more memory than its limit. Raise {}", field("limits")),
    };
    format!("pod {name}: container {container}: {OUT_OF_MEMORY}: {why}")
}

/// A pod that starts in less is nothing to tell of.
pub const SLOW_START: SignedDuration = SignedDuration::from_secs(10);

/// What a pod does that is on its way and not up: (since when, text). None: nothing is known of it, or it runs.
///
/// Kubelet says of a container whose image it pulls no more than that it waits, as of one that it creates; but before it pulls, the pod's
/// sandbox is ready, and after that a container takes a moment.
pub fn pod_start(pod: &Value) -> Option<(Timestamp, String)> {
    if deleting(pod) {
        return None;
    }
    let name = pod.pointer("/metadata/name").and_then(Value::as_str).unwrap_or("?");
    let (prepared, since) = is_true_since(pod, "PodReadyToStartContainers")?;
    if !prepared {
        let (_, since) = is_true_since(pod, "PodScheduled").filter(|(scheduled, _)| *scheduled)?;
        return Some((since, format!("pod {name}: kubelet prepares its volumes and network since {}", second(since))));
    }
    let mut from = since;
    for container in container_statuses(pod) {
        let state = &container["state"];
        if let Some(ended) = state["terminated"]["finishedAt"].as_str().and_then(|t| t.parse().ok()) {
            from = ended;
        } else if matches!(state["waiting"]["reason"].as_str(), Some("ContainerCreating" | "PodInitializing")) {
            let image = container["image"].as_str().unwrap_or("?");
            let text =
                format!("pod {name}: image {image} is being pulled, or its container created, since {}", second(from));
            return Some((from, text));
        } else {
            return None;
        }
    }
    None
}

/// Without fractions.
fn second(at: Timestamp) -> String {
    at.strftime("%Y-%m-%dT%H:%M:%SZ").to_string()
}

/// A condition of what somebody else reports on.
pub fn condition<'a>(object: &'a Value, type_: &str) -> Option<&'a Value> {
    object["status"]["conditions"].as_array()?.iter().find(|condition| condition["type"] == type_)
}

/// Whether a condition is true, and since when.
fn is_true_since(pod: &Value, type_: &str) -> Option<(bool, Timestamp)> {
    let condition = condition(pod, type_)?;
    Some((condition["status"] == "True", condition["lastTransitionTime"].as_str()?.parse().ok()?))
}

/// Since when the scheduler finds no node for it. None: it has one, or ends.
pub fn unscheduled_since(pod: &Value) -> Option<Timestamp> {
    is_true_since(pod, "PodScheduled").filter(|(is_placed, _)| !is_placed && !deleting(pod)).map(|(_, since)| since)
}

/// Statuses of a pod's containers, those that prepare it first.
pub(super) fn container_statuses(pod: &Value) -> impl Iterator<Item = &Value> {
    let lists = ["initContainerStatuses", "containerStatuses"];
    lists.into_iter().filter_map(|s| pod["status"][s].as_array()).flatten()
}

/// What the guard of an etcd member said about its volume.
fn data_problem(container: &Value) -> Option<(Reason, String)> {
    let (hold, _) = hold(container)?;
    Some((hold.reason.into(), hold.to_string()))
}

/// Whether the guard says that it found the volume empty. What nobody understands, or what got lost, proves nothing; nor does what it said
/// before it let the container run that is there now.
pub fn has_lost_its_data(pod: &Value) -> bool {
    let is_known = |hold: &Hold, said: &str| said.parse().as_ref() == Ok(hold);
    let lost = |c: &Value| {
        c["state"]["running"].is_null()
            && hold(c).is_some_and(|(hold, said)| hold.reason == HoldReason::DataLost && is_known(&hold, said))
    };
    !deleting(pod) && container_statuses(pod).any(lost)
}

/// Data that the guard found on the volume and does not let run; nothing runs in that container.
pub fn found_data(pod: &Value) -> Option<FoundData> {
    let held = |c: &Value| hold(c).filter(|_| c["state"]["running"].is_null()).and_then(|(hold, _)| hold.found);
    container_statuses(pod).find_map(held).filter(|_| !deleting(pod))
}

/// Why the guard holds its member, and what it said.
fn hold(container: &Value) -> Option<(Hold, &str)> {
    let hold = ["/state/terminated", "/lastState/terminated"].iter().find_map(|p| {
        let ended = container.pointer(p)?;
        let said = ended["message"].as_str().unwrap_or_default().trim();
        Some((Hold::of(ended["exitCode"].as_i64()?, said)?, said))
    })?;
    // A guard that has passed since has nothing to complain about.
    if container["ready"] == true || container.pointer("/state/terminated/exitCode").and_then(Value::as_i64) == Some(0)
    {
        return None;
    }
    Some(hold)
}

/// Label by which a StatefulSet's controller marks what a pod was made from.
pub const REVISION: &str = "controller-revision-hash";

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
pub fn ready_since(pod: &Value) -> Option<Timestamp> {
    ready_condition(pod).filter(|_| !deleting(pod))?["lastTransitionTime"].as_str()?.parse().ok()
}

fn ready_condition(pod: &Value) -> Option<&Value> {
    condition(pod, "Ready").filter(|ready| ready["status"] == "True")
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
pub fn started_at(pod: &Value) -> Option<Timestamp> {
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
        let volume = json!({"containerStatuses": [{"name": "etcd", "image": "reg/etcd:3", "state": {"waiting": {"reason": "ImagePullBackOff",
            "message": "Back-off pulling image \"reg/agent:1\": ErrImagePull: unauthorized"}}}]});
        let (_, m) = pod_problem(&pod(volume)).unwrap();
        assert!(m.starts_with("pod p: image reg/agent:1: ") && !m.contains("reg/etcd"), "{m}");
        let held = json!({"containerStatuses": [{"name": "etcd", "ready": false, "state": {"waiting": {"reason": "CrashLoopBackOff"}}, "lastState": {"terminated": {"exitCode": 42, "message": "DataLost: the volume is empty"}}}]});
        assert_eq!(pod_problem(&pod(held)).unwrap().0, Reason::DataLost);
        assert_eq!(pod_problem(&pod(json!({"containerStatuses": [{"name": "c", "state": {"running": {}}}]}))), None);
    }

    #[test]
    fn the_end_of_a_log_is_told_or_where_it_is() {
        let told = |log: &str| {
            let failing = json!({"containerStatuses": [{"name": "kube-apiserver",
                "state": {"waiting": {"reason": "CrashLoopBackOff", "message": "back-off 10s restarting failed container=c"}},
                "lastState": {"terminated": {"exitCode": 1, "reason": "Error", "message": log}}}]});
            let pod = json!({"metadata": {"name": "p", "namespace": "acme-0a1b2c3d"}, "status": failing});
            let (_, text) = pod_problem(&pod).unwrap();
            text.strip_prefix("pod p: container kube-apiserver: CrashLoopBackOff (last exit code 1)")
                .unwrap()
                .to_owned()
        };
        let gate = r#"Error: invalid argument "Nope=true" for "--feature-gates" flag: unrecognized feature gate: Nope"#;
        assert_eq!(told(gate), format!(": {gate}"));
        let key = "E1123 run.go:72] \"command failed\" err=\"-----BEGIN EC PRIVATE KEY----- MHcCAQ\"";
        assert_eq!(told(key), ". Its log says why: kubectl -n acme-0a1b2c3d logs p -c kube-apiserver --previous");
    }

    #[test]
    fn out_of_memory_is_named_with_the_limit_and_the_field() {
        let killed =
            json!({"terminated": {"exitCode": 137, "reason": "OOMKilled", "message": "/readyz answers after 0.0 s"}});
        let text = |component: &str, resources: Value| {
            let waiting = json!({"waiting": {"reason": "CrashLoopBackOff", "message": "back-off 10s"}});
            let texts = [(waiting, killed.clone()), (killed.clone(), json!({}))].map(|(state, last)| {
                let status = json!([{"name": "c", "resources": resources, "state": state, "lastState": last}]);
                let labels = json!({(labels::COMPONENT): component});
                let pod = json!({"metadata": {"name": "p", "labels": labels}, "status": {"containerStatuses": status}});
                let (reason, text) = pod_problem(&pod).unwrap();
                assert_eq!(reason, Reason::ContainerFailing);
                text
            });
            assert_eq!(texts[0], texts[1], "whether kubelet waits already, or not yet");
            texts[0].strip_prefix("pod p: container c: OOMKilled: ").unwrap().to_owned()
        };
        assert_eq!(
            text("kube-apiserver", json!({"limits": {"memory": "20Mi"}})),
            "it needs more memory than its limit of 20Mi. Raise spec.apiServer.resources.limits.memory"
        );
        let installs = json!([{"name": "install-agent", "resources": {"limits": {"memory": "8Mi"}}, "state": killed}]);
        let pod = json!({"metadata": {"name": "p"}, "status": {"initContainerStatuses": installs}});
        assert!(pod_problem(&pod).unwrap().1.ends_with("limit of 8Mi. Raise spec.helpers.resources.limits.memory"));
        assert!(text("kube-scheduler", Value::Null).ends_with("Raise spec.scheduler.resources.limits.memory"));
        assert!(text("etcd", json!({"limits": {"memory": "1Gi"}})).contains("Raise spec.etcd.resources.limits.memory"));
        assert_eq!(
            text("kube-apiserver", json!({"requests": {"memory": "20Mi"}})),
            "its node had no memory left. Set spec.apiServer.resources.requests.memory"
        );
    }

    #[test]
    fn a_pod_on_its_way_says_what_kubelet_does_and_since_when() {
        let at = |type_: &str, status: &str, second: u8| json!({"type": type_, "status": status, "lastTransitionTime": format!("2026-01-01T00:00:{second:02}Z")});
        let of = |conditions: Value, init: Value, main: Value| {
            let status = json!({"conditions": conditions,
                "initContainerStatuses": [{"image": "agent:1", "state": init}], "containerStatuses": [{"image": "x:1", "state": main}]});
            pod_start(&json!({"metadata": {"name": "p"}, "status": status})).map(|(_, text)| text)
        };
        let waiting = |reason: &str| json!({"waiting": {"reason": reason}});
        let creating = || (waiting("PodInitializing"), waiting("PodInitializing"));
        let sandbox = || json!([at("PodScheduled", "True", 1), at("PodReadyToStartContainers", "True", 4)]);
        let (init, main) = creating();
        assert_eq!(of(json!([]), init.clone(), main.clone()), None);
        let text = of(
            json!([at("PodScheduled", "True", 1), at("PodReadyToStartContainers", "False", 1)]),
            init.clone(),
            main.clone(),
        )
        .unwrap();
        assert_eq!(text, "pod p: kubelet prepares its volumes and network since 2026-01-01T00:00:01Z");
        let text = of(sandbox(), init, main.clone()).unwrap();
        assert_eq!(text, "pod p: image agent:1 is being pulled, or its container created, since 2026-01-01T00:00:04Z");
        let done = json!({"terminated": {"exitCode": 0, "finishedAt": "2026-01-01T00:00:09Z"}});
        let text = of(sandbox(), done.clone(), main.clone()).unwrap();
        assert_eq!(text, "pod p: image x:1 is being pulled, or its container created, since 2026-01-01T00:00:09Z");
        assert_eq!(of(sandbox(), json!({"running": {}}), main), None);
        assert_eq!(of(sandbox(), done, json!({"running": {}})), None);
    }
}
