//! Faults of the meta cluster: each is named by a condition, other stages and other tenants go on, and it heals without a touch on the `Cluster`.

mod away;
mod birth;
mod pods;
mod webhook;
mod writes;

use anyhow::{Result, ensure};
use berth_e2e::{Tenant, World, apps, tenant::condition, until};
use serde_json::{Value, json};

/// Type, status and reason of a condition.
type Verdict = [&'static str; 3];

const UNSCHEDULABLE: Verdict = ["Ready", "False", "Unschedulable"];
const REJECTED: Verdict = ["Ready", "False", "Rejected"];
const ERROR: Verdict = ["Ready", "False", "Error"];

#[test]
#[ignore = "make test-all: where names do not resolve, each pull takes half a minute to fail, and kubelet pulls one after the other"]
fn what_is_missing_at_birth_is_named_and_awaited() {
    berth_e2e::run("meta_faults", birth::missing);
}

#[test]
fn pods_that_are_refused_are_named_and_tried_again() {
    berth_e2e::run("meta_faults", |world| {
        let crowded = Tenant::ready(world, "crowded", &json!({}))?;
        pods::no_node_takes_it(world, &crowded)?;
        pods::a_quota(world, &crowded)?;
        crowded.let_go()
    });
}

#[test]
#[ignore = "make test-all: a StatefulSet takes minutes to try again, and so do the others as a whole"]
fn writes_that_are_refused_are_named_and_tried_again() {
    berth_e2e::run("meta_faults", |world| {
        // A run that was cut off may have left them, and they would refuse this one's tenants.
        writes::nothing_refuses(world)?;
        let result = refused_later(world);
        writes::nothing_refuses(world)?;
        result
    });
}

fn refused_later(world: &World) -> Result<()> {
    let short = Tenant::ready(world, "short", &json!({}))?;
    pods::a_quota_for_etcd(world, &short)?;
    let refused = Tenant::ready(world, "refused", &json!({}))?;
    writes::a_policy_that_refuses(world, &refused)?;
    away::the_operator_is_away(world, &refused)?;
    short.wait_ready()?;
    writes::a_webhook_that_hangs(world, &refused, &short)?;
    refused.delete()?;
    short.let_go()
}

/// Waits until a condition says all of that.
fn says(tenant: &Tenant<'_>, verdict: Verdict, words: &[&str]) -> Result<()> {
    let [type_, status, reason] = verdict;
    until(&format!("{}: {type_} {status} {reason} with {words:?}", tenant.name), || {
        let cluster = tenant.cluster()?;
        let found = condition(&cluster, type_)?;
        ensure!(found["status"] == status && found["reason"] == reason, "it is {found}");
        let said = found["message"].as_str().unwrap_or_default();
        ensure!(words.iter().all(|word| said.contains(word)), "it is {found}");
        Ok(())
    })
}

/// What another stage makes goes missing, and is made again.
fn comes_back(world: &World, path: &str) -> Result<()> {
    let before = uid(world, path)?;
    world.kube.delete(path)?;
    is_back(world, path, &before)
}

fn is_back(world: &World, path: &str, before: &Value) -> Result<()> {
    let name = path.rsplit_once("/namespaces/").map_or(path, |(_, name)| name);
    until(&format!("{name} to be back"), || {
        ensure!(uid(world, path)? != *before, "it is the old one");
        Ok(())
    })
}

fn uid(world: &World, path: &str) -> Result<Value> {
    Ok(world.kube.get(path)?["metadata"]["uid"].clone())
}

fn deployment(tenant: &Tenant<'_>, component: &str) -> String {
    format!("{}/{component}", apps(&tenant.cp_namespace, "deployments"))
}
