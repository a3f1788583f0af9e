//! What stands in the way of the next minor, found in real API servers.

use crate::common::{Running, SOON, Team, alone_at_a_server, me};
use anyhow::ensure;
use berth_api::conditions::ConditionType;
use berth_kubeio::{Calls, Io, TenantTarget, look};
use berth_operator::looks::Looks;
use berth_pki::{CA_LIFETIME, CertSpec, Usage};
use berth_plan::asked::Facts;
use berth_plan_cluster::LookRequest;
use berth_testkit::apiserver::Options;
use berth_testkit::{ApiServer, FaultPlan, fixtures::eventually};
use futures::FutureExt;
use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};
use std::sync::Arc;
use std::time::Duration;

const SERVICES: &str = "/apis/apiregistration.k8s.io/v1/apiservices";
const WEBHOOKS: &str = "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations";

async fn call(server: &ApiServer, method: &str, path: &str, object: Option<&Value>) -> Value {
    let body = object.map(|object| serde_json::to_vec(object).unwrap()).unwrap_or_default();
    let request = http::Request::builder().method(method).uri(path).header("content-type", "application/json");
    let answer = server.client().request(request.body(body).unwrap()).await;
    answer.unwrap_or_else(|e| panic!("{method} {path}: {e}"))
}

/// An API that nobody serves.
fn service() -> Value {
    json!({
        "apiVersion": "apiregistration.k8s.io/v1", "kind": "APIService", "metadata": {"name": "v1.down.example.com"},
        "spec": {
            "group": "down.example.com", "version": "v1", "groupPriorityMinimum": 1000, "versionPriority": 10,
            "insecureSkipTLSVerify": true, "service": {"namespace": "default", "name": "nobody"},
        },
    })
}

/// A webhook that does not answer, and is asked of what API servers write for themselves alone: the tests' tenants share this one.
fn webhook() -> Value {
    json!({
        "apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingWebhookConfiguration",
        "metadata": {"name": "nobody.example.com"},
        "webhooks": [{
            "name": "nobody.example.com", "admissionReviewVersions": ["v1"], "sideEffects": "None",
            "clientConfig": {"url": "https://127.0.0.1:1/"}, "timeoutSeconds": 1,
            "objectSelector": {"matchLabels": {"kubernetes.io/bootstrapping": "rbac-defaults"}},
            "rules": [{
                "apiGroups": ["rbac.authorization.k8s.io"], "apiVersions": ["v1"], "operations": ["CREATE"],
                "resources": ["clusterroles"],
            }],
        }],
    })
}

#[tokio::test]
async fn what_stands_in_the_way_is_found_and_it_goes_on_once_it_is_gone() {
    let (_turn, server) = alone_at_a_server().await;
    let (team, plan) = (Team::new(server).await, FaultPlan::new());
    let _running = Running::start_changed(server, me(server), &plan, |context| {
        let second = SignedDuration::from_secs(1);
        context.looks = Arc::new(Looks::every(second, second));
    });
    team.create(json!({"version": "1.35.4", "upgrade": {"soak": "0s"}})).await.unwrap();
    team.ready().await.unwrap_or_else(|e| panic!("{e:#}"));
    team.reconciled(&plan).await;
    let message = team.says(ConditionType::UpgradeReady, "AsExpected").await;
    assert!(message.contains("checks for 1.36 pass"), "{message}");

    call(server, "POST", SERVICES, Some(&service())).await;
    call(server, "POST", WEBHOOKS, Some(&webhook())).await;
    let red = async || {
        team.try_reconciled(&plan).await?;
        let now = team.condition(ConditionType::UpgradeReady).await?;
        let both = ["APIServices: APIService v1.down.example.com", "Admission: "];
        ensure!(now.status == "False" && both.iter().all(|what| now.message.contains(what)), "{now:?}");
        Ok(())
    };
    eventually(SOON, "what the tenant's own condition says", red).await.unwrap_or_else(|e| panic!("{e:#}"));
    let mark = plan.calls().len();
    team.spec(json!({"version": "1.36.3"})).await.unwrap();
    let message = team.says_of(ConditionType::Ready, "UpgradeBlocked", "v1.down.example.com").await;
    assert!(message.contains("nobody.example.com") && message.contains("Nothing was changed"), "{message}");

    // Each goes away by itself, and nobody touches the Cluster.
    call(server, "DELETE", &format!("{SERVICES}/v1.down.example.com"), None).await;
    let one = async || {
        let now = team.condition(ConditionType::Ready).await?;
        ensure!(now.reason == "UpgradeBlocked" && !now.message.contains("APIServices: "), "{now:?}");
        Ok(())
    };
    eventually(SOON, "the webhook alone", one).await.unwrap_or_else(|e| panic!("{e:#}"));
    let wrote = plan.calls_after(mark).into_iter().filter(|c| c.mutation.is_some() && c.resource == "deployments");
    assert_eq!(wrote.count(), 0, "nothing that runs was changed");
    call(server, "DELETE", &format!("{WEBHOOKS}/nobody.example.com"), None).await;
    team.says(ConditionType::Ready, "Emulating").await;
    let asked = plan.calls_after(mark).into_iter().filter(|c| c.dry_run && c.resource == "clusterroles");
    assert!(asked.count() >= 2);
    team.wipe().await;
}

