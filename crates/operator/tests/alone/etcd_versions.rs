//! Members of a real etcd get another version under a writer: each pod of the world is a process of the version that its template names.

use crate::common::{Running, SOON, Team, alone_at_a_server, me};
use crate::real::{Etcd, Options};
use anyhow::{Result, ensure};
use berth_api::etcd_cluster::{EtcdCluster, EtcdClusterStatus};
use berth_api::{conditions, labels, names};
use berth_operator::Context;
use berth_plan::EtcdCall;
use berth_testkit::fixtures::eventually;
use berth_testkit::{ApiServer, FaultPlan};
use k8s_openapi::api::core::v1::Pod;
use kube::api::{DeleteParams, ListParams, Patch, PatchParams, PostParams};
use kube::{Api, ResourceExt as _};
use serde_json::json;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::Duration;
use tokio::task::AbortHandle;

const OLD: &str = "3.5.35";
const NEW: &str = "3.6.16";
const MEMBERS: usize = 3;

/// What runs in a pod: its UID and version.
type Processes = BTreeMap<String, (String, String)>;

struct Subject {
    api: Api<EtcdCluster>,
    pods: Api<Pod>,
    etcd: Arc<Mutex<Etcd>>,
    /// Calls, in order.
    told: Arc<Mutex<Vec<String>>>,
    /// Every state of versions that the pods had, in order.
    seen: Arc<Mutex<Vec<Vec<String>>>>,
    kubelet: AbortHandle,
    _running: Running,
    team: Team,
}

impl Subject {
    /// `breaks`: the member whose process of the new version ends at once.
    async fn new(server: &'static ApiServer, breaks: Option<usize>) -> Self {
        let etcd = Etcd::start(&Options::new(OLD, MEMBERS));
        let (target, told) = (etcd.target(), Arc::new(Mutex::new(vec![])));
        let log = told.clone();
        let change = move |context: &mut Context| {
            let asked = target.clone();
            context.ask_etcd = Arc::new(move |_| {
                let asked = asked.clone();
                Box::pin(async move { berth_etcdio::probe(&asked, berth_etcdio::DEADLINE).await })
            });
            context.call_etcd = Arc::new(move |_, via, call: EtcdCall| {
                let (target, log) = (target.clone(), log.clone());
                Box::pin(async move {
                    let answer = berth_etcdio::call(&target, &via, &call).await.map_err(|e| e.to_string());
                    log.lock().unwrap().push(format!("{via}: {} {answer:?}", call.describe()));
                    answer
                })
            });
        };
        let running = Running::start_changed(server, me(server), &FaultPlan::new(), change);
        let team = Team::new(server).await;
        let api: Api<EtcdCluster> = Api::namespaced(team.client.clone(), &team.ns);
        let pods: Api<Pod> = Api::namespaced(team.client.clone(), &team.ns);
        let (etcd, seen) = (Arc::new(Mutex::new(etcd)), Arc::new(Mutex::new(vec![])));
        let kubelet = tokio::spawn(kubelet(pods.clone(), etcd.clone(), seen.clone(), breaks)).abort_handle();
        let spec = json!({"version": OLD, "replicas": MEMBERS, "dataPolicy": "Delete"});
        let object = json!({"apiVersion": "berth.dev/v1alpha1", "kind": "EtcdCluster", "metadata": {"name": names::ETCD}, "spec": spec});
        api.create(&PostParams::default(), &serde_json::from_value(object).unwrap()).await.unwrap();
        let subject = Self { api, pods, etcd, told, seen, kubelet, _running: running, team };
        subject.until("Ready", |s| s.phase.as_deref() == Some("Ready")).await;
        subject
    }

    async fn asks_for(&self, version: &str) {
        let patch = Patch::Merge(json!({"spec": {"version": version}}));
        self.api.patch(names::ETCD, &PatchParams::default(), &patch).await.unwrap();
    }

    async fn until(&self, what: &str, good: impl Fn(&EtcdClusterStatus) -> bool) {
        eventually(SOON * 3, what, async || -> Result<()> {
            let status = self.api.get(names::ETCD).await?.status.unwrap_or_default();
            ensure!(good(&status), "{:#?}\n{:#?}\n{status:#?}", self.told.lock().unwrap(), self.seen.lock().unwrap());
            Ok(())
        })
        .await
        .unwrap_or_else(|e| panic!("{e:#}"));
    }

    fn versions(&self) -> Vec<String> {
        self.seen.lock().unwrap().last().cloned().unwrap_or_default()
    }

    async fn end(self) {
        self.kubelet.abort();
        let free = Patch::Merge(json!({"metadata": {"finalizers": null}}));
        let _ = self.api.patch(names::ETCD, &PatchParams::default(), &free).await;
        let _ = self.api.delete(names::ETCD, &DeleteParams::default()).await;
        self.team.wipe().await;
    }
}

fn is_ready(status: &EtcdClusterStatus, version: &str) -> bool {
    status.phase.as_deref() == Some("Ready") && status.version.as_deref() == Some(version) && status.operation.is_none()
}

fn reason(status: &EtcdClusterStatus) -> String {
    let ready = conditions::find(&status.conditions, conditions::ConditionType::Ready);
    ready.map(|c| c.reason.clone()).unwrap_or_default()
}

