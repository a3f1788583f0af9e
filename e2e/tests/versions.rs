//! Older minors, an older etcd and three members; a patch version rolls, the API server first; another minor is refused.

use anyhow::{Context, Result, ensure};
use berth_e2e::{NEWEST, PREVIOUS_PATCH, Tenant, apps, core, tenant::condition, until};
use serde_json::{Value, json};

#[test]
fn every_minor_runs_and_a_patch_rolls() {
    berth_e2e::run("versions", |world| {
        let old = Tenant::create(world, "v134", &json!({"version": "1.34.4", "etcd": {"version": "3.5.35"}}))?;
        let middle = Tenant::create(world, "v135", &json!({"version": "1.35.4"}))?;
        let three = Tenant::create(world, "v136", &json!({"version": PREVIOUS_PATCH, "etcd": {"replicas": 3}}))?;
        works(&old, "1.34.4", "3.5.35")?;
        works(&middle, "1.35.4", "3.6.16")?;
        works(&three, PREVIOUS_PATCH, "3.6.16")?;
        ensure!(three.etcd()?["status"]["readyMembers"] == "3/3");
        for tenant in [&old, &middle, &three] {
            tenant.nothing_restarted()?;
        }
        another_minor_is_refused(&middle)?;
        old.let_go()?;
        let three_of = |name, version, etcd| {
            let spec = json!({"version": version, "etcd": {"version": etcd, "replicas": 3}});
            let tenant = Tenant::create(world, name, &spec)?;
            works(&tenant, version, etcd)?;
            ensure!(tenant.etcd()?["status"]["readyMembers"] == "3/3");
            tenant.nothing_restarted()?;
            tenant.let_go()
        };
        three_of("v134-ha", "1.34.4", "3.5.35")?;
        three_of("v135-ha", "1.35.4", "3.6.16")?;
        a_patch_rolls(world, &three)
    });
}

fn works(tenant: &Tenant<'_>, version: &str, etcd: &str) -> Result<()> {
    let cluster = tenant.wait_ready()?;
    ensure!(cluster["status"]["version"] == version, "{}", cluster["status"]);
    ensure!(tenant.etcd()?["status"]["version"] == etcd, "{}", tenant.etcd()?["status"]);
    let api = tenant.api()?;
    ensure!(api.get("/version")?["gitVersion"] == format!("v{version}"));
    // The controller-manager works.
    until("the service account of the namespace default", || {
        api.get(&format!("{}/default", core("default", "serviceaccounts")))
    })?;
    // The scheduler works.
    let pod = json!({
        "apiVersion": "v1", "kind": "Pod", "metadata": {"name": "waits"},
        "spec": {"containers": [{"name": "c", "image": "registry.k8s.io/pause:3.10.1"}]},
    });
    api.create(&core("default", "pods"), &pod)?;
    until("the scheduler to find no node for a pod", || {
        let pod = api.get(&format!("{}/waits", core("default", "pods")))?;
        ensure!(condition(&pod, "PodScheduled")?["reason"] == "Unschedulable");
        Ok(())
    })
}

fn another_minor_is_refused(tenant: &Tenant<'_>) -> Result<()> {
    let before = tenant.pod_identities()?;
    tenant.change(&json!({"version": NEWEST}))?;
    let message = tenant.wait_condition("Ready", "False", "MinorChangeUnsupported")?;
    ensure!(message.contains("Set a patch version of 1.35"), "{message}");
    let cluster = tenant.cluster()?;
    ensure!(condition(&cluster, "Available")?["status"] == "True", "it serves on");
    ensure!(cluster["status"]["version"] == "1.35.4");
    tenant.change(&json!({"version": "1.35.4"}))?;
    tenant.wait_ready()?;
    ensure!(tenant.pod_identities()? == before, "no pod was touched");
    Ok(())
}

fn a_patch_rolls(world: &berth_e2e::World, tenant: &Tenant<'_>) -> Result<()> {
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
        let sets = world.kube.list(&apps(&tenant.home, "replicasets"))?;
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
