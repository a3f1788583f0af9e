//! What networks and API servers do to a creation: it ends as if nothing had happened, and nothing is made twice.

use crate::common::state::{counts, dump, second_reconcile, settled};
use crate::common::{Running, SOON, Team, alone_at_a_server, crds};
use berth_testkit::fault::{Call, Fault, Verb};
use berth_testkit::oracle::{Counts, Dump, assert_keys_unchanged, diff, diff_counts, secret_keys};
use berth_testkit::{ApiServer, FaultPlan, World, fixtures::until};
use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use kube::{Api, ResourceExt};
use serde_json::json;
use std::time::Duration;

/// A creation under faults, to its end.
async fn creation(server: &'static ApiServer, break_it: impl FnOnce(&FaultPlan)) -> (Dump, Counts) {
    let team = Team::with_cluster(server).await;
    let plan = FaultPlan::new();
    break_it(&plan);
    let running = Running::start(server, &plan);
    team.ready().await.unwrap_or_else(|e| panic!("{e:#}"));
    second_reconcile(&team, &plan).await.unwrap_or_else(|e| panic!("{e:#}"));
    drop(running);
    let tenant = team.tenant().await.expect("tenant");
    let end = (dump(&team).await.expect("dump"), counts(&team, &tenant, &plan));
    team.wipe().await;
    end
}

fn refuse(code: u16, times: usize, verbs: &'static [Verb]) -> impl FnOnce(&FaultPlan) {
    let retry_after = (code == 429).then_some(1);
    move |plan| {
        for verb in verbs {
            plan.when_times(times, move |c: &Call| c.verb == *verb, Fault::Status { code, retry_after });
        }
    }
}

const ALL: &[Verb] = &[Verb::Get, Verb::List, Verb::Watch, Verb::Create, Verb::Apply, Verb::Patch];

#[tokio::test]
async fn refusals_and_losses_delay_and_change_nothing() {
    let (_turn, server) = alone_at_a_server().await;
    let expected = creation(server, |_| {}).await;
    let same = |name: &str, (state, counts): (Dump, Counts)| {
        let difference = [diff(&expected.0, &state), diff_counts(&expected.1, &counts)].join("\n");
        assert!(difference.trim().is_empty(), "{name}:\n{difference}");
        println!("{name}: ok");
    };
    same("409", creation(server, refuse(409, 2, &[Verb::Create, Verb::Apply, Verb::Patch])).await);
    same("429", creation(server, refuse(429, 1, ALL)).await);
    same("500", creation(server, refuse(500, 2, ALL)).await);
    let lose = |fault: Fault| {
        move |plan: &FaultPlan| {
            for verb in ALL {
                plan.when_times(2, move |c: &Call| c.verb == *verb, fault.clone());
            }
        }
    };
    same("not sent", creation(server, lose(Fault::FailBefore)).await);
    same("reply lost", creation(server, lose(Fault::LoseReply)).await);
}

#[tokio::test]
async fn watches_that_are_cut_expire_or_miss_events_change_nothing() {
    let (_turn, server) = alone_at_a_server().await;
    let expected = creation(server, |_| {}).await;
    let cut = |gone| {
        move |plan: &FaultPlan| {
            for resource in
                ["clusters", "etcdclusters", "pods", "deployments", "services", "namespaces", "statefulsets"]
            {
                for events in 0..2 {
                    plan.cut_watch_after(events, gone, move |c: &Call| c.resource == resource);
                }
            }
        }
    };
    for (name, end) in [("cut", creation(server, cut(false)).await), ("410", creation(server, cut(true)).await)] {
        assert_eq!(diff(&expected.0, &end.0), "", "{name}");
        assert_eq!(diff_counts(&expected.1, &end.1), "", "{name}");
    }
    let end = creation(server, |plan| {
        plan.drop_events(6, |e| e.path.ends_with("/services") || e.path.ends_with("/namespaces"));
    })
    .await;
    assert_eq!(diff(&expected.0, &end.0), "");
}

