//! A simulation of Kubernetes: what an API server, its controllers and kubelets make of a plan's actions, if all goes well.
//!
//! `kubectl berth plan` foresees later steps with it, and planners are tested in it. The controllers are functions over JSON: a test may
//! carry their steps out at a real API server.
//!
//! An action is interpreted twice, here and by kubeio, which carries it out.

mod apply;
mod controllers;
mod deployments;
pub mod etcd_members;
mod facts;
mod pods;
mod stateful_sets;

use berth_api::etcd_cluster::EtcdClusterStatus;
use berth_api::{EtcdCluster, names};
use berth_plan::digest::sha256;
use berth_plan::object_meta::uid;
use berth_plan::observed::{ApiProbe, InsideTenant, Observed, Published, Registered, RegisteredSecret};
use berth_plan::{Action, EtcdCall, EtcdCallResult, Input, Planner, SecretFacts, SecretPlan, Settings};
use berth_render::{Kind, Object, ObjectKey, TemplateSet};
pub use controllers::{Step, status, step};
pub use facts::UNKNOWN;
use jiff::Timestamp;
pub use pods::{Fate, pod_status, template_hash};
use serde_json::{Value, json};
use std::collections::BTreeMap;

/// The port of the nodes that Services of type NodePort get.
pub const NODE_PORT: i64 = 30443;

/// Where `kubectl rollout restart` notes the time.
const RESTARTED: &str = "/spec/template/metadata/annotations/kubectl.kubernetes.io~1restartedAt";

/// What an API server chooses by itself.
#[derive(Clone, Copy, Debug)]
pub struct Choices {
    /// The UID of the n-th object.
    pub uid: fn(u64) -> String,
    /// The ClusterIP of the n-th object, which is a Service of that name.
    pub cluster_ip: fn(u64, &str) -> String,
    /// What a load balancer gets. None: it waits for its address.
    pub load_balancer: Option<&'static str>,
}

/// What an action made.
#[derive(Clone, Debug)]
pub enum Made {
    /// An object, as it was applied last.
    Object(Object),
    /// A Secret, as a plan: it never has data.
    Secret(SecretPlan),
    /// The published kubeconfig: a copy of that Secret, with these labels.
    Published(ObjectKey, BTreeMap<String, String>),
}

/// A meta cluster with one tenant.
#[derive(Clone, Debug)]
pub struct World {
    /// What there is.
    pub observed: Observed,
    /// The time.
    pub now: Timestamp,
    /// The template set that etcd's members are pinned to, if this build does not have it.
    pub etcd_templates: Option<TemplateSet>,
    /// What actions made in the meta cluster.
    pub made: BTreeMap<ObjectKey, Made>,
    /// What they made inside of the tenant.
    pub inside: BTreeMap<ObjectKey, Object>,
    choices: Choices,
    /// Objects that were written.
    count: u64,
}

impl World {
    /// It begins with what was found.
    pub fn new(observed: Observed, choices: Choices, now: Timestamp) -> Self {
        let (made, inside) = (BTreeMap::new(), BTreeMap::new());
        let mut world = Self { observed, now, etcd_templates: None, made, inside, choices, count: 0 };
        world.adopt_pods();
        world
    }

