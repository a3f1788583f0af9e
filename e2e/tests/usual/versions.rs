//! Older minors, an older etcd and three members; a patch version rolls, the API server first; the minor after the next one is refused.
//!
//! `make test` runs the oldest and the newest minor: a tenant's pods differ by what a template renders, and what lies between renders
//! what both of these do (`a_minor_in_between_renders_what_both_neighbours_do`, in crates/render/tests/flags.rs).

use anyhow::{Context, Result, ensure};
use berth_e2e::{NEWEST, PREVIOUS_PATCH, Tenant, World, apps, core, tenant::condition, until};
use serde_json::{Value, json};

const OLDEST: &str = "1.34.4";
const BETWEEN: &str = "1.35.4";

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

#[test]
#[ignore = "make test-all: what lies between renders what its neighbours do, and its binaries take minutes to build"]
fn the_minor_between_and_a_single_member_of_the_oldest_run() {
    berth_e2e::run("versions", |world| {
        let single = of(world, "v134-one", OLDEST, "3.5.35", 1)?;
        let between = of(world, "v135", BETWEEN, "3.6.16", 1)?;
        works(&single, OLDEST, "3.5.35", 1)?;
        works(&between, BETWEEN, "3.6.16", 1)?;
        single.let_go()?;
        between.let_go()?;
        let three = of(world, "v135-ha", BETWEEN, "3.6.16", 3)?;
        works(&three, BETWEEN, "3.6.16", 3)?;
        three.let_go()
    });
}

fn of<'w>(world: &'w World, name: &'w str, version: &str, etcd: &str, members: u32) -> Result<Tenant<'w>> {
    Tenant::create(world, name, &json!({"version": version, "etcd": {"version": etcd, "replicas": members}}))
}

/// Every member and every component does what it is there for, and none was started again.
fn works(tenant: &Tenant<'_>, version: &str, etcd: &str, members: u32) -> Result<()> {
    let cluster = tenant.wait_ready()?;
    ensure!(cluster["status"]["version"] == version, "{}", cluster["status"]);
    let status = &tenant.etcd()?["status"];
    ensure!(status["version"] == etcd && status["readyMembers"] == format!("{members}/{members}"), "{status}");
    let api = tenant.api()?;
    ensure!(api.get("/version")?["gitVersion"] == format!("v{version}"));
    // The controller-manager works.
    until("the service account of the namespace default", || {
        api.get(&format!("{}/default", core("default", "serviceaccounts")))
    })?;
    tenant.scheduler_works()?;
    tenant.nothing_restarted()
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
