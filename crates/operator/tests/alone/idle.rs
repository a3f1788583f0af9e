//! At rest nothing is written, an equal object is left alone, and drift of every child is repaired.

use crate::common::state::{dump, second_reconcile, settled, without_counters};
use crate::common::{Running, SOON, Team, alone_at_a_server, settings};
use berth_api::{EtcdCluster, labels, names};
use berth_fence::{Fence, FencedClient};
use berth_kubeio::{Calls, Io, Snapshot, observe_cluster, observe_etcd};
use berth_plan::{Action, Input, Plan, Planner as _};
use berth_plan_cluster::ClusterPlanner;
use berth_plan_etcd::EtcdPlanner;
use berth_render::{Kind, Object, ObjectKey};
use berth_testkit::fault::{Call, Verb};
use berth_testkit::oracle::{assert_keys_unchanged, diff, secret_keys};
use berth_testkit::{FaultPlan, fixtures::eventually};
use jiff::Timestamp;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

/// The largest tenant: with PodDisruptionBudgets.
fn large() -> Value {
    json!({"replicas": 2, "etcd": {"replicas": 3}})
}

#[tokio::test]
async fn nothing_is_written_at_rest_nor_after_a_restart() {
    let (_turn, server) = alone_at_a_server().await;
    let (team, plan) = (Team::new(server).await, FaultPlan::new());
    team.create(large()).await.expect("Cluster");
    let running = Running::start(server, &plan);
    team.ready().await.unwrap_or_else(|e| panic!("{e:#}"));
    for _ in 0..3 {
        second_reconcile(&team, &plan).await.unwrap_or_else(|e| panic!("{e:#}"));
    }
    drop(running);
    plan.reset_log();
    let _running = Running::start(server, &plan);
    let checked = async || {
        let read = |r: &str| plan.calls().iter().any(|c| c.resource == r && !c.name.is_empty());
        anyhow::ensure!(read("clusters") && read("etcdclusters"), "no reconcile yet");
        Ok(())
    };
    eventually(SOON, "a reconcile after the restart", checked).await.unwrap_or_else(|e| panic!("{e:#}"));
    settled(&plan).await;
    let calls = plan.calls();
    let written: Vec<_> = calls.iter().filter(|c| c.mutation.is_some()).map(ToString::to_string).collect();
    assert!(written.is_empty(), "a restart wrote:\n{}", written.join("\n"));
    team.wipe().await;
}

/// The calls since the last that is not part of a check: lists of Secrets and ConfigMaps, and what is read inside the tenant.
fn idle_checks(plan: &FaultPlan, cp_namespace: &str) -> Vec<Call> {
    let mut calls = plan.calls();
    // Jobs that have nobody left are looked for in all namespaces, whoever is idle.
    calls.retain(|c| c.verb != Verb::Watch && !["leases", "jobs"].contains(&&*c.resource));
    let of_a_check = |c: &Call| match c.verb {
        Verb::List => c.namespace == cp_namespace && ["secrets", "configmaps"].contains(&&*c.resource),
        Verb::Get => !["clusters", "etcdclusters", "namespaces", "rolebindings"].contains(&&*c.resource),
        _ => false,
    };
    let last = calls.iter().rposition(|c| !of_a_check(c)).map_or(0, |at| at + 1);
    calls.split_off(last)
}

#[tokio::test]
#[ignore = "make test-all: three minutes, in which nothing happens"]
async fn an_idle_check_reads_two_lists_and_finds_what_no_watch_tells() {
    const A_WHILE: Duration = Duration::from_mins(4);
    let (_turn, server) = alone_at_a_server().await;
    let (team, plan) = (Team::new(server).await, FaultPlan::new());
    team.create(large()).await.expect("Cluster");
    let _running = Running::start(server, &plan);
    team.ready().await.unwrap_or_else(|e| panic!("{e:#}"));
    let lists = |kind: &str| idle_checks(&plan, &team.cp_namespace).iter().filter(|c| c.resource == kind).count();
    let checked = async || {
        anyhow::ensure!(lists("secrets") >= 4, "no checks in a row: {:#?}", idle_checks(&plan, &team.cp_namespace));
        Ok(())
    };
    eventually(A_WHILE, "checks, and nothing else", checked).await.unwrap_or_else(|e| panic!("{e:#}"));
    let calls = idle_checks(&plan, &team.cp_namespace);
    assert!(lists("secrets").abs_diff(lists("configmaps")) <= 1, "{calls:#?}");
    assert!(calls.iter().filter(|c| c.verb == Verb::Get).count() <= lists("secrets"), "{calls:#?}");

    let io = Io::new(
        FencedClient::new(team.client.clone(), Fence::open()),
        Arc::new(Calls::default()),
        Duration::from_mins(1),
    );
    let damaged = ObjectKey::namespaced(Kind::Secret, team.cp_namespace.clone(), "kube-scheduler-pki");
    drift(&damaged, Some(&Value::Null), &io).await;
    let repaired = async || {
        let live = io.get(&damaged).await?.unwrap_or_default();
        let mut data = live["data"].as_object().into_iter().flatten();
        anyhow::ensure!(!data.any(|(_, value)| value == NONSENSE), "it still holds nonsense");
        Ok(())
    };
    eventually(A_WHILE, "found by a look", repaired).await.unwrap_or_else(|e| panic!("{e:#}"));
    team.wipe().await;
}

