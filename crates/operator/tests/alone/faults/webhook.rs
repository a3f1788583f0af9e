//! A webhook of the meta cluster that is down, and one that hangs: one write of a tenant fails in every reconcile, others go on.

use crate::common::team::ACME;
use crate::common::{Running, SOON, Team, alone_at_a_server};
use berth_api::conditions::ConditionType;
use berth_api::names;
use berth_testkit::fault::{Call, Verb};
use berth_testkit::{ApiServer, FaultPlan, fixtures::until, yaml};
use k8s_openapi::api::admissionregistration::v1::ValidatingWebhookConfiguration;
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::Secret;
use kube::api::{DeleteParams, Patch, PatchParams, PostParams};
use kube::{Api, ResourceExt};
use serde_json::json;
use std::time::Duration;
use tokio::net::TcpListener;

/// Name of the webhook.
const GUARD: &str = "guard.test.berth.dev";

/// Whom the webhook is not asked about.
const PERSON: &str = "somebody";

/// Pods that nobody asked for.
const DRIFTED: i32 = 3;

/// Longer than any patch takes that is answered.
const A_WHILE: Duration = Duration::from_secs(2);

/// A webhook at that address that is asked about whatever others than [`PERSON`] do with an object of a group and resource, or all of a
/// namespace if the name is empty.
pub(crate) async fn install(team: &Team, address: &str, [group, resource]: [&str; 2], [namespace, name]: [&str; 2]) {
    let guard: ValidatingWebhookConfiguration = yaml!(
        "{{metadata: {{name: {}}}, webhooks: [{{
            name: {GUARD}, admissionReviewVersions: [v1], sideEffects: None, failurePolicy: Fail, timeoutSeconds: 30,
            clientConfig: {{url: 'https://{address}/'}},
            rules: [{{apiGroups: ['{group}'], apiVersions: [v1], resources: [{resource}], operations: [CREATE, UPDATE]}}],
            matchConditions: [
                {{name: object, expression: 'request.namespace == \"{namespace}\" && (\"{name}\" == \"\" || request.name == \"{name}\")'}},
                {{name: person, expression: 'request.userInfo.username != \"{PERSON}\"'}},
            ]}}]}}",
        team.cp_namespace
    );
    guards(team).create(&PostParams::default(), &guard).await.expect("webhook");
}

pub(crate) fn guards(team: &Team) -> Api<ValidatingWebhookConfiguration> {
    Api::all(team.client.clone())
}

async fn replicas(team: &Team) -> Option<i32> {
    team.inside::<Deployment>().get(names::APISERVER).await.expect("Deployment").spec?.replicas
}

/// Waits until the webhook is asked, and then changes the Deployment past it, for the operator to change it back.
async fn drift(server: &ApiServer, team: &Team) {
    let patch = Patch::Merge(json!({"spec": {"replicas": DRIFTED}}));
    until(SOON, "the webhook in force", async || {
        let dry = PatchParams { dry_run: true, ..PatchParams::default() };
        let asked = team.inside::<Deployment>();
        let answer = tokio::time::timeout(A_WHILE, asked.patch(names::APISERVER, &dry, &patch)).await;
        answer.map_or(true, |answer| answer.is_err())
    })
    .await;
    let person = kube::Client::try_from(server.config_as(PERSON, &["system:masters"])).expect("client");
    let deployments = Api::<Deployment>::namespaced(person, &team.cp_namespace);
    deployments.patch(names::APISERVER, &PatchParams::default(), &patch).await.expect("patch");
}

/// How often a reconcile tried to write the Deployment, at the most.
fn tries_in_a_reconcile(plan: &FaultPlan, team: &Team) -> usize {
    let calls = plan.calls();
    let begins = |c: &Call| c.verb == Verb::Get && c.resource == "clusters" && c.namespace == team.ns;
    let tries = |c: &&Call| c.mutation.is_some() && c.namespace == team.cp_namespace && c.name == names::APISERVER;
    calls.split(begins).map(|pass| pass.iter().filter(tries).count()).max().unwrap_or_default()
}

/// Where nobody listens.
pub(crate) async fn closed() -> String {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("listen");
    listener.local_addr().expect("address").to_string()
}

