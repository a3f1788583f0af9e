//! An etcd that the whole operator looks after, with what goes wrong around it.

use anyhow::{Context as _, Result, ensure};
use berth_api::etcd_bootstrap::Record;
use berth_api::etcd_cluster::{EtcdCluster, EtcdClusterStatus};
use berth_api::{labels, names};
use berth_plan::observed::ListedMember;
use berth_plan::{EtcdAnswer, EtcdCall, Maintenance};
use berth_testkit::fixtures::eventually;
use berth_testkit::sweep::Random;
use berth_testkit::{ApiServer, Fault, FaultPlan, World};
use k8s_openapi::api::core::v1::{ConfigMap, PersistentVolumeClaim, Secret};
use kube::api::{DeleteParams, Patch, PatchParams, PostParams};
use kube::{Api, ResourceExt as _};
use serde_json::json;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicI32, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, OnceLock};
use std::time::Instant;
use tokio::sync::OnceCell;
use tokio::task::AbortHandle;

use super::hooks::{Shared, again, changes_members, operator, watch};
use super::kubelet::{self, Kubelet, VERSION, member};
use super::manifest::list;
use super::writer::{Client, Writer};
use crate::common::{Running, SOON, Team, background, crds, team};

/// A meta cluster whose Services are on loopback.
async fn server() -> (&'static ApiServer, &'static World) {
    static SERVER: OnceCell<(&'static ApiServer, &'static World)> = OnceCell::const_new();
    let start = async || {
        // Another run of this program beside it has other addresses.
        let range = format!("--service-cluster-ip-range=127.{}.0.0/16", 64 + std::process::id() % 128);
        let options = berth_testkit::apiserver::Options { apiserver_args: vec![range], ..Default::default() };
        let server: &'static ApiServer = Box::leak(Box::new(ApiServer::start_with(options).await.expect("server")));
        server.install_crds(&crds()).await.expect("CRDs");
        let (ready, listed) = tokio::sync::oneshot::channel();
        background(async move {
            let world = World::builder(server.client()).fate(kubelet::fate).start().await.expect("world");
            let world: &'static World = Box::leak(Box::new(world));
            let _ = ready.send(world);
            std::future::pending::<()>().await;
        });
        (server, listed.await.expect("the world"))
    };
    *SERVER.get_or_init(start).await
}

pub(crate) struct Life {
    pub(crate) api: Api<EtcdCluster>,
    pub(crate) client: Arc<Client>,
    pub(crate) team: Team,
    shared: Arc<Shared>,
    server: &'static ApiServer,
    /// Of the operator's calls.
    pub(crate) plan: FaultPlan,
    /// As it was first.
    cluster_id: OnceLock<String>,
    /// How many volumes were harmed since it was last at rest.
    harmed: AtomicUsize,
    running: Arc<tokio::sync::Mutex<Option<Running>>>,
    tasks: Vec<AbortHandle>,
    _turn: tokio::sync::MutexGuard<'static, ()>,
}

