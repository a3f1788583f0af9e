//! What tests of the meta cluster's faults look at, and what keeps pods away.

use anyhow::{Result, ensure};
use serde_json::{Value, json};

use crate::{Tenant, World, core, tenant::condition, until};

/// Type, status and reason of a condition.
pub type Verdict = [&'static str; 3];

/// No node takes a pod.
pub const UNSCHEDULABLE: Verdict = ["Ready", "False", "Unschedulable"];
/// A write is refused, by admission or a quota.
pub const REJECTED: Verdict = ["Ready", "False", "Rejected"];
/// A write fails otherwise.
pub const ERROR: Verdict = ["Ready", "False", "Error"];

/// Waits until a condition says all of that.
pub fn says(tenant: &Tenant<'_>, verdict: Verdict, words: &[&str]) -> Result<()> {
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
pub fn comes_back(world: &World, path: &str) -> Result<()> {
    let before = uid(world, path)?;
    world.kube.delete(path)?;
    is_back(world, path, &before)
}

/// Waits until an object is another one than before.
pub fn is_back(world: &World, path: &str, before: &Value) -> Result<()> {
    let name = path.rsplit_once("/namespaces/").map_or(path, |(_, name)| name);
    until(&format!("{name} to be back"), || {
        ensure!(uid(world, path)? != *before, "it is the old one");
        Ok(())
    })
}

/// The UID of what is at a path.
pub fn uid(world: &World, path: &str) -> Result<Value> {
    Ok(world.kube.get(path)?["metadata"]["uid"].clone())
}

/// A quota that lets no pod in.
pub fn no_pods(world: &World, tenant: &Tenant<'_>) -> Result<()> {
    let quota = json!({"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "none"}, "spec": {"hard": {"pods": "0"}}});
    world.kube.ensure(&core(&tenant.cp_namespace, "resourcequotas"), &quota)
}

/// Takes it away.
pub fn pods_again(world: &World, tenant: &Tenant<'_>) -> Result<()> {
    world.kube.delete(&format!("{}/none", core(&tenant.cp_namespace, "resourcequotas")))
}

/// Deletes the pods of a component, and does not wait.
pub fn delete_pods(world: &World, tenant: &Tenant<'_>, component: &str) -> Result<()> {
    let selector = format!("app.kubernetes.io/component={component}");
    world.kubectl(&["-n", &tenant.cp_namespace, "delete", "pod", "-l", &selector, "--wait=false"]).map(drop)
}
