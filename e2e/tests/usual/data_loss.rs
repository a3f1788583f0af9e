//! Killed pods come back. The only member, if its volume is empty, is held: nothing is overwritten. One of three is replaced.

use std::{fs, path::Path, time::Duration};

use anyhow::{Context, Result, ensure};
use berth_e2e::{Tenant, World, core, stays, tenant::condition, until};
use serde_json::{Value, json};

#[test]
fn killed_pods_come_back_and_a_lost_volume_is_held_or_replaced() {
    berth_e2e::run("data_loss", |world| {
        let one = Tenant::create(world, "single", &json!({}))?;
        let three = Tenant::create(world, "triple", &json!({"etcd": {"replicas": 3}}))?;
        one.wait_ready()?;
        three.wait_ready()?;
        for tenant in [&one, &three] {
            let map = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "kept"}});
            tenant.api()?.create(&core("default", "configmaps"), &map)?;
        }
        killed_pods_come_back(world, &one)?;
        three_members(world, &three)?;
        one_member(world, &one)
    });
}

fn killed_pods_come_back(world: &World, tenant: &Tenant<'_>) -> Result<()> {
    for component in ["etcd", "kube-apiserver"] {
        let pods = tenant.pods(Some(component))?;
        let pod = pods.first().context("a pod")?;
        kill(world, tenant, pod)?;
        until(&format!("another pod of {component}, ready"), || {
            let pods = tenant.pods(Some(component))?;
            ensure!(pods.len() == 1 && pods[0]["metadata"]["uid"] != pod["metadata"]["uid"], "{} pods", pods.len());
            ensure!(condition(&pods[0], "Ready")?["status"] == "True", "not ready");
            Ok(())
        })?;
        data_is_there(tenant)?;
    }
    tenant.wait_ready().map(|_| ())
}

/// With one member: it is down, and says why.
fn one_member(world: &World, tenant: &Tenant<'_>) -> Result<()> {
    let volume = tenant.volume_dir("etcd-0")?;
    lose(world, tenant, "etcd-0", &volume)?;
    let message = tenant.wait_condition("Degraded", "True", "DataLost")?;
    ensure!(message.contains("etcd-0") && message.contains("restore volume data-etcd-0"), "{message}");
    until("the tenant not to be available", || {
        let cluster = tenant.cluster()?;
        ensure!(condition(&cluster, "Available")?["status"] == "False");
        Ok(())
    })?;
    is_held(tenant, "etcd-0", &volume)
}

/// With three members: the other two serve, and the third comes back empty under another ID, which copies the data.
fn three_members(world: &World, tenant: &Tenant<'_>) -> Result<()> {
    let id =
        |tenant: &Tenant<'_>, i: usize| -> Result<Value> { Ok(tenant.etcd()?["status"]["members"][i]["id"].clone()) };
    let before = [id(tenant, 0)?, id(tenant, 1)?, id(tenant, 2)?];
    let others = |pods: Vec<Value>| -> Vec<Value> {
        let other = pods.into_iter().filter(|p| p["metadata"]["name"] != "etcd-1");
        other.map(|p| p["metadata"]["uid"].clone()).collect()
    };
    let pods = others(tenant.pods(None)?);
    let volume = tenant.volume_dir("etcd-1")?;
    lose(world, tenant, "etcd-1", &volume)?;
    until("another member in etcd-1's place", || {
        let now = [id(tenant, 0)?, id(tenant, 1)?, id(tenant, 2)?];
        ensure!(now[1] != before[1] && (&now[0], &now[2]) == (&before[0], &before[2]), "{before:?}, then {now:?}");
        ensure!(condition(&tenant.etcd()?, "Ready")?["status"] == "True");
        Ok(())
    })?;
    ensure!(volume.join("data/member/wal").is_dir(), "it has the data");
    data_is_there(tenant)?;
    ensure!(others(tenant.pods(None)?) == pods, "no other pod was touched");
    tenant.wait_ready().map(|_| ())
}

fn data_is_there(tenant: &Tenant<'_>) -> Result<()> {
    until("the tenant's data to be there", || tenant.api()?.get(&format!("{}/kept", core("default", "configmaps"))))?;
    Ok(())
}

fn lose(world: &World, tenant: &Tenant<'_>, member: &str, volume: &Path) -> Result<()> {
    ensure!(volume.join("data/member/wal").is_dir(), "etcd writes to {}", volume.display());
    let pod = world.kube.get(&format!("{}/{member}", core(&tenant.cp_namespace, "pods")))?;
    for entry in fs::read_dir(volume)?.flatten() {
        let path = entry.path();
        if path.is_dir() { fs::remove_dir_all(path)? } else { fs::remove_file(path)? }
    }
    kill(world, tenant, &pod)
}

fn kill(world: &World, tenant: &Tenant<'_>, pod: &Value) -> Result<()> {
    let name = pod["metadata"]["name"].as_str().unwrap_or_default();
    world.kubectl(&[
        "-n",
        &tenant.cp_namespace,
        "delete",
        "pod",
        name,
        "--grace-period=0",
        "--force",
        "--wait=false",
    ])?;
    Ok(())
}

/// The guard ended with its own code again and again, and etcd never started.
fn is_held(tenant: &Tenant<'_>, member: &str, volume: &Path) -> Result<()> {
    stays("the member is held and its volume empty", Duration::from_secs(15), || {
        let pods = tenant.pods(Some("etcd"))?;
        let pod = pods.iter().find(|p| p["metadata"]["name"] == member).context("the pod")?;
        let etcd = &pod["status"]["containerStatuses"][0];
        let held = ["state", "lastState"].iter().any(|s| etcd[s]["terminated"]["exitCode"] == 42);
        ensure!(held && etcd["started"] == false, "etcd is {etcd}");
        ensure!(!volume.join("data/member").exists(), "there is a new data directory");
        Ok(())
    })
}
