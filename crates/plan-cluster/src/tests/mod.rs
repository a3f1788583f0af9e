//! A `Cluster` in a world in memory: every stage, every gate.

#![allow(clippy::needless_pass_by_value, reason = "json! is written in place")]

mod access;
pub(crate) mod additions;
mod addons;
mod address;
mod admission;
mod api_proxy;
pub(crate) mod approval;
mod apps;
mod audit;
mod backups;
mod canary;
mod changes;
mod configuration;
mod create;
mod deletion;
mod distribution;
mod edited;
mod endpoint;
mod files;
mod freed;
mod gateway;
mod helpers;
mod images;
mod isolation;
mod issuers;
mod kubelet;
mod leads;
mod may_change;
pub(crate) mod messages;
mod minor;
mod namespace;
mod nodes;
mod platform_issuers;
mod preflight;
mod proxy;
mod pull_secrets;
mod reach;
mod refused;
mod registration;
mod restore;
mod revision;
mod rights;
mod room;
mod route;
mod sizes;
mod sleep;
mod sleep_backup;
mod sleep_by_time;
mod trouble;
mod turn;
mod unread;
mod update;
mod vpc;
mod vpc_image;
mod vpc_net;

use super::facts::Facts;
use super::{ClusterPlan, ClusterPlanner, Input, plan_judged, status::status};
use berth_api::conditions::Reason;
use berth_api::{Cluster, names};
use berth_plan::Planner as _;
use berth_plan::asked::ApiVersion;
use berth_plan::meta_cluster::MetaCluster;
use berth_plan::model::{StageId, State};
use berth_plan::observed::{ApiProbe, InsideTenant, Published};
use berth_plan::settings::Settings;
use berth_render::{Binary, Kind, ObjectKey};
use berth_testkit::simulated::World;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::sync::Arc;

/// Names of the control plane's components.
fn components() -> impl Iterator<Item = &'static str> {
    super::components::ALL.iter().map(|component| component.name())
}

/// A tenant and the world it is in.
struct Fixture {
    world: World,
    cluster: Cluster,
    settings: Settings,
}

/// What is listed inside of the tenant in a reconcile.
fn asked_inside(input: Input<'_>) -> Vec<berth_render::Listing> {
    crate::probe::listings(&Facts::judge(input).tenant(), input)
}

/// What the idle check compares that with.
fn wanted_inside(input: Input<'_>) -> crate::Wanted {
    crate::Wanted::decide(&Facts::judge(input).tenant()).unwrap()
}

impl Fixture {
    fn new(spec: Value) -> Self {
        let cluster = json!({
            "apiVersion": "berth.dev/v1alpha1", "kind": "Cluster",
            "metadata": {"name": "acme", "namespace": "team-a", "uid": "cluster-uid", "generation": 1},
            "spec": spec,
        });
        let mut world = World::new();
        world.observed.published = Published::Absent;
        world.observed.team_uid = Some("team-uid".into());
        world.observed.revisions_are_readable = true;
        world.observed.look = berth_plan::asked::Look::Elsewhere;
        Self { world, cluster: serde_json::from_value(cluster).unwrap(), settings: Settings::default() }
    }

    fn cp_namespace() -> String {
        names::control_plane_namespace("team-a", "acme")
    }

    fn key(kind: Kind, name: &str) -> ObjectKey {
        ObjectKey::namespaced(kind, Self::cp_namespace(), name)
    }

    fn namespace() -> ObjectKey {
        ObjectKey::cluster(Kind::Namespace, Self::cp_namespace())
    }

    /// What is observed of the meta cluster.
    fn meta(&mut self) -> &mut MetaCluster {
        Arc::make_mut(&mut self.world.observed.meta)
    }

    fn plan(&self) -> ClusterPlan {
        let (observed, now) = (&self.world.observed, self.world.now);
        ClusterPlanner::plan(Input { object: &self.cluster, observed, settings: &self.settings, now })
    }

    /// Plans and carries out until nothing is left to write, as one reconcile of the driver; then writes the status.
    fn reconcile(&mut self) -> ClusterPlan {
        self.reconcile_by(ClusterPlanner::plan)
    }

