//! One file a subject; each drives the plan through a world in memory, as the controller does.

mod bootstrap;
mod create;
mod deletion;
mod full;
mod growth;
pub(crate) mod images;
mod members;
pub(crate) mod messages;
mod newer;
mod pki;
mod recovery;
mod refusals;
mod restore;
mod roll;
pub(crate) mod room;
mod shrink;
mod sleep;
mod stranded;
mod torn;
mod trouble;
mod tuning;
mod unread;
mod versions;

use super::EtcdPlanner;
use super::status::status;
use crate::planned::EtcdPlan;
use crate::subject::Input;
use berth_api::conditions::{self, ConditionType, Reason};
use berth_api::etcd_cluster::{EtcdClient, EtcdCluster, EtcdClusterSpec};
use berth_plan::Planner as _;
use berth_plan::model::{StageId, State};
use berth_plan::observed::{EtcdProbe, ListedMember, MemberProbe, RaisedAlarm};
use berth_plan::settings::Settings;
use berth_render::{Kind, ObjectKey};
use berth_testkit::simulated::World;
use jiff::SignedDuration;
use serde_json::{Value, json};

const NAMESPACE: &str = "acme-9201d5e7";
const NAME: &str = "etcd";

/// An `EtcdCluster` in its world.
#[derive(Clone)]
struct Etcd {
    world: World,
    cr: EtcdCluster,
    settings: Settings,
}

impl Etcd {
    fn new(replicas: i32) -> Self {
        let spec = EtcdClusterSpec {
            version: "3.6.16".into(),
            replicas,
            clients: vec![EtcdClient { name: "kube-apiserver".into() }],
            ..EtcdClusterSpec::default()
        };
        let mut cr = EtcdCluster::new(NAME, spec);
        cr.metadata.namespace = Some(NAMESPACE.into());
        cr.metadata.uid = Some("first-uid".into());
        cr.metadata.generation = Some(1);
        Self { world: World::new(), cr, settings: Settings::default() }
    }

    /// Formed, healthy and at rest.
    fn formed(replicas: i32) -> Self {
        let mut e = Self::new(replicas);
        e.reconcile();
        e.members_run();
        e.all_answer();
        e.reconcile();
        e.reconcile();
        assert_eq!(e.condition(ConditionType::Ready), ("True".into(), "AsExpected".into()), "{:#?}", e.cr.status);
        e.world.log.clear();
        e
    }

    fn key(kind: Kind, name: &str) -> ObjectKey {
        ObjectKey::namespaced(kind, NAMESPACE, name)
    }

    fn set() -> ObjectKey {
        Self::key(Kind::StatefulSet, NAME)
    }

    fn plan(&self) -> EtcdPlan {
        EtcdPlanner::plan(self.input(&self.world))
    }

    fn input<'a>(&'a self, world: &'a World) -> Input<'a> {
        Input { object: &self.cr, observed: &world.observed, settings: &self.settings, now: world.now }
    }

    /// One reconcile: plans and carries out to the end, then writes the status.
    fn reconcile(&mut self) -> EtcdPlan {
        let mut world = self.world.clone();
        let planned = world.settle(|w| EtcdPlanner::plan(self.input(w)), |p| &p.plan);
        self.world = world;
        self.cr.status = Some(status(self.input(&self.world), &planned, None));
        self.world.observed.told.clear();
        planned
    }

    /// Pinned to templates that tell the guard nothing of members.
    fn older_templates(&mut self) {
        let catalog = berth_render::Catalog::builtin();
        let set =
            berth_testkit::simulated::before(catalog.etcd("3.6".parse().unwrap()).unwrap(), "cluster", "journal = []");
        self.cr.status.as_mut().unwrap().templates.as_mut().unwrap().digest = set.digest();
        self.world.observed.pinned = Some(set);
        self.reconcile();
        self.world.log.clear();
    }

    fn members_run(&mut self) {
        self.world.run_controllers();
    }

