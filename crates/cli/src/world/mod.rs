//! A world in memory: carries plans out as the driver and the meta cluster would, with placeholders for what those would choose.

mod facts;
mod rollout;

use anyhow::{anyhow, bail};
use berth_api::{Cluster, EtcdCluster, names};
use berth_plan::cluster::ClusterPlan;
use berth_plan::etcd::EtcdPlan;
use berth_plan::observed::{ApiProbe, Observed, Published};
use berth_plan::{Action, Plan, SecretPlan, Settings, State, cluster, etcd};
use berth_render::{Kind, Object, ObjectKey, TemplateSet};
pub(crate) use facts::UNKNOWN;
use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};
use std::collections::BTreeMap;

/// Stands for the address of the Service of the API. From the networks of RFC 5737, which are for documentation.
pub(crate) const API_ADDRESS: &str = "192.0.2.1";
/// What those of etcd's members begin with.
pub(crate) const MEMBER_ADDRESS: &str = "192.0.2.1";
/// Stands for the address of the load balancer.
pub(crate) const LOAD_BALANCER: &str = "198.51.100.1";
/// Stands for the port of the nodes.
pub(crate) const NODE_PORT: i64 = 30443;

/// Rounds until nothing is left to make. A tenant takes six.
const ROUNDS: usize = 20;

/// Stands for every UID.
pub(crate) const UID: &str = "00000000-0000-0000-0000-000000000000";

/// The time in this world: any would do, and always the same makes the same bytes.
pub(crate) fn now() -> Timestamp {
    Timestamp::UNIX_EPOCH + SignedDuration::from_hours(24 * 365 * 50)
}

/// What was made.
#[derive(Clone, Debug)]
pub(crate) enum Made {
    /// An object.
    Object(Object),
    /// A Secret, as a plan: it never has data.
    Secret(SecretPlan),
    /// The published kubeconfig: a copy of that Secret, with these labels.
    Published(ObjectKey, BTreeMap<String, String>),
}

/// The world.
#[derive(Debug)]
pub(crate) struct World {
    observed: Observed,
    /// The template set that etcd's members are pinned to, if this build does not have it.
    etcd_templates: Option<TemplateSet>,
    /// Pods come up, and are replaced.
    pods: bool,
    /// On the meta cluster, in the order in which kinds are applied.
    pub(crate) made: BTreeMap<ObjectKey, Made>,
    /// Inside of the tenant.
    pub(crate) inside: BTreeMap<ObjectKey, Object>,
}

impl World {
    /// Nothing is there yet. Pods never run.
    fn empty(cluster: &Cluster, settings: &Settings) -> Self {
        let mut observed = Observed { published: Published::Absent, ..Observed::default() };
        let stamp = cluster::probe_key(cluster::Input { cluster, observed: &observed, settings, now: now() });
        observed.api = ApiProbe::Answered { version: None, read: BTreeMap::from([(stamp, None)]) };
        Self { observed, etcd_templates: None, pods: false, made: BTreeMap::new(), inside: BTreeMap::new() }
    }

    /// As it was found: by the controller of the `Cluster`, and by that of its etcd. From here on all goes well. What is inside of
    /// a tenant that runs counts as it should be.
    pub(crate) fn found(cluster: &Cluster, settings: &Settings, mut seen: Observed, etcd: Option<Observed>) -> Self {
        let mut world = Self { pods: true, ..Self::empty(cluster, settings) };
        if seen.objects.keys().any(|k| k.kind == Kind::Deployment) {
            world.observed.api = ApiProbe::Answered { version: None, read: BTreeMap::new() };
        }
        seen.api = std::mem::take(&mut world.observed.api);
        if let Some(etcd) = etcd {
            seen.objects.extend(etcd.objects);
            seen.secrets.extend(etcd.secrets);
            world.etcd_templates = etcd.pinned;
        }
        world.observed = seen;
        world
    }

    /// What there is.
    pub(crate) fn observed(&self) -> &Observed {
        &self.observed
    }

    /// Both controllers in turns, until neither has anything to write.
    pub(crate) fn settle(cluster: &Cluster, settings: &Settings) -> anyhow::Result<Self> {
        let mut world = Self::empty(cluster, settings);
        for _ in 0..ROUNDS {
            let planned = world.cluster_plan(cluster, settings, now());
            refuse(&planned.plan, "Cluster")?;
            world.carry_out(&planned.plan, now())?;
            let mut done = planned.plan.is_empty();
            if let Some((etcd, news)) = world.etcd_plan(settings, now())? {
                refuse(&etcd.plan, "EtcdCluster")?;
                world.carry_out(&etcd.plan, now())?;
                done &= etcd.plan.is_empty() && !news;
            }
            if done {
                return Ok(world);
            }
        }
        bail!("plans for this Cluster never end; that is a bug of Berth")
    }

    /// What the controller of the `Cluster` would do.
    pub(crate) fn cluster_plan(&self, cluster: &Cluster, settings: &Settings, now: Timestamp) -> ClusterPlan {
        cluster::plan(cluster::Input { cluster, observed: &self.observed, settings, now })
    }

    /// What the controller of the tenant's etcd would do, after it said in its status how things are, and whether that was news.
    pub(crate) fn etcd_plan(
        &mut self,
        settings: &Settings,
        now: Timestamp,
    ) -> anyhow::Result<Option<(EtcdPlan, bool)>> {
        let found = self.observed.objects.iter().find(|(k, _)| k.kind == Kind::EtcdCluster && k.name == names::ETCD);
        let Some((key, value)) = found.map(|(k, v)| (k.clone(), v.clone())) else { return Ok(None) };
        let etcd: EtcdCluster = serde_json::from_value(value)?;
        let cluster_templates = std::mem::replace(&mut self.observed.pinned, self.etcd_templates.clone());
        let input = etcd::Input { etcd: &etcd, observed: &self.observed, settings, now };
        let planned = etcd::plan(input);
        let status = etcd::status::status(input, &planned, None);
        self.observed.pinned = cluster_templates;
        let news = etcd.status.as_ref() != Some(&status);
        if let (true, Some(live)) = (news, self.observed.objects.get_mut(&key)) {
            live["status"] = serde_json::to_value(status)?;
        }
        Ok(Some((planned, news)))
    }

