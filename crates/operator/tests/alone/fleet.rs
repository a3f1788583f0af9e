//! A fleet that changes its version, against a real API server: who begins when, who is stopped by whom, and what a new leader finds.

use crate::common::{CRASHES, POISON, Running, Team, alone_at_a_server, settings};
use anyhow::{Result, ensure};
use berth_api::cluster::TurnState;
use berth_api::conditions::{ConditionType, find};
use berth_api::{Cluster, ClusterRevision, labels, names};
use berth_plan::Settings;
use berth_plan::settings::Rollouts;
use berth_testkit::fixtures::eventually;
use berth_testkit::{ApiServer, FaultPlan};
use futures::TryStreamExt;
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::Namespace;
use kube::api::{ListParams, Patch, PatchParams, PostParams};
use kube::runtime::watcher::{self, Event, watcher};
use kube::{Api, ResourceExt};
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::task::JoinHandle;

const OLD: &str = "1.36.2";
const NEW: &str = POISON;
const LONG: Duration = Duration::from_mins(4);

fn rollouts(max_concurrent: usize) -> Settings {
    Settings { rollouts: Rollouts { max_concurrent, ..Rollouts::default() }, ..settings() }
}

async fn create(team: &Team, name: &str, wave: usize, more: &Value) {
    // Only those that come back are to do so soon: on a busy machine another one is slow.
    let deadline = if name.starts_with("poisoned") || name == "flags" { "30s" } else { "15m" };
    let mut spec = json!({
        "version": OLD, "deletion": {"protected": false},
        "upgrade": {"soak": "0s", "progressDeadline": deadline, "finalizeAfter": "0s"},
        "apiServer": {"replicas": 2},
    });
    spec.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    let object = json!({
        "apiVersion": "berth.dev/v1alpha1", "kind": "Cluster",
        "metadata": {"name": name, "labels": {labels::WAVE: wave.to_string()}}, "spec": spec,
    });
    let cluster: Cluster = serde_json::from_value(object).unwrap();
    team.clusters().create(&PostParams::default(), &cluster).await.unwrap();
}

async fn clusters(team: &Team) -> Result<Vec<Cluster>> {
    Ok(team.clusters().list(&ListParams::default()).await?.items)
}

fn state(cluster: &Cluster) -> Option<TurnState> {
    Some(cluster.status.as_ref()?.turn.as_ref()?.state)
}

fn ready(cluster: &Cluster) -> (String, String, String) {
    let conditions = cluster.status.clone().unwrap_or_default().conditions;
    find(&conditions, ConditionType::Ready)
        .map_or_else(Default::default, |ready| (ready.status.clone(), ready.reason.clone(), ready.message.clone()))
}

/// Waits until all of them are as wanted.
async fn all(team: &Team, what: &str, wanted: impl Fn(&Cluster) -> bool) {
    let attempt = async || {
        let all = clusters(team).await?;
        let other: Vec<_> = all.iter().filter(|c| !wanted(c)).map(|c| (c.name_any(), state(c), ready(c))).collect();
        ensure!(other.is_empty(), "{other:#?}");
        Ok(())
    };
    eventually(LONG, what, attempt).await.unwrap_or_else(|e| panic!("{e:#}"));
}

async fn up(team: &Team) {
    all(team, "all to be up and recorded", |c| {
        ready(c).0 == "True" && c.status.as_ref().is_some_and(|s| s.history.len() == 1)
    })
    .await;
}

/// Sets the version of all, one after the other as `kubectl berth upgrade -A` does: lower waves first.
async fn upgrade(team: &Team) {
    let mut all = clusters(team).await.unwrap();
    all.sort_by_key(|cluster| cluster.labels()[labels::WAVE].clone());
    for cluster in all {
        set(team, &cluster.name_any(), NEW).await;
    }
}

async fn set(team: &Team, name: &str, version: &str) {
    team.merge(name, &json!({"spec": {"version": version}})).await;
}

/// What an API server announced of a control plane, in the order of its etcd.
#[derive(Clone, Debug)]
enum News {
    /// It has a turn, or none.
    Turn(bool),
    /// A workload is to run that version.
    Runs(String),
}

/// All that happened to turns and workloads.
struct Log {
    all: Arc<Mutex<BTreeMap<u64, (String, News)>>>,
    tasks: Vec<JoinHandle<()>>,
}

impl Drop for Log {
    fn drop(&mut self) {
        for task in &self.tasks {
            task.abort();
        }
    }
}

