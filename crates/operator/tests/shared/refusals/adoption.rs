//! A restored meta cluster: the `Cluster` has another UID, what runs has not changed.

use super::workloads;
use crate::common::{Running, SOON, Team, crds, operator_world, state::settled};
use berth_api::conditions::ConditionType;
use berth_api::labels;
use berth_testkit::FaultPlan;
use berth_testkit::fixtures::until;
use berth_testkit::oracle::{assert_keys_unchanged, secret_keys};
use kube::ResourceExt;
use kube::api::{DeleteParams, Patch, PatchParams};
use serde_json::json;

#[tokio::test]
async fn a_cluster_with_another_uid_takes_over_only_when_told_and_touches_nothing() {
    let (server, _world) = operator_world(&crds()).await;
    let (team, plan) = (Team::with_cluster(server).await, FaultPlan::new());
    let running = Running::start(server, &plan);
    let old = team.ready().await.unwrap_or_else(|e| panic!("{e:#}")).uid().expect("uid");
    settled(&plan).await;
    drop(running);
    gone_without_berth(&team).await;
    team.create(json!({})).await.expect("restored");

    let (running, keys) =
        (workloads(&team).await, secret_keys(&team.client, &[&team.cp_namespace]).await.expect("keys"));
    let _running = Running::start(server, &plan);
    let said = team.says(ConditionType::Ready, "AdoptionRequired").await;
    assert!(said.contains(&format!("belongs to an earlier Cluster {}/acme with UID {old}", team.ns)), "{said}");
    assert!(said.contains(&format!("set the annotation {}={old} on this Cluster", labels::ADOPT)), "{said}");
    // A wrong UID is no permission.
    let adopt = async |uid: &str| {
        let patch = Patch::Merge(json!({"metadata": {"annotations": {labels::ADOPT: uid}}}));
        team.clusters().patch("acme", &PatchParams::default(), &patch).await.expect("annotate");
    };
    adopt("00000000-0000-0000-0000-000000000000").await;
    settled(&plan).await;
    team.says(ConditionType::Ready, "AdoptionRequired").await;
    adopt(&old).await;
    team.ready().await.unwrap_or_else(|e| panic!("{e:#}"));
    settled(&plan).await;
    assert_eq!(workloads(&team).await, running, "what runs is not touched");
    assert_keys_unchanged(&keys, &secret_keys(&team.client, &[&team.cp_namespace]).await.expect("keys"));
    let cp_namespace = team.namespaces().get(&team.cp_namespace).await.expect("namespace");
    assert_eq!(cp_namespace.labels().get(labels::CLUSTER_UID), team.cluster().await.uid().as_ref());
    crate::common::state::second_reconcile(&team, &plan).await.unwrap_or_else(|e| panic!("{e:#}"));
}

async fn gone_without_berth(team: &Team) {
    team.clusters().delete("acme", &DeleteParams::default()).await.expect("delete");
    let free = Patch::Merge(json!({"metadata": {"finalizers": null}}));
    team.clusters().patch("acme", &PatchParams::default(), &free).await.expect("gone without Berth");
    until(SOON, "gone", async || team.clusters().get_opt("acme").await.expect("get").is_none()).await;
}

/// As if the team's namespace had been deleted and made again for somebody else, who allows the adoption, as the former team might.
#[tokio::test]
async fn what_a_team_left_is_counted_and_not_another_teams_to_adopt() {
    let (server, _world) = operator_world(&crds()).await;
    let (team, plan) = (Team::with_cluster(server).await, FaultPlan::new());
    let running = Running::start(server, &plan);
    let old = team.ready().await.unwrap_or_else(|e| panic!("{e:#}")).uid().expect("uid");
    settled(&plan).await;
    let orphan = format!(
        "berth_control_plane_without_cluster{{namespace=\"{}\",cluster_namespace=\"{}\",cluster=\"acme\"}} 1",
        team.cp_namespace, team.ns
    );
    assert!(!running.metrics().contains(&orphan));
    gone_without_berth(&team).await;
    until(SOON, "the orphan to be counted", async || running.metrics().contains(&orphan)).await;
    drop(running);

    let note = async |key: &str, value: &str| {
        let patch = Patch::Merge(json!({"metadata": {"annotations": {key: value}}}));
        team.namespaces().patch(&team.cp_namespace, &PatchParams::default(), &patch).await.expect("annotate");
    };
    let live = team.namespaces().get(&team.cp_namespace).await.expect("namespace");
    let uid = team.namespaces().get(&team.ns).await.expect("namespace").uid().expect("uid");
    assert_eq!(live.annotations().get(labels::TEAM_UID), Some(&uid), "recorded when it was made");
    note(labels::TEAM_UID, "00000000-0000-0000-0000-000000000000").await;
    let keys = secret_keys(&team.client, &[&team.cp_namespace]).await.expect("keys");
    team.create(json!({})).await.expect("another team's");
    let patch = Patch::Merge(json!({"metadata": {"annotations": {labels::ADOPT: old}}}));
    team.clusters().patch("acme", &PatchParams::default(), &patch).await.expect("annotate");
    let running = Running::start(server, &plan);
    let said = team.says(ConditionType::Ready, "AdoptionRequired").await;
    assert!(
        said.contains(&format!("kubectl annotate namespace {} berth.dev/allow-adoption={uid}", team.cp_namespace)),
        "{said}"
    );
    settled(&plan).await;
    let live = team.namespaces().get(&team.cp_namespace).await.expect("namespace");
    assert_eq!(live.labels().get(labels::CLUSTER_UID), Some(&old), "nothing was taken over");
    assert!(!running.metrics().contains(&orphan), "it has a Cluster of its name");
    note(labels::ALLOW_ADOPTION, &uid).await;
    team.ready().await.unwrap_or_else(|e| panic!("{e:#}"));
    assert_keys_unchanged(&keys, &secret_keys(&team.client, &[&team.cp_namespace]).await.expect("keys"));
}
