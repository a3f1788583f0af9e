//! What somebody adds to a workload by hand, in every way that an API server notes: it is gone soon, or named; and a Service that is
//! deleted comes back with its address.

mod kinds;

use crate::common::state::{second_reconcile, settled};
use crate::common::{Running, SOON, Team, alone_at_a_server, full};
use anyhow::{Result, ensure};
use berth_api::conditions::ConditionType;
use berth_api::{labels, names};
use berth_fence::{Fence, FencedClient};
use berth_kubeio::Io;
use berth_render::{Kind, ObjectKey};
use berth_testkit::FaultPlan;
use berth_testkit::fixtures::{eventually, until};
use berth_testkit::oracle::{Dump, diff};
use k8s_openapi::api::core::v1::Service;
use kinds::How;
use kube::api::{DeleteParams, Patch, PatchParams, PostParams};
use serde_json::{Value, json};
use std::sync::Arc;
use std::time::Duration;

fn io(team: &Team) -> Io {
    Io::new(FencedClient::new(team.client.clone(), Fence::open()), Arc::default(), Duration::from_mins(1))
}

/// The workloads of a tenant.
fn workloads(team: &Team) -> Vec<ObjectKey> {
    let of = |(kind, name): (Kind, &str)| ObjectKey::namespaced(kind, team.cp_namespace.clone(), name);
    let deployments = berth_plan_cluster::components::ALL.map(|c| (Kind::Deployment, c.name()));
    deployments.into_iter().chain([(Kind::StatefulSet, names::ETCD)]).map(of).collect()
}

async fn get(io: &Io, key: &ObjectKey) -> Value {
    io.get(key).await.expect("get").unwrap_or_else(|| panic!("{key} is not there"))
}

/// Waits until the spec is as it was.
async fn is_as_before(io: &Io, key: &ObjectKey, before: &Value) -> Result<()> {
    let same = async || {
        let now = get(io, key).await["spec"].clone();
        let of = |spec: Value| Dump::from([(key.to_string(), spec)]);
        let difference = diff(&of(before.clone()), &of(now));
        ensure!(difference.is_empty(), "{difference}");
        Ok(())
    };
    eventually(SOON, "as before", same).await
}

/// `make test` adds each kind to one workload, two at once; `BERTH_SWEEP=full` one after the other to all.
#[tokio::test]
async fn whatever_is_added_to_a_workload_goes() {
    let (_turn, server) = alone_at_a_server().await;
    let (team, plan) = (Team::with_cluster(server).await, FaultPlan::new());
    let _running = Running::start(server, &plan);
    team.ready().await.unwrap_or_else(|e| panic!("{e:#}"));
    settled(&plan).await;
    let (io, all) = (io(&team), workloads(&team));
    let mut before = vec![];
    for key in &all {
        before.push(get(&io, key).await["spec"].clone());
    }
    let kinds = kinds::all();
    assert!(kinds.len() >= 40, "{}", kinds.len());
    let each: Vec<_> = all.iter().zip(&before).collect();
    let rounds: Vec<Vec<_>> = if full() {
        kinds.iter().map(|kind| each.iter().map(|workload| (kind, *workload)).collect()).collect()
    } else {
        kinds.chunks(2 * each.len()).map(|kinds| kinds.iter().zip(each.iter().copied().cycle()).collect()).collect()
    };
    let (mut failures, mut tried) = (vec![], 0);
    for (n, round) in rounds.into_iter().enumerate() {
        for ((what, how), (key, _)) in &round {
            let somebody = format!("somebody-{n}");
            kinds::add(&team, &io, key, how, &somebody).await.unwrap_or_else(|e| panic!("{what}: {key}: {e:#}"));
        }
        for ((what, _), (key, before)) in round {
            tried += 1;
            if let Err(e) = is_as_before(&io, key, before).await {
                failures.push(format!("{what}: {e:#}"));
            }
        }
    }
    assert!(failures.is_empty(), "{} of {tried}:\n{}", failures.len(), failures.join("\n"));
    println!("{} kinds of additions, {tried} times: gone", kinds.len());
    // What is left alone is left alone.
    for key in &all {
        let at =
            json!({"spec": {"template": {"metadata": {"annotations": {"kubectl.kubernetes.io/restartedAt": "now"}}}}});
        kinds::add(&team, &io, key, &How::Patch(at), "kubectl-rollout").await.expect("restart");
    }
    team.reconciled(&plan).await;
    team.ready().await.unwrap_or_else(|e| panic!("{e:#}"));
    second_reconcile(&team, &plan).await.unwrap_or_else(|e| panic!("{e:#}"));
    for key in &all {
        let annotations = &get(&io, key).await["spec"]["template"]["metadata"]["annotations"];
        assert_eq!(annotations["kubectl.kubernetes.io/restartedAt"], "now", "{key}");
    }
    team.wipe().await;
}