    fn reconcile_by(&mut self, plan: impl Fn(Input<'_>) -> ClusterPlan) -> ClusterPlan {
        let Self { world, cluster, settings } = self;
        let planned =
            world.settle(|w| plan(Input { object: cluster, observed: &w.observed, settings, now: w.now }), |p| &p.plan);
        let input = Input { object: &*cluster, observed: &world.observed, settings: &*settings, now: world.now };
        let new = status(input, &planned, None);
        cluster.status = Some(new);
        planned
    }

    /// The `EtcdCluster` controller, the workloads' controllers and kubelet do their part; the API answers.
    fn others(&mut self) {
        let etcd = Self::key(Kind::EtcdCluster, names::ETCD);
        if let Some(live) = self.world.observed.objects.get_mut(&etcd) {
            let generation = live["metadata"]["generation"].clone();
            let condition = |t: &str| json!({"type": t, "status": "True", "reason": "AsExpected", "message": "a quorum of members answers", "lastTransitionTime": "2026-01-01T00:00:00Z"});
            live["status"] = json!({
                "observedGeneration": generation,
                "clusterId": "cdf818194e3a8c32",
                "endpoints": [{"name": "etcd-0", "url": "https://etcd-0.x.svc:2379", "host": "etcd-0.x.svc", "address": "10.96.0.9"}],
                "clients": [{"name": "kube-apiserver", "secretRef": {"name": "etcd-client-kube-apiserver"}}],
                "conditions": [condition("Ready"), condition("Available")],
            });
            let client = Self::key(Kind::Secret, "etcd-client-kube-apiserver");
            if self.world.observed.get(&client).is_none() {
                let labels = json!({"berth.dev/etcd-cluster": "etcd"});
                self.world.put(client.clone(), json!({"metadata": {"name": client.name, "labels": labels}}));
                self.world.set_secret(&client, "ca.crt", b"etcd's client CA");
            }
        }
        for name in components() {
            self.roll_out(name);
        }
        let made = [(Kind::Deployment, names::APISERVER), (Kind::StatefulSet, "kube-apiserver-0")];
        if made.iter().any(|(kind, name)| self.world.observed.get(&Self::key(*kind, name)).is_some()) {
            let read = match std::mem::take(&mut self.world.observed.api) {
                ApiProbe::Answered { read, .. } => read,
                _ => InsideTenant::listed(berth_render::STAMPS, []),
            };
            let version = Some(self.told());
            self.world.observed.api = ApiProbe::Answered { version, read };
            self.addons_serve();
        }
    }

    /// What the API says that it runs.
    fn told(&self) -> ApiVersion {
        let api = self.world.observed.get(&Self::key(Kind::Deployment, names::APISERVER));
        let version = api.and_then(berth_plan::workload::version_of).map(|version| version.to_string());
        let version = version.unwrap_or_else(|| self.cluster.spec.version.clone());
        ApiVersion { version, emulates: api.and_then(berth_plan::workload::emulates) }
    }

    /// A Deployment is rolled out.
    fn roll_out(&mut self, name: &str) {
        let Some(d) = self.world.observed.objects.get_mut(&Self::key(Kind::Deployment, name)) else { return };
        let n = d["spec"]["replicas"].clone();
        let generation = d["metadata"]["generation"].clone();
        d["status"] =
            json!({"observedGeneration": generation, "replicas": n, "updatedReplicas": n, "availableReplicas": n});
    }

    /// Until the tenant is ready.
    fn up(spec: Value) -> Self {
        let mut f = Self::new(spec);
        for _ in 0..5 {
            f.reconcile();
            f.others();
        }
        let last = f.reconcile();
        assert_eq!(last.plan.first_problem(), None, "{:#?}", f.world.log);
        f.world.log.clear();
        f
    }

    fn condition(&self, type_: &str) -> (String, String, String) {
        let all = &self.cluster.status.as_ref().unwrap().conditions;
        let c = all.iter().find(|c| c.type_ == type_).unwrap_or_else(|| panic!("{type_} is not published"));
        (c.status.clone(), c.reason.clone(), c.message.clone())
    }

    fn image(&self, name: &str) -> String {
        let d = self.world.observed.get(&Self::key(Kind::Deployment, name)).unwrap();
        berth_plan::workload::image_of(d).unwrap().to_owned()
    }
}

/// Reconciles, and those of others, until nothing is left to do; returns the last plan.
fn last(f: &mut Fixture) -> ClusterPlan {
    for _ in 0..3 {
        f.reconcile();
        f.others();
    }
    f.reconcile()
}

/// The stage is blocked for that reason; returns what it says.
fn blocked(planned: &ClusterPlan, component: StageId, reason: Reason) -> String {
    match planned.plan.stage(component).map(|s| &s.state) {
        Some(State::Blocked { reason: r, message }) if *r == reason => message.clone(),
        other => panic!("{component:?} should be blocked by {reason}, but is {other:?}"),
    }
}
