//! etcd grows from one member to three, loses its leader's process, replaces one whose volume was wiped, and shrinks to one again, under a
//! client that writes numbered keys: none that was acknowledged is lost, and the first member's pod stays the same.

use std::{
    fs,
    io::{Read, Write},
    net::TcpStream,
    time::{Duration, Instant},
};

use anyhow::{Context, Result, bail, ensure};
use berth_e2e::{Tenant, World, Writer, core, tenant::name_of, until};
use nix::{
    sys::signal::{Signal, kill},
    unistd::Pid,
};
use serde_json::{Value, json};

#[test]
#[ignore = "make test-all: members of etcd come and go, which takes minutes"]
fn members_come_and_go_and_no_write_is_lost() {
    berth_e2e::run("etcd_members", |world| {
        let tenant = Tenant::ready(world, "grown", &json!({}))?;
        let first = pod_uid(&tenant, "etcd-0")?;
        let writer = Writer::start(&tenant.kubeconfig()?);
        resize(&tenant, 3)?;
        leader_killed(&tenant)?;
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

/// The one that was killed comes back as it was. What was acknowledged is compared at the end.
fn leader_killed(tenant: &Tenant<'_>) -> Result<()> {
    let (before, leader) = (ids(tenant)?, until("a member to lead", || leader(tenant))?);
    let (name, restarts) = (name_of(&leader), restarts(&leader));
    let uid = leader["metadata"]["uid"].as_str().context("a pod without a UID")?;
    println!("    SIGKILL for {name}, which leads");
    kill(Pid::from_raw(process_of(uid)?), Signal::SIGKILL)?;
    until("the former leader's container to be another one", || {
        let pods = tenant.pods(Some("etcd"))?;
        let now = pods.iter().find(|p| name_of(p) == name).with_context(|| format!("no pod {name}"))?;
        ensure!(now["metadata"]["uid"] == uid, "{name} is another pod");
        ensure!(self::restarts(now) > restarts, "{}", now["status"]["containerStatuses"]);
        Ok(())
    })?;
    until("three members again", || {
        let etcd = tenant.etcd()?;
        let ready = berth_e2e::tenant::condition(&etcd, "Ready")?;
        ensure!(etcd["status"]["readyMembers"] == "3/3" && ready["status"] == "True", "{ready}");
        ensure!(etcd["status"]["operation"].is_null(), "{}", etcd["status"]["operation"]);
        Ok(())
    })?;
    println!("    now {} leads", name_of(&until("a member to lead", || self::leader(tenant))?));
    ensure!(ids(tenant)? == before, "a member that was only killed is the same member");
    tenant.wait_ready().map(drop)
}

fn restarts(pod: &Value) -> i64 {
    pod["status"]["containerStatuses"][0]["restartCount"].as_i64().unwrap_or_default()
}

/// The pod of the member that leads, as its metrics say.
fn leader(tenant: &Tenant<'_>) -> Result<Value> {
    for pod in tenant.pods(Some("etcd"))? {
        let Some(ip) = pod["status"]["podIP"].as_str() else { continue };
        if metrics(ip).is_ok_and(|text| text.lines().any(|line| line == "etcd_server_is_leader 1")) {
            return Ok(pod);
        }
    }
    bail!("no member says that it leads")
}

fn metrics(ip: &str) -> Result<String> {
    let mut stream = TcpStream::connect_timeout(&format!("{ip}:2381").parse()?, Duration::from_secs(5))?;
    stream.set_read_timeout(Some(Duration::from_secs(5)))?;
    stream.write_all(b"GET /metrics HTTP/1.0\r\nHost: etcd\r\n\r\n")?;
    let mut text = String::new();
    stream.read_to_string(&mut text)?;
    Ok(text)
}

/// The process of etcd in the pod with this UID: it runs on this machine.
fn process_of(pod: &str) -> Result<i32> {
    let all = fs::read_dir("/proc")?.flatten();
    let is_it = |entry: &fs::DirEntry| {
        let read = |file: &str| fs::read_to_string(entry.path().join(file)).unwrap_or_default();
        read("comm").trim() == "etcd" && read("cgroup").contains(pod)
    };
    let found = all.filter(is_it).find_map(|entry| entry.file_name().to_str()?.parse().ok());
    found.context("the leader's process is not on this machine")
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