fn env() -> How {
    kinds::container(|_| json!({"env": [{"name": "FOO", "value": "bar"}]}))
}

/// That variable in a workload.
fn foo(workload: &Value) -> Value {
    let all = workload["spec"]["template"]["spec"]["containers"][0]["env"].as_array().cloned().unwrap_or_default();
    all.into_iter().find(|one| one["name"] == "FOO").unwrap_or_default()
}

async fn degraded(team: &Team, about: &str) -> String {
    team.says_of(ConditionType::Degraded, "ForeignFields", about).await
}

#[tokio::test]
async fn who_puts_it_back_each_time_is_named_and_left() {
    let (_turn, server) = alone_at_a_server().await;
    let (team, plan) = (Team::with_cluster(server).await, FaultPlan::new());
    let _running = Running::start(server, &plan);
    team.ready().await.unwrap_or_else(|e| panic!("{e:#}"));
    let (io, key) = (io(&team), workloads(&team).remove(2));
    let before = get(&io, &key).await["spec"].clone();
    for _ in 0..5 {
        kinds::add(&team, &io, &key, &env(), "reloader").await.expect("add");
        is_as_before(&io, &key, &before).await.unwrap_or_else(|e| panic!("{e:#}"));
    }
    kinds::add(&team, &io, &key, &env(), "reloader").await.expect("add");
    let told = degraded(&team, "5 times").await;
    assert!(told.contains("Deployment") && told.contains("env[FOO] (by reloader)"), "{told}");
    team.ready().await.unwrap_or_else(|e| panic!("{e:#}"));
    second_reconcile(&team, &plan).await.unwrap_or_else(|e| panic!("{e:#}"));
    // A change of the pods takes it along.
    team.spec(json!({"scheduler": {"extraArgs": [{"name": "v", "value": "3"}]}})).await.expect("spec");
    until(SOON, "it is gone", async || foo(&get(&io, &key).await).is_null()).await;
    team.says(ConditionType::Degraded, "AsExpected").await;
    team.wipe().await;
}

#[tokio::test]
async fn what_was_there_before_is_named_until_the_pods_change() {
    let (_turn, server) = alone_at_a_server().await;
    let (team, plan) = (Team::with_cluster(server).await, FaultPlan::new());
    let running = Running::start(server, &plan);
    team.ready().await.unwrap_or_else(|e| panic!("{e:#}"));
    settled(&plan).await;
    drop(running);
    let (io, all) = (io(&team), workloads(&team));
    let mut with = vec![];
    for key in &all {
        kinds::add(&team, &io, key, &env(), "kubectl-set").await.expect("add");
        let older = json!({"metadata": {"annotations": {(labels::ADDITIONS): null}}});
        with.push(io.merge(key, "", "fieldManager=older", &older).await.expect("merge")["spec"].clone());
    }
    let _running = Running::start(server, &plan);
    let told = degraded(&team, "env[FOO] (by kubectl-set)").await;
    assert!(told.contains("with the next change of the pods"), "{told}");
    team.ready().await.unwrap_or_else(|e| panic!("{e:#}"));
    second_reconcile(&team, &plan).await.unwrap_or_else(|e| panic!("{e:#}"));
    for (key, with) in all.iter().zip(&with) {
        assert_eq!(get(&io, key).await["spec"], *with, "{key}: a new operator restarts nobody");
    }
    team.spec(json!({"scheduler": {"extraArgs": [{"name": "v", "value": "3"}]}})).await.expect("spec");
    let gone = async |n: usize| foo(&get(&io, &all[n]).await).is_null();
    until(SOON, "the scheduler's is gone", async || gone(2).await).await;
    team.ready().await.unwrap_or_else(|e| panic!("{e:#}"));
    assert!(!gone(1).await, "the pods of the controller manager do not change");
    // From now on it is taken away at once.
    kinds::add(&team, &io, &all[2], &env(), "kubectl-set").await.expect("add");
    until(SOON, "it is gone again", async || gone(2).await).await;
    team.wipe().await;
}

