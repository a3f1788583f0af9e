//! `Cluster`s whose every call hangs, or whose reconciles panic, and others beside them that must not notice.

use crate::common::team::TOUCHED;
use crate::common::{Running, SOON, Team, alone_at_a_server, me, tenant};
use berth_api::conditions::ConditionType;
use berth_api::{labels, names};
use berth_testkit::fault::{Call, Fault};
use berth_testkit::{ApiServer, FaultPlan, fixtures::eventually, fixtures::until, yaml};
use k8s_openapi::api::core::v1::Namespace;
use kube::api::{ListParams, PostParams};
use serde_json::json;
use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// More than are worked on at once.
const POISONED: usize = 40;

/// A team of `Cluster`s named `<prefix>-<n>`; where `begun`, each has its control-plane namespace already.
async fn poisoned(server: &ApiServer, prefix: &str, number: usize, begun: bool) -> Team {
    let team = Team::new(server).await;
    for n in 0..number {
        let name = format!("{prefix}-{n}");
        if begun {
            let cp_namespace = names::control_plane_namespace(&team.ns, &name);
            let cp_namespace: Namespace = yaml!(
                "{{metadata: {{name: {cp_namespace}, labels: {{{}: {}}}}}}}",
                labels::MANAGED_BY,
                labels::MANAGED_BY_VALUE
            );
            team.namespaces().create(&PostParams::default(), &cp_namespace).await.expect("namespace");
        }
        team.create_as(&name, json!({})).await.expect("Cluster");
    }
    team
}

/// Calls about a poisoned one; `begun`: only those into its namespace, many at a time.
fn about(call: &Call, prefix: &str, begun: bool) -> bool {
    if begun { call.namespace.starts_with(prefix) } else { call.name.starts_with(prefix) }
}

fn hung(plan: &FaultPlan, prefix: &str, begun: bool) -> BTreeSet<String> {
    let calls = plan.calls();
    let of = calls.iter().filter(|c| c.code.is_none() && about(c, prefix, begun));
    of.map(|c| if begun { c.namespace.clone() } else { c.name.clone() }).collect()
}

#[tokio::test]
async fn however_many_hang_others_come_up() {
    let (_turn, server) = alone_at_a_server().await;
    for begun in [false, true] {
        let (prefix, plan) = (if begun { "begun" } else { "unread" }, FaultPlan::new());
        let poison = poisoned(server, prefix, POISONED, begun).await;
        plan.when(move |c| about(c, prefix, begun), Fault::Hang);
        let running = Running::start(server, &plan);
        until(SOON, "as many hang as are worked on at once", async || {
            hung(&plan, prefix, begun).len() >= usize::from(running.concurrency)
        })
        .await;
        let good = [Team::with_cluster(server).await, Team::with_cluster(server).await];
        for team in &good {
            team.ready().await.unwrap_or_else(|e| panic!("{prefix}: {e:#}"));
        }
        // The queue gives no order, so the last of them may begin only now. None was answered.
        until(SOON, "each was begun", async || hung(&plan, prefix, begun).len() == POISONED).await;
        drop(running);
        for team in &good {
            team.wipe().await;
        }
        poison.wipe_all().await;
    }
}

#[tokio::test]
async fn a_reconcile_that_panics_is_reported_and_others_come_up() {
    let (_turn, server) = alone_at_a_server().await;
    let (bad, plan) = (Team::with_cluster(server).await, FaultPlan::new());
    let running = Running::start(server, &plan);
    bad.ready().await.unwrap_or_else(|e| panic!("{e:#}"));
    drop(running);
    let id = bad.tenant().await.expect("tenant");
    let running = Running::start_changed(server, me(server), &plan, |context| {
        let connect = context.connect.clone();
        context.connect = Arc::new(move |target| {
            assert_ne!(tenant::id(&target.ca_cert), id, "a bug");
            connect(target)
        });
    });
    bad.says_of(ConditionType::Ready, "Error", "panicked: this is a bug in the operator").await;
    let good = Team::with_cluster(server).await;
    good.ready().await.unwrap_or_else(|e| panic!("{e:#}"));
    drop(running);
    let _running = Running::start(server, &plan);
    bad.ready().await.unwrap_or_else(|e| panic!("{e:#}"));
    bad.wipe().await;
    good.wipe().await;
}

const GOOD: usize = 100;

