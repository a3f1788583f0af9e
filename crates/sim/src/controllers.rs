//! Controllers of workloads, step by step, and kubelets.

use super::{Fate, World, deployments, pod_status, stateful_sets, template_hash};
use berth_plan::object_meta::{deleting, label};
use berth_render::{Kind, Object, ObjectKey};
use jiff::Timestamp;
use serde_json::{Value, json};

/// What a workload's controller does next.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Step {
    /// Objects that it creates.
    pub create: Vec<Value>,
    /// Objects that it deletes, in the namespace of the workload.
    pub delete: Vec<(Kind, String)>,
}

impl Step {
    /// Deletes objects, unless they are being deleted already.
    pub(super) fn delete<'a>(&mut self, kind: Kind, objects: impl IntoIterator<Item = &'a Value>) {
        let left = objects.into_iter().filter(|o| !deleting(o));
        self.delete.extend(left.map(|o| (kind, name(o).to_owned())));
    }
}

/// The next step for a Deployment or StatefulSet that has these pods, in a namespace with these claims.
pub fn step(workload: &Value, pods: &[Value], claims: &[Value]) -> Step {
    match workload["kind"].as_str() {
        Some("Deployment") => deployments::step(workload, pods),
        _ => stateful_sets::step(workload, pods, claims),
    }
}

/// The status of a Deployment or StatefulSet that has these pods.
pub fn status(workload: &Value, pods: &[Value], now: Timestamp) -> Value {
    match workload["kind"].as_str() {
        Some("Deployment") => deployments::status(workload, pods, now),
        _ => stateful_sets::status(workload, pods),
    }
}

/// More than any rollout takes: each step makes or deletes a pod.
const STEPS: usize = 100;

impl World {
    /// All workloads are rolled out. New pods run at once, and those that are there stay as they are.
    pub fn run_controllers(&mut self) {
        for key in self.workloads() {
            for _ in 0..STEPS {
                if !self.control(&key) {
                    break;
                }
            }
        }
    }

    fn workloads(&self) -> Vec<ObjectKey> {
        let workload = |k: &&ObjectKey| matches!(k.kind, Kind::Deployment | Kind::StatefulSet);
        self.observed.objects.keys().filter(workload).cloned().collect()
    }

    /// One step for that workload; whether there was anything to do.
    fn control(&mut self, key: &ObjectKey) -> bool {
        let Some(live) = self.observed.get(key) else { return false };
        let all = |kind| self.observed.of_kind(kind, key.namespace.as_deref().unwrap_or_default()).map(|(_, o)| o);
        let pods: Vec<_> = all(Kind::Pod).filter(|pod| selects(live, pod)).cloned().collect();
        let claims: Vec<_> = all(Kind::PersistentVolumeClaim).cloned().collect();
        let (step, status) = (step(live, &pods, &claims), status(live, &pods, self.now));
        self.observed.objects.entry(key.clone()).and_modify(|live| live["status"] = status);
        let busy = step != Step::default();
        for object in step.create.into_iter().filter_map(|o| Object::new(o).ok()) {
            if self.observed.get(object.key()).is_none() {
                let key = object.key().clone();
                self.put(key.clone(), object.into_value());
                self.run_pod(&key);
            }
        }
        for (kind, name) in step.delete {
            self.remove(&ObjectKey { kind, name, ..key.clone() });
        }
        busy
    }

    /// Kubelet: the pod runs and is ready.
    pub fn run_pod(&mut self, key: &ObjectKey) {
        if let (Kind::Pod, Some(pod)) = (key.kind, self.observed.objects.get_mut(key)) {
            pod["status"] = pod_status(pod, Fate::Ready, self.now);
        }
    }

    /// Real controllers hash templates in their own way: pods of the newest template get the simulator's hash. Which pods of a Deployment
    /// are of its newest template is not known, so all count.
    pub(super) fn adopt_pods(&mut self) {
        for key in self.workloads() {
            let Some(mut live) = self.observed.objects.remove(&key) else { continue };
            let (name, ours) = match key.kind {
                Kind::StatefulSet => (stateful_sets::REVISION, stateful_sets::revision(&live)),
                _ => (deployments::HASH, template_hash(&live)),
            };
            let set = key.kind == Kind::StatefulSet;
            let theirs = set.then(|| std::mem::replace(&mut live["status"]["updateRevision"], json!(ours)));
            let pods = self.observed.objects.iter_mut();
            for (_, pod) in pods.filter(|(k, _)| k.kind == Kind::Pod && k.namespace == key.namespace) {
                if selects(&live, pod) && theirs.as_ref().is_none_or(|t| label(pod, name) == t.as_str()) {
                    pod["metadata"]["labels"][name] = json!(ours);
                }
            }
            self.observed.put(key, live);
        }
    }
}

fn selects(workload: &Value, pod: &Value) -> bool {
    let labels = workload.pointer("/spec/selector/matchLabels").and_then(Value::as_object);
    labels.is_some_and(|all| all.iter().all(|(name, value)| label(pod, name) == value.as_str()))
}

/// `metadata.name`.
pub(super) fn name(object: &Value) -> &str {
    object["metadata"]["name"].as_str().unwrap_or_default()
}

pub(super) fn count(value: &Value, default: usize) -> usize {
    value.as_u64().and_then(|n| usize::try_from(n).ok()).unwrap_or(default)
}

/// API servers leave out counts that are 0.
pub(super) fn some(n: usize) -> Option<usize> {
    (n > 0).then_some(n)
}