impl Life {
    /// Ready with so many members.
    pub(crate) async fn new(replicas: i32) -> Self {
        static TURN: tokio::sync::Mutex<()> = tokio::sync::Mutex::const_new(());
        let turn = TURN.lock().await;
        let (server, world) = server().await;
        let team = Team::new(server).await;
        let wake = || world.fate(kubelet::fate);
        let shared = Arc::new(Shared {
            kubelet: Kubelet::start(team.client.clone(), team.ns.clone(), wake),
            target: Mutex::default(),
            turn: tokio::sync::Mutex::default(),
            wanted: AtomicI32::new(replicas),
            gone: Mutex::default(),
            told: Mutex::default(),
            broken: Mutex::default(),
            began: Instant::now(),
        });
        let plan = FaultPlan::new();
        let running = Arc::new(tokio::sync::Mutex::new(Some(operator(server, &plan, &shared))));
        let api: Api<EtcdCluster> = Api::namespaced(team.client.clone(), &team.ns);
        let spec =
            json!({"version": VERSION, "replicas": replicas, "clients": [{"name": "writer"}], "dataPolicy": "Delete"});
        let object = json!({"apiVersion": "berth.dev/v1alpha1", "kind": "EtcdCluster", "metadata": {"name": names::ETCD}, "spec": spec});
        api.create(&PostParams::default(), &serde_json::from_value(object).unwrap()).await.unwrap();
        let secrets: Api<Secret> = Api::namespaced(team.client.clone(), &team.ns);
        let secret = eventually(SOON, "the client's certificate", async || {
            secrets.get(&names::etcd::client(names::ETCD, "writer")).await
        });
        let client = Arc::new(Client::new(&secret.await.unwrap()));
        let again = tokio::spawn(again(server, plan.clone(), shared.clone(), running.clone())).abort_handle();
        let watched = tokio::spawn(watch(api.clone(), shared.clone(), client.clone())).abort_handle();
        let life = Self {
            api,
            client,
            team,
            shared,
            server,
            plan,
            cluster_id: OnceLock::new(),
            harmed: AtomicUsize::new(0),
            running,
            tasks: vec![again, watched],
            _turn: turn,
        };
        life.at_rest(replicas).await;
        life
    }

    pub(crate) fn kubelet(&self) -> &Kubelet {
        &self.shared.kubelet
    }

    pub(crate) fn say(&self, what: &str) {
        self.shared.say(what);
    }

    /// What happens to the next call that changes members.
    pub(crate) fn trouble(&self, fault: Fault) {
        self.say(&format!("the next change of members: {fault:?}"));
        self.plan.clear();
        self.plan.when_times(1, changes_members, fault);
    }

    /// Nothing goes wrong with calls any more.
    pub(crate) fn calm(&self) {
        self.plan.clear();
    }

    /// The operator ends, and another one begins.
    pub(crate) async fn another_operator(&self) {
        self.say("another operator");
        let mut running = self.running.lock().await;
        running.take();
        *running = Some(operator(self.server, &self.plan, &self.shared));
    }

    pub(crate) async fn asks_for(&self, replicas: i32) {
        self.say(&format!("spec.replicas: {replicas}"));
        self.shared.wanted.store(replicas, Ordering::Relaxed);
        let patch = Patch::Merge(json!({"spec": {"replicas": replicas}}));
        self.api.patch(names::ETCD, &PatchParams::default(), &patch).await.unwrap();
    }

    pub(crate) async fn touch(&self) {
        let now = format!("{:?}", Instant::now());
        let patch = Patch::Merge(json!({"metadata": {"annotations": {team::TOUCHED: now}}}));
        self.api.patch(names::ETCD, &PatchParams::default(), &patch).await.unwrap();
    }

    /// Waits for ten more writes that are acknowledged.
    pub(crate) async fn writes_go_on(&self, writer: &Writer) {
        let before = writer.acknowledged();
        let more = async || {
            let now = writer.acknowledged();
            ensure!(now >= before + 10, "{before}, then {now}");
            Ok(())
        };
        eventually(SOON, "writes", more).await.unwrap_or_else(|e| panic!("{e:#}\n{}", self.story()));
    }

    /// Who votes, as soon as a quorum answers.
    pub(crate) async fn voters(&self) -> Vec<ListedMember> {
        let voters = eventually(SOON, "a quorum", async || self.shared.voters().await).await;
        voters.unwrap_or_else(|e| panic!("{e:#}\n{}", self.story()))
    }