/// A hundred control planes that need no pod, in the hands of an operator.
struct Crowd {
    team: Team,
    plan: FaultPlan,
    _running: Running,
}

impl Crowd {
    async fn new(server: &'static ApiServer) -> Self {
        let (team, plan) = (Team::new(server).await, FaultPlan::new());
        for n in 0..GOOD {
            team.create_as(&format!("good-{n}"), json!({})).await.expect("Cluster");
        }
        let crowd = Self { team, _running: Running::start(server, &plan), plan };
        crowd.written(0, "deployments", names::SCHEDULER).await;
        crowd
    }

    /// Waits until that object of each was written, after that many calls of the operator's.
    async fn written(&self, mark: usize, resource: &str, name: &str) {
        const LONG: Duration = Duration::from_mins(10);
        let all = async || {
            let calls = self.plan.calls_after(mark);
            let written = calls.iter().filter(|c| c.committed() && c.resource == resource && c.name == name);
            let written = written.map(|c| &c.namespace).filter(|n| n.starts_with("good-"));
            let written = written.collect::<BTreeSet<_>>().len();
            anyhow::ensure!(written == GOOD, "{written} of {GOOD}");
            Ok(())
        };
        eventually(LONG, "a hundred control planes", all).await.unwrap_or_else(|e| panic!("{e:#}"));
    }

    /// Seconds until a change of each is carried out, while every call about those of `bad` hangs for a minute.
    async fn change(&self, round: usize, bad: &Team) -> f32 {
        // Calls that hang from the round before have met their deadlines by then.
        tokio::time::sleep(Duration::from_secs(20)).await;
        let poisoned = bad.clusters().list(&ListParams::default()).await.expect("list").items;
        if !poisoned.is_empty() {
            let touch = json!({"metadata": {"annotations": {(TOUCHED): round.to_string()}}});
            let mark = self.plan.calls().len();
            self.plan.when(|c| about(c, "bad", true) || about(c, "bad", false), Fault::Delay(Duration::from_mins(1)));
            for cluster in &poisoned {
                bad.merge(cluster.metadata.name.as_deref().unwrap_or_default(), &touch).await;
            }
            let hang = |c: &Call| c.code.is_none() && about(c, "bad", false);
            until(SOON, "a call about one hangs", async || self.plan.calls_after(mark).iter().any(hang)).await;
        }
        let (began, mark) = (Instant::now(), self.plan.calls().len());
        // What no pod has to be there for.
        let spec = json!({"spec": {"endpoint": {"certSANs": [format!("round-{round}.example.com")]}}});
        for n in 0..GOOD {
            self.team.merge(&format!("good-{n}"), &spec).await;
        }
        self.written(mark, "secrets", names::APISERVER_PKI).await;
        let took = began.elapsed().as_secs_f32();
        self.plan.clear();
        took
    }
}

/// What one that is poisoned may cost a hundred others, in seconds.
const DELAY: f32 = 1.0;

/// Without and with one that is poisoned in turns, and with more than are worked on at once. Medians are compared.
#[tokio::test]
#[ignore = "make chaos: seven minutes, on a quiet machine"]
async fn a_hundred_beside_poisoned_ones() {
    const ROUNDS: usize = 7;
    let (_turn, server) = alone_at_a_server().await;
    let bad = [0, 1, POISONED].map(|number| poisoned(server, "bad", number, true));
    let [none, one, many] = futures::future::join_all(bad).await.try_into().ok().expect("three teams");
    let crowd = Crowd::new(server).await;
    let (mut without, mut with) = (vec![], vec![]);
    for round in 0..ROUNDS {
        without.push(crowd.change(2 * round, &none).await);
        with.push(crowd.change(2 * round + 1, &one).await);
    }
    let beside_many = crowd.change(2 * ROUNDS, &many).await;
    println!(
        "a change of a hundred: {without:.1?} s; beside one that is poisoned {with:.1?}; beside {POISONED} {beside_many:.1}"
    );
    for took in [&mut without, &mut with] {
        took.sort_by(f32::total_cmp);
    }
    let delay = with[ROUNDS / 2] - without[ROUNDS / 2];
    assert!(delay <= DELAY, "one that is poisoned delays a hundred by {delay:.1} s: {with:.1?}, not {without:.1?}");
    crowd.team.wipe_all().await;
    for team in [none, one, many] {
        team.wipe_all().await;
    }
}