#[tokio::test]
async fn what_admission_adds_is_named_and_left() {
    const POLICIES: &str = "/apis/admissionregistration.k8s.io/v1/mutatingadmissionpolicies";
    let (_turn, server) = alone_at_a_server().await;
    let (team, plan) = (Team::with_cluster(server).await, FaultPlan::new());
    let _running = Running::start(server, &plan);
    team.ready().await.unwrap_or_else(|e| panic!("{e:#}"));
    let (io, key) = (io(&team), workloads(&team).remove(2));
    let pods = "Object.spec.template.spec";
    let adds = format!(
        "Object{{spec: Object.spec{{template: Object.spec.template{{spec: {pods}{{containers: [{pods}.containers{{name: 'kube-scheduler', env: [{pods}.containers.env{{name: 'FOO', value: 'bar'}}]}}]}}}}}}}}"
    );
    let name = json!({"name": team.cp_namespace});
    let rule = json!({"apiGroups": ["apps"], "apiVersions": ["v1"], "resources": ["deployments"], "operations": ["CREATE", "UPDATE"]});
    let ours = format!("request.namespace == '{}' && request.name == '{}'", team.cp_namespace, key.name);
    let policy = json!({
        "apiVersion": "admissionregistration.k8s.io/v1", "kind": "MutatingAdmissionPolicy", "metadata": name,
        "spec": {
            "matchConstraints": {"resourceRules": [rule]}, "matchConditions": [{"name": "ours", "expression": ours}],
            "failurePolicy": "Fail", "reinvocationPolicy": "Never",
            "mutations": [{"patchType": "ApplyConfiguration", "applyConfiguration": {"expression": adds}}],
        },
    });
    let binding = json!({
        "apiVersion": "admissionregistration.k8s.io/v1", "kind": "MutatingAdmissionPolicyBinding", "metadata": name,
        "spec": {"policyName": team.cp_namespace},
    });
    let send = async |request: http::request::Builder, body: &Value| {
        let request =
            request.header("content-type", "application/json").body(body.to_string().into_bytes()).expect("request");
        team.client.request_text(request).await.unwrap_or_else(|e| panic!("{e}"));
    };
    send(http::Request::post(POLICIES), &policy).await;
    send(http::Request::post(POLICIES.replace("policies", "policybindings")), &binding).await;
    // What somebody adds goes, what the policy adds to that write and to Berth's stays.
    let n = std::cell::Cell::new(0);
    until(SOON, "the policy in force", async || {
        n.set(n.get() + 1);
        let more = kinds::container(|_| json!({"tty": true}));
        kinds::add(&team, &io, &key, &more, &format!("somebody-{}", n.get())).await.expect("add");
        !foo(&get(&io, &key).await).is_null()
    })
    .await;
    let told = degraded(&team, "env[FOO]").await;
    assert!(told.contains("A mutating webhook or policy added it"), "{told}");
    until(SOON, "what somebody added is gone", async || {
        get(&io, &key).await["spec"]["template"]["spec"]["containers"][0]["tty"].is_null()
    })
    .await;
    team.ready().await.unwrap_or_else(|e| panic!("{e:#}"));
    second_reconcile(&team, &plan).await.unwrap_or_else(|e| panic!("{e:#}"));
    assert_eq!(foo(&get(&io, &key).await)["value"], "bar");
    for collection in [POLICIES.replace("policies", "policybindings"), POLICIES.to_owned()] {
        send(http::Request::delete(format!("{collection}/{}", team.cp_namespace)), &json!({})).await;
    }
    team.wipe().await;
}

