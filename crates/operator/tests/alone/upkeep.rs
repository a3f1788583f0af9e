//! The whole operator looks after real etcd processes: their pods are the world's, their databases are real.

use crate::common::{Running, SOON, Team, alone_at_a_server, me};
use crate::real::{Etcd, Options};
use anyhow::{Result, ensure};
use berth_api::etcd_cluster::{EtcdCluster, EtcdClusterStatus, EtcdMember};
use berth_api::etcd_upkeep::UpkeepReason;
use berth_api::{labels, names};
use berth_etcdio::EtcdTarget;
use berth_operator::Context;
use berth_testkit::fixtures::eventually;
use berth_testkit::{ApiServer, FaultPlan};
use kube::Api;
use kube::api::{DeleteParams, Patch, PatchParams, PostParams};
use serde_json::{Value, json};
use std::sync::{Arc, Mutex};

const VERSION: &str = "3.6.16";
const MIB: i64 = 1024 * 1024;

/// A stand-alone etcd of three, whose members are processes.
struct Subject {
    api: Api<EtcdCluster>,
    etcd: Arc<Etcd>,
    /// Calls, in order.
    told: Arc<Mutex<Vec<String>>>,
    _running: Running,
    team: Team,
}

impl Subject {
    async fn new(server: &'static ApiServer, quota: i64) -> Self {
        let etcd = Arc::new(Etcd::start(&Options { quota, ..Options::new(VERSION, 3) }));
        let (target, told) = (etcd.target(), Arc::new(Mutex::new(vec![])));
        let log = told.clone();
        let change = move |context: &mut Context| {
            let asked = target.clone();
            context.ask_etcd = Arc::new(move |_| {
                let asked = asked.clone();
                Box::pin(async move { berth_etcdio::probe(&asked, berth_etcdio::DEADLINE).await })
            });
            context.call_etcd = Arc::new(move |_, via, call| {
                let (target, log) = (target.clone(), log.clone());
                Box::pin(async move {
                    let leads = if leader(&target).await == via { " leads" } else { "" };
                    let answer = berth_etcdio::call(&target, &via, &call).await.map_err(|e| e.to_string());
                    log.lock().unwrap().push(format!("{via}{leads}: {} {answer:?}", call.describe()));
                    answer
                })
            });
        };
        let running = Running::start_changed(server, me(server), &FaultPlan::new(), change);
        let team = Team::new(server).await;
        let api: Api<EtcdCluster> = Api::namespaced(team.client.clone(), &team.ns);
        let spec = json!({"version": VERSION, "replicas": 3, "quotaBackendBytes": quota, "dataPolicy": "Delete"});
        let object = json!({"apiVersion": "berth.dev/v1alpha1", "kind": "EtcdCluster", "metadata": {"name": names::ETCD}, "spec": spec});
        api.create(&PostParams::default(), &serde_json::from_value(object).unwrap()).await.unwrap();
        let subject = Self { api, etcd, told, _running: running, team };
        subject.until("Ready", |s| s.phase.as_deref() == Some("Ready")).await;
        subject
    }

    async fn until(&self, what: &str, good: impl Fn(&EtcdClusterStatus) -> bool) -> EtcdClusterStatus {
        let mut last = EtcdClusterStatus::default();
        let seen = async || -> Result<EtcdClusterStatus> {
            let status = self.api.get(names::ETCD).await?.status.unwrap_or_default();
            ensure!(good(&status), "{:#?}\n{status:#?}", self.told.lock().unwrap());
            Ok(status)
        };
        eventually(SOON, what, async || {
            last = seen().await?;
            anyhow::Ok(())
        })
        .await
        .unwrap_or_else(|e| panic!("{e:#}"));
        last
    }

    async fn annotate(&self, name: &str, value: Value) {
        let patch = Patch::Merge(json!({"metadata": {"annotations": {name: value}}}));
        self.api.patch(names::ETCD, &PatchParams::default(), &patch).await.unwrap();
    }

    fn told(&self, what: &str) -> usize {
        self.told.lock().unwrap().iter().filter(|line| line.contains(what) && !line.contains("Err(")).count()
    }

    async fn end(self) {
        let free = Patch::Merge(json!({"metadata": {"finalizers": null}}));
        let _ = self.api.patch(names::ETCD, &PatchParams::default(), &free).await;
        let _ = self.api.delete(names::ETCD, &DeleteParams::default()).await;
        self.team.wipe().await;
    }
}

