//! An audit webhook's Secret, from the team's namespace to the API servers, by the operator at a real API server.

use crate::common::{SOON, Team, server, shared_operator};
use anyhow::{Context as _, ensure};
use berth_api::conditions::ConditionType;
use berth_testkit::fixtures::eventually;
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::Secret;
use kube::api::{DeleteParams, Patch, PatchParams, PostParams};
use kube::{Api, ResourceExt};
use serde_json::{Value, json};

fn kubeconfig(server: &str) -> String {
    format!(
        "# ours\nclusters: [{{name: c, cluster: {{server: '{server}'}}}}]\nusers: [{{name: u, user: {{token: dontsay}}}}]\n\
         contexts: [{{name: x, context: {{cluster: c, user: u}}}}]\ncurrent-context: x\n"
    )
}

fn secret(type_: &str, server: &str) -> Secret {
    let data = json!({"kubeconfig": kubeconfig(server)});
    serde_json::from_value(json!({"metadata": {"name": "sink"}, "type": type_, "stringData": data})).unwrap()
}

/// What API servers are told, once it is that server.
async fn mounted(team: &Team, server: &str) -> String {
    team.touch().await;
    let look = async || {
        let live = team.inside::<Deployment>().get("kube-apiserver").await?;
        let spec = live.spec.and_then(|spec| spec.template.spec).context("pods")?;
        let volumes = spec.volumes.unwrap_or_default();
        let name = volumes.into_iter().find_map(|volume| volume.secret?.secret_name.filter(|n| n.contains("-audit-")));
        let copy = team.inside::<Secret>().get(&name.context("no volume")?).await?;
        let text = copy.data.as_ref().and_then(|data| data.get("kubeconfig")).context("a kubeconfig")?;
        let read: Value = serde_json::from_slice(&text.0).context("JSON, as Berth writes it")?;
        ensure!(read["clusters"][0]["cluster"]["server"] == server && read["users"][0]["user"]["token"] == "dontsay");
        Ok(copy.name_any())
    };
    eventually(SOON, "a volume with it", look).await.unwrap_or_else(|e| panic!("{e:#}"))
}

#[tokio::test]
async fn an_audit_webhooks_secret_is_copied_followed_and_missed() {
    let server = server().await;
    shared_operator().await;
    let team = Team::with_cluster(server).await;
    team.ready().await.unwrap_or_else(|e| panic!("{e:#}"));
    let secrets: Api<Secret> = Api::namespaced(team.client.clone(), &team.ns);
    team.spec(json!({"apiServer": {"audit": {"webhook": {"secretRef": {"name": "sink"}}}}})).await.expect("patch");
    let said = team.says(ConditionType::Ready, "AuditWebhookUnavailable").await;
    assert!(said.contains("does not exist. Create it: kubectl -n"), "{said}");
    secrets.create(&PostParams::default(), &secret("Opaque", "https://a.example.com")).await.expect("create");
    team.touch().await;
    let typed = async || {
        let ready = team.condition(ConditionType::Ready).await.context("Ready")?;
        ensure!(ready.message.contains("is not of type berth.dev/audit-webhook"), "{}", ready.message);
        Ok(())
    };
    eventually(SOON, "another type", typed).await.unwrap_or_else(|e| panic!("{e:#}"));
    secrets.delete("sink", &DeleteParams::default()).await.expect("delete");
    let made = secret("berth.dev/audit-webhook", "https://a.example.com");
    secrets.create(&PostParams::default(), &made).await.expect("create");
    let first = mounted(&team, "https://a.example.com").await;
    team.ready().await.unwrap_or_else(|e| panic!("{e:#}"));

    let change = json!({"stringData": {"kubeconfig": kubeconfig("https://b.example.com")}});
    secrets.patch("sink", &PatchParams::default(), &Patch::Merge(change)).await.expect("patch");
    let second = mounted(&team, "https://b.example.com").await;
    assert_ne!(first, second);
    let gone = async || {
        let former = team.inside::<Secret>().get_opt(&first).await?;
        ensure!(former.is_none(), "{first} is there");
        Ok(())
    };
    eventually(SOON, "the former copy is deleted", gone).await.unwrap_or_else(|e| panic!("{e:#}"));

    secrets.delete("sink", &DeleteParams::default()).await.expect("delete");
    team.touch().await;
    let said = team.says(ConditionType::Degraded, "AuditWebhookUnavailable").await;
    assert!(said.contains("API servers go on with what it said before") && !said.contains("dontsay"), "{said}");
    assert_eq!(mounted(&team, "https://b.example.com").await, second);
    team.wipe().await;
}