    /// One action. The error says why an API server refuses it.
    pub fn apply_action(&mut self, action: &Action) -> Result<(), String> {
        match action {
            Action::Apply(object) => {
                if let Some(expected) = object.get("/metadata/uid").and_then(Value::as_str) {
                    self.live(object.key(), expected)?;
                }
                self.apply(object);
            }
            Action::Create(object) => {
                if self.observed.get(object.key()).is_some() {
                    return Err(format!("{} already exists", object.key()));
                }
                self.apply(object);
            }
            Action::Secret(plan) => self.write_secret(plan, facts::of(plan, &self.observed, self.now))?,
            // Nobody lists what is in Argo CD's namespace, so it is not among the objects.
            Action::Delete { key, uid, .. }
                if !self.observed.objects.contains_key(key)
                    && self.registered().is_some_and(|live| live.uid == *uid) =>
            {
                self.observed.registered = Registered::Absent;
            }
            Action::Delete { key, uid, .. } => {
                self.live(key, uid)?;
                self.remove(key);
            }
            Action::Scale { key, uid, replicas } => {
                self.live(key, uid)?;
                self.put(key.clone(), json!({"spec": {"replicas": replicas}}));
            }
            Action::MarkDamaged { key, uid, status, .. } => {
                self.live(key, uid)?["status"] = status.clone();
            }
            Action::GrowVolume { key, uid, size } => {
                self.live(key, uid)?;
                self.put(key.clone(), json!({"spec": {"resources": {"requests": {"storage": size}}}}));
            }
            Action::ClearOwnerReferences { key, uid } => {
                let meta = self.live(key, uid)?["metadata"].as_object_mut();
                meta.map(|m| m.remove("ownerReferences"));
            }
            Action::RemoveAdditions { object, uid, .. } => {
                let live = self.live(object.key(), uid)?;
                let restarted = live.pointer(RESTARTED).cloned();
                live["spec"] = Value::Null;
                self.apply(object);
                if let (Some(at), Some(live)) = (restarted, self.observed.objects.get_mut(object.key())) {
                    live["spec"]["template"]["metadata"]["annotations"]["kubectl.kubernetes.io/restartedAt"] = at;
                }
            }
            Action::TenantApplyUnscaled { object, replicas } => {
                let there = self.read()?.get(object.key()).flatten().map(|live| live["spec"]["replicas"].clone());
                let replicas = there.unwrap_or_else(|| (*replicas).into());
                let scaled = object.clone().with_field("/spec", "replicas", replicas);
                self.apply_action(&Action::TenantApply(scaled))?;
            }
            Action::TenantApply(object) => {
                let (key, mut live) = (object.key(), object.value().clone());
                live["metadata"]["uid"] = self.next_uid().into();
                let former = self.read()?.insert(key.clone(), Some(live)).flatten();
                let differs = |field: &&&str| former.as_ref().is_some_and(|f| f[**field] != object.value()[**field]);
                if let Some(field) = ["addressType", "roleRef"].iter().find(differs) {
                    return Err(format!("{key}: {field} is immutable"));
                }
                self.inside.insert(key.clone(), object.clone());
            }
            // Plans read no Events.
            Action::TenantTell { .. } => {}
            Action::TenantDelete { key, uid: expected } => {
                let live = self.read()?.insert(key.clone(), None).flatten();
                if live.as_ref().map(uid) != Some(expected) {
                    return Err(format!("{key} in the tenant is not the one of UID {expected}"));
                }
                self.inside.remove(key);
            }
            Action::ChangeMembers { change, .. } => {
                self.count += 1;
                let probe = self.observed.etcd.as_mut().ok_or("etcd does not answer")?;
                etcd_members::change(probe, change, &format!("f{:x}", self.count))?;
            }
            Action::Maintain { via, what, .. } => {
                let probe = self.observed.etcd.as_mut().ok_or("etcd does not answer")?;
                let answer = etcd_members::maintain(probe, via, what)?;
                let call = EtcdCall::Maintain(what.clone());
                self.observed.told.push(EtcdCallResult::new::<()>(via, call, &Ok(answer)));
            }
            Action::PublishKubeconfig { key, source, labels } => {
                let value = self.observed.secrets.get(source).and_then(|s| s.digests.get("value")).cloned();
                let (uid, value_sha256) = (self.next_uid(), value.unwrap_or_else(|| sha256(b"")));
                self.observed.published = Published::Ours { uid, value_sha256, labels: labels.clone() };
                self.made.insert(key.clone(), Made::Published(source.clone(), labels.clone()));
            }
            Action::Register(plan) => {
                let connection = self.observed.secrets.get(&plan.source).and_then(|s| s.kubeconfig()?.ok()).cloned();
                let (uid, mut labels) = match (self.registered(), &plan.existing) {
                    (Some(live), Some(uid)) if live.uid == *uid => (uid.clone(), live.labels.clone()),
                    (None, None) => (self.next_uid(), BTreeMap::new()),
                    _ => return Err(format!("{} is not as it was observed", plan.key)),
                };
                labels.retain(|key, _| !plan.former_labels.contains(key));
                labels.extend(plan.labels.clone());
                let (name, project) = (plan.name.clone(), plan.project.clone());
                let annotations = plan.annotations.clone();
                let live = RegisteredSecret { uid, labels, annotations, name, project, ends: None, connection };
                self.observed.registered = Registered::Ours(Box::new(live));
            }
        }
        Ok(())
    }

    /// What the controller of the tenant's etcd does next, by its planner, and whether its status changed. None: there is no etcd.
    pub fn plan_etcd<P>(&mut self, settings: &Settings) -> Result<Option<(P::Planned, bool)>, String>
    where
        P: Planner<Object = EtcdCluster, Status = EtcdClusterStatus>,
    {
        let found = self.observed.objects.iter().find(|(k, _)| k.kind == Kind::EtcdCluster && k.name == names::ETCD);
        let Some((key, live)) = found.map(|(k, v)| (k.clone(), v.clone())) else { return Ok(None) };
        let etcd: EtcdCluster = serde_json::from_value(live).map_err(|e| format!("{key}: {e}"))?;
        let cluster_templates = std::mem::replace(&mut self.observed.pinned, self.etcd_templates.clone());
        let input = Input { object: &etcd, observed: &self.observed, settings, now: self.now };
        let planned = P::plan(input);
        let status = P::status(input, &planned, None);
        self.observed.pinned = cluster_templates;
        self.observed.told.clear();
        let changed = etcd.status.as_ref() != Some(&status);
        if let (true, Some(live)) = (changed, self.observed.objects.get_mut(&key)) {
            live["status"] = json!(status);
        }
        Ok(Some((planned, changed)))
    }

