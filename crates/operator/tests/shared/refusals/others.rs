//! What belongs to somebody else under one of our names is left byte for byte as it was.

use crate::common::{SHARED_CALLS, SOON, Team, shared_operator};
use berth_api::conditions::ConditionType;
use berth_testkit::{fixtures::until, yaml};
use k8s_openapi::api::core::v1::{Namespace, Secret};
use kube::Api;
use kube::api::{DeleteParams, PostParams};
use serde_json::json;

#[tokio::test]
async fn a_foreign_namespace_under_our_name() {
    let team = Team::new(shared_operator().await).await;
    let theirs: Namespace = yaml!("{{metadata: {{name: {}, labels: {{owner: somebody}}}}}}", team.cp_namespace);
    let theirs = team.namespaces().create(&PostParams::default(), &theirs).await.expect("namespace");
    team.create(json!({})).await.expect("Cluster");
    let said = team.says(ConditionType::Ready, "ForeignObject").await;
    assert!(said.contains(&format!("namespace {} exists and does not belong to this Cluster, so Berth leaves it alone. If nobody needs it, delete it; otherwise create this Cluster under another name", team.cp_namespace)), "{said}");
    team.reconciled(&SHARED_CALLS).await;
    assert_eq!(team.namespaces().get(&team.cp_namespace).await.expect("get"), theirs);
    // A Cluster that never had it leaves it, too.
    team.delete().await;
    team.gone().await.unwrap_or_else(|e| panic!("{e:#}"));
    assert_eq!(team.namespaces().get(&team.cp_namespace).await.expect("get"), theirs);
}

#[tokio::test]
async fn a_foreign_secret_under_the_kubeconfigs_name() {
    let team = Team::new(shared_operator().await).await;
    let secrets = Api::<Secret>::namespaced(team.client.clone(), &team.ns);
    let theirs: Secret = yaml!("{{metadata: {{name: acme-kubeconfig}}, stringData: {{value: precious}}}}");
    let theirs = secrets.create(&PostParams::default(), &theirs).await.expect("secret");
    team.create(json!({})).await.expect("Cluster");
    let said = team.says(ConditionType::Ready, "ForeignObject").await;
    assert!(said.contains(&format!("Secret {}/acme-kubeconfig exists and is not Berth's", team.ns)), "{said}");
    until(SOON, "the tenant is up all the same", async || {
        team.condition(ConditionType::Available).await.is_ok_and(|c| c.status == "True")
    })
    .await;
    assert_eq!(secrets.get("acme-kubeconfig").await.expect("get"), theirs);
    assert!(team.cluster().await.status.expect("status").kubeconfigs.is_empty());
    // Out of the way, ours takes its place.
    secrets.delete("acme-kubeconfig", &DeleteParams::default()).await.expect("delete");
    team.touch().await;
    team.ready().await.unwrap_or_else(|e| panic!("{e:#}"));
    let again: Secret = yaml!("{{metadata: {{name: mine}}, stringData: {{value: precious}}}}");
    let again = secrets.create(&PostParams::default(), &again).await.expect("secret");
    team.delete().await;
    team.gone().await.unwrap_or_else(|e| panic!("{e:#}"));
    assert_eq!(secrets.get("mine").await.expect("get"), again);
    assert!(secrets.get_opt("acme-kubeconfig").await.expect("get").is_none());
}

#[tokio::test]
async fn a_foreign_secret_inside() {
    let team = Team::with_cluster(shared_operator().await).await;
    team.ready().await.unwrap_or_else(|e| panic!("{e:#}"));
    team.spec(json!({"paused": true})).await.expect("pause");
    team.says(ConditionType::Progressing, "Paused").await;
    let secrets = team.inside::<Secret>();
    let name = "kube-scheduler-pki";
    secrets.delete(name, &DeleteParams::default()).await.expect("delete");
    let theirs: Secret = yaml!("{{metadata: {{name: {name}}}, stringData: {{client.crt: precious}}}}");
    let theirs = team.put(theirs).await;
    team.spec(json!({"paused": false})).await.expect("go on");
    let said = team.says(ConditionType::Ready, "ForeignObject").await;
    assert!(
        said.contains(&format!(
            "Secret {}/{name} exists and does not belong to this cluster, so Berth leaves it alone",
            team.cp_namespace
        )),
        "{said}"
    );
    team.reconciled(&SHARED_CALLS).await;
    assert_eq!(secrets.get(name).await.expect("get"), theirs);
    secrets.delete(name, &DeleteParams::default()).await.expect("delete");
    team.touch().await;
    team.ready().await.unwrap_or_else(|e| panic!("{e:#}"));
}
