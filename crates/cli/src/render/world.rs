//! A world in memory: carries plans out as the driver and the meta cluster would, with placeholders for what those would choose.

use super::facts;
use anyhow::{anyhow, bail};
use berth_api::{Cluster, EtcdCluster, names};
use berth_plan::observed::{ApiProbe, Observed, Published};
use berth_plan::{Action, Plan, SecretPlan, Settings, State, cluster, etcd};
use berth_render::{Kind, Object, ObjectKey};
use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};
use std::collections::BTreeMap;

/// Stands for the address of the Service of the API. From the networks of RFC 5737, which are for documentation.
pub(super) const API_ADDRESS: &str = "192.0.2.1";
/// What those of etcd's members begin with.
pub(super) const MEMBER_ADDRESS: &str = "192.0.2.1";
/// Stands for the address of the load balancer.
pub(super) const LOAD_BALANCER: &str = "198.51.100.1";
/// Stands for the port of the nodes.
pub(super) const NODE_PORT: i64 = 30443;

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
pub(super) enum Made {
    /// An object.
    Object(Object),
    /// A Secret, as a plan: it never has data.
    Secret(SecretPlan),
    /// The published kubeconfig: a copy of that Secret, with these labels.
    Published(ObjectKey, BTreeMap<String, String>),
}

/// The world.
#[derive(Debug)]
pub(super) struct World {
    observed: Observed,
    /// On the meta cluster, in the order in which kinds are applied.
    pub(super) made: BTreeMap<ObjectKey, Made>,
    /// Inside of the tenant.
    pub(super) inside: BTreeMap<ObjectKey, Object>,
}

impl World {
    /// Both controllers in turns, until neither has anything to write.
    pub(super) fn settle(cluster: &Cluster, settings: &Settings) -> anyhow::Result<Self> {
        let mut observed = Observed { published: Published::Absent, ..Observed::default() };
        let now = now();
        let stamp = cluster::probe_key(cluster::Input { cluster, observed: &observed, settings, now });
        observed.api = ApiProbe::Answered { version: None, read: BTreeMap::from([(stamp, None)]) };
        let mut world = Self { observed, made: BTreeMap::new(), inside: BTreeMap::new() };
        for _ in 0..ROUNDS {
            let input = cluster::Input { cluster, observed: &world.observed, settings, now };
            let planned = cluster::plan(input);
            refuse(&planned.plan, "Cluster")?;
            let actions: Vec<Action> = planned.plan.actions().cloned().collect();
            world.carry_out(&actions, now)?;
            if actions.is_empty() && !world.etcd(settings, now)? {
                return Ok(world);
            }
        }
        bail!("plans for this Cluster never end; that is a bug of Berth")
    }

    /// What the controller of the tenant's etcd does, and then says in its status. False: nothing.
    fn etcd(&mut self, settings: &Settings, now: Timestamp) -> anyhow::Result<bool> {
        let found = self.observed.objects.iter().find(|(k, _)| k.kind == Kind::EtcdCluster && k.name == names::ETCD);
        let Some((key, value)) = found.map(|(k, v)| (k.clone(), v.clone())) else { return Ok(false) };
        let etcd: EtcdCluster = serde_json::from_value(value)?;
        let input = etcd::Input { etcd: &etcd, observed: &self.observed, settings, now };
        let planned = etcd::plan(input);
        refuse(&planned.plan, "EtcdCluster")?;
        let status = etcd::status::status(input, &planned, None);
        let news = etcd.status.as_ref() != Some(&status);
        let actions: Vec<Action> = planned.plan.actions().cloned().collect();
        self.carry_out(&actions, now)?;
        if let (true, Some(live)) = (news, self.observed.objects.get_mut(&key)) {
            live["status"] = serde_json::to_value(status)?;
        }
        Ok(news || !actions.is_empty())
    }

    fn carry_out(&mut self, actions: &[Action], now: Timestamp) -> anyhow::Result<()> {
        actions.iter().try_for_each(|action| self.one(action, now))
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
            Action::PublishKubeconfig { key, source, labels } => {
                let value_sha256 = facts::UNKNOWN.to_owned();
                self.observed.published = Published::Ours { uid: UID.to_owned(), value_sha256, labels: labels.clone() };
                self.made.insert(key.clone(), Made::Published(source.clone(), labels.clone()));
            }
            Action::Delete { .. } | Action::Scale { .. } | Action::Disown { .. } => {
                return Err(anyhow!("a new tenant begins with: {}; that is a bug of Berth", action.describe()));
            }
        }
        Ok(())
    }

    /// As the API server would keep it.
    fn keep(&mut self, key: &ObjectKey, mut value: Value) {
        value["metadata"]["uid"] = UID.into();
        value["metadata"]["generation"] = 1.into();
        value["metadata"]["resourceVersion"] = "1".into();
        if let Some(old) = self.observed.get(key) {
            value["status"] = old["status"].clone();
        }
        if key.kind == Kind::Service {
            address(&key.name, &mut value);
        }
        self.observed.put(key.clone(), value);
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
        Some("NodePort") => service["spec"]["ports"][0]["nodePort"] = NODE_PORT.into(),
        Some("LoadBalancer") => service["status"] = json!({"loadBalancer": {"ingress": [{"ip": LOAD_BALANCER}]}}),
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