/// Every object of a tenant that is applied, as it would be rendered if it were not there.
async fn rendered(team: &Team, io: &Io) -> Vec<(Object, &'static str)> {
    let mut all = vec![];
    let (settings, now) = (settings(), Timestamp::now());
    let owner = team.cluster().await;
    let children = observe_cluster(io, &owner, &settings, &Arc::default()).await.expect("observe");
    collect(&children, &mut all, labels::MANAGER_CLUSTER, |observed| {
        ClusterPlanner::plan(Input { object: &owner, observed, settings: &settings, now }).plan
    });
    let owner = team.inside::<EtcdCluster>().get(names::ETCD).await.expect("etcd");
    let children = observe_etcd(io, &owner, &Arc::default()).await.expect("observe");
    collect(&children, &mut all, labels::MANAGER_ETCD, |observed| {
        EtcdPlanner::plan(Input { object: &owner, observed, settings: &settings, now }).plan
    });
    all
}

fn collect(
    children: &Snapshot,
    all: &mut Vec<(Object, &'static str)>,
    manager: &'static str,
    plan: impl Fn(&berth_plan::Observed) -> Plan,
) {
    for key in children.observed.objects.keys() {
        let mut without = children.observed.clone();
        without.objects.remove(key);
        let plan = plan(&without);
        let applied = plan.actions().find_map(|a| match a {
            Action::Apply(object) if object.key() == key => Some(object.clone()),
            _ => None,
        });
        all.extend(applied.map(|o| (without_address(o), manager)));
    }
}

/// What is made again asks for the address that it had.
fn without_address(object: Object) -> Object {
    let mut value = object.into_value();
    if value["kind"] == "Service" && value["spec"]["clusterIP"] != "None" {
        value["spec"].as_object_mut().unwrap().remove("clusterIP");
    }
    Object::new(value).unwrap()
}

#[tokio::test]
async fn applying_an_equal_object_leaves_its_version_alone() {
    let (_turn, server) = alone_at_a_server().await;
    for version in ["1.34.11", "1.35.8", "1.36.3"] {
        let (team, plan) = (Team::new(server).await, FaultPlan::new());
        let mut spec = large();
        spec["version"] = json!(version);
        team.create(spec).await.expect("Cluster");
        let running = Running::start(server, &plan);
        team.ready().await.unwrap_or_else(|e| panic!("{version}: {e:#}"));
        settled(&plan).await;
        drop(running);
        let io = Io::new(
            FencedClient::new(team.client.clone(), Fence::open()),
            Arc::new(Calls::default()),
            Duration::from_mins(1),
        );
        let objects = rendered(&team, &io).await;
        let mut kinds: Vec<_> = objects.iter().map(|(o, _)| o.key().kind.name()).collect();
        kinds.sort_unstable();
        kinds.dedup();
        assert_eq!(
            kinds,
            [
                "ConfigMap",
                "Deployment",
                "EtcdCluster",
                "NetworkPolicy",
                "PodDisruptionBudget",
                "RoleBinding",
                "Service",
                "StatefulSet"
            ]
        );
        for (object, manager) in objects {
            let version = |live: &Value| live["metadata"]["resourceVersion"].clone();
            let before = io.get(object.key()).await.expect("get").expect("it is there");
            let first = io.apply(&object, manager).await.expect("apply");
            let second = io.apply(&object, manager).await.expect("apply");
            assert_eq!(version(&first), version(&second), "{}: twice", object.key());
            assert_eq!(version(&before), version(&first), "{}: once", object.key());
        }
        team.wipe().await;
    }
}

/// Valid as text and as base64.
const NONSENSE: &str = "bm9uZQ==";

/// What somebody does to a child, and how Berth sees it.
struct Drift {
    kind: Kind,
    name: String,
    /// A merge patch; null: its first text is another. None: it is deleted.
    edit: Option<Value>,
}

fn drifts() -> Vec<Drift> {
    let mut all = vec![];
    let mut of = |kind: Kind, names: &[&str], edit: Value| {
        for name in names {
            all.push(Drift { kind, name: (*name).into(), edit: Some(edit.clone()) });
            all.push(Drift { kind, name: (*name).into(), edit: None });
        }
    };
    let control_plane = berth_plan_cluster::components::ALL.map(berth_plan_cluster::components::Component::name);
    let leaves = berth_plan_cluster::components::ALL.map(|component| component.secret);
    of(
        Kind::Deployment,
        &control_plane,
        json!({"spec": {"replicas": 1, "template": {"spec": {"terminationGracePeriodSeconds": 7}}}}),
    );
    of(Kind::ConfigMap, &control_plane, Value::Null);
    of(
        Kind::PodDisruptionBudget,
        &["kube-apiserver", "etcd"],
        json!({"spec": {"maxUnavailable": "90%", "minAvailable": null}}),
    );
    of(Kind::NetworkPolicy, &["default-deny", "kube-scheduler"], json!({"spec": {"ingress": [{}]}}));
    of(Kind::NetworkPolicy, &["kube-apiserver"], json!({"spec": {"egress": [{}]}}));
    of(Kind::Service, &["kube-apiserver"], json!({"spec": {"selector": {"app.kubernetes.io/component": "other"}}}));
    of(Kind::Service, &["etcd-0", "etcd-2"], json!({"metadata": {"labels": {"berth.dev/etcd-cluster": null}}}));
    of(
        Kind::RoleBinding,
        &["berth-operator"],
        json!({"subjects": [{"kind": "ServiceAccount", "namespace": "x", "name": "y"}]}),
    );
    of(
        Kind::StatefulSet,
        &["etcd"],
        json!({"spec": {"replicas": 1, "template": {"spec": {"terminationGracePeriodSeconds": 7}}}}),
    );
    of(Kind::ConfigMap, &["etcd-bootstrap"], json!({"data": {"bootstrap.json": "{}", "initial-cluster": "x"}}));
    of(Kind::Secret, &leaves, Value::Null);
    of(Kind::Secret, &["admin-kubeconfig", "break-glass-kubeconfig"], Value::Null);
    of(Kind::Secret, &["etcd-server", "etcd-peer", "etcd-client-kube-apiserver"], Value::Null);
    all.push(Drift {
        kind: Kind::EtcdCluster,
        name: "etcd".into(),
        edit: Some(json!({"spec": {"clients": [], "paused": true}})),
    });
    all
}

async fn drift(key: &ObjectKey, edit: Option<&Value>, io: &Io) {
    match edit {
        Some(Value::Null) => {
            let live = io.get(key).await.expect("get").unwrap_or_else(|| panic!("{key} is not there"));
            let name = live["data"].as_object().and_then(|d| d.keys().next()).expect("data").clone();
            io.merge(key, "", "fieldManager=somebody", &json!({"data": {name: NONSENSE}})).await.expect("patch");
        }
        Some(patch) => drop(io.merge(key, "", "fieldManager=somebody", patch).await.unwrap_or_else(|e| panic!("{e}"))),
        None => {
            let live = io.get(key).await.expect("get").unwrap_or_else(|| panic!("{key} is not there"));
            io.delete(key, live["metadata"]["uid"].as_str().expect("uid"), None).await.expect("delete");
        }
    }
}

#[tokio::test]
async fn drift_of_every_child_is_repaired() {
    let (_turn, server) = alone_at_a_server().await;
    let (team, plan) = (Team::new(server).await, FaultPlan::new());
    team.create(large()).await.expect("Cluster");
    let _running = Running::start(server, &plan);
    team.ready().await.unwrap_or_else(|e| panic!("{e:#}"));
    team.touch().await;
    settled(&plan).await;
    let look = async || {
        let mut dump = dump(&team).await?;
        without_counters(&mut dump);
        anyhow::Ok(dump)
    };
    let expected = look().await.expect("dump");
    let before = team.root_keys().await;
    let io = Io::new(
        FencedClient::new(team.client.clone(), Fence::open()),
        Arc::new(Calls::default()),
        Duration::from_mins(1),
    );
    let maps = io.list(Kind::ConfigMap, &*team.cp_namespace, None).await.expect("list");
    let names: Vec<&str> = maps.iter().filter_map(|m| m["metadata"]["name"].as_str()).collect();
    // What components read has a digest in its name.
    let called = |d: &Drift| {
        let own =
            names.iter().find(|name| d.kind == Kind::ConfigMap && name.starts_with(&format!("{}-config-", d.name)));
        own.map_or(d.name.clone(), |name| (*name).to_owned())
    };
    let mut all: Vec<(ObjectKey, Option<Value>)> = drifts()
        .into_iter()
        .map(|d| (ObjectKey::namespaced(d.kind, team.cp_namespace.clone(), called(&d)), d.edit))
        .collect();
    let published = ObjectKey::namespaced(Kind::Secret, team.ns.clone(), "acme-kubeconfig");
    all.extend([(published.clone(), Some(Value::Null)), (published, None)]);
    let templates = names.iter().filter(|name| name.contains("templates-"));
    all.extend(templates.map(|n| (ObjectKey::namespaced(Kind::ConfigMap, team.cp_namespace.clone(), *n), None)));
    let mut batches = BTreeMap::<(&str, &str), Vec<(ObjectKey, Option<Value>)>>::new();
    for (key, edit) in all {
        let what = if edit.is_some() { "edited" } else { "deleted" };
        batches.entry((what, key.kind.name())).or_default().push((key, edit));
    }
    let mut failures = vec![];
    for ((what, kind), batch) in batches {
        for (key, edit) in &batch {
            drift(key, edit.as_ref(), &io).await;
        }
        team.touch().await;
        let repaired = async || {
            let difference = diff(&expected, &look().await?);
            anyhow::ensure!(difference.is_empty(), "{difference}");
            // Dumps do not compare what Secrets hold.
            for (key, _) in &batch {
                let live = io.get(key).await?.unwrap_or_default();
                let mut data = live["data"].as_object().into_iter().flatten();
                anyhow::ensure!(!data.any(|(_, value)| value == NONSENSE), "{key} still holds nonsense");
            }
            Ok(())
        };
        match eventually(SOON, "repaired", repaired).await {
            Ok(()) => println!("{what} {} {kind}: repaired", batch.len()),
            Err(e) => failures.push(format!("{what} {kind}: {e:#}")),
        }
    }
    assert!(failures.is_empty(), "{}", failures.join("\n"));
    assert_keys_unchanged(&before, &team.root_keys().await);
    team.wipe().await;
}

#[tokio::test]
async fn an_etcd_cluster_that_is_deleted_comes_back_with_its_data_and_cas() {
    let (_turn, server) = alone_at_a_server().await;
    let (team, plan) = (Team::with_cluster(server).await, FaultPlan::new());
    let _running = Running::start(server, &plan);
    team.ready().await.unwrap_or_else(|e| panic!("{e:#}"));
    settled(&plan).await;
    let etcds = team.inside::<EtcdCluster>();
    let old = etcds.get(names::ETCD).await.expect("etcd");
    let bootstrap = async || {
        team.inside::<k8s_openapi::api::core::v1::ConfigMap>().get("etcd-bootstrap").await.expect("bootstrap").data
    };
    let formed = bootstrap().await;
    let mut keys = secret_keys(&team.client, &[&team.cp_namespace]).await.expect("keys");
    keys.retain(|key, _| key.contains("etcd-peer-ca") || key.contains("etcd-client-ca") || !key.contains("/etcd-"));
    etcds.delete(names::ETCD, &kube::api::DeleteParams::default()).await.expect("delete");
    let again = async || {
        let now = etcds.get(names::ETCD).await?;
        anyhow::ensure!(now.metadata.uid != old.metadata.uid, "the old one is still there");
        Ok(())
    };
    eventually(SOON, "another EtcdCluster", again).await.unwrap_or_else(|e| panic!("{e:#}"));
    team.ready().await.unwrap_or_else(|e| panic!("{e:#}"));
    assert_eq!(bootstrap().await, formed);
    assert_keys_unchanged(&keys, &secret_keys(&team.client, &[&team.cp_namespace]).await.expect("keys"));
    second_reconcile(&team, &plan).await.unwrap_or_else(|e| panic!("{e:#}"));
    team.wipe().await;
}
