//! An operator whose clock is wrong: it says so, leads all the same, and leaves tenants that are there as they are.

use crate::common::team::ACME;
use crate::common::{SOON, Team, crds, full};
use crate::outage::{asked, free_address};
use crate::{Operator, holder, system};
use berth_api::conditions::ConditionType;
use berth_api::names;
use berth_testkit::oracle::{SecretKeys, secret_keys};
use berth_testkit::{ApiServer, World, fixtures::until};
use jiff::Timestamp;
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::Secret;
use kube::ResourceExt;
use kube::api::ListParams;
use rustix::process::Signal;
use std::time::Duration;

/// Minutes that it is ahead. The sample of `make test`: those that a certificate's five minutes do not cover.
fn offsets() -> &'static [i64] {
    if full() { &[-15, -4, 4, 15] } else { &[-15, 15] }
}

/// Only the wall clock is wrong: timers go by the other one.
fn start(server: &ApiServer, name: &'static str, address: &str, minutes: i64) -> Operator {
    let (listen, seconds) = (format!("--listen={address}"), (60 * minutes).to_string());
    Operator::start_with(server, name, &[&listen], &[(berth_fence::clock::TEST_AHEAD, &seconds)])
}

/// Leads, has made a tenant of its own, and has looked at the other one.
async fn works(server: &ApiServer, operator: &Operator, old: &Team) -> Team {
    until(Duration::from_mins(2), operator.name, async || holder(server).await == operator.name).await;
    let team = Team::with_cluster(server).await;
    until(SOON, "a control plane", async || {
        team.inside::<Deployment>().get_opt("kube-scheduler").await.is_ok_and(|d| d.is_some())
    })
    .await;
    let mark = server.audit_mark();
    old.reconciled_by(|| {
        let all = server.audit_since(mark);
        let reads = |resource: &str, namespace: &str, name: &str| {
            let path = format!("/namespaces/{namespace}/{resource}/{name}");
            all.iter().filter(|e| e.user == operator.name && e.verb == "get" && e.uri.ends_with(&path)).count()
        };
        [reads("clusters", &old.ns, ACME), reads("etcdclusters", &old.cp_namespace, names::ETCD)]
    })
    .await
    .expect("reconciles of the old one");
    team
}

/// What a wrong clock must not change: pods' templates, and every key.
async fn state(team: &Team) -> (Vec<String>, SecretKeys) {
    let deployments = team.inside::<Deployment>().list(&ListParams::default()).await.expect("list");
    let templates = deployments.into_iter().map(|d| format!("{} {:?} {:?}", d.name_any(), d.uid(), d.spec)).collect();
    let mut keys = secret_keys(&team.client, &[&team.ns, &team.cp_namespace]).await.expect("keys");
    keys.retain(|key, _| key.strip_suffix(".key").is_some());
    (templates, keys)
}

/// That, once nothing more comes to it.
async fn settled(team: &Team) -> (Vec<String>, SecretKeys) {
    let mut last = state(team).await;
    loop {
        tokio::time::sleep(Duration::from_secs(2)).await;
        let now = state(team).await;
        if now == last {
            return now;
        }
        last = now;
    }
}

/// Since when the certificate of the tenant's API server is valid: by the API server's clock and by the operator's.
async fn valid_since(team: &Team) -> Timestamp {
    let secret = team.inside::<Secret>().get(names::APISERVER_PKI).await.expect("get");
    let data = secret.data.expect("data");
    berth_pki::inspect(&data["apiserver.crt"].0).expect("a certificate").not_before
}

/// How far ahead the operator says that it is, in seconds.
fn ahead(address: &str) -> Option<f64> {
    let (status, text) = asked(address, "/metrics")?;
    let line = text.lines().find(|l| l.starts_with("berth_clock_ahead_seconds "))?;
    (status == 200).then(|| line.split_whitespace().nth(1)?.parse().ok())?
}

#[tokio::test]
async fn a_clock_that_is_wrong_is_reported_and_changes_nothing_that_is_there() {
    let server: &'static ApiServer = Box::leak(Box::new(ApiServer::start().await.expect("server")));
    server.install_crds(&crds()).await.expect("CRDs");
    let _world = World::builder(server.client()).start().await.expect("world");
    system(server).await;
    let old = Team::with_cluster(server).await;
    let address = free_address();
    let mut right = start(server, "right", &address, 0);
    works(server, &right, &old).await;
    let before = settled(&old).await;
    right.signal(Signal::TERM);
    until(SOON, "the end", async || right.has_ended()).await;
    for minutes in offsets() {
        let address = free_address();
        let mut wrong = start(server, "wrong", &address, *minutes);
        let new = works(server, &wrong, &old).await;
        let age = Timestamp::now().duration_since(valid_since(&new).await);
        let earlier = if *minutes < 0 { -minutes } else { 0 };
        assert!((4..=9).contains(&(age.as_mins() - earlier)), "{minutes} minutes: valid for {age:#}");
        let told = i32::try_from(*minutes).map(f64::from).unwrap();
        let about = |ahead: f64| (ahead / 60.0 - told).abs() < 1.0;
        until(SOON, "it says how wrong it is", async || ahead(&address).is_some_and(about)).await;
        assert_eq!(state(&old).await, before, "{minutes} minutes");
        let (off, side) = (minutes.abs(), if *minutes > 0 { "ahead of" } else { "behind" });
        let said = old.says(ConditionType::Degraded, "ClockSkew").await;
        assert!(said.contains(&format!("{off} min {side} the API server's")), "{said}");
        wrong.signal(Signal::TERM);
        until(SOON, "the end", async || wrong.has_ended()).await;
        println!("{minutes} minutes: told, and nothing was changed");
    }
    assert_eq!(
        old.condition(ConditionType::Degraded).await.expect("condition").status,
        "True",
        "nobody took it back yet"
    );
    let _right = start(server, "right", &free_address(), 0);
    until(Duration::from_mins(2), "what a wrong clock was told of is taken back", async || {
        old.condition(ConditionType::Degraded).await.is_ok_and(|c| c.status == "False")
    })
    .await;
}