/// Runs a member's process as its newest pod has it.
async fn kubelet(pods: Api<Pod>, etcd: Arc<Mutex<Etcd>>, seen: Arc<Mutex<Vec<Vec<String>>>>, breaks: Option<usize>) {
    let mut running = Processes::new();
    loop {
        tokio::time::sleep(Duration::from_millis(50)).await;
        let Ok(all) = pods.list(&ListParams::default().labels(labels::ETCD_CLUSTER)).await else { continue };
        let mut versions = vec!["none".to_owned(); MEMBERS];
        for pod in all.items.iter().filter(|pod| pod.metadata.deletion_timestamp.is_none()) {
            let Some(i) = names::etcd::ordinal(names::ETCD, &pod.name_any()).and_then(|i| usize::try_from(i).ok())
            else {
                continue;
            };
            let version = pod.labels().get(labels::VERSION).cloned().unwrap_or_default();
            versions[i].clone_from(&version);
            let runs = (pod.uid().unwrap_or_default(), version.clone());
            let known = running.insert(pod.name_any(), runs.clone());
            if known.as_ref() == Some(&runs) || (known.is_none() && version == OLD) {
                continue;
            }
            let mut etcd = etcd.lock().unwrap();
            etcd.down(i);
            if breaks != Some(i) || version == OLD {
                etcd.becomes(i, if version == OLD { OLD } else { NEW });
                etcd.up(i);
            }
        }
        let mut seen = seen.lock().unwrap();
        if seen.last() != Some(&versions) {
            seen.push(versions);
        }
    }
}

/// Writes numbered keys, through whichever member takes them, until it is asked for those that were acknowledged.
struct Writer {
    stop: Arc<AtomicBool>,
    thread: JoinHandle<Vec<u32>>,
}

impl Writer {
    fn start(etcd: &Arc<Mutex<Etcd>>) -> Self {
        let (stop, client) = (Arc::new(AtomicBool::new(false)), etcd.lock().unwrap().client(NEW));
        let asked = stop.clone();
        let write = move || {
            let mut acknowledged = vec![];
            for n in 0.. {
                if asked.load(Ordering::Relaxed) {
                    break;
                }
                if client.run(&["--command-timeout=2s", "put", &format!("n-{n}"), "v"]).is_some() {
                    acknowledged.push(n);
                }
            }
            acknowledged
        };
        Self { stop, thread: std::thread::spawn(write) }
    }

    fn nothing_was_lost(self, etcd: &Arc<Mutex<Etcd>>) {
        self.stop.store(true, Ordering::Relaxed);
        let acknowledged = self.thread.join().unwrap();
        let client = etcd.lock().unwrap().client(NEW);
        let there = client.run(&["get", "n-", "--prefix", "--keys-only"]).expect("a linearizable read");
        let there: Vec<u32> = there.lines().filter_map(|line| line.strip_prefix("n-")?.parse().ok()).collect();
        let lost: Vec<_> = acknowledged.iter().filter(|n| !there.contains(n)).collect();
        println!("{} writes acknowledged", acknowledged.len());
        assert!(acknowledged.len() > 20 && lost.is_empty(), "{} acknowledged, lost: {lost:?}", acknowledged.len());
    }
}

/// F45, F47: 3.5 to 3.6, the highest first. A pod of the old version that is lost meanwhile comes back in it.
#[tokio::test(flavor = "multi_thread")]
async fn a_minor_is_given_to_one_member_after_the_other() {
    let (_turn, server) = alone_at_a_server().await;
    let subject = Subject::new(server, None).await;
    let writer = Writer::start(&subject.etcd);
    subject.asks_for(NEW).await;
    subject.until("the first member", |_| subject.versions()[2] == NEW).await;
    subject.pods.delete("etcd-0", &DeleteParams::default().grace_period(0)).await.unwrap();
    subject.until("the new version", |s| is_ready(s, NEW)).await;
    let seen = subject.seen.lock().unwrap().clone();
    let at = |i: usize| seen.iter().position(|versions| versions[i] == NEW).unwrap();
    assert!(at(2) < at(1) && at(1) < at(0), "{seen:#?}");
    let told = subject.told.lock().unwrap().clone();
    assert!(told.iter().any(|line| line.contains("compare hashes") && line.contains("Ok(Hashes")), "{told:#?}");
    let same = |s: &EtcdClusterStatus| s.hashes.as_ref().is_some_and(|h| h.differing.is_empty() && h.serial > 3);
    subject.until("the comparison after it", same).await;
    writer.nothing_was_lost(&subject.etcd);
    subject.asks_for(OLD).await;
    subject.until("the refusal", |s| reason(s) == "DowngradeUnsafe").await;
    assert_eq!(subject.versions(), [NEW; MEMBERS]);
    subject.end().await;
}

/// F46: the second member does not come up: both go back, and nothing is lost.
#[tokio::test(flavor = "multi_thread")]
async fn a_member_that_does_not_come_up_takes_all_back() {
    let (_turn, server) = alone_at_a_server().await;
    let subject = Subject::new(server, Some(1)).await;
    let writer = Writer::start(&subject.etcd);
    subject.asks_for(NEW).await;
    subject.until("the member that fails", |_| subject.versions()[1] == NEW).await;
    assert_eq!(subject.versions()[2], NEW);
    // Its pod says that it runs, so nothing is visibly wrong but that it does not answer: a person turns it back.
    subject.asks_for(OLD).await;
    subject.until("the way back", |s| is_ready(s, OLD)).await;
    assert_eq!(subject.versions(), [OLD; MEMBERS]);
    writer.nothing_was_lost(&subject.etcd);
    subject.end().await;
}
