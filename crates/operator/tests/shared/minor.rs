//! A minor in two steps against a real API server: the order of the writes, what is recorded, the way back, and what is refused.

use crate::common::{CRASHES, SHARED_CALLS, SOON, Team, shared_operator};
use anyhow::{Result, ensure};
use berth_api::conditions::ConditionType;
use berth_api::labels;
use berth_testkit::apiserver::Options;
use berth_testkit::kinds::{difference, samples, without_sample};
use berth_testkit::{ApiServer, fixtures::eventually};
use k8s_openapi::api::apps::v1::Deployment;
use serde_json::{Value, json};

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
    let back = order(&team, mark);
    assert_eq!(back[..5], [home, manager, scheduler, api, home], "the other way round");
    // What held back the second API server is taken out when it is through; that it has succeeded is recorded after its soak.
    assert!(back[5..].iter().all(|name| name == api || name == home), "{back:?}");
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
async fn a_tenant_that_is_deleted_amid_a_change_is_gone() {
    let server = shared_operator().await;
    for stuck in [false, true] {
        let team = Team::new(server).await;
        team.create(json!({"version": OLD, "upgrade": {"soak": "0s", "finalizeAfter": "168h"}})).await.unwrap();
        ready(&team, "AsExpected").await;
        let args = if stuck { json!([{"name": CRASHES, "value": "1"}]) } else { json!([]) };
        team.spec(json!({"version": NEW, "apiServer": {"extraArgs": args}})).await.unwrap();
        if stuck {
            let begun = async || -> Result<()> {
                ensure!(runs(&team, "kube-apiserver").await == "1.36.3 as 1.35");
                Ok(())
            };
            eventually(SOON, "the first step", begun).await.unwrap_or_else(|e| panic!("{e:#}"));
        } else {
            ready(&team, "Emulating").await;
        }
        assert!(note(&team, labels::UPGRADE).await.is_some());
        team.delete().await;
        team.gone().await.unwrap();
        let left = async || -> Result<()> {
            ensure!(team.namespaces().get_opt(&team.cp_namespace).await?.is_none());
            Ok(())
        };
        eventually(SOON, "nothing to be left", left).await.unwrap_or_else(|e| panic!("{e:#}"));
    }
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

async fn call(server: &ApiServer, request: http::Request<Vec<u8>>) -> Value {
    let what = format!("{} {}", request.method(), request.uri());
    server.client().request(request).await.unwrap_or_else(|e| panic!("{what}: {e}"))
}

async fn get(server: &ApiServer, path: &str) -> Value {
    call(server, http::Request::get(path).body(Vec::new()).unwrap()).await
}

/// Creates one of each under that name, and reads them when what the API server itself writes is there.
async fn keep(server: &ApiServer, name: &str) -> Vec<Value> {
    for sample in samples(name) {
        let request = http::Request::post(sample.collection).header("content-type", "application/json");
        call(server, request.body(serde_json::to_vec(&sample.object).unwrap()).unwrap()).await;
    }
    read(server, name).await
}

async fn read(server: &ApiServer, name: &str) -> Vec<Value> {
    let mut all = vec![];
    for sample in samples(name) {
        all.push(get(server, &sample.path).await);
    }
    all
}

/// All read back equal.
async fn same(server: &ApiServer, name: &str, before: &[Value]) {
    let now = read(server, name).await;
    let differ: Vec<_> = before.iter().zip(&now).filter_map(|(before, now)| difference(before, now)).collect();
    assert_eq!(differ, [""; 0]);
}

/// What is served and can be created has an object here.
async fn every_kind_is_kept(server: &ApiServer) {
    let mut versions = vec!["/api/v1".to_owned()];
    for group in get(server, "/apis").await["groups"].as_array().unwrap() {
        let all = group["versions"].as_array().unwrap().iter();
        versions.extend(all.map(|version| format!("/apis/{}", version["groupVersion"].as_str().unwrap())));
    }
    for version in versions {
        assert_eq!(without_sample(&get(server, &version).await), [""; 0], "{version}");
    }
}

/// What the first step relies on: the newest binaries that emulate the oldest minor leave nothing in etcd that the oldest cannot read, be it
/// theirs or its own; and then they serve the same without emulation.
#[tokio::test]
async fn a_real_api_server_that_emulates_leaves_a_way_back() {
    const OLDEST: &str = "v1.34.4";
    const NEWEST: &str = "v1.36.3";
    let mut server = ApiServer::start_with(Options { kubernetes: OLDEST.into(), ..Options::default() }).await.unwrap();
    every_kind_is_kept(&server).await;
    let before = keep(&server, "before").await;

    server.replace_apiserver(NEWEST, &["--emulated-version=1.34"]).await.unwrap();
    let told = get(&server, "/version").await;
    assert_eq!((&told["gitVersion"], &told["major"], &told["minor"]), (&json!(NEWEST), &json!("1"), &json!("36")));
    assert_eq!((&told["emulationMajor"], &told["emulationMinor"]), (&json!("1"), &json!("34")), "{told}");
    same(&server, "before", &before).await;
    let emulating = keep(&server, "emulating").await;

    server.replace_apiserver(OLDEST, &[]).await.unwrap();
    assert_eq!(get(&server, "/version").await["gitVersion"], OLDEST);
    same(&server, "before", &before).await;
    same(&server, "emulating", &emulating).await;

    server.replace_apiserver(NEWEST, &[]).await.unwrap();
    let told = get(&server, "/version").await;
    assert_eq!((&told["gitVersion"], &told["emulationMinor"]), (&json!(NEWEST), &json!("36")), "{told}");
    same(&server, "before", &before).await;
    same(&server, "emulating", &emulating).await;
}
