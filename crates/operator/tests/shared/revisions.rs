//! Releases against a real API server: what is recorded and immutable, the way back, and what is held.

use crate::common::{CRASHES, SHARED_CALLS, SOON, Team, shared_operator};
use anyhow::{Result, ensure};
use berth_api::conditions::ConditionType;
use berth_api::revision::{RevisionCause, RevisionOutcome};
use berth_api::{Cluster, ClusterRevision, labels, names};
use berth_testkit::fixtures::eventually;
use berth_testkit::{Fault, fault::Call};
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::Pod;
use kube::ResourceExt;
use kube::api::{ListParams, Patch, PatchParams};
use serde_json::json;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

fn flag() -> serde_json::Value {
    json!({"apiServer": {"extraArgs": [{"name": CRASHES, "value": "1"}]}})
}

async fn revision(team: &Team, number: i64) -> ClusterRevision {
    team.inside::<ClusterRevision>().get(&names::revision(number)).await.unwrap()
}

async fn came_to(team: &Team, number: i64, outcome: RevisionOutcome) {
    let attempt = async || -> Result<()> {
        let all = team.clusters().get("acme").await?.status.unwrap_or_default().history;
        let found = all.iter().find(|r| r.revision == number);
        ensure!(found.is_some_and(|found| found.outcome == Some(outcome)), "{all:?}");
        Ok(())
    };
    eventually(SOON, &format!("revision {number}: {outcome}"), attempt).await.unwrap_or_else(|e| panic!("{e:#}"));
}

async fn api_servers(team: &Team) -> Vec<String> {
    let of = ListParams::default().labels(&format!("{}={}", labels::COMPONENT, names::APISERVER));
    let mut pods: Vec<_> = team.inside::<Pod>().list(&of).await.unwrap().iter().map(ResourceExt::name_any).collect();
    pods.sort();
    pods
}

async fn crashes(team: &Team) -> bool {
    let live = team.inside::<Deployment>().get(names::APISERVER).await.unwrap();
    serde_json::to_string(&live.spec.unwrap().template).unwrap().contains(CRASHES)
}

/// The rollout makes no progress for so many seconds already.
async fn lasts(team: &Team, revision: i64, seconds: i64) {
    team.rolls_since(revision, seconds).await.unwrap_or_else(|e| panic!("{e:#}"));
}

#[tokio::test]
async fn a_release_that_does_not_come_up_is_taken_back_once_it_is_late() {
    let team = Team::new(shared_operator().await).await;
    let upgrade = json!({"progressDeadline": "1m", "soak": "0s"});
    team.create(json!({"apiServer": {"replicas": 2}, "upgrade": upgrade})).await.unwrap();
    team.ready().await.unwrap();
    came_to(&team, 1, RevisionOutcome::Succeeded).await;
    let first = revision(&team, 1).await;
    assert_eq!((first.spec.cause, first.spec.release.api_server.replicas), (RevisionCause::Creation, Some(2)));
    let patch = Patch::Merge(json!({"spec": {"release": {"replicas": 3}}}));
    let revisions = team.inside::<ClusterRevision>();
    let refused = revisions.patch("revision-1", &PatchParams::default(), &patch).await.unwrap_err().to_string();
    assert!(refused.contains("spec of a ClusterRevision is immutable"), "{refused}");
    let mark = SHARED_CALLS.calls().len();
    team.reconciled(&SHARED_CALLS).await;
    let writes =
        SHARED_CALLS.calls_after(mark).iter().filter(|c| c.committed() && c.namespace == team.cp_namespace).count();
    assert_eq!(writes, 0, "at rest");

    let before = api_servers(&team).await;
    let cause = json!({"metadata": {"annotations": {labels::CHANGE_CAUSE: "try a flag"}}});
    team.merge("acme", &cause).await;
    team.spec(flag()).await.unwrap();
    lasts(&team, 2, 50).await;
    team.reconciled(&SHARED_CALLS).await;
    assert!(crashes(&team).await, "not before the deadline");
    lasts(&team, 2, 61).await;
    let message = team.says(ConditionType::Ready, "RolledBack").await;
    assert!(message.contains("rolled back to revision 1 (1.36.3): no progress for 1m"), "{message}");
    came_to(&team, 2, RevisionOutcome::RolledBack).await;
    let back = async || -> Result<()> {
        ensure!(!crashes(&team).await && api_servers(&team).await == before, "{:?}", api_servers(&team).await);
        Ok(())
    };
    eventually(SOON, "the old pods, and no other", back).await.unwrap_or_else(|e| panic!("{e:#}"));
    let cluster: Cluster = team.cluster().await;
    assert_eq!(cluster.spec.api_server.extra_args.len(), 1, "the spec is left alone");
    let second = revision(&team, 2).await;
    assert_eq!(
        (second.spec.cause, second.spec.change_cause.as_deref()),
        (RevisionCause::Configuration, Some("try a flag"))
    );
    assert_eq!(team.condition(ConditionType::Stalled).await.unwrap().reason, "RolledBack");

    // Somebody asks for it once more; then for what runs.
    let generation = cluster.metadata.generation.unwrap().to_string();
    team.merge("acme", &json!({"metadata": {"annotations": {labels::ROLL: generation}}})).await;
    lasts(&team, 3, 61).await;
    came_to(&team, 3, RevisionOutcome::RolledBack).await;
    team.spec(json!({"apiServer": {"extraArgs": null}})).await.unwrap();
    team.ready().await.unwrap();
    came_to(&team, 4, RevisionOutcome::Succeeded).await;
    assert_eq!(revision(&team, 4).await.spec.cause, RevisionCause::Rollback);
    assert_eq!(api_servers(&team).await, before);

    // Or it is left as it is.
    team.spec(json!({"upgrade": {"onFailure": "Hold"}})).await.unwrap();
    team.spec(flag()).await.unwrap();
    lasts(&team, 5, 61).await;
    let message = team.says(ConditionType::Ready, "Held").await;
    assert!(message.contains("spec.upgrade.onFailure is Hold"), "{message}");
    assert!(crashes(&team).await);
    team.delete().await;
    team.gone().await.unwrap();
}

