//! The oldest minor, an older etcd and three members; a patch version rolls, the API server first; the minor after the next one is refused.
//!
//! `make test` runs the oldest and the newest minor: a tenant's pods differ by what a template renders, and what lies between renders
//! what both of these do (`a_minor_in_between_renders_what_both_neighbours_do`, in crates/render/tests/it/flags.rs).

use anyhow::{Context, Result, ensure};
use berth_e2e::{
    NEWEST, PREVIOUS_PATCH, Tenant, World, apps,
    tenant::condition,
    until,
    versions::{OLDEST, of, works},
};
use serde_json::{Value, json};

#[test]
fn the_oldest_and_the_newest_minor_run_and_a_patch_rolls() {
    berth_e2e::run("versions", |world| {
        let old = of(world, "v134", OLDEST, "3.5.35", 3)?;
        let new = of(world, "v136", PREVIOUS_PATCH, "3.6.16", 3)?;
        works(&old, OLDEST, "3.5.35", 3)?;
        works(&new, PREVIOUS_PATCH, "3.6.16", 3)?;
        the_minor_after_the_next_is_refused(&old)?;
        old.let_go()?;
        a_patch_rolls(world, &new)
    });
}

fn the_minor_after_the_next_is_refused(tenant: &Tenant<'_>) -> Result<()> {
    let before = tenant.pod_identities()?;
    tenant.change(&json!({"version": NEWEST}))?;
    let message = tenant.wait_condition("Ready", "False", "MinorChangeUnsupported")?;
    ensure!(message.contains("set a patch version of 1.35 first"), "{message}");
    let cluster = tenant.cluster()?;
    ensure!(condition(&cluster, "Available")?["status"] == "True", "it serves on");
    ensure!(cluster["status"]["version"] == OLDEST);
    tenant.change(&json!({"version": OLDEST}))?;
    tenant.wait_ready()?;
    ensure!(tenant.pod_identities()? == before, "no pod was touched");
    Ok(())
}

fn a_patch_rolls(world: &World, tenant: &Tenant<'_>) -> Result<()> {
    let etcd = |tenant: &Tenant<'_>| -> Result<Vec<Value>> {
        let pods = tenant.pods(Some("etcd"))?;
        Ok(pods.iter().map(|p| p["metadata"]["uid"].clone()).collect())
    };
    let members = etcd(tenant)?;
    tenant.change(&json!({"version": NEWEST}))?;
    let cluster = until("the version to be the new one", || {
        let cluster = tenant.wait_ready()?;
        ensure!(cluster["status"]["version"] == NEWEST, "it is {}", cluster["status"]["version"]);
        Ok(cluster)
    })?;
    let components = cluster["status"]["components"].as_array().cloned().unwrap_or_default();
    ensure!(components.iter().all(|c| c["version"] == NEWEST && c["ready"] == 1), "{components:?}");
    ensure!(etcd(tenant)? == members, "etcd was left alone");
    // The others' new ReplicaSets were made once the new API server was ready. Times are in whole seconds.
    let ready = ready_since(tenant, "kube-apiserver")?;
    for name in ["kube-controller-manager", "kube-scheduler"] {
        let sets = world.kube.list(&apps(&tenant.cp_namespace, "replicasets"))?;
        let new = sets
            .iter()
            .find(|s| s["metadata"]["labels"]["app.kubernetes.io/component"] == name && s["spec"]["replicas"] == 1);
        let made = new.and_then(|s| s["metadata"]["creationTimestamp"].as_str()).context("a new ReplicaSet")?;
        ensure!(made >= ready.as_str(), "{name} was changed at {made}, before the API server was ready at {ready}");
    }
    tenant.nothing_restarted()
}

fn ready_since(tenant: &Tenant<'_>, component: &str) -> Result<String> {
    let mut pods = tenant.pods(Some(component))?;
    // The one before may still be on its way out.
    pods.retain(|p| p["metadata"]["deletionTimestamp"].is_null());
    ensure!(pods.len() == 1, "{} pods of {component}", pods.len());
    Ok(condition(&pods[0], "Ready")?["lastTransitionTime"].as_str().unwrap_or_default().to_owned())
}