impl Log {
    /// Waits until so many have begun.
    async fn began(&self, ours: &[String], wanted: usize) {
        let attempt = async || {
            let all = self.all.lock().unwrap();
            let new = all.values().filter(|(_, news)| matches!(news, News::Runs(version) if version == NEW));
            let places: BTreeSet<&String> = new.map(|(place, _)| place).filter(|place| ours.contains(place)).collect();
            ensure!(places.len() >= wanted, "{places:?}");
            Ok(())
        };
        eventually(LONG, "a change to begin", attempt).await.unwrap_or_else(|e| panic!("{e:#}"));
    }

    fn of(server: &ApiServer) -> Self {
        let all: Arc<Mutex<BTreeMap<u64, (String, News)>>> = Arc::default();
        let keep = |all: &Arc<Mutex<BTreeMap<u64, (String, News)>>>, version: Option<String>, at: String, news| {
            all.lock().unwrap().insert(version.unwrap().parse().unwrap(), (at, news));
        };
        let namespaces = watcher(Api::<Namespace>::all(server.client()), watcher::Config::default());
        let to = all.clone();
        let turns = namespaces.try_for_each(move |event| {
            if let Event::Apply(ns) | Event::InitApply(ns) = event {
                let has = ns.annotations().contains_key(labels::TURN);
                keep(&to, ns.resource_version(), ns.name_any(), News::Turn(has));
            }
            futures::future::ok(())
        });
        let deployments = watcher(Api::<Deployment>::all(server.client()), watcher::Config::default());
        let to = all.clone();
        let runs = deployments.try_for_each(move |event| {
            if let Event::Apply(d) | Event::InitApply(d) = event {
                // Tenants' own Deployments are here, too.
                let template = d.spec.as_ref().and_then(|spec| spec.template.metadata.as_ref());
                let version = template.and_then(|meta| meta.labels.as_ref()?.get(labels::VERSION).cloned());
                let version = version.unwrap_or_default();
                keep(&to, d.resource_version(), d.namespace().unwrap(), News::Runs(version));
            }
            futures::future::ok(())
        });
        let tasks =
            vec![tokio::spawn(async move { turns.await.unwrap() }), tokio::spawn(async move { runs.await.unwrap() })];
        Self { all, tasks }
    }

    /// These control planes in the order in which they began, once it holds that none began without a turn, and no more than so many had one, and
    /// at least so many did once. Where tenants of another test are left at the server, a team leaves a place to others.
    fn check(&self, ours: &BTreeSet<String>, (least, most): (usize, usize)) -> Vec<String> {
        let mut has: BTreeSet<String> = BTreeSet::new();
        let mut began: Vec<String> = vec![];
        let mut highest = 0;
        for (place, news) in self.all.lock().unwrap().values().filter(|(place, _)| ours.contains(place)) {
            match news {
                News::Turn(true) => drop(has.insert(place.clone())),
                News::Turn(false) => drop(has.remove(place)),
                News::Runs(version) if version == NEW && !began.contains(place) => {
                    assert!(has.contains(place), "{place} began without a turn");
                    began.push(place.clone());
                }
                News::Runs(_) => {}
            }
            highest = highest.max(has.len());
            assert!(has.len() <= most, "{has:?}");
        }
        assert!(highest >= least, "{highest} at once: it was not tried");
        began
    }
}

fn place(team: &Team, name: &str) -> String {
    names::control_plane_namespace(&team.ns, name)
}

const NAMES: [&str; 12] = [
    "flags",
    "poisoned-a",
    "poisoned-b",
    "well-a",
    "poisoned-c",
    "well-b",
    "well-c",
    "well-d",
    "well-e",
    "well-f",
    "well-g",
    "well-h",
];

