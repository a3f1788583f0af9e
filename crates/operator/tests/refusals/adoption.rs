//! A restored meta cluster: the `Cluster` has another UID, what runs has not changed.

use crate::common::{Running, SOON, Team, crds, operator_world, state::settled};
use crate::workloads;
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
    team.clusters().delete("acme", &DeleteParams::default()).await.expect("delete");
    let free = Patch::Merge(json!({"metadata": {"finalizers": null}}));
    team.clusters().patch("acme", &PatchParams::default(), &free).await.expect("gone without Berth");
    until(SOON, "gone", async || team.clusters().get_opt("acme").await.expect("get").is_none()).await;
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