    /// The data of a member that votes are harmed, if all others have theirs and are a quorum. None: that is not so.
    pub(crate) async fn harm(&self, random: &mut Random, harm: impl FnOnce(&std::path::Path)) -> Option<String> {
        let _turn = self.shared.turn.lock().await;
        let voters = self.shared.voters().await.ok()?;
        let victim = &voters[random.below(voters.len())];
        let gone = self.shared.gone.lock().unwrap().clone();
        let running = self.kubelet().running();
        let spare = voters.len() > voters.len() / 2 + 1;
        let whole = |m: &ListedMember| !gone.contains(&m.id) && running.contains(&m.name);
        if !spare || self.shared.wanted.load(Ordering::Relaxed) < 3 || !voters.iter().all(whole) {
            return None;
        }
        let harmed = self.kubelet().harm(&victim.name, harm);
        harmed.then(|| self.shared.gone.lock().unwrap().insert(victim.id.clone()));
        self.harmed.fetch_add(usize::from(harmed), Ordering::Relaxed);
        harmed.then(|| victim.name.clone())
    }

    /// As many voters as are asked for, all well, and nothing that goes on.
    pub(crate) async fn at_rest(&self, replicas: i32) -> EtcdClusterStatus {
        let mut found = None;
        let rest = async || -> Result<()> {
            let etcd = self.api.get(names::ETCD).await?;
            let status = etcd.status.clone().unwrap_or_default();
            let ready = status.phase.as_deref() == Some("Ready");
            let known = status.observed_generation == etcd.metadata.generation;
            ensure!(ready && known && status.operation.is_none(), "{}", summary(&status));
            let wanted: BTreeSet<String> = (0..replicas).map(member).collect();
            let told: BTreeSet<String> = status.endpoints.iter().map(|e| e.name.clone()).collect();
            ensure!(told == wanted, "clients are told {told:?}");
            let list = self.shared.probe().await?.1.list.context("no quorum answered")?;
            let named: BTreeSet<String> = list.iter().map(|m| m.name.clone()).collect();
            ensure!(named == wanted && list.iter().all(|m| !m.learner), "{list:?}");
            let gone = self.shared.gone.lock().unwrap().clone();
            ensure!(list.iter().all(|m| !gone.contains(&m.id)), "without their data: {gone:?} of {list:?}");
            self.nothing_is_left(&wanted).await?;
            self.same_data(list.len()).await?;
            let id = status.cluster_id.clone().context("no cluster ID")?;
            let first = self.cluster_id.get_or_init(|| id.clone());
            ensure!(id == *first, "another cluster: {id}, was {first}");
            found = Some(status);
            Ok(())
        };
        let rests = eventually(SOON * 5, &format!("rest at {replicas}"), rest).await;
        rests.unwrap_or_else(|e| panic!("{e:#}\n{}", self.story()));
        self.say(&format!("at rest with {replicas}"));
        self.harmed.store(0, Ordering::Relaxed);
        self.is_sound();
        found.unwrap()
    }

    /// No operation in the record, and the volumes of these members alone.
    async fn nothing_is_left(&self, members: &BTreeSet<String>) -> Result<()> {
        let (ns, client) = (&self.team.ns, &self.team.client);
        let maps: Api<ConfigMap> = Api::namespaced(client.clone(), ns);
        let map = maps.get(&names::etcd::bootstrap(names::ETCD)).await?;
        let record = map.annotations().get(labels::ETCD_RECORD).context("no record")?;
        let record: Record = serde_json::from_str(record)?;
        ensure!(record.operation.is_none() && record.next.is_none(), "{record:?}");
        let claims: Vec<PersistentVolumeClaim> = list(client, ns).await?;
        let claims: BTreeSet<String> = claims.iter().map(|c| c.name_any().replacen("data-", "", 1)).collect();
        if claims == *members {
            return Ok(());
        }
        let more: Vec<_> = claims.difference(members).collect();
        if claims.is_superset(members) && more.len() <= self.harmed.load(Ordering::Relaxed) {
            self.delete_kept(&more).await?;
        }
        anyhow::bail!("volumes of {claims:?}")
    }