#[tokio::test]
#[ignore = "make test-all: two minutes; what the fleet decides is tested with each turn in `crates/plan/src/fleet`"]
async fn waves_come_one_after_the_other_and_those_that_came_back_stop_the_rest_until_they_are_set_back() {
    let (_turn, server) = alone_at_a_server().await;
    let team = Team::new(server).await;
    let plan = FaultPlan::new();
    let log = Log::of(server);
    let operator = Running::start_with(server, rollouts(3), &plan);
    for (n, name) in NAMES.iter().enumerate() {
        create(&team, name, n / 4, &json!({})).await;
    }
    up(&team).await;
    // One breaks itself by its own flags.
    let flags = json!({"spec": {"apiServer": {"extraArgs": [{"name": CRASHES, "value": "1"}]}, "version": NEW}});
    team.merge("flags", &flags).await;
    upgrade(&team).await;

    // Leaders come and go in the middle of it: each goes on with what is recorded.
    let mut operator = operator;
    let places = NAMES.map(|name| place(&team, name));
    for wanted in 1..=3 {
        log.began(&places, wanted).await;
        drop(operator);
        operator = Running::start_with(server, rollouts(3), &plan);
    }

    // The first wave has two that come back, and may: the second begins. With the third nobody else does.
    let waits = |c: &Cluster| ["FleetStopped", "WaitingForTurn"].contains(&&*ready(c).1);
    all(&team, "the fleet to stop", |c| match &*c.name_any() {
        name if name.starts_with("poisoned") || name == "flags" => state(c) == Some(TurnState::Failed),
        "well-e" | "well-f" | "well-g" | "well-h" => {
            let (status, reason, message) = ready(c);
            let named = ["a", "b", "c"].iter().all(|n| message.contains(&format!("{}/poisoned-{n}", team.ns)));
            status == "True" && reason == "FleetStopped" && named && !message.contains("flags")
        }
        "well-a" => state(c) == Some(TurnState::Succeeded),
        _ => state(c) == Some(TurnState::Succeeded) || waits(c),
    })
    .await;
    // Who waits is as it was, and repaired.
    let waiting = place(&team, "well-h");
    let deployments = Api::<Deployment>::namespaced(server.client(), &waiting);
    let scale = Patch::Merge(json!({"spec": {"replicas": 7}}));
    deployments.patch(names::APISERVER, &PatchParams::default(), &scale).await.unwrap();
    let repaired = async || {
        let spec = deployments.get(names::APISERVER).await?.spec.unwrap();
        ensure!(spec.replicas == Some(2), "{:?}", spec.replicas);
        Ok(())
    };
    eventually(LONG, "a repair", repaired).await.unwrap_or_else(|e| panic!("{e:#}"));
    let revisions = Api::<ClusterRevision>::namespaced(server.client(), &waiting);
    assert_eq!(revisions.list(&ListParams::default()).await.unwrap().items.len(), 1, "it has not begun");

    // A new leader finds it as it is.
    drop(operator);
    let operator = Running::start_with(server, rollouts(3), &plan);
    operator.reconciled("cluster", 12).await;
    all(&team, "the fleet to be stopped still", |c| c.name_any() != "well-h" || ready(c).1 == "FleetStopped").await;

    for name in ["poisoned-a", "poisoned-b", "poisoned-c"] {
        set(&team, name, OLD).await;
    }
    all(&team, "all others to have it", |c| match &*c.name_any() {
        name if name.starts_with("poisoned") => ready(c).0 == "True" && state(c).is_none(),
        "flags" => state(c) == Some(TurnState::Failed),
        _ => state(c) == Some(TurnState::Succeeded) && ready(c).1 == "AsExpected",
    })
    .await;
    let began = log.check(&places.iter().cloned().collect(), (2, 3));
    let waves: Vec<usize> = began.iter().map(|at| places.iter().position(|place| place == at).unwrap() / 4).collect();
    assert!(waves.is_sorted(), "{waves:?}");
    assert_eq!(waves.len(), 12);
    drop(operator);
    team.wipe_all().await;
}

#[tokio::test]
async fn in_a_wave_a_team_with_many_keeps_no_other_from_its_turn() {
    let (_turn, server) = alone_at_a_server().await;
    let (many, few) = (Team::new(server).await, Team::new(server).await);
    let plan = FaultPlan::new();
    let log = Log::of(server);
    // Nobody begins until all are asked.
    let operator = Running::start_with(server, rollouts(0), &plan);
    for name in ["a", "b", "c", "d"] {
        create(&many, name, 5, &json!({})).await;
    }
    create(&few, "z", 5, &json!({})).await;
    for team in [&many, &few] {
        up(team).await;
        upgrade(team).await;
        all(team, "all to wait", |c| ready(c).1 == "WaitingForTurn").await;
    }
    drop(operator);
    let operator = Running::start_with(server, rollouts(2), &plan);
    for team in [&many, &few] {
        all(team, "all to have it", |c| state(c) == Some(TurnState::Succeeded) && ready(c).1 == "AsExpected").await;
    }
    let ours = ["a", "b", "c", "d"].map(|name| place(&many, name)).into_iter().chain([place(&few, "z")]).collect();
    let began = log.check(&ours, (2, 2));
    assert_eq!(began.len(), 5);
    assert!(began[..2].contains(&place(&few, "z")), "{began:?}");
    drop(operator);
    many.wipe_all().await;
    few.wipe_all().await;
}
