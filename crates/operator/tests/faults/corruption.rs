//! Labels and owner references of children, one field a run: nothing follows from it but that it is put right, or told.

use crate::common::{Running, SOON, Team, alone, server, state::settled};
use crate::{full, templates};
use anyhow::{Result, ensure};
use berth_api::labels;
use berth_kubeio::{Fence, Io};
use berth_render::{Kind, ObjectKey, Place};
use berth_testkit::fault::Verb;
use berth_testkit::oracle::secret_keys;
use berth_testkit::{FaultPlan, fixtures::eventually};
use k8s_openapi::api::core::v1::ConfigMap;
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

/// One field of one child.
#[derive(Clone)]
struct Case {
    key: ObjectKey,
    what: String,
    patch: Value,
    /// Labels as they were.
    labels: Value,
}

/// Everything that Berth makes in a control-plane namespace, and the namespace.
async fn children(team: &Team, io: &Io) -> Vec<(ObjectKey, Value)> {
    let home = ObjectKey::cluster(Kind::Namespace, team.home.clone());
    let mut all = vec![(home.clone(), io.get(&home).await.expect("get").expect("the namespace"))];
    let made = |kind: &Kind| kind.namespaced() && kind.verbs(Place::ControlPlane).contains(&"create");
    for kind in Kind::ALL.into_iter().filter(|k| made(k) || *k == Kind::RoleBinding) {
        for object in io.list(kind, &team.home, None).await.expect("list") {
            let name = object["metadata"]["name"].as_str().unwrap_or_default().to_owned();
            if object["metadata"]["labels"][labels::MANAGED_BY] == labels::MANAGED_BY_VALUE {
                all.push((ObjectKey::namespaced(kind, team.home.clone(), name), object));
            }
        }
    }
    all
}

fn cases(children: &[(ObjectKey, Value)], owner: &Value) -> Vec<Case> {
    let mut all = vec![];
    for (key, object) in children {
        let labels = object["metadata"]["labels"].clone();
        let mut case = |what: String, metadata: Value| {
            let patch = json!({"metadata": metadata});
            all.push(Case { key: key.clone(), what, patch, labels: labels.clone() });
        };
        for label in labels.as_object().into_iter().flat_map(|l| l.keys()) {
            case(format!("without label {label}"), json!({"labels": {label: null}}));
            case(format!("another label {label}"), json!({"labels": {label: "other"}}));
        }
        // The owner exists: of one that does not, Kubernetes takes the child at once.
        if key.kind != Kind::Namespace {
            case("an owner".into(), json!({"ownerReferences": [owner]}));
        }
    }
    all
}

/// For each kind one case, a label or the owner in turns; each time the same.
fn sample(cases: &[Case]) -> Vec<Case> {
    let kinds: BTreeSet<Kind> = cases.iter().map(|c| c.key.kind).collect();
    let owner = |c: &Case| c.what == "an owner";
    let one = |(n, kind): (usize, &Kind)| {
        let (owners, labels): (Vec<&Case>, Vec<&Case>) =
            cases.iter().filter(|c| c.key.kind == *kind).partition(|c| owner(c));
        let some = if n % 2 == 0 || owners.is_empty() { labels } else { owners };
        some.get(some.len() / 2).map(|c| (*c).clone())
    };
    kinds.iter().enumerate().filter_map(one).collect()
}

/// Of everything in the namespace: what it is, so that nothing came or went.
async fn uids(team: &Team, io: &Io) -> BTreeSet<String> {
    let children = children(team, io).await;
    children.into_iter().map(|(key, o)| format!("{key} {}", o["metadata"]["uid"])).collect()
}

async fn one(team: &Team, io: &Io, plan: &FaultPlan, case: &Case) -> Result<&'static str> {
    let state = async || anyhow::Ok((templates(team).await, secret_keys(&team.client, &[&team.ns, &team.home]).await?));
    let (before, there, mark) = (state().await?, uids(team, io).await, plan.calls().len());
    io.merge(&case.key, "", "fieldManager=somebody", &case.patch).await?;
    team.touch().await;
    let outcome = async || {
        let live = io.get(&case.key).await?.unwrap_or_default();
        let owners = live["metadata"]["ownerReferences"].as_array().map_or(0, Vec::len);
        if live["metadata"]["labels"] == case.labels && owners == 0 {
            return Ok("put right");
        }
        let cluster = team.cluster().await.status.unwrap_or_default();
        let told = cluster
            .conditions
            .iter()
            .any(|c| c.type_ == "Degraded" && c.status == "True" && c.message.contains(&case.key.name));
        ensure!(told, "neither put right nor told: {} {:?}", live["metadata"], cluster.conditions);
        Ok("told")
    };
    let outcome = eventually(SOON, "put right or told", outcome).await?;
    settled(plan).await;
    if outcome == "told" {
        let back = json!({"metadata": {"labels": case.labels}});
        io.merge(&case.key, "", "fieldManager=somebody", &back).await?;
        team.touch().await;
    }
    team.ready().await?;
    let calls = plan.calls();
    let deletes: Vec<_> = calls[mark..].iter().filter(|c| c.verb == Verb::Delete).map(ToString::to_string).collect();
    ensure!(deletes.is_empty(), "deleted: {deletes:?}");
    ensure!(state().await? == before, "templates or keys changed");
    ensure!(uids(team, io).await == there, "children came or went");
    Ok(outcome)
}

/// `make test` tries one field of each kind; `BERTH_SWEEP=full` all of all.
#[tokio::test]
async fn a_field_of_a_child_that_is_corrupted_has_no_consequences() {
    let (_turn, server) = (alone().await, server().await);
    let (team, plan) = (Team::new(server).await, FaultPlan::new());
    team.create(json!({"replicas": 2, "etcd": {"replicas": 3}})).await.expect("Cluster");
    let _running = Running::start(server, &plan);
    team.ready().await.unwrap_or_else(|e| panic!("{e:#}"));
    settled(&plan).await;
    let io = Io::new(team.client.clone(), Fence::open(), Arc::default(), Duration::from_secs(10));
    let owner: ConfigMap = berth_testkit::yaml!("{{metadata: {{name: somebodys}}}}");
    let owner = team.put(owner).await.metadata;
    let owner =
        json!({"apiVersion": "v1", "kind": "ConfigMap", "name": owner.name, "uid": owner.uid, "controller": true});
    let mut cases = cases(&children(&team, &io).await, &owner);
    if !full() {
        cases = sample(&cases);
    }
    let mut failures = vec![];
    for case in &cases {
        match one(&team, &io, &plan, case).await {
            Ok(outcome) => println!("{}: {}: {outcome}", case.key, case.what),
            Err(error) => {
                failures.push(format!("{}: {}: {error:#}", case.key, case.what));
                let back = json!({"metadata": {"labels": case.labels, "ownerReferences": null}});
                io.merge(&case.key, "", "fieldManager=somebody", &back).await.expect("back");
            }
        }
    }
    assert!(failures.is_empty(), "{} of {}:\n{}", failures.len(), cases.len(), failures.join("\n"));
    team.wipe().await;
}
