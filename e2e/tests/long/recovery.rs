//! A tenant's etcd loses the volumes of two of three members for good, under `recovery: Automatic`, while clients write: it comes back by
//! itself, from what the third one holds. Then it loses all three: it comes back from the newest proven backup. Nobody creates an `EtcdRestore`.

use std::{
    fs,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    thread::{self, JoinHandle, sleep},
    time::{Duration, Instant},
};

use anyhow::{Context as _, Result, ensure};
use berth_e2e::{Outside, Tenant, World, berth, core, run, s3, tenant::condition, until};
use serde_json::{Value, json};

mod by_hand;

#[test]
#[ignore = "make test-all: Berth is installed anew, twice, and an S3 server is built"]
fn an_etcd_that_lost_its_quorum_comes_back_by_itself() {
    run("recovery", |world| {
        let place = tempfile::tempdir()?;
        let _server = s3::start(world, place.path())?;
        world.install(&s3::options(world))?;
        s3::credentials(world, "secret")?;
        let result = recovers(world);
        s3::end(world, &["etcdrestores", "etcdbackups"])?;
        result
    });
}

fn recovers(world: &World) -> Result<()> {
    let tenant = Tenant::ready(world, "recovered", &json!({"etcd": {"replicas": 3, "recovery": "Automatic"}}))?;
    let backup = s3::taken(world, &tenant, "first", "Verified")?;
    let mut outside = Outside::start(&tenant)?;
    let writer = Writer::start(&tenant);
    until("some writes", || {
        ensure!(writer.acknowledged().len() >= 20, "{}", writer.acknowledged().len());
        Ok(())
    })?;
    let seen = version(&tenant)?;

    // Two are gone for good, and the third one holds what was acknowledged.
    let before = writer.acknowledged();
    sleep(Duration::from_secs(1));
    let began = Instant::now();
    wipe(world, &tenant, &["etcd-0", "etcd-1"])?;
    let recovery = recovered(&tenant, 1)?;
    println!("    back after {:.0?}: {recovery}", began.elapsed());
    ensure!(recovery["restore"].to_string().contains("-1-s"), "from who was left: {recovery}");
    let restore = the_restore(world, &tenant, &recovery)?;
    ensure!(restore["spec"]["source"]["survivors"]["store"] == "main", "{restore}");
    let said = condition(&restore, "Ready")?["message"].to_string();
    ensure!(said.contains("Writes since"), "what is missing is said: {said}");
    let (written, missing) = lost(&tenant, &before)?;
    ensure!(missing.is_empty(), "{missing:?} of {written} were acknowledged a second before, and are gone");
    let after = writer.acknowledged().len();
    until("clients to write again", || {
        ensure!(writer.acknowledged().len() > after + 5, "{}", writer.acknowledged().len());
        Ok(())
    })?;
    let now = version(&tenant)?;
    ensure!(now > seen + 900_000_000, "a client saw version {seen}, and now there is {now}");
    members(&tenant, 3)?;
    tenant.wait_ready()?;
    outside.asks(&tenant, "recovered")?;
    outside.noticed(&tenant, "recovered")?;
    drop(outside);

    // All are gone: what is in the backup is there.
    let began = Instant::now();
    wipe(world, &tenant, &["etcd-0", "etcd-1", "etcd-2"])?;
    let recovery = recovered(&tenant, 2)?;
    println!("    back after {:.0?}: {recovery}", began.elapsed());
    ensure!(recovery["restore"].to_string().contains("-2-b"), "from a backup: {recovery}");
    // That of the members that were left is the newest there is.
    let taken = recovery["takenAt"].as_str().context("no time")?;
    ensure!(taken >= backup["takenAt"].as_str().unwrap_or_default(), "{recovery}");
    members(&tenant, 3)?;
    until("clients to write again", || {
        let all = writer.acknowledged();
        let (_, missing) = lost(&tenant, &all[all.len().saturating_sub(3)..])?;
        ensure!(missing.is_empty(), "{missing:?}");
        Ok(())
    })?;
    writer.end();
    tenant.let_go()
}

