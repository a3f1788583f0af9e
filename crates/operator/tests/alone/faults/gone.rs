//! What tenants stand on is deleted by somebody: the team's namespace, Berth's CustomResourceDefinitions; while the operator runs,
//! and while it does not.

use super::templates;
use crate::common::log::Log;
use crate::common::{Running, SOON, Team, alone_at_a_server, crds, operator_world};
use berth_api::conditions::ConditionType;
use berth_api::{EtcdCluster, labels, names};
use berth_testkit::FaultPlan;
use berth_testkit::fixtures::until;
use berth_testkit::oracle::{assert_keys_unchanged, secret_keys};
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::PersistentVolumeClaim;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::{DeleteParams, ListParams, Patch, PatchParams};
use kube::{Api, ResourceExt};
use serde_json::json;

#[tokio::test]
async fn a_team_namespace_that_is_deleted_takes_its_tenant_along_unless_that_is_protected() {
    let (_turn, server) = alone_at_a_server().await;
    for absent in [false, true] {
        let (team, plan) = (Team::with_cluster(server).await, FaultPlan::new());
        let protected = !absent;
        team.spec(json!({"deletion": {"protected": protected}})).await.expect("patch");
        let mut running = Some(Running::start(server, &plan));
        team.ready().await.unwrap_or_else(|e| panic!("{e:#}"));
        if absent {
            running = None;
        }
        team.namespaces().delete(&team.ns, &DeleteParams::default()).await.expect("delete");
        if protected {
            let said = team.says(ConditionType::Degraded, "NamespaceDeleting").await;
            let lost = format!("namespace {} is being deleted, and that cannot be undone", team.ns);
            assert!(
                said.contains(&lost) && said.contains("to delete them, too, set spec.deletion.protected"),
                "{said}"
            );
            team.reconciled(&plan).await;
            assert!(team.condition(ConditionType::Ready).await.expect("condition").message.ends_with(&said));
            assert_eq!(team.inside::<Deployment>().list(&ListParams::default()).await.expect("list").items.len(), 3);
            assert_eq!(team.condition(ConditionType::Available).await.expect("condition").status, "True");
            team.spec(json!({"deletion": {"protected": false}})).await.expect("patch");
        } else {
            let deleted = async || team.cluster_opt().await.is_some_and(|c| c.metadata.deletion_timestamp.is_some());
            until(SOON, "the Cluster is told", deleted).await;
            running = Some(Running::start(server, &plan));
        }
        for ns in [&team.cp_namespace, &team.ns] {
            until(SOON, &format!("{ns} is gone"), async || {
                team.namespaces().get_opt(ns).await.is_ok_and(|n| n.is_none())
            })
            .await;
        }
        drop(running);
        team.wipe().await;
    }
}

#[tokio::test]
async fn crds_that_are_deleted_and_put_back_cost_no_key_and_no_data() {
    let log = Log::default();
    let _guard = log.listen();
    let (server, _world) = operator_world(&crds()).await;
    let api = Api::<CustomResourceDefinition>::all(server.client());
    let delete = async |name: &str| drop(api.delete(name, &DeleteParams::default()).await.expect("delete"));
    let gone = async |name: &str| until(SOON, name, async || api.get_opt(name).await.is_ok_and(|c| c.is_none())).await;
    let (team, plan) = (Team::new(server).await, FaultPlan::new());
    team.create(json!({"deletion": {"protected": true}})).await.expect("Cluster");
    let running = Running::start(server, &plan);
    let uid = team.ready().await.unwrap_or_else(|e| panic!("{e:#}")).uid().expect("uid");
    let keys = async || {
        let mut keys = secret_keys(&team.client, &[&team.cp_namespace]).await.expect("keys");
        keys.retain(|k, _| {
            !k.contains("/etcd-server/") && !k.contains("/etcd-peer/") && !k.contains("etcd-client-kube")
        });
        keys
    };
    let before = (keys().await, templates(&team).await);

    // Clusters: each is told to end, and held, since it is protected.
    delete("clusters.berth.dev").await;
    let said = team.says(ConditionType::Ready, "Deleting").await;
    assert!(said.contains("spec.deletion.protected is true"), "{said}");
    team.reconciled(&plan).await;
    assert_eq!((keys().await, templates(&team).await), before, "what runs is left alone");
    // The way out, with the operator scaled to zero: objects go without their finalizers, and the tenant stays.
    drop(running);
    let free = Patch::Merge(json!({"metadata": {"finalizers": null}}));
    team.clusters().patch("acme", &PatchParams::default(), &free).await.expect("patch");
    gone("clusters.berth.dev").await;
    // Nor does an operator that was there all the time mind.
    let running = Running::start(server, &plan);
    until(SOON, "it says what is missing", async || {
        log.text()
            .contains("waiting: CustomResourceDefinition clusters.berth.dev is not there; install the chart berth-crds")
    })
    .await;
    server.install_crds(&crds()).await.expect("CRDs");
    team.create(json!({})).await.expect("the same Cluster, from where it is kept");
    let said = team.says(ConditionType::Ready, "AdoptionRequired").await;
    assert!(said.contains(&uid), "{said}");
    let adopt = Patch::Merge(json!({"metadata": {"annotations": {labels::ADOPT: uid}}}));
    team.clusters().patch("acme", &PatchParams::default(), &adopt).await.expect("adopt");
    team.ready().await.unwrap_or_else(|e| panic!("{e:#}"));
    assert_eq!((keys().await, templates(&team).await), before, "adopted as it was");

    // EtcdClusters, while the operator is away: it ends their members when it is back, and keeps volumes and CAs.
    let claim = team.inside::<PersistentVolumeClaim>().get("data-etcd-0").await.expect("claim").uid();
    drop(running);
    delete("etcdclusters.berth.dev").await;
    let _running = Running::start(server, &plan);
    gone("etcdclusters.berth.dev").await;
    let said = team.says_of(ConditionType::Ready, "Error", "etcdclusters").await;
    assert!(said.contains("etcdclusters.berth.dev is not there; install the chart berth-crds"), "{said}");
    until(SOON, "the watch is told", async || log.lines().any(|l| l.contains("WARN") && l.contains("a watch failed")))
        .await;
    server.install_crds(&crds()).await.expect("CRDs");
    until(SOON, "another EtcdCluster", async || {
        team.inside::<EtcdCluster>().get_opt(names::ETCD).await.is_ok_and(|e| e.is_some())
    })
    .await;
    team.ready().await.unwrap_or_else(|e| panic!("{e:#}"));
    assert_keys_unchanged(&before.0, &keys().await);
    assert_eq!(team.inside::<PersistentVolumeClaim>().get("data-etcd-0").await.expect("claim").uid(), claim);
}
