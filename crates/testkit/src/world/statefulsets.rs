//! `StatefulSets`: ordinals, claims, one step at a time.

use std::{collections::BTreeMap, sync::Arc};

use kube::{ResourceExt as _, api::DynamicObject};
use serde_json::{Value, json};

use super::{
    context::{Context, controlled_by, terminating},
    deployments::count,
    pods::{from_template, is_ready, template_hash},
};

const KIND: &str = "StatefulSet.apps";
const REVISION: &str = "controller-revision-hash";

pub(super) async fn pass(context: &Context) -> bool {
    let mut busy = false;
    let pods = context.list("Pod");
    for set in context.list(KIND).iter().filter(|s| !terminating(s)) {
        let mine = |p: &&Arc<DynamicObject>| p.namespace() == set.namespace() && controlled_by(p, set);
        let ordinal = |p: &Arc<DynamicObject>| Some((p.name_any().rsplit('-').next()?.parse().ok()?, p.clone()));
        let pods: BTreeMap<usize, _> = pods.iter().filter(mine).filter_map(ordinal).collect();
        busy |= step(context, set, &pods).await;
        busy |= context.set_status(KIND, set, status(set, &pods)).await;
    }
    busy
}

fn revision(set: &DynamicObject) -> String {
    format!("{}-{}", set.name_any(), template_hash(set))
}

/// One step; whether it did something.
async fn step(context: &Context, set: &DynamicObject, pods: &BTreeMap<usize, Arc<DynamicObject>>) -> bool {
    let (spec, revision) = (&set.data["spec"], revision(set));
    let start = count(&spec["ordinals"]["start"], 0);
    let wanted = start..start + count(&spec["replicas"], 1);
    let ordered = spec["podManagementPolicy"] != "Parallel";
    let mut busy = false;
    for ordinal in wanted.clone() {
        match pods.get(&ordinal) {
            None => {
                claims(context, set, ordinal).await;
                context.create("Pod", &set.namespace().unwrap_or_default(), pod(set, ordinal, &revision)).await;
                busy = true;
            }
            Some(pod) if is_ready(pod) => continue,
            Some(_) => {}
        }
        if ordered {
            return busy;
        }
    }
    // Scaling down, the highest first.
    for (_, pod) in pods.iter().rev().filter(|(o, _)| !wanted.contains(o)) {
        if !terminating(pod) {
            context.delete("Pod", pod, None).await;
        }
        busy = true;
        if ordered {
            return true;
        }
    }
    busy |= unclaim(context, set, &wanted, pods).await;
    // Updating, the highest first, one at a time.
    if spec["updateStrategy"]["type"] != "OnDelete" {
        let partition = count(&spec["updateStrategy"]["rollingUpdate"]["partition"], 0);
        for (_, pod) in pods.iter().rev().filter(|(o, _)| wanted.contains(o) && **o >= partition) {
            if pod.labels().get(REVISION) != Some(&revision) {
                if !terminating(pod) {
                    context.delete("Pod", pod, None).await;
                }
                return true;
            }
            if !is_ready(pod) {
                break;
            }
        }
    }
    busy
}

fn pod(set: &DynamicObject, ordinal: usize, revision: &str) -> Value {
    let (name, index) = (format!("{}-{ordinal}", set.name_any()), ordinal.to_string());
    let labels = [
        (REVISION, revision),
        ("statefulset.kubernetes.io/pod-name", &*name),
        ("apps.kubernetes.io/pod-index", &*index),
    ];
    let mut pod = from_template(set, &name, &labels);
    pod["spec"]["hostname"] = json!(name);
    pod["spec"]["subdomain"] = set.data["spec"]["serviceName"].clone();
    let templates = set.data["spec"]["volumeClaimTemplates"].as_array().into_iter().flatten();
    for template in templates.filter_map(|t| t["metadata"]["name"].as_str()) {
        let volume = json!({"name": template, "persistentVolumeClaim": {"claimName": format!("{template}-{name}")}});
        match pod["spec"]["volumes"].as_array_mut() {
            Some(volumes) => {
                volumes.retain(|v| v["name"] != template);
                volumes.push(volume);
            }
            None => pod["spec"]["volumes"] = json!([volume]),
        }
    }
    pod
}