    fn replicas(&self) -> i32 {
        i32::try_from(self.get(&Self::set())["spec"]["replicas"].as_i64().unwrap()).unwrap()
    }

    /// Every member answers; the first leads.
    fn all_answer(&mut self) {
        let n = self.replicas();
        self.answer(&(0..n).collect::<Vec<_>>(), 0);
    }

    /// These members answer, and nobody else.
    fn answer(&mut self, up: &[i32], leader: i32) {
        let n = self.replicas();
        let quorum = up.len() * 2 > usize::try_from(n).unwrap();
        let leader = if quorum { format!("a{leader}") } else { "0".into() };
        let member = |i: i32| {
            let said = MemberProbe {
                cluster_id: "c1".into(),
                member_id: format!("a{i}"),
                leader: leader.clone(),
                version: "3.6.16".into(),
                ..MemberProbe::default()
            };
            let refused = format!("10.96.0.{i}: connection refused");
            (format!("etcd-{i}"), if up.contains(&i) { Ok(said) } else { Err(refused) })
        };
        let list = (0..n).map(|i| listed(&format!("etcd-{i}"), &format!("a{i}"))).collect();
        self.world.observed.etcd =
            Some(EtcdProbe { members: (0..n).map(member).collect(), list: quorum.then_some(list), alarms: vec![] });
    }

    fn probe(&mut self) -> &mut EtcdProbe {
        self.world.observed.etcd.as_mut().unwrap()
    }

    fn get(&self, key: &ObjectKey) -> &Value {
        self.world.observed.get(key).unwrap_or_else(|| panic!("{key} is not there"))
    }

    fn edit(&mut self, key: &ObjectKey) -> &mut Value {
        self.world.observed.objects.get_mut(key).unwrap()
    }

    /// Status and reason.
    fn condition(&self, type_: ConditionType) -> (String, String) {
        let status = self.cr.status.as_ref().unwrap();
        let c = conditions::find(&status.conditions, type_).unwrap_or_else(|| panic!("no {type_}"));
        (c.status.clone(), c.reason.clone())
    }

    fn message(&self, type_: ConditionType) -> String {
        conditions::find(&self.cr.status.as_ref().unwrap().conditions, type_).unwrap().message.clone()
    }

    fn bootstrap(&self) -> Value {
        let map = self.get(&Self::key(Kind::ConfigMap, "etcd-bootstrap"));
        serde_json::from_str(map["data"]["bootstrap.json"].as_str().unwrap()).unwrap()
    }

    /// The guard of a member holds it, as the agent does.
    fn held(&mut self, member: &str, said: &str) {
        let ended = json!({"terminated": {"exitCode": 42, "message": said}});
        let guard = json!({"name": "etcd", "ready": false, "state": {"waiting": {"reason": "CrashLoopBackOff"}}, "lastState": ended});
        self.world.pod_status(&Self::key(Kind::Pod, member), json!({"containerStatuses": [guard]}));
    }
}

/// An alarm that a member raised.
fn alarm(kind: &str, member: i32) -> RaisedAlarm {
    RaisedAlarm { kind: kind.into(), member: format!("etcd-{member}"), id: format!("a{member}") }
}

/// A voter, as etcd lists it.
fn listed(name: &str, id: &str) -> ListedMember {
    let peer_urls = vec![format!("https://{name}.{NAMESPACE}.svc:2380")];
    ListedMember { name: name.into(), id: id.into(), peer_urls, learner: false }
}

fn state(planned: &EtcdPlan, component: StageId) -> &State {
    &planned.plan.stage(component).unwrap_or_else(|| panic!("no stage {component:?}")).state
}

fn reason(planned: &EtcdPlan, component: StageId) -> Option<Reason> {
    state(planned, component).problem().map(|(r, _)| r)
}

fn is(status: &str, reason: Reason) -> (String, String) {
    (status.into(), reason.as_str().into())
}