/// F29: three members are full, and take writes again without a person.
#[tokio::test(flavor = "multi_thread")]
async fn a_full_etcd_of_three_takes_writes_again() {
    let (_turn, server) = alone_at_a_server().await;
    let subject = Subject::new(server, 16 * MIB).await;
    assert!(subject.etcd.fill(VERSION, "k", 1 << 20, 40) < 40, "the quota was never reached");
    assert!(!subject.etcd.ctl(VERSION, &["put", "refused", "v"]));
    subject.annotate(crate::common::team::TOUCHED, json!("full")).await;
    let status = subject
        .until("the end of NOSPACE", |s| {
            s.upkeep.as_ref().is_some_and(|u| u.reason == UpkeepReason::NoSpace && u.finished.is_some())
        })
        .await;
    assert!(subject.etcd.ctl(VERSION, &["put", "taken", "v"]), "a write is refused");
    assert!(status.members.iter().all(|m| m.quota_backend_bytes == Some(16 * MIB)), "{:?}", status.members);
    assert_eq!(subject.told(": compact at"), 1);
    assert_eq!(subject.told(": defragment"), 3);
    assert_eq!(subject.told(": write a key"), 1);
    let is_small = |m: &EtcdMember| m.db_size.is_some_and(|size| size <= 8 * MIB);
    subject.until("small and ready", |s| s.phase.as_deref() == Some("Ready") && s.members.iter().all(is_small)).await;
    subject.end().await;
}

/// Most of every database is free: a follower gives that back first, and the leader last; who asks need not wait long between them.
#[tokio::test(flavor = "multi_thread")]
async fn fragmented_databases_become_small() {
    let (_turn, server) = alone_at_a_server().await;
    let subject = Subject::new(server, 512 * MIB).await;
    assert_eq!(subject.etcd.fill(VERSION, "k", 1 << 20, 115), 115);
    let said = berth_etcdio::probe(&subject.etcd.target(), berth_etcdio::DEADLINE).await;
    let revision = said.members["etcd-0"].as_ref().unwrap().progress.revision;
    assert!(subject.etcd.ctl(VERSION, &["compact", "--physical", &revision.to_string()]));
    // A database counts pages as free with the write after the one that freed them, and the operator looks once.
    let is_free = async || {
        ensure!(subject.etcd.ctl(VERSION, &["put", "after", "v"]), "a write is refused");
        let said = berth_etcdio::probe(&subject.etcd.target(), berth_etcdio::DEADLINE).await;
        let free = said.members.values().all(|m| m.as_ref().is_ok_and(|m| m.progress.db_size_in_use < 40 * MIB));
        ensure!(free, "{:#?}", said.members);
        Ok(())
    };
    eventually(SOON, "room in each database", is_free).await.unwrap_or_else(|e| panic!("{e:#}"));
    subject.annotate(crate::common::team::TOUCHED, json!("fragmented")).await;
    let begun = subject.until("the first member", |s| s.upkeep.as_ref().is_some_and(|u| !u.done.is_empty())).await;
    let upkeep = begun.upkeep.unwrap();
    assert_eq!((upkeep.reason, upkeep.done.len()), (UpkeepReason::Fragmented, 1));
    assert_eq!(subject.told(": defragment"), 1, "a minute between them");

    subject.annotate(labels::DEFRAG, json!("now")).await;
    let done = subject.until("all members", |s| s.upkeep.as_ref().is_some_and(|u| u.finished.is_some())).await;
    assert_eq!(done.upkeep.unwrap().request.as_deref(), Some("now"));
    let small = subject.until("small databases in the status", |s| s.members.iter().all(is_small)).await;
    assert_eq!(small.phase.as_deref(), Some("Ready"));
    assert!(subject.etcd.ctl(VERSION, &["put", "taken", "v"]));
    let told = subject.told.lock().unwrap().clone();
    assert!(told.iter().all(|line| !line.contains(" leads: defragment")), "who leads serves: {told:#?}");
    assert!(told.iter().any(|line| line.contains(" leads: move leadership")), "{told:#?}");
    subject.end().await;
}

fn is_small(member: &EtcdMember) -> bool {
    member.db_size.is_some_and(|size| size < 40 * MIB)
}

async fn leader(target: &EtcdTarget) -> String {
    let said = berth_etcdio::probe(target, berth_etcdio::DEADLINE).await;
    let leads = said.members.iter().find(|(_, m)| m.as_ref().is_ok_and(|m| m.leader == m.member_id));
    leads.map(|(name, _)| name.clone()).unwrap_or_default()
}
