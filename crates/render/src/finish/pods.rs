//! The final pass over pod templates: security, placement, checksums, what the user asked for.

use std::collections::BTreeMap;

use berth_api::labels;
use serde_json::{Map, Value, json};

use super::{map, merge_strings, resources, selector};
use crate::values::{AntiAffinity, Meta, Placement, Workload};

const CHECKSUM_PREFIX: &str = "checksum.berth.dev/";
const HOSTNAME: &str = "kubernetes.io/hostname";

/// Fills in the pod template of a Deployment, StatefulSet or DaemonSet. The first container is the component: it gets the user's
/// resources and extra arguments. The error says what the template lacks.
pub(super) fn finish_workload(
    object: &mut Value,
    meta: &Meta,
    workload: &Workload,
    checksums: &BTreeMap<String, String>,
    format: u32,
) -> Result<(), String> {
    let selector = selector(object);
    let deployment = object["kind"] == "Deployment";
    let template = object.pointer_mut("/spec/template").ok_or("spec.template is missing")?;
    let metadata = map(template, "metadata").ok_or("spec.template.metadata is no map")?;
    merge_strings(metadata, "labels", &meta.pod_labels);
    merge_strings(metadata, "annotations", &annotations(checksums));
    merge_strings(metadata, "annotations", &workload.pod_annotations);

    let pod = template.pointer_mut("/spec").and_then(Value::as_object_mut).ok_or("spec.template.spec is missing")?;
    pod_security(pod, workload.run_as_user);
    place(pod, &workload.placement, &selector, deployment);
    if !workload.host_aliases.is_empty() {
        pod.insert("hostAliases".to_owned(), json!(workload.host_aliases));
    }
    if !workload.image_pull_secrets.is_empty() {
        let secrets = workload.image_pull_secrets.iter().map(|name| json!({"name": name})).collect::<Vec<_>>();
        pod.insert("imagePullSecrets".to_owned(), secrets.into());
    }
    for key in ["initContainers", "containers"] {
        for container in pod.get_mut(key).and_then(Value::as_array_mut).into_iter().flatten() {
            finish_container(container, format)?;
        }
    }
    for container in helpers(pod) {
        workload.helpers.iter().for_each(|layer| resources::lay_over(container, layer));
    }
    let main = pod.get_mut("containers").and_then(|containers| containers.get_mut(0)).ok_or("there is no container")?;
    if let Some(asked) = &workload.resources {
        resources::of_component(main, asked)?;
    }
    let unsized_requests = resources::of_size(main, &workload.sized);
    let args = main.get_mut("args").and_then(Value::as_array_mut).ok_or("the first container has no args")?;
    args.extend(workload.extra_args.iter().map(|arg| format!("--{}={}", arg.name, arg.value).into()));
    if let Some(requests) = unsized_requests {
        let metadata = map(object, "metadata").ok_or("metadata is no map")?;
        merge_strings(metadata, "annotations", &BTreeMap::from([(labels::REQUESTS.to_owned(), requests)]));
    }
    Ok(())
}

/// All containers but the component's own, which is the first.
fn helpers(pod: &mut Map<String, Value>) -> impl Iterator<Item = &mut Value> {
    let is_component = |list: &str, at: usize| list == "containers" && at == 0;
    pod.iter_mut()
        .filter(|(list, _)| ["initContainers", "containers"].contains(&list.as_str()))
        .flat_map(|(list, all)| {
            all.as_array_mut().into_iter().flatten().enumerate().map(move |(at, c)| (list.clone(), at, c))
        })
        .filter(move |(list, at, _)| !is_component(list, *at))
        .map(|(_, _, container)| container)
}

/// How pods carry digests, which are given by name of what they are of.
pub(super) fn annotations(checksums: &BTreeMap<String, String>) -> BTreeMap<String, String> {
    checksums.iter().map(|(name, sum)| (format!("{CHECKSUM_PREFIX}{name}"), sum.clone())).collect()
}

/// What Pod Security `restricted` asks of the pod, and no token or environment of the meta cluster.
fn pod_security(pod: &mut Map<String, Value>, user: i64) {
    pod.insert("automountServiceAccountToken".to_owned(), false.into());
    pod.insert("enableServiceLinks".to_owned(), false.into());
    pod.insert(
        "securityContext".to_owned(),
        json!({
            "runAsNonRoot": true,
            "runAsUser": user,
            "runAsGroup": user,
            "fsGroup": user,
            // Volumes of etcd may be large, and only their root has to be checked.
            "fsGroupChangePolicy": "OnRootMismatch",
            "seccompProfile": {"type": "RuntimeDefault"},
        }),
    );
}

fn finish_container(container: &mut Value, format: u32) -> Result<(), String> {
    let name = container["name"].as_str().unwrap_or_default().to_owned();
    let requests = container.pointer("/resources/requests");
    if !requests.is_some_and(|requests| requests["cpu"].is_string() && requests["memory"].is_string()) {
        return Err(format!("container {name} has no requests for cpu and memory"));
    }
    container["imagePullPolicy"] = "IfNotPresent".into();
    container["terminationMessagePolicy"] = "FallbackToLogsOnError".into();
    if format < 2 || container["securityContext"].is_null() {
        container["securityContext"] = json!({
            "allowPrivilegeEscalation": false,
            "capabilities": {"drop": ["ALL"]},
            "readOnlyRootFilesystem": true,
        });
    }
    Ok(())
}

fn place(pod: &mut Map<String, Value>, placement: &Placement, selector: &BTreeMap<String, String>, deployment: bool) {
    if !placement.node_selector.is_empty() {
        pod.insert("nodeSelector".to_owned(), json!(placement.node_selector));
    }
    if !placement.tolerations.is_empty() {
        pod.insert("tolerations".to_owned(), json!(placement.tolerations));
    }
    if let Some(class) = &placement.priority_class_name {
        pod.insert("priorityClassName".to_owned(), json!(class));
    }
    let mut component = selector.clone();
    // Workloads that have one VPC address each are one component, whose pods still avoid each other.
    let slotted = component.remove(labels::SLOT).is_some();
    let labels = json!({"matchLabels": component});
    if !placement.topology_spread.is_empty() {
        let mut spread = json!(placement.topology_spread);
        for constraint in spread.as_array_mut().into_iter().flatten() {
            if constraint["labelSelector"].is_null() {
                constraint["labelSelector"] = labels.clone();
            }
        }
        pod.insert("topologySpreadConstraints".to_owned(), spread);
    }
    let mut term = json!({"topologyKey": HOSTNAME, "labelSelector": labels});
    if deployment && !slotted {
        // Pods of one revision avoid each other: the extra pod of a roll may stand beside one that it replaces, or a
        // cluster of exactly as many nodes as replicas could never roll.
        term["matchLabelKeys"] = json!(["pod-template-hash"]);
    }
    let affinity = match placement.anti_affinity {
        AntiAffinity::Required => json!({"requiredDuringSchedulingIgnoredDuringExecution": [term]}),
        AntiAffinity::Preferred => {
            json!({"preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 100, "podAffinityTerm": term}]})
        }
    };
    pod.insert("affinity".to_owned(), json!({"podAntiAffinity": affinity}));
}