fn asked(server: &ApiServer, name: &str) -> LookRequest {
    LookRequest { servers: vec![("a".into(), server.url())], server_name: name.into(), begins: true }
}

/// The server as one of a tenant's: it takes the admin's certificate, and TLS checks the server's name.
async fn look_at(server: &ApiServer) -> Facts {
    let fenced = berth_fence::FencedClient::new(server.client(), berth_fence::Fence::open());
    let ca = CertSpec::new("ca", Usage::Ca, CA_LIFETIME);
    let now = Timestamp::now();
    let ca = berth_pki::issue_ca(&ca, now).unwrap();
    let (cert, key) = (ca.cert_pem.as_bytes(), ca.key_pem.expose_bytes());
    let target = TenantTarget::new(server.url(), None, cert, key, now.into()).unwrap();
    let io = Io::new(fenced.clone(), Arc::default(), Duration::from_mins(1));
    let connect: berth_kubeio::Connect = Arc::new(move |_| {
        let fenced = fenced.clone();
        async move { Ok(fenced) }.boxed()
    });
    let calls: Arc<Calls> = Arc::default();
    look(&connect, &target, &io, &asked(server, "kube-apiserver"), &calls, now).await
}

#[tokio::test]
async fn a_real_api_server_tells_what_it_is_and_which_apis_go() {
    const BETA: &str = "/apis/networking.k8s.io/v1beta1/ipaddresses";
    let options = Options {
        apiserver_args: vec!["--runtime-config=networking.k8s.io/v1beta1=true".into()],
        ..Options::default()
    };
    let server = ApiServer::start_with(options).await.unwrap();
    let facts = look_at(&server).await;
    let first = facts.servers["a"].clone().unwrap_or_else(|e| panic!("{e}"));
    assert_eq!((&*first.version.version, first.version.emulates, &first.unwell), ("1.36.3", None, &None));
    assert!(first.metrics.deprecated.is_empty(), "{:?}", first.metrics.deprecated);
    assert!(first.metrics.answers.all > 0);
    let stage = |stage: &str| first.metrics.features.values().any(|of| of == stage);
    assert!(stage("ALPHA") && stage("BETA") && stage(""), "{:?}", first.metrics.features);
    assert_eq!((&facts.services_down, &facts.admission), (&Ok([].into()), &Ok(())));

    call(&server, "GET", BETA, None).await;
    let facts = look_at(&server).await;
    let used = &facts.servers["a"].as_ref().unwrap().metrics.deprecated;
    let named =
        used.iter().any(|api| api.group_version == "networking.k8s.io/v1beta1" && api.resource == "ipaddresses");
    assert!(named, "{used:?}");
    // It is forgotten with the process.
    server.stop_apiserver();
    let facts = look_at(&server).await;
    assert!(facts.servers["a"].is_err() && facts.services_down.is_err() && facts.admission.is_err(), "{facts:?}");
    server.start_apiserver().await.unwrap();
    let facts = look_at(&server).await;
    assert!(facts.servers["a"].as_ref().unwrap().metrics.deprecated.is_empty());
}