    /// Everything that a plan says.
    pub(crate) fn carry_out(&mut self, plan: &Plan, now: Timestamp) -> anyhow::Result<()> {
        for action in plan.actions() {
            let key = match action {
                Action::Apply(o) => Some(o.key()),
                _ => None,
            };
            let before = key.and_then(|k| self.observed.get(k)).cloned();
            self.one(action, now)?;
            if self.pods {
                rollout::follow(&mut self.observed, action, before.as_ref(), now);
            }
        }
        Ok(())
    }

    fn one(&mut self, action: &Action, now: Timestamp) -> anyhow::Result<()> {
        match action {
            Action::Create(object) | Action::Apply(object) => {
                self.keep(object.key(), object.value().clone());
                self.made.insert(object.key().clone(), Made::Object(object.clone()));
            }
            Action::Secret(plan) => {
                let facts = facts::of(plan, &self.observed, now);
                self.observed.secrets.insert(plan.key.clone(), facts.into());
                let name = json!({"name": plan.key.name, "namespace": plan.key.namespace, "labels": plan.labels});
                self.keep(&plan.key, json!({"type": plan.type_, "metadata": name}));
                self.made.insert(plan.key.clone(), Made::Secret(plan.clone()));
            }
            Action::TenantApply(object) => {
                if let ApiProbe::Answered { read, .. } = &mut self.observed.api {
                    read.insert(object.key().clone(), Some(object.value().clone()));
                }
                self.inside.insert(object.key().clone(), object.clone());
            }
            Action::TenantDelete { key, .. } => {
                if let ApiProbe::Answered { read, .. } = &mut self.observed.api {
                    read.insert(key.clone(), None);
                }
                self.inside.remove(key);
            }
            Action::PublishKubeconfig { key, source, labels } => {
                let value_sha256 = facts::UNKNOWN.to_owned();
                self.observed.published = Published::Ours { uid: UID.to_owned(), value_sha256, labels: labels.clone() };
                self.made.insert(key.clone(), Made::Published(source.clone(), labels.clone()));
            }
            Action::Delete { .. } | Action::Scale { .. } | Action::Disown { .. } if self.pods => {}
            Action::Delete { .. } | Action::Scale { .. } | Action::Disown { .. } => {
                return Err(anyhow!("a new tenant begins with: {}; that is a bug of Berth", action.describe()));
            }
        }
        Ok(())
    }

    /// As the API server would keep it: what was there stays, unless it is said otherwise.
    fn keep(&mut self, key: &ObjectKey, value: Value) {
        let mut live = self.observed.get(key).cloned().unwrap_or_else(|| json!({"metadata": {"uid": UID}}));
        merge(&mut live, value);
        live["metadata"]["generation"] = (live["metadata"]["generation"].as_i64().unwrap_or(0) + 1).into();
        if live["metadata"]["resourceVersion"].is_null() {
            live["metadata"]["resourceVersion"] = "1".into();
        }
        if key.kind == Kind::Service {
            address(&key.name, &mut live);
        }
        self.observed.put(key.clone(), live);
    }
}

/// Lists of the same length are taken to hold the same things.
fn merge(live: &mut Value, new: Value) {
    match (live, new) {
        (Value::Object(live), Value::Object(new)) => {
            for (field, value) in new {
                merge(live.entry(field).or_insert(Value::Null), value);
            }
        }
        (Value::Array(live), Value::Array(new)) if live.len() == new.len() => {
            live.iter_mut().zip(new).for_each(|(live, new)| merge(live, new));
        }
        (live, new) => *live = new,
    }
}

/// What the meta cluster chooses for a Service.
fn address(name: &str, service: &mut Value) {
    let member = name.rsplit_once('-').and_then(|(_, n)| n.parse::<u8>().ok());
    let address = member.map_or_else(|| API_ADDRESS.to_owned(), |n| format!("{MEMBER_ADDRESS}{n}"));
    if service["spec"]["clusterIP"].is_null() {
        service["spec"]["clusterIP"] = address.into();
    }
    match service["spec"]["type"].as_str() {
        Some("NodePort") if service["spec"]["ports"][0]["nodePort"].is_null() => {
            service["spec"]["ports"][0]["nodePort"] = NODE_PORT.into();
        }
        Some("LoadBalancer") if service["status"]["loadBalancer"]["ingress"].is_null() => {
            service["status"] = json!({"loadBalancer": {"ingress": [{"ip": LOAD_BALANCER}]}});
        }
        _ => {}
    }
}

/// What a person must correct.
fn refuse(plan: &Plan, what: &str) -> anyhow::Result<()> {
    let Some(stage) = plan.stages.iter().find(|s| matches!(s.state, State::Blocked { .. })) else { return Ok(()) };
    let (reason, text) = stage.sentence().map(|(r, t)| (r.as_str(), t)).unwrap_or_default();
    bail!("{what}: {reason}: {text}")
}

/// A tenant at rest, for tests of other verbs.
#[cfg(test)]
pub(crate) fn settled(cluster: &Cluster, settings: &Settings) -> (Observed, usize) {
    let world = World::settle(cluster, settings).expect("a tenant");
    (world.observed, world.made.len())
}