/// What is deleted comes back while the webhook fails; `said` is in the condition. Without it everything is as it was.
async fn others_go_on(server: &'static ApiServer, address: &str, said: &str) {
    let (team, plan) = (Team::with_cluster(server).await, FaultPlan::new());
    let _running = Running::start(server, &plan);
    team.ready().await.unwrap_or_else(|e| panic!("{e:#}"));
    let wanted = replicas(&team).await;
    install(&team, address, ["apps", "deployments"], [&team.cp_namespace, names::APISERVER]).await;
    plan.reset_log();
    drift(server, &team).await;
    let object = format!("Deployment {}/{}", team.cp_namespace, names::APISERVER);
    let message = team.says_of(ConditionType::Ready, "Error", &object).await;
    assert!(message.contains(said), "{message}");

    let (deployments, secrets) = (team.inside::<Deployment>(), team.inside::<Secret>());
    let uids = async || {
        let deployment = deployments.get_opt(names::SCHEDULER).await.expect("get").and_then(|d| d.uid());
        (deployment, secrets.get_opt(names::SCHEDULER_PKI).await.expect("get").and_then(|s| s.uid()))
    };
    let before = uids().await;
    secrets.delete(names::SCHEDULER_PKI, &DeleteParams::default()).await.expect("delete");
    deployments.delete(names::SCHEDULER, &DeleteParams::default()).await.expect("delete");
    until(SOON, "both are back", async || {
        let now = uids().await;
        now.0.is_some() && now.1.is_some() && now.0 != before.0 && now.1 != before.1
    })
    .await;
    assert_eq!(replicas(&team).await, Some(DRIFTED), "the webhook still stands");
    let message = team.says_of(ConditionType::Ready, "Error", &object).await;
    assert!(message.contains(said), "{message}");
    assert_eq!(tries_in_a_reconcile(&plan, &team), 1, "once a reconcile, however many rounds it has");

    guards(&team).delete(&team.cp_namespace, &DeleteParams::default()).await.expect("delete");
    team.ready().await.unwrap_or_else(|e| panic!("{e:#}"));
    assert_eq!(replicas(&team).await, wanted);
    team.wipe().await;
}

#[tokio::test]
async fn one_that_is_down_holds_up_nothing_but_its_object() {
    let (_turn, server) = alone_at_a_server().await;
    others_go_on(server, &closed().await, &format!("failed calling webhook \"{GUARD}\"")).await;
}

#[tokio::test]
async fn one_that_hangs_holds_up_nothing_but_its_object() {
    let (_turn, server) = alone_at_a_server().await;
    // The kernel accepts, and nobody answers.
    let silent = TcpListener::bind("127.0.0.1:0").await.expect("listen");
    let address = silent.local_addr().expect("address").to_string();
    others_go_on(server, &address, "no answer within 5s").await;
}

/// As webhooks mostly are: three stages of a tenant wait for it until they time out, and what comes after them is done all the same.
#[tokio::test]
async fn one_that_hangs_for_all_deployments_holds_up_nothing_else() {
    let (_turn, server) = alone_at_a_server().await;
    let silent = TcpListener::bind("127.0.0.1:0").await.expect("listen");
    let address = silent.local_addr().expect("address").to_string();
    let team = Team::with_cluster(server).await;
    let _running = Running::start(server, &FaultPlan::new());
    team.ready().await.unwrap_or_else(|e| panic!("{e:#}"));
    install(&team, &address, ["apps", "deployments"], [&team.cp_namespace, ""]).await;
    drift(server, &team).await;
    let deployments = team.inside::<Deployment>();
    for name in [names::CONTROLLER_MANAGER, names::SCHEDULER] {
        deployments.delete(name, &DeleteParams::default()).await.expect("delete");
    }
    let kubeconfig = names::kubeconfig(ACME);
    let published = Api::<Secret>::namespaced(team.client.clone(), &team.ns);
    let uid = async || published.get_opt(&kubeconfig).await.expect("get").and_then(|s| s.uid());
    let before = uid().await;
    published.delete(&kubeconfig, &DeleteParams::default()).await.expect("delete");
    until(SOON, "the kubeconfig is published again", async || uid().await.is_some_and(|now| Some(now) != before)).await;
    assert_eq!(replicas(&team).await, Some(DRIFTED), "the webhook still stands");
    guards(&team).delete(&team.cp_namespace, &DeleteParams::default()).await.expect("delete");
    team.ready().await.unwrap_or_else(|e| panic!("{e:#}"));
    team.wipe().await;
}

/// The operator has no right to read the Secret in the team's namespace: it asks by a dry run, which a webhook hears of, too.
#[tokio::test]
async fn one_that_is_down_for_the_published_kubeconfig_holds_up_nothing_else() {
    let (_turn, server) = alone_at_a_server().await;
    let (team, plan) = (Team::with_cluster(server).await, FaultPlan::new());
    let _running = Running::start(server, &plan);
    team.ready().await.unwrap_or_else(|e| panic!("{e:#}"));
    let secret = names::kubeconfig(ACME);
    install(&team, &closed().await, ["", "secrets"], [&team.ns, &secret]).await;
    until(SOON, "it is told", async || {
        team.reconciled(&plan).await;
        let ready = team.condition(ConditionType::Ready).await.expect("condition");
        ready.reason == "Error" && ready.message.contains(&format!("Secret {}/{secret}: ", team.ns))
    })
    .await;
    let deployments = team.inside::<Deployment>();
    deployments.delete(names::SCHEDULER, &DeleteParams::default()).await.expect("delete");
    until(SOON, "it is back", async || deployments.get_opt(names::SCHEDULER).await.expect("get").is_some()).await;
    guards(&team).delete(&team.cp_namespace, &DeleteParams::default()).await.expect("delete");
    team.ready().await.unwrap_or_else(|e| panic!("{e:#}"));
    team.wipe().await;
}
