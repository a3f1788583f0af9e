//! etcd's members come and go at a real API server, while another controller's pods follow: what is written, and in which order.

use crate::common::{SOON, Team, shared_operator};
use berth_api::{EtcdCluster, labels, names};
use berth_testkit::fixtures::eventually;
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::{ConfigMap, PersistentVolumeClaim, Pod, Service};
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use kube::ResourceExt;
use serde_json::{Value, json};

async fn resized(team: &Team, replicas: usize) {
    team.spec(json!({"etcd": {"replicas": replicas}})).await.expect("patch");
    let there = async || {
        let etcd = team.inside::<EtcdCluster>().get(names::ETCD).await?;
        let status = etcd.status.unwrap_or_default();
        anyhow::ensure!(status.operation.is_none(), "{:?}", status.operation);
        let endpoints = status.endpoints.len();
        anyhow::ensure!(endpoints == replicas, "{endpoints} endpoints; {:?}", status.conditions);
        anyhow::ensure!(status.ready_members == Some(format!("{replicas}/{replicas}")), "{:?}", status.ready_members);
        Ok(())
    };
    eventually(SOON, "as many members as asked for", there).await.unwrap_or_else(|e| panic!("{e:#}"));
    team.ready().await.unwrap_or_else(|e| panic!("{e:#}"));
    let server = team.inside::<Deployment>().get(names::APISERVER).await.expect("API server");
    let server = serde_json::to_string(&server.spec).expect("JSON");
    for i in 0..5 {
        assert_eq!(server.contains(&format!("https://etcd-{i}.")), i < replicas, "etcd-{i}");
    }
}

async fn record(team: &Team) -> Value {
    let map = team.inside::<ConfigMap>().get(&names::etcd::bootstrap(names::ETCD)).await.expect("the record");
    serde_json::from_str(&map.annotations()[labels::ETCD_RECORD]).expect("JSON")
}

#[tokio::test]
async fn one_member_becomes_three_and_one_again_and_its_pod_stays() {
    let team = Team::with_cluster(shared_operator().await).await;
    team.ready().await.unwrap_or_else(|e| panic!("{e:#}"));
    let first = async || team.inside::<Pod>().get("etcd-0").await.expect("etcd-0").uid();
    let pod = first().await;
    assert_eq!(record(&team).await["serial"], Value::Null, "an etcd whose members never changed has no journal");
    resized(&team, 3).await;
    assert_eq!(first().await, pod, "no pod is replaced because others come");
    let told = record(&team).await;
    let members = told["members"].as_array().expect("members");
    assert!(members.len() == 3 && members.iter().all(|m| m["stage"] == "Voter"), "{told}");
    assert_eq!((&told["operation"], &told["founders"]), (&Value::Null, &json!(1)));
    resized(&team, 1).await;
    assert_eq!(first().await, pod, "nor because they go");
    let none = async || {
        anyhow::ensure!(team.inside::<Pod>().get_opt("etcd-1").await?.is_none(), "etcd-1's pod");
        anyhow::ensure!(team.inside::<Service>().get_opt("etcd-1").await?.is_none(), "etcd-1's Service");
        anyhow::ensure!(team.inside::<PodDisruptionBudget>().get_opt(names::ETCD).await?.is_none(), "the budget");
        let claims = team.inside::<PersistentVolumeClaim>();
        let left = claims.get_opt("data-etcd-1").await?.is_some_and(|c| c.metadata.deletion_timestamp.is_none());
        anyhow::ensure!(!left, "etcd-1's volume");
        Ok(())
    };
    eventually(SOON, "nothing of those that went", none).await.unwrap_or_else(|e| panic!("{e:#}"));
}