/// Sieve's "time travel": after a restart, the operator reads from a server frozen at a moment when an earlier tenant of
/// this name was being deleted, while the present one lives.
#[tokio::test]
async fn a_view_of_a_former_tenants_end_does_no_harm_to_the_present_one() {
    let (_turn, server) = alone_at_a_server().await;
    let (team, plan) = (Team::with_cluster(server).await, FaultPlan::new());
    let running = Running::start(server, &plan);
    team.ready().await.expect("ready");
    drop(running);
    team.delete().await;
    let then = server.resource_version().await.expect("version");
    let running = Running::start(server, &plan);
    team.gone().await.expect("gone");
    team.create(json!({})).await.expect("again");
    team.ready().await.expect("ready again");
    settled(&plan).await;
    drop(running);

    let spaces = [&*team.ns, &*team.cp_namespace];
    let (keys, cp_namespace) = (
        secret_keys(&team.client, &spaces).await.expect("keys"),
        team.namespaces().get(&team.cp_namespace).await.expect("home"),
    );
    let state = dump(&team).await.expect("dump");
    let past = async |reads: fn(&Call) -> bool, times: u64| {
        plan.reset_log();
        plan.time_travel(&then, reads);
        let running = Running::start(server, &plan);
        running.reconciled("cluster", times).await;
        running.reconciled("etcdcluster", 1).await;
        drop(running);
        let calls = plan.calls();
        let written = calls.iter().filter(|c| c.committed() && c.resource != "events");
        written.map(|c| format!("{:?} {}", c.verb, c.object())).collect::<Vec<_>>()
    };
    // What a lagging watch cache may do. What is read again is well, so that is all for a minute.
    assert!(past(|c| c.query.contains("resourceVersion"), 1).await.is_empty());
    // What no API server does: even quorum reads are old. The published kubeconfig is looked at by a dry run, which is new.
    let written = past(|_| true, 4).await;
    assert_eq!(written, [format!("Delete {}/secrets/acme-kubeconfig", team.ns)]);
    assert_eq!(team.namespaces().get(&team.cp_namespace).await.expect("home").uid(), cp_namespace.uid());
    plan.return_to_present();
    let running = Running::start(server, &plan);
    let secrets = Api::<Secret>::namespaced(team.client.clone(), &team.ns);
    until(SOON, "the kubeconfig is back", async || secrets.get_opt("acme-kubeconfig").await.expect("get").is_some())
        .await;
    team.ready().await.expect("ready");
    settled(&plan).await;
    drop(running);
    let now = secret_keys(&team.client, &spaces).await.expect("keys");
    assert_keys_unchanged(&keys, &now);
    assert_eq!(diff(&state, &dump(&team).await.expect("dump")), "");
    team.wipe().await;
}

/// A view from before the creation: what is missing in it is not recreated.
#[tokio::test]
async fn a_view_from_before_makes_no_keys_and_unforms_no_etcd() {
    let (_turn, server) = alone_at_a_server().await;
    let (team, plan) = (Team::with_cluster(server).await, FaultPlan::new());
    let then = server.resource_version().await.expect("version");
    let running = Running::start(server, &plan);
    team.ready().await.expect("ready");
    settled(&plan).await;
    drop(running);
    let keys = secret_keys(&team.client, &[&team.ns, &team.cp_namespace]).await.expect("keys");
    let formed = team.inside::<ConfigMap>().get("etcd-bootstrap").await.expect("bootstrap").data;
    plan.time_travel(&then, |_| true);
    let running = Running::start(server, &plan);
    let before = plan.mutations();
    running.reconciled("cluster", 4).await;
    assert!(plan.mutations() > before, "it tried to make what it did not see");
    assert_keys_unchanged(&keys, &secret_keys(&team.client, &[&team.ns, &team.cp_namespace]).await.expect("keys"));
    assert_eq!(team.inside::<ConfigMap>().get("etcd-bootstrap").await.expect("bootstrap").data, formed);
    drop(running);
    plan.return_to_present();
    let _running = Running::start(server, &plan);
    team.ready().await.expect("ready");
    assert_keys_unchanged(&keys, &secret_keys(&team.client, &[&team.ns, &team.cp_namespace]).await.expect("keys"));
    team.wipe().await;
}

#[tokio::test]
async fn an_api_server_that_goes_and_comes_back_is_waited_for() {
    let server: &'static ApiServer = Box::leak(Box::new(ApiServer::start().await.expect("server")));
    server.install_crds(&crds()).await.expect("CRDs");
    let _world = World::builder(server.client()).start().await.expect("world");
    let (team, plan) = (Team::with_cluster(server).await, FaultPlan::new());
    let _running = Running::start(server, &plan);
    until(SOON, "half a tenant", async || plan.mutations() > 15).await;
    server.stop_apiserver();
    let mark = plan.calls().len();
    until(SOON, "calls in vain", async || plan.calls_after(mark).len() > 3).await;
    server.start_apiserver().await.expect("back");
    team.ready().await.unwrap_or_else(|e| panic!("{e:#}"));
    let back = std::time::Instant::now();
    second_reconcile(&team, &plan).await.unwrap_or_else(|e| panic!("{e:#}"));
    assert!(back.elapsed() < Duration::from_secs(30), "the watches are heard again only after {:?}", back.elapsed());
    let made = berth_testkit::oracle::call_counts(&plan.calls());
    let twice: Vec<_> = made.iter().filter(|(k, n)| **n > 1 && !k.contains("events")).collect();
    assert!(twice.is_empty(), "{twice:?}");
}
