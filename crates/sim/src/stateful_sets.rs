//! StatefulSets: ordinals, claims, one step at a time.

use super::controllers::{Step, count, name, some};
use super::pods::{from_template, template_hash};
use berth_plan::observed::{deleting, label};
use berth_plan::workload::pod_ready;
use berth_render::Kind;
use serde_json::{Value, json};
use std::collections::BTreeMap;

/// Label by which pods say what they were made from.
pub(super) const REVISION: &str = "controller-revision-hash";

pub(super) fn revision(set: &Value) -> String {
    format!("{}-{}", name(set), template_hash(set))
}

fn ordinal(object: &Value) -> Option<usize> {
    name(object).rsplit('-').next()?.parse().ok()
}

pub(super) fn step(set: &Value, pods: &[Value], claims: &[Value]) -> Step {
    let (spec, revision) = (&set["spec"], revision(set));
    let pods: BTreeMap<usize, &Value> = pods.iter().filter_map(|p| Some((ordinal(p)?, p))).collect();
    let (replicas, ordered) = (count(&spec["replicas"], 1), spec["podManagementPolicy"] != "Parallel");
    let mut step = Step::default();
    for ordinal in 0..replicas {
        let pod = pods.get(&ordinal);
        if pod.is_none() {
            step.create.extend(templates(set).map(|template| claim(set, template, ordinal)));
            step.create.push(member(set, ordinal, &revision));
        }
        if ordered && !pod.is_some_and(|p| pod_ready(p)) {
            return step;
        }
    }
    // Scaling down, the highest first.
    for (_, pod) in pods.range(replicas..).rev() {
        step.delete(Kind::Pod, [*pod]);
        if ordered {
            return step;
        }
    }
    if spec["persistentVolumeClaimRetentionPolicy"]["whenScaled"] == "Delete" {
        let mine = |c: &Value| templates(set).any(|t| name(c).starts_with(&format!("{}-{}-", name(t), name(set))));
        let unused = |c: &Value| ordinal(c).is_some_and(|o| o >= replicas && !pods.contains_key(&o));
        step.delete(Kind::PersistentVolumeClaim, claims.iter().filter(|c| mine(c) && unused(c)));
    }
    // Updating, the highest first, one at a time.
    if spec["updateStrategy"]["type"] != "OnDelete" {
        let old = |p: &Value| label(p, REVISION) != Some(&revision);
        let next = pods.range(..replicas).rev().find(|(_, p)| old(p) || !pod_ready(p));
        step.delete(Kind::Pod, next.map(|(_, p)| *p).filter(|p| old(p)));
    }
    step
}

fn templates(set: &Value) -> impl Iterator<Item = &Value> {
    set["spec"]["volumeClaimTemplates"].as_array().into_iter().flatten()
}

fn member(set: &Value, ordinal: usize, revision: &str) -> Value {
    let (pod, index) = (format!("{}-{ordinal}", name(set)), ordinal.to_string());
    let labels = [
        (REVISION, revision),
        ("statefulset.kubernetes.io/pod-name", &*pod),
        ("apps.kubernetes.io/pod-index", &*index),
    ];
    let mut value = from_template(set, &pod, &labels);
    value["spec"]["hostname"] = json!(pod);
    value["spec"]["subdomain"] = set["spec"]["serviceName"].clone();
    let claimed = |t| json!({"name": name(t), "persistentVolumeClaim": {"claimName": format!("{}-{pod}", name(t))}});
    let volumes = value["spec"]["volumes"].as_array().cloned().unwrap_or_default();
    value["spec"]["volumes"] = volumes.into_iter().chain(templates(set).map(claimed)).collect();
    value
}

fn claim(set: &Value, template: &Value, ordinal: usize) -> Value {
    let mut claim = json!({"apiVersion": "v1", "kind": "PersistentVolumeClaim",
        "metadata": template["metadata"], "spec": template["spec"]});
    claim["metadata"]["name"] = json!(format!("{}-{}-{ordinal}", name(template), name(set)));
    claim["metadata"]["namespace"] = set["metadata"]["namespace"].clone();
    for (key, value) in set["spec"]["selector"]["matchLabels"].as_object().into_iter().flatten() {
        claim["metadata"]["labels"][key] = value.clone();
    }
    claim
}

pub(super) fn status(set: &Value, pods: &[Value]) -> Value {
    let target = revision(set);
    let alive: Vec<_> = pods.iter().filter(|p| !deleting(p)).collect();
    let ready = alive.iter().filter(|p| pod_ready(p)).count();
    let updated = alive.iter().filter(|p| label(p, REVISION) == Some(&target)).count();
    let done = updated == pods.len() && ready == updated && updated == count(&set["spec"]["replicas"], 1);
    json!({
        "observedGeneration": set["metadata"]["generation"],
        "replicas": alive.len(), "readyReplicas": some(ready), "availableReplicas": ready,
        "updatedReplicas": some(updated), "updateRevision": target,
        "currentRevision": set["status"]["currentRevision"].as_str().filter(|_| !done).unwrap_or(&target),
    })
}
