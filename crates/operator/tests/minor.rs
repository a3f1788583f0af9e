//! A minor in two steps against a real API server: the order of the writes, what is recorded, the way back, and what is refused.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

mod common;

use anyhow::{Result, ensure};
use berth_api::conditions::ConditionType;
use berth_api::labels;
use berth_testkit::fixtures::eventually;
use common::{SHARED_CALLS, SOON, Team, shared_operator};
use k8s_openapi::api::apps::v1::Deployment;
use serde_json::json;

const OLD: &str = "1.35.4";
const NEW: &str = "1.36.3";
const COMPONENTS: [&str; 3] = ["kube-apiserver", "kube-controller-manager", "kube-scheduler"];

/// What a component runs: its version, and what it emulates.
async fn runs(team: &Team, name: &str) -> String {
    let live = team.inside::<Deployment>().get(name).await.unwrap();
    let template = live.spec.unwrap().template;
    let version = template.metadata.unwrap().labels.unwrap()[labels::VERSION].clone();
    let args = template.spec.unwrap().containers[0].args.clone().unwrap_or_default();
    let emulates = args.iter().find_map(|arg| arg.strip_prefix("--emulated-version="));
    emulates.map_or_else(|| version.clone(), |minor| format!("{version} as {minor}"))
}

async fn all_run(team: &Team, what: &str) {
    for name in COMPONENTS {
        assert_eq!(runs(team, name).await, what, "{name}");
    }
}

async fn note(team: &Team, name: &str) -> Option<String> {
    team.namespaces().get(&team.cp_namespace).await.unwrap().metadata.annotations.unwrap_or_default().get(name).cloned()
}

async fn ready(team: &Team, reason: &str) -> String {
    let attempt = async || -> Result<String> {
        let cluster = team.ready().await?;
        let now = team.condition(ConditionType::Ready).await?;
        ensure!(now.reason == reason && now.observed_generation == cluster.metadata.generation, "{now:?}");
        Ok(now.message)
    };
    eventually(SOON, reason, attempt).await.unwrap_or_else(|e| panic!("{e:#}"))
}

/// The writes to the components and the namespace since then, in their order, each once.
fn order(team: &Team, mark: usize) -> Vec<String> {
    let calls = SHARED_CALLS.calls_after(mark);
    let of = |call: &&berth_testkit::fault::Call| {
        let component = call.resource == "deployments" && call.namespace == team.cp_namespace;
        call.committed() && (component || (call.resource == "namespaces" && call.name == team.cp_namespace))
    };
    let mut all: Vec<String> = calls.iter().filter(of).map(|call| call.name.clone()).collect();
    all.dedup();
    all
}

#[tokio::test]
async fn a_minor_changes_in_two_steps_and_goes_back_in_the_first() {
    let team = Team::new(shared_operator().await).await;
    team.create(json!({"version": OLD, "upgrade": {"finalizeAfter": "168h"}})).await.unwrap();
    ready(&team, "AsExpected").await;
    assert_eq!(note(&team, labels::SERVED_MINOR).await.as_deref(), Some("1.35"));
    let home = team.cp_namespace.as_str();
    let [api, manager, scheduler] = COMPONENTS;

    let mark = SHARED_CALLS.calls().len();
    team.spec(json!({"version": NEW})).await.unwrap();
    let message = ready(&team, "Emulating").await;
    assert!(message.contains("set spec.version to 1.35.4"), "{message}");
    all_run(&team, "1.36.3 as 1.35").await;
    // It is recorded when it begins, and when it is through.
    assert_eq!(order(&team, mark), [home, api, manager, scheduler, home]);
    assert_eq!(note(&team, labels::KUBERNETES_VERSION).await.as_deref(), Some(OLD));

    let mark = SHARED_CALLS.calls().len();
    team.reconciled(&SHARED_CALLS).await;
    assert_eq!(order(&team, mark), [""; 0], "at rest");

    let mark = SHARED_CALLS.calls().len();
    team.spec(json!({"version": OLD})).await.unwrap();
    ready(&team, "AsExpected").await;
    all_run(&team, OLD).await;
    assert_eq!(order(&team, mark), [home, manager, scheduler, api, home], "the other way round");
    assert_eq!(note(&team, labels::UPGRADE).await, None);

    team.spec(json!({"version": NEW})).await.unwrap();
    ready(&team, "Emulating").await;
    let mark = SHARED_CALLS.calls().len();
    team.spec(json!({"upgrade": {"finalizeAfter": "0s"}})).await.unwrap();
    ready(&team, "AsExpected").await;
    all_run(&team, NEW).await;
    assert_eq!(order(&team, mark), [home, api, manager, scheduler, home]);
    assert_eq!(note(&team, labels::SERVED_MINOR).await.as_deref(), Some("1.36"));
    assert_eq!(note(&team, labels::UPGRADE).await, None);

    let mark = SHARED_CALLS.calls().len();
    team.spec(json!({"version": OLD})).await.unwrap();
    let message = team.says(ConditionType::Ready, "DowngradeUnsafe").await;
    assert!(message.contains("Set a patch version of 1.36"), "{message}");
    assert_eq!(order(&team, mark), [""; 0]);
    all_run(&team, NEW).await;
    team.delete().await;
    team.gone().await.unwrap();
}

#[tokio::test]
async fn durations_are_bounded() {
    let team = Team::with_cluster(shared_operator().await).await;
    for (bad, says) in [
        ("169h", "must be a duration from 0s to 168h"),
        ("", "must be a duration from 0s to 168h"),
        ("ten minutes", "should match"),
    ] {
        let refused = team.spec(json!({"upgrade": {"finalizeAfter": bad}})).await.unwrap_err().to_string();
        assert!(refused.contains(says), "{bad}: {refused}");
    }
    for good in ["0s", "168h", "1h30m", "90s"] {
        team.spec(json!({"upgrade": {"finalizeAfter": good}})).await.unwrap();
    }
    team.delete().await;
    team.gone().await.unwrap();
}
