//! What becomes of pods, if all goes well: the new ones are ready at once.

use super::UID;
use berth_api::{labels, names};
use berth_plan::Action;
use berth_plan::diff::contains;
use berth_plan::observed::{Observed, sha256};
use berth_render::{Kind, ObjectKey};
use jiff::Timestamp;
use serde_json::{Value, json};

/// Label by which the controller of StatefulSets marks what a pod was made from.
const REVISION: &str = "controller-revision-hash";

/// Follows one action, which was carried out on `before`.
pub(super) fn follow(observed: &mut Observed, action: &Action, before: Option<&Value>, now: Timestamp) {
    let template = match action {
        Action::Apply(object) => object.get("/spec/template").cloned().unwrap_or_default(),
        _ => Value::Null,
    };
    let same = before.is_some_and(|b| contains(&b["spec"]["template"], &template));
    match action {
        Action::Apply(object) if object.key().kind == Kind::Deployment => {
            let key = object.key();
            let replicas = object.get("/spec/replicas").and_then(Value::as_i64).unwrap_or(1);
            if let Some(live) = observed.objects.get_mut(key) {
                live["status"] = json!({
                    "observedGeneration": live["metadata"]["generation"], "replicas": replicas,
                    "updatedReplicas": replicas, "readyReplicas": replicas, "availableReplicas": replicas,
                });
            }
            if same {
                return;
            }
            let component = key.name.clone();
            observed.objects.retain(|k, pod| {
                k.kind != Kind::Pod
                    || pod.pointer("/metadata/labels").and_then(|l| l[labels::COMPONENT].as_str()) != Some(&component)
            });
            for n in 0..replicas {
                let pod = ObjectKey::namespaced(
                    Kind::Pod,
                    key.namespace.clone().unwrap_or_default(),
                    format!("{component}-new-{n}"),
                );
                let live = ready(&pod, &template["metadata"]["labels"], now);
                observed.put(pod, live);
            }
        }
        Action::Apply(object) if object.key().kind == Kind::StatefulSet => {
            let key = object.key();
            if let Some(live) = observed.objects.get_mut(key) {
                live["status"]["observedGeneration"] = live["metadata"]["generation"].clone();
                if !same {
                    live["status"]["updateRevision"] = sha256(template.to_string().as_bytes()).into();
                }
            }
            if before.is_none() {
                let members = object.get("/spec/replicas").and_then(Value::as_i64).unwrap_or(1);
                for n in 0..members {
                    let pod = ObjectKey { kind: Kind::Pod, name: format!("{}-{n}", key.name), ..key.clone() };
                    member(observed, pod, now);
                }
            }
        }
        Action::Delete { key, .. } => {
            observed.objects.remove(key);
            if key.kind == Kind::Pod && key.name.starts_with(names::ETCD) {
                member(observed, key.clone(), now);
            }
        }
        Action::Scale { key, replicas, .. } => {
            if let Some(live) = observed.objects.get_mut(key) {
                live["spec"]["replicas"] = (*replicas).into();
            }
        }
        _ => {}
    }
}

/// A member's pod, of the newest template.
fn member(observed: &mut Observed, key: ObjectKey, now: Timestamp) {
    let set = ObjectKey { kind: Kind::StatefulSet, name: names::ETCD.to_owned(), ..key.clone() };
    let revision = observed.get(&set).map(|s| s["status"]["updateRevision"].clone()).unwrap_or_default();
    let labels = json!({labels::ETCD_CLUSTER: names::ETCD, REVISION: revision});
    let pod = ready(&key, &labels, now);
    observed.put(key, pod);
}

fn ready(key: &ObjectKey, labels: &Value, now: Timestamp) -> Value {
    let now = now.to_string();
    json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {"name": key.name, "namespace": key.namespace, "labels": labels, "uid": UID},
        "status": {
            "phase": "Running",
            "conditions": [{"type": "Ready", "status": "True", "lastTransitionTime": now}],
            "containerStatuses": [{"name": "main", "ready": true, "state": {"running": {"startedAt": now}}}],
        },
    })
}