async fn claims(context: &Context, set: &DynamicObject, ordinal: usize) {
    let spec = &set.data["spec"];
    for template in spec["volumeClaimTemplates"].as_array().into_iter().flatten() {
        let name =
            format!("{}-{}-{ordinal}", template["metadata"]["name"].as_str().unwrap_or_default(), set.name_any());
        let mut claim = json!({"apiVersion": "v1", "kind": "PersistentVolumeClaim",
            "metadata": template["metadata"], "spec": template["spec"]});
        claim["metadata"]["name"] = json!(name);
        claim["metadata"]["namespace"] = json!(set.namespace());
        for (key, value) in spec["selector"]["matchLabels"].as_object().into_iter().flatten() {
            claim["metadata"]["labels"][key] = value.clone();
        }
        if spec["persistentVolumeClaimRetentionPolicy"]["whenDeleted"] == "Delete" {
            claim["metadata"]["ownerReferences"] = json!([{
                "apiVersion": "apps/v1", "kind": "StatefulSet", "name": set.name_any(), "uid": set.uid(),
                "controller": true, "blockOwnerDeletion": true,
            }]);
        }
        context.create("PersistentVolumeClaim", &set.namespace().unwrap_or_default(), claim).await;
    }
}

/// Deletes claims of ordinals that are gone, where the policy says so.
async fn unclaim(
    context: &Context,
    set: &DynamicObject,
    wanted: &std::ops::Range<usize>,
    pods: &BTreeMap<usize, Arc<DynamicObject>>,
) -> bool {
    let spec = &set.data["spec"];
    if spec["persistentVolumeClaimRetentionPolicy"]["whenScaled"] != "Delete" {
        return false;
    }
    let mut busy = false;
    for template in spec["volumeClaimTemplates"].as_array().into_iter().flatten() {
        let prefix = format!("{}-{}-", template["metadata"]["name"].as_str().unwrap_or_default(), set.name_any());
        for claim in context.list("PersistentVolumeClaim").iter().filter(|c| c.namespace() == set.namespace()) {
            let ordinal = claim.name_any().strip_prefix(&prefix).and_then(|n| n.parse::<usize>().ok());
            if ordinal.is_some_and(|o| !wanted.contains(&o) && !pods.contains_key(&o)) && !terminating(claim) {
                context.delete("PersistentVolumeClaim", claim, None).await;
                busy = true;
            }
        }
    }
    busy
}

fn status(set: &DynamicObject, pods: &BTreeMap<usize, Arc<DynamicObject>>) -> Value {
    let (old, target) = (&set.data["status"], revision(set));
    let alive = || pods.values().filter(|p| !terminating(p));
    let ready = alive().filter(|p| is_ready(p)).count();
    let updated = alive().filter(|p| p.labels().get(REVISION) == Some(&target)).count();
    let done = updated == pods.len() && ready == updated && updated == count(&set.data["spec"]["replicas"], 1);
    let current = match old["currentRevision"].as_str().filter(|_| !done) {
        Some(current) => current.to_owned(),
        None => target.clone(),
    };
    let some = |n: usize| if n == 0 { Value::Null } else { json!(n) };
    json!({
        "observedGeneration": set.metadata.generation, "collisionCount": 0,
        "replicas": alive().count(), "readyReplicas": some(ready), "availableReplicas": ready,
        "currentReplicas": some(alive().filter(|p| p.labels().get(REVISION) == Some(&current)).count()),
        "updatedReplicas": some(updated), "currentRevision": current, "updateRevision": target,
    })
}