    /// Makes or completes a Secret, which then says this of itself.
    pub fn write_secret(&mut self, plan: &SecretPlan, facts: SecretFacts) -> Result<(), String> {
        let (key, live) = (&plan.key, self.observed.get(&plan.key).map(uid));
        if live != plan.existing.as_ref().map(|(uid, _)| uid.as_str()) {
            return Err(format!("{key} is not as it was observed"));
        }
        let meta = json!({"name": key.name, "namespace": key.namespace, "labels": plan.labels});
        self.put(key.clone(), json!({"apiVersion": "v1", "kind": "Secret", "type": plan.type_, "metadata": meta}));
        self.observed.secrets.insert(key.clone(), facts.into());
        self.made.insert(key.clone(), Made::Secret(plan.clone()));
        Ok(())
    }

    /// Makes an object go away, whoever did it.
    pub fn remove(&mut self, key: &ObjectKey) {
        self.observed.objects.remove(key);
        self.observed.secrets.remove(key);
        self.made.remove(key);
    }

    /// Somebody writes these fields of an object.
    pub fn put(&mut self, key: ObjectKey, fields: Value) {
        self.write(key, fields, &Value::Null);
    }

    fn apply(&mut self, object: &Object) {
        let former = match self.made.insert(object.key().clone(), Made::Object(object.clone())) {
            Some(Made::Object(former)) => former.into_value(),
            _ => Value::Null,
        };
        self.write(object.key().clone(), object.value().clone(), &former);
    }

    /// The object as the API server then keeps it. `former`: the fields that the writer owns so far.
    fn write(&mut self, key: ObjectKey, fields: Value, former: &Value) {
        let uid = self.next_uid();
        let made = || json!({"metadata": {"uid": uid, "generation": 0, "creationTimestamp": self.now.to_string()}});
        let mut live = self.observed.objects.remove(&key).unwrap_or_else(made);
        let (before, uid) = (live["spec"].clone(), live["metadata"]["uid"].clone());
        apply::apply(&mut live, former, fields);
        // Nobody owns a UID, and a Service keeps the address and the port of nodes that it has.
        live["metadata"]["uid"] = uid;
        if live["spec"]["clusterIP"].is_null() && before["clusterIP"].is_string() {
            live["spec"]["clusterIP"] = before["clusterIP"].clone();
        }
        let port = "/spec/ports/0";
        let keeps = live["spec"]["type"] == "NodePort" && live.pointer(port).is_some_and(|p| p["nodePort"].is_null());
        let former = before["ports"][0]["nodePort"].clone();
        if let Some(port) = live.pointer_mut(port).filter(|_| keeps && former.is_number()) {
            port["nodePort"] = former;
        }
        // Who wrote which field is not simulated.
        live["metadata"].as_object_mut().and_then(|m| m.remove("managedFields"));
        if live["spec"] != before {
            live["metadata"]["generation"] = (live["metadata"]["generation"].as_i64().unwrap_or_default() + 1).into();
        }
        live["metadata"]["resourceVersion"] = self.count.to_string().into();
        if key.kind == Kind::Service {
            self.serve(&key.name, &mut live);
        }
        self.observed.put(key, live);
    }

    /// What a Service is given.
    fn serve(&self, name: &str, service: &mut Value) {
        if service["spec"]["clusterIP"].is_null() {
            service["spec"]["clusterIP"] = (self.choices.cluster_ip)(self.count, name).into();
        }
        match (service["spec"]["type"].as_str(), self.choices.load_balancer) {
            (Some("NodePort"), _) if service["spec"]["ports"][0]["nodePort"].is_null() => {
                service["spec"]["ports"][0]["nodePort"] = NODE_PORT.into();
            }
            (Some("LoadBalancer"), Some(ip)) if service["status"]["loadBalancer"]["ingress"].is_null() => {
                service["status"] = json!({"loadBalancer": {"ingress": [{"ip": ip}]}});
            }
            _ => {}
        }
    }

    fn next_uid(&mut self) -> String {
        self.count += 1;
        (self.choices.uid)(self.count)
    }

    fn registered(&self) -> Option<&RegisteredSecret> {
        match &self.observed.registered {
            Registered::Ours(live) => Some(live),
            _ => None,
        }
    }

    /// The object that was observed.
    fn live(&mut self, key: &ObjectKey, expected: &str) -> Result<&mut Value, String> {
        let live = self.observed.objects.get_mut(key).ok_or_else(|| format!("{key} not found"))?;
        if uid(live) == expected { Ok(live) } else { Err(format!("{key} is not the one of UID {expected}")) }
    }

    /// What was read inside of the tenant.
    fn read(&mut self) -> Result<&mut InsideTenant, String> {
        match &mut self.observed.api {
            ApiProbe::Answered { read, .. } => Ok(read),
            _ => Err("the tenant's API does not answer".to_owned()),
        }
    }
}
