//! etcd grows from one member to three, replaces one whose volume was wiped, and shrinks to one again, under a client that writes numbered
//! keys: none that was acknowledged is lost, and the first member's pod stays the same.

use std::{fs, time::Instant};

use anyhow::{Context, Result, ensure};
use berth_e2e::{Tenant, World, Writer, core, tenant::name_of, until};
use serde_json::{Value, json};

#[test]
#[ignore = "make test-all: members of etcd come and go, which takes minutes"]
fn members_come_and_go_and_no_write_is_lost() {
    berth_e2e::run("etcd_members", |world| {
        let tenant = Tenant::ready(world, "grown", &json!({}))?;
        let first = pod_uid(&tenant, "etcd-0")?;
        let writer = Writer::start(&tenant.kubeconfig()?);
        resize(&tenant, 3)?;
        ensure!(pod_uid(&tenant, "etcd-0")? == first, "etcd-0's pod was replaced while others joined");
        wiped_volume(world, &tenant)?;
        ensure!(pod_uid(&tenant, "etcd-0")? == first, "etcd-0's pod was replaced while etcd-1 was");
        resize(&tenant, 1)?;
        ensure!(pod_uid(&tenant, "etcd-0")? == first, "etcd-0's pod was replaced while others left");
        gone(world, &tenant)?;
        writer.nothing_was_lost(&tenant)
    });
}

/// Asks for so many members, and waits until there are, until clients know them and API servers use them.
fn resize(tenant: &Tenant<'_>, replicas: i64) -> Result<()> {
    let start = Instant::now();
    tenant.change(&json!({"etcd": {"replicas": replicas}}))?;
    until(&format!("{replicas} members"), || {
        let etcd = tenant.etcd()?;
        let status = &etcd["status"];
        let ready = berth_e2e::tenant::condition(&etcd, "Ready")?;
        ensure!(status["readyMembers"] == format!("{replicas}/{replicas}"), "{}: {ready}", status["readyMembers"]);
        ensure!(status["operation"].is_null() && ready["status"] == "True", "{ready}");
        ensure!(status["endpoints"].as_array().is_some_and(|e| i64::try_from(e.len()).ok() == Some(replicas)));
        Ok(())
    })?;
    println!("    {replicas} members after {:.0?}", start.elapsed());
    until("API servers that know them", || {
        let deployment = tenant.deployment("kube-apiserver")?;
        let text = deployment["spec"]["template"].to_string();
        let known = (0..5).filter(|i| text.contains(&format!("https://etcd-{i}."))).count();
        ensure!(i64::try_from(known).ok() == Some(replicas), "they know {known}");
        Ok(())
    })?;
    tenant.wait_ready().map(drop)
}

fn ids(tenant: &Tenant<'_>) -> Result<Vec<Value>> {
    let etcd = tenant.etcd()?;
    Ok(etcd["status"]["members"].as_array().context("members")?.iter().map(|m| m["id"].clone()).collect())
}

/// Whoever lost its data comes back under another ID, without a person; the others stay as they are.
fn wiped_volume(world: &World, tenant: &Tenant<'_>) -> Result<()> {
    let (before, pods) = (ids(tenant)?, [pod_uid(tenant, "etcd-0")?, pod_uid(tenant, "etcd-2")?]);
    let volume = tenant.volume_dir("etcd-1")?;
    for entry in fs::read_dir(&volume)?.flatten() {
        let path = entry.path();
        if path.is_dir() { fs::remove_dir_all(path)? } else { fs::remove_file(path)? }
    }
    let delete = ["-n", &tenant.cp_namespace, "delete", "pod", "etcd-1", "--grace-period=0", "--force", "--wait=false"];
    world.kubectl(&delete)?;
    until("etcd-1 to be replaced", || {
        let now = ids(tenant)?;
        ensure!(now[1] != before[1] && (&now[0], &now[2]) == (&before[0], &before[2]), "{before:?}, then {now:?}");
        let etcd = tenant.etcd()?;
        let ready = berth_e2e::tenant::condition(&etcd, "Ready")?;
        ensure!(etcd["status"]["operation"].is_null() && ready["status"] == "True", "{ready}");
        Ok(())
    })?;
    ensure!([pod_uid(tenant, "etcd-0")?, pod_uid(tenant, "etcd-2")?] == pods, "another member's pod was replaced");
    tenant.wait_ready().map(drop)
}

/// Nothing is left of the members that went.
fn gone(world: &World, tenant: &Tenant<'_>) -> Result<()> {
    until("volumes and Services of other members to be gone", || {
        for kind in ["persistentvolumeclaims", "services"] {
            let all = world.kube.list(&core(&tenant.cp_namespace, kind))?;
            let left: Vec<_> =
                all.iter().map(name_of).filter(|n| n.ends_with("etcd-1") || n.ends_with("etcd-2")).collect();
            ensure!(left.is_empty(), "{kind}: {left:?}");
        }
        Ok(())
    })
}

fn pod_uid(tenant: &Tenant<'_>, name: &str) -> Result<Value> {
    let pods = tenant.pods(Some("etcd"))?;
    let pod = pods.iter().find(|p| name_of(p) == name).with_context(|| format!("no pod {name}"))?;
    Ok(pod["metadata"]["uid"].clone())
}