/// Deadlines, turns and the canary are in a status.
#[tokio::test]
async fn the_status_of_a_cluster_that_somebody_keeps_touching_is_written() {
    let team = Team::new(shared_operator().await).await;
    team.create(json!({"upgrade": {"soak": "0s"}})).await.unwrap();
    team.ready().await.unwrap();
    came_to(&team, 1, RevisionOutcome::Succeeded).await;
    let touched = team.clone();
    let touching = tokio::spawn(async move {
        for n in 0_u64.. {
            touched.merge("acme", &json!({"metadata": {"annotations": {"example.com/touched": n.to_string()}}})).await;
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    });
    team.spec(json!({"apiServer": {"extraArgs": [{"name": "v", "value": "3"}]}})).await.unwrap();
    came_to(&team, 2, RevisionOutcome::Succeeded).await;
    let generation = team.cluster().await.metadata.generation;
    assert_eq!(team.cluster().await.status.unwrap().observed_generation, generation);
    assert!(!touching.is_finished(), "it touched all the time");
    touching.abort();
    team.delete().await;
    team.gone().await.unwrap();
}

/// Windows, turns, the canary and the way back go by revisions.
#[tokio::test]
async fn nothing_begins_while_revisions_cannot_be_read() {
    let team = Team::new(shared_operator().await).await;
    team.create(json!({"upgrade": {"soak": "0s"}})).await.unwrap();
    team.ready().await.unwrap();
    came_to(&team, 1, RevisionOutcome::Succeeded).await;
    let (refused, namespace) = (Arc::new(AtomicBool::new(true)), team.cp_namespace.clone());
    let refuses = refused.clone();
    let is_read = move |call: &Call| {
        refuses.load(Ordering::Relaxed) && call.resource == "clusterrevisions" && call.namespace == namespace
    };
    SHARED_CALLS.when(is_read, Fault::status(401));
    team.spec(flag()).await.unwrap();
    team.says(ConditionType::Ready, "PermissionDenied").await;
    assert!(!crashes(&team).await);
    // As long as they cannot be read, nothing is recorded of the release that is not to be.
    team.spec(json!({"apiServer": {"extraArgs": [{"name": "v", "value": "3"}]}})).await.unwrap();
    refused.store(false, Ordering::Relaxed);
    came_to(&team, 2, RevisionOutcome::Succeeded).await;
    team.delete().await;
    team.gone().await.unwrap();
}

#[tokio::test]
async fn a_release_with_a_version_that_is_refused_starts_nothing() {
    let team = Team::new(shared_operator().await).await;
    team.create(json!({"upgrade": {"soak": "0s"}})).await.unwrap();
    team.ready().await.unwrap();
    came_to(&team, 1, RevisionOutcome::Succeeded).await;
    let before = api_servers(&team).await;
    let mut spec = flag();
    spec["version"] = json!("1.29.1");
    team.spec(spec).await.unwrap();
    team.says(ConditionType::Ready, "VersionUnsupported").await;
    team.reconciled(&SHARED_CALLS).await;
    assert!(!crashes(&team).await && api_servers(&team).await == before, "the flag is of the same release");
    let all = team.inside::<ClusterRevision>().list(&ListParams::default()).await.unwrap();
    assert_eq!(all.items.len(), 1, "nothing is recorded of it");
    // What runs is repaired by what is recorded.
    let scale = Patch::Merge(json!({"spec": {"replicas": 3}}));
    let deployments = team.inside::<Deployment>();
    deployments.patch(names::SCHEDULER, &PatchParams::default(), &scale).await.unwrap();
    let repaired = async || -> Result<()> {
        let replicas = deployments.get(names::SCHEDULER).await?.spec.unwrap_or_default().replicas;
        ensure!(replicas == Some(1), "{replicas:?}");
        Ok(())
    };
    eventually(SOON, "the scheduler as it was", repaired).await.unwrap_or_else(|e| panic!("{e:#}"));
    team.delete().await;
    team.gone().await.unwrap();
}

#[tokio::test]
async fn durations_of_the_way_back_are_bounded() {
    let team = Team::with_cluster(shared_operator().await).await;
    for (field, bad, says) in [
        ("progressDeadline", "29s", "must be a duration from 30s to 24h"),
        ("progressDeadline", "25h", "must be a duration from 30s to 24h"),
        ("soak", "25h", "must be a duration from 0s to 24h"),
        ("soak", "", "must be a duration from 0s to 24h"),
        ("soak", "a while", "should match"),
        ("onFailure", "Retry", "Unsupported value"),
    ] {
        let refused = team.spec(json!({"upgrade": {field: bad}})).await.unwrap_err().to_string();
        assert!(refused.contains(says), "{field} {bad}: {refused}");
    }
    team.spec(json!({"upgrade": {"progressDeadline": "30s", "soak": "0s", "onFailure": "Hold"}})).await.unwrap();
    team.delete().await;
    team.gone().await.unwrap();
}