/// The record of a recovery that is done, from data of that epoch.
fn recovered(tenant: &Tenant<'_>, epoch: i64) -> Result<Value> {
    let recovery = until("etcd to be restored by itself", || {
        let etcd = tenant.etcd()?;
        let recovery = etcd["status"]["recovery"].clone();
        let ready = condition(&etcd, "Ready")?["message"].clone();
        ensure!(recovery["epoch"] == epoch && recovery["restoredAt"].is_string(), "{recovery}; {ready}");
        Ok(recovery)
    })?;
    tenant.wait_ready()?;
    Ok(recovery)
}

fn the_restore(world: &World, tenant: &Tenant<'_>, recovery: &Value) -> Result<Value> {
    let path = recovery["restore"].as_str().context("no EtcdRestore")?;
    let name = path.rsplit('/').next().unwrap_or_default();
    world.kube.get(&format!("{}/{name}", berth(&tenant.namespace, "etcdrestores")))
}

/// Writes ConfigMaps with numbers for as long as it lives, each until it is acknowledged.
struct Writer {
    acknowledged: Arc<Mutex<Vec<u32>>>,
    ends: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Writer {
    fn start(tenant: &Tenant<'_>) -> Self {
        let (acknowledged, ends) = (Arc::<Mutex<Vec<u32>>>::default(), Arc::<AtomicBool>::default());
        let (list, end, api) = (acknowledged.clone(), ends.clone(), tenant.api());
        let thread = thread::spawn(move || {
            let Ok(api) = api else { return };
            for n in 0.. {
                let map = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": format!("n{n}")}});
                while !end.load(Ordering::Relaxed) && api.ensure(&core("default", "configmaps"), &map).is_err() {
                    sleep(Duration::from_millis(300));
                }
                if end.load(Ordering::Relaxed) {
                    return;
                }
                list.lock().unwrap_or_else(PoisonError::into_inner).push(n);
                sleep(Duration::from_millis(100));
            }
        });
        Self { acknowledged, ends, thread: Some(thread) }
    }

    fn acknowledged(&self) -> Vec<u32> {
        self.acknowledged.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn end(mut self) {
        self.ends.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

impl Drop for Writer {
    fn drop(&mut self) {
        self.ends.store(true, Ordering::Relaxed);
    }
}

/// How many of these there are, and which are not there.
fn lost(tenant: &Tenant<'_>, of: &[u32]) -> Result<(usize, Vec<u32>)> {
    let list = tenant.api()?.list(&core("default", "configmaps"))?;
    let there: Vec<&str> = list.iter().filter_map(|m| m["metadata"]["name"].as_str()).collect();
    let missing = of.iter().copied().filter(|n| !there.contains(&&*format!("n{n}"))).collect();
    Ok((of.len(), missing))
}

/// The version of everything, as clients see it.
fn version(tenant: &Tenant<'_>) -> Result<u64> {
    let list = tenant.api()?.get(&core("default", "configmaps"))?;
    Ok(list["metadata"]["resourceVersion"].as_str().context("no version")?.parse()?)
}

fn members(tenant: &Tenant<'_>, n: usize) -> Result<()> {
    until(&format!("{n} members"), || {
        let etcd = tenant.etcd()?;
        let ready = condition(&etcd, "Ready")?;
        ensure!(etcd["status"]["readyMembers"] == format!("{n}/{n}"), "{ready}");
        ensure!(etcd["status"]["operation"].is_null() && ready["status"] == "True", "{ready}");
        Ok(())
    })
}

/// Their volumes are empty from one moment to the next, and their processes end.
fn wipe(world: &World, tenant: &Tenant<'_>, members: &[&str]) -> Result<()> {
    for member in members {
        for entry in fs::read_dir(tenant.volume_dir(member)?)?.flatten() {
            let path = entry.path();
            if path.is_dir() { fs::remove_dir_all(path)? } else { fs::remove_file(path)? }
        }
    }
    for member in members {
        let delete =
            ["-n", &tenant.cp_namespace, "delete", "pod", member, "--grace-period=0", "--force", "--wait=false"];
        world.kubectl(&delete)?;
    }
    Ok(())
}
