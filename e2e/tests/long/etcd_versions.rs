//! A tenant's etcd of three changes from 3.5 to 3.6, one member after the other, under a client that writes numbered keys: none that was
//! acknowledged is lost. A pod that is lost meanwhile comes back in its own version, and a version that does not exist is gone back from.

use std::time::Instant;

use anyhow::{Context, Result, ensure};
use berth_devcluster::versions;
use berth_e2e::{Tenant, World, Writer, tenant::condition, tenant::name_of, until};
use serde_json::{Value, json};

/// Of no image.
const NOWHERE: &str = "3.6.99";

#[test]
#[ignore = "make test-all: etcd's version changes member by member, which takes minutes"]
fn etcd_takes_another_version_and_no_write_is_lost() {
    berth_e2e::run("etcd_versions", |world| {
        let (old, new) = (versions::ETCD_OLDER.trim_start_matches('v'), versions::ETCD.trim_start_matches('v'));
        let tenant = Tenant::ready(world, "renewed", &json!({"etcd": {"version": old, "replicas": 3}}))?;
        let writer = Writer::start(&tenant.kubeconfig()?);
        changes(world, &tenant, old, new)?;
        goes_back(&tenant, new)?;
        writer.nothing_was_lost(&tenant)
    });
}

fn changes(world: &World, tenant: &Tenant<'_>, old: &str, new: &str) -> Result<()> {
    let start = Instant::now();
    tenant.change(&json!({"etcd": {"version": new}}))?;
    until("the first member of the new version", || {
        let versions = pods(tenant)?;
        ensure!(versions[2].1 == new && versions[0].1 == old, "{versions:?}");
        Ok(())
    })?;
    let lost = pods(tenant)?[0].0.clone();
    let delete = ["-n", &tenant.cp_namespace, "delete", "pod", "etcd-0", "--grace-period=0", "--force", "--wait=false"];
    world.kubectl(&delete)?;
    until("the lost pod to come back in its own version", || {
        let versions = pods(tenant)?;
        ensure!(versions[0].0 != lost, "{versions:?}");
        ensure!(versions[0].1 == old || versions[1].1 == new, "it came back in another version: {versions:?}");
        Ok(())
    })?;
    println!("    a pod was lost when versions were {:?}", pods(tenant)?);
    settled(tenant, new)?;
    println!("    {old} to {new} after {:.0?}", start.elapsed());
    let etcd = tenant.etcd()?;
    ensure!(etcd["status"]["version"] == new && etcd["status"]["operation"].is_null(), "{}", etcd["status"]);
    ensure!(etcd["status"]["hashes"]["differing"].is_null(), "{}", etcd["status"]["hashes"]);
    Ok(())
}

/// The first member gets no image, and goes back by itself; the others keep their pods.
fn goes_back(tenant: &Tenant<'_>, new: &str) -> Result<()> {
    let (start, before) = (Instant::now(), pods(tenant)?);
    tenant.change(&json!({"etcd": {"version": NOWHERE}}))?;
    until("the way back", || {
        let etcd = tenant.etcd()?;
        let ready = condition(&etcd, "Ready")?;
        ensure!(ready["reason"] == "RolledBack" && etcd["status"]["readyMembers"] == "3/3", "{ready}");
        Ok(())
    })?;
    println!("    gone back after {:.0?}", start.elapsed());
    let message = tenant.wait_condition("Ready", "False", "RolledBack")?;
    ensure!(message.contains(NOWHERE) && message.contains("etcd-2"), "{message}");
    let after = pods(tenant)?;
    ensure!(after[..2] == before[..2] && after[2].1 == new, "{before:?}, then {after:?}");
    tenant.change(&json!({"etcd": {"version": new}}))?;
    settled(tenant, new)
}

fn settled(tenant: &Tenant<'_>, version: &str) -> Result<()> {
    until(&format!("all members of {version}"), || {
        let (all, etcd) = (pods(tenant)?, tenant.etcd()?);
        let ready = condition(&etcd, "Ready")?;
        ensure!(all.iter().all(|(_, runs)| runs == version) && ready["status"] == "True", "{all:?}: {ready}");
        Ok(())
    })?;
    tenant.wait_ready().map(drop)
}

/// UID and version of each member's pod, by ordinal.
fn pods(tenant: &Tenant<'_>) -> Result<Vec<(Value, String)>> {
    let pods = tenant.pods(Some("etcd"))?;
    let of = |name: &str| {
        let pod = pods.iter().find(|p| name_of(p) == name).with_context(|| format!("no pod {name}"))?;
        let version = pod["metadata"]["labels"]["app.kubernetes.io/version"].as_str().unwrap_or_default().to_owned();
        Ok((pod["metadata"]["uid"].clone(), version))
    };
    ["etcd-0", "etcd-1", "etcd-2"].into_iter().map(of).collect()
}