fn address(service: &Service) -> Option<String> {
    service.spec.as_ref().and_then(|s| s.cluster_ip.clone())
}

#[tokio::test]
async fn a_deleted_service_comes_back_with_its_address() {
    let (_turn, server) = alone_at_a_server().await;
    let (team, plan) = (Team::with_cluster(server).await, FaultPlan::new());
    let running = Running::start(server, &plan);
    team.ready().await.unwrap_or_else(|e| panic!("{e:#}"));
    settled(&plan).await;
    let services = team.inside::<Service>();
    for name in [names::APISERVER, "etcd-0"] {
        let old = services.get(name).await.expect("Service");
        services.delete(name, &DeleteParams::default()).await.expect("delete");
        let back = async || {
            let now = services.get(name).await?;
            ensure!(now.metadata.uid != old.metadata.uid, "the old one is still there");
            ensure!(address(&now) == address(&old), "{:?} is not {:?}", address(&now), address(&old));
            Ok(())
        };
        eventually(SOON, "back at its address", back).await.unwrap_or_else(|e| panic!("{name}: {e:#}"));
        // It asked for the address, and what Berth applies from now on does not name it.
        let edit = Patch::Merge(json!({"spec": {"selector": {"app.kubernetes.io/component": "nobody"}}}));
        services.patch(name, &PatchParams::default(), &edit).await.expect("patch");
        let repaired = async || {
            let now = services.get(name).await?;
            ensure!(now.spec.as_ref().map(|s| &s.selector) == old.spec.as_ref().map(|s| &s.selector), "{:?}", now.spec);
            ensure!(address(&now) == address(&old), "{:?} is not {:?}", address(&now), address(&old));
            Ok(())
        };
        eventually(SOON, "repaired", repaired).await.unwrap_or_else(|e| panic!("{name}: {e:#}"));
        // Deleted while a change of it is undone: that write makes no new one, which would have another address.
        for _ in 0..5 {
            services.patch(name, &PatchParams::default(), &edit).await.expect("patch");
            services.delete(name, &DeleteParams::default()).await.expect("delete");
            eventually(SOON, "made again", repaired).await.unwrap_or_else(|e| panic!("{name}: {e:#}"));
        }
    }
    team.ready().await.unwrap_or_else(|e| panic!("{e:#}"));
    second_reconcile(&team, &plan).await.unwrap_or_else(|e| panic!("{e:#}"));

    drop(running);
    let old = services.get(names::APISERVER).await.expect("Service");
    services.delete(names::APISERVER, &DeleteParams::default()).await.expect("delete");
    let squatter: Service = berth_testkit::yaml!(
        "{{metadata: {{name: squatter}}, spec: {{clusterIP: '{}', ports: [{{port: 1}}]}}}}",
        address(&old).expect("address")
    );
    let others = kube::Api::<Service>::namespaced(team.client.clone(), &team.ns);
    others.create(&PostParams::default(), &squatter).await.expect("squatter");
    let _running = Running::start(server, &plan);
    let told = degraded(&team, &address(&old).expect("address")).await;
    assert!(told.contains("Service") && told.contains("could not be allocated again"), "{told}");
    team.ready().await.unwrap_or_else(|e| panic!("{e:#}"));
    second_reconcile(&team, &plan).await.unwrap_or_else(|e| panic!("{e:#}"));
    let heard = Patch::Merge(json!({"metadata": {"annotations": {(labels::FORMER_ADDRESS): null}}}));
    services.patch(names::APISERVER, &PatchParams::default(), &heard).await.expect("patch");
    team.says(ConditionType::Degraded, "AsExpected").await;
    team.wipe().await;
}
