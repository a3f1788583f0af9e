//! StatefulSets: ordinals, claims, one step at a time.

use super::controllers::{Step, count, name, some};
use super::pods::{from_template, template_hash};
use berth_plan::object_meta::{deleting, label};
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
    let strategy = &spec["updateStrategy"];
    let partition = count(&strategy["rollingUpdate"]["partition"], 0);
    let mut step = Step::default();
    for ordinal in 0..replicas {
        let pod = pods.get(&ordinal);
        // The controller makes no pod for a claim that is being deleted: it waits until it can make another claim.
        let goes = |template: &Value| {
            let name = claim_name(set, template, ordinal);
            claims.iter().any(|c| self::name(c) == name && !c["metadata"]["deletionTimestamp"].is_null())
        };
        if pod.is_none() && !templates(set).any(goes) {
            step.create.extend(templates(set).map(|template| claim(set, template, ordinal)));
            let former = pods.values().find(|p| ordinal < partition && label(p, REVISION) == current(set));
            let made = former.map_or_else(|| member(set, ordinal, &revision), |former| like(former, set, ordinal));
            step.create.push(made);
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
    if strategy["type"] != "OnDelete" {
        let old = |p: &Value| label(p, REVISION) != Some(&revision);
        let next = pods.range(partition.min(replicas)..replicas).rev().find(|(_, p)| old(p) || !pod_ready(p));
        step.delete(Kind::Pod, next.map(|(_, p)| *p).filter(|p| old(p)));
    }
    step
}

/// What pods below the partition are made from.
fn current(set: &Value) -> Option<&str> {
    set["status"]["currentRevision"].as_str()
}

/// A pod as that one, which has the former template; the real controller keeps that in a `ControllerRevision`.
fn like(former: &Value, set: &Value, ordinal: usize) -> Value {
    let was = name(former).to_owned();
    let pod = format!("{}-{ordinal}", name(set));
    let mut value = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {
        "name": pod, "namespace": former["metadata"]["namespace"], "labels": former["metadata"]["labels"],
        "annotations": former["metadata"]["annotations"],
    }, "spec": former["spec"]});
    value["metadata"]["labels"]["statefulset.kubernetes.io/pod-name"] = json!(pod);
    value["metadata"]["labels"]["apps.kubernetes.io/pod-index"] = json!(ordinal.to_string());
    value["spec"]["hostname"] = json!(pod);
    for volume in value["spec"]["volumes"].as_array_mut().into_iter().flatten() {
        let claim = volume.pointer_mut("/persistentVolumeClaim/claimName");
        if let Some(claim) = claim {
            *claim = json!(claim.as_str().unwrap_or_default().replace(&was, &pod));
        }
    }
    value
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

fn claim_name(set: &Value, template: &Value, ordinal: usize) -> String {
    format!("{}-{}-{ordinal}", name(template), name(set))
}

fn claim(set: &Value, template: &Value, ordinal: usize) -> Value {
    let mut claim = json!({"apiVersion": "v1", "kind": "PersistentVolumeClaim",
        "metadata": template["metadata"], "spec": template["spec"]});
    claim["metadata"]["name"] = json!(claim_name(set, template, ordinal));
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
    let is_on_delete = set["spec"]["updateStrategy"]["type"] == "OnDelete";
    json!({
        "observedGeneration": set["metadata"]["generation"],
        "replicas": alive.len(), "readyReplicas": some(ready), "availableReplicas": ready,
        "updatedReplicas": some(updated), "updateRevision": target,
        // With OnDelete it stays what it was at first.
        "currentRevision": current(set).filter(|_| !done || is_on_delete).unwrap_or(&target),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_claim_that_is_being_deleted_is_waited_for() {
        let claims = json!([{"metadata": {"name": "data"}, "spec": {}}]);
        let template = json!({"metadata": {"labels": {}}, "spec": {"containers": []}});
        let spec = json!({"replicas": 1, "template": template, "volumeClaimTemplates": claims});
        let set = json!({"metadata": {"name": "e", "namespace": "n"}, "spec": spec});
        let claim = |going: Value| json!({"metadata": {"name": "data-e-0", "deletionTimestamp": going}});
        assert!(step(&set, &[], &[claim(json!("x"))]).create.is_empty());
        assert_eq!(step(&set, &[], &[claim(Value::Null)]).create.len(), 2);
    }
}