    /// As docs/etcd.md says: the volume of a removed member is kept where one of those who stay loses its data meanwhile, and a person
    /// deletes its claim once they are healthy.
    async fn delete_kept(&self, members: &[&String]) -> Result<()> {
        let claims: Api<PersistentVolumeClaim> = Api::namespaced(self.team.client.clone(), &self.team.ns);
        for member in members {
            self.say(&format!("the volume of {member} was kept; a person deletes it"));
            claims.delete(&format!("data-{member}"), &DeleteParams::default()).await?;
        }
        Ok(())
    }

    /// All members have the same at one revision.
    async fn same_data(&self, members: usize) -> Result<()> {
        let (target, probe) = self.shared.probe().await?;
        let revisions = probe.members.values().flatten().map(|m| m.progress.revision);
        let revision = revisions.min().context("nobody answers")?;
        let what = EtcdCall::Maintain(Maintenance::CompareHashes { revision });
        let EtcdAnswer::Hashes(all) = berth_etcdio::call(&target, "", &what).await? else { anyhow::bail!("no hashes") };
        let hashes: Vec<_> = all.iter().filter_map(|h| h.said.clone().ok()).collect();
        ensure!(hashes.len() == members, "{all:?}");
        // Where one has compacted and another has not yet, they cannot be compared.
        let by_compaction: BTreeMap<i64, BTreeSet<u32>> = hashes.iter().fold(BTreeMap::new(), |mut map, (hash, at)| {
            map.entry(*at).or_insert_with(BTreeSet::new).insert(*hash);
            map
        });
        ensure!(by_compaction.values().all(|same| same.len() == 1), "{all:?}");
        Ok(())
    }

    /// Nothing was seen that must never be.
    pub(crate) fn is_sound(&self) {
        let broken = self.shared.broken.lock().unwrap().clone();
        assert!(broken.is_empty(), "{broken:#?}\n{}", self.story());
    }

    pub(crate) fn story(&self) -> String {
        format!("{:#?}\n{:#?}", self.shared.told.lock().unwrap(), self.kubelet().said())
    }

    pub(crate) async fn status(&self) -> EtcdClusterStatus {
        self.api.get(names::ETCD).await.unwrap().status.unwrap_or_default()
    }

    pub(crate) async fn until(&self, what: &str, good: impl Fn(&EtcdClusterStatus) -> bool) -> EtcdClusterStatus {
        let seen = eventually(SOON, what, async || {
            let status = self.status().await;
            ensure!(good(&status), "{}", summary(&status));
            Ok(status)
        });
        seen.await.unwrap_or_else(|e| panic!("{e:#}\n{}", self.story()))
    }

    /// The record.
    pub(crate) async fn record(&self) -> BTreeMap<String, String> {
        let maps: Api<ConfigMap> = Api::namespaced(self.team.client.clone(), &self.team.ns);
        maps.get(&names::etcd::bootstrap(names::ETCD)).await.unwrap().data.unwrap_or_default()
    }

    pub(crate) async fn end(self) {
        self.is_sound();
        self.tasks.iter().for_each(AbortHandle::abort);
        self.running.lock().await.take();
        let free = Patch::Merge(json!({"metadata": {"finalizers": null}}));
        let _ = self.api.patch(names::ETCD, &PatchParams::default(), &free).await;
        let _ = self.api.delete(names::ETCD, &DeleteParams::default()).await;
        self.team.wipe().await;
    }
}

impl Drop for Life {
    fn drop(&mut self) {
        self.tasks.iter().for_each(AbortHandle::abort);
    }
}

fn summary(status: &EtcdClusterStatus) -> String {
    let said = status.conditions.iter().filter(|c| c.status != "True" || c.reason == "Working");
    let said: Vec<_> = said.map(|c| format!("{} {}: {}", c.type_, c.reason, c.message)).collect();
    format!("{:?} {:?} {:?} {said:#?}", status.phase, status.ready_members, status.operation)
}
