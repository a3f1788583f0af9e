//! A tenant's etcd is restored from a backup with real pods: over an etcd that answers, and over one that lost its majority for good. What
//! is in the backup is there, what came later is gone, the API and its controllers work, and a client that goes on from what it saw before
//! is told that this is gone, instead of waiting for ever: clients of kube-rs and of Go know what there is without a restart.

use std::{fs, time::Instant};

use anyhow::{Context as _, Result, ensure};
use berth_e2e::{Outside, Tenant, World, berth, core, run, s3, tenant::condition, until};
use serde_json::{Value, json};

#[test]
#[ignore = "make test-all: Berth is installed anew, twice, and an S3 server is built"]
fn a_tenant_goes_back_to_a_backup() {
    run("restore", |world| {
        let place = tempfile::tempdir()?;
        let _server = s3::start(world, place.path())?;
        world.install(&s3::options(world))?;
        s3::credentials(world, "secret")?;
        let result = restores(world);
        s3::end(world, &["etcdrestores", "etcdbackups"])?;
        result
    });
}

fn restores(world: &World) -> Result<()> {
    let tenant = Tenant::ready(world, "restored", &json!({}))?;
    write(&tenant, "before")?;
    s3::taken(world, &tenant, "first", "Verified")?;
    // They run until the end, over both restores. The node and the pod are in no backup.
    let mut outside = Outside::start(&tenant)?;
    outside.asks(&tenant, "scheduled-after")?;
    outside.is_bound(&tenant, "scheduled-after")?;
    write(&tenant, "after")?;
    outside.saw("after")?;
    let seen = version(&tenant)?;

    // Over an etcd that answers.
    create(world, &tenant, "back", &json!({"source": {"backup": "first"}}))?;
    let asks = until("the restore to ask for a confirmation", || {
        let ready = condition(&get(world, &tenant, "back")?, "Ready")?.clone();
        ensure!(ready["reason"] == "ConfirmationRequired", "{ready}");
        Ok(ready["message"].as_str().unwrap_or_default().to_owned())
    })?;
    let id = cluster_id(&tenant)?;
    ensure!(asks.contains(&id), "{asks}");
    ensure!(there(&tenant, "after")?, "nothing is touched before");
    let began = Instant::now();
    let path = format!("{}/back", berth(&tenant.namespace, "etcdrestores"));
    world.kube.merge(&path, &json!({"spec": {"confirm": id}}))?;
    is_restored(world, &tenant, "back")?;
    let first = world.kube.get(&format!("{}/before-back", berth(&tenant.namespace, "etcdbackups")))?;
    ensure!(first["status"]["phase"] == "Verified", "what was there is in a backup: {first}");
    println!("    restored after {:.0?}", began.elapsed());
    ensure!(cluster_id(&tenant)? != id, "another cluster has another ID");
    outside.asks(&tenant, "once")?;
    went_back(&tenant, "after", seen)?;
    outside.noticed(&tenant, "once")?;

    // Over one that is lost: two of three volumes are wiped.
    tenant.change(&json!({"etcd": {"replicas": 3}}))?;
    members(&tenant, 3)?;
    tenant.wait_ready()?;
    write(&tenant, "grown")?;
    let second = s3::taken(world, &tenant, "second", "Verified")?;
    write(&tenant, "lost")?;
    let seen = version(&tenant)?;
    for member in ["etcd-0", "etcd-1"] {
        wipe(world, &tenant, member)?;
    }
    until("the loss to be told, with the way out", || {
        let ready = condition(&tenant.etcd()?, "Ready")?.clone();
        ensure!(ready["message"].to_string().contains("EtcdRestore"), "{ready}");
        Ok(())
    })?;
    let proven = condition(&json!({"status": second}), "Verified")?["lastTransitionTime"].clone();
    // The third one is whole, and may hold more: it is named, and saved first.
    create(world, &tenant, "lost", &json!({"source": {"latestBefore": proven}}))?;
    until("the restore to say what would be lost", || {
        let ready = condition(&get(world, &tenant, "lost")?, "Ready")?.clone();
        let said = ready["message"].to_string();
        ensure!(
            ready["reason"] == "ConfirmationRequired" && said.contains("etcd-2 answers and may hold more"),
            "{ready}"
        );
        Ok(())
    })?;
    let path = format!("{}/lost", berth(&tenant.namespace, "etcdrestores"));
    world.kube.merge(&path, &json!({"spec": {"confirm": cluster_id(&tenant)?}}))?;
    // In the midst of it the operator is replaced.
    until("it to begin", || {
        let phase = get(world, &tenant, "lost")?["status"]["phase"].clone();
        ensure!(["Stopping", "Restoring", "Starting"].iter().any(|p| phase == *p), "{phase}");
        Ok(())
    })?;
    world.restart_operator()?;
    is_restored(world, &tenant, "lost")?;
    ensure!(get(world, &tenant, "lost")?["status"]["backup"] == "second");
    let saved = world.kube.get(&format!("{}/before-lost", berth(&tenant.namespace, "etcdbackups")))?;
    ensure!(saved["status"]["phase"] == "Verified", "what etcd-2 held is in a backup: {saved}");
    outside.asks(&tenant, "twice")?;
    went_back(&tenant, "lost", seen)?;
    outside.noticed(&tenant, "twice")?;
    ensure!(there(&tenant, "grown")?, "what was in the second backup");
    members(&tenant, 3)?;
    let volume = tenant.volume_dir("etcd-2")?;
    ensure!(volume.join("epoch-2").exists(), "etcd-2's data of the epoch before is set aside");
    tenant.let_go()
}

fn create(world: &World, tenant: &Tenant<'_>, name: &str, spec: &Value) -> Result<()> {
    let mut spec = spec.clone();
    spec["clusterRef"] = json!({"name": tenant.name});
    let restore = json!({
        "apiVersion": "berth.dev/v1alpha1", "kind": "EtcdRestore", "metadata": {"name": name}, "spec": spec,
    });
    world.kube.create(&berth(&tenant.namespace, "etcdrestores"), &restore).map(|_| ())
}

fn get(world: &World, tenant: &Tenant<'_>, name: &str) -> Result<Value> {
    world.kube.get(&format!("{}/{name}", berth(&tenant.namespace, "etcdrestores")))
}

fn is_restored(world: &World, tenant: &Tenant<'_>, name: &str) -> Result<()> {
    until(&format!("{name} to be Restored"), || {
        let restore = get(world, tenant, name)?;
        ensure!(restore["status"]["phase"] == "Restored", "{}", restore["status"]);
        Ok(())
    })?;
    tenant.wait_ready().map(drop)
}

/// What came after the backup is gone, and everything works.
fn went_back(tenant: &Tenant<'_>, gone: &str, seen: u64) -> Result<()> {
    ensure!(there(tenant, "before")?, "what was in the backup is there");
    ensure!(!there(tenant, gone)?, "what came later is gone");
    let now = version(tenant)?;
    ensure!(now > seen + 900_000_000, "a client saw version {seen}, and now there is {now}");
    // A watch from where a client was: it is told, and lists anew.
    let watch = format!("{}?watch=1&timeoutSeconds=20&resourceVersion={seen}", core("default", "configmaps"));
    let answer = tenant.api()?.get(&watch);
    let text = answer.map_or_else(|e| format!("{e:#}"), |event| event.to_string());
    ensure!(text.contains("too old resource version") || text.contains("410"), "{text}");
    write(tenant, gone)?;
    // Its controllers see what is new.
    let namespace = format!("team-{gone}");
    let object = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}});
    tenant.api()?.create(&core("", "namespaces"), &object)?;
    until("kube-controller-manager to make a service account", || {
        tenant.api()?.get(&format!("{}/default", core(&namespace, "serviceaccounts")))
    })?;
    Ok(())
}

fn write(tenant: &Tenant<'_>, name: &str) -> Result<()> {
    let map = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}});
    tenant.api()?.create(&core("default", "configmaps"), &map).map(|_| ())
}

fn there(tenant: &Tenant<'_>, name: &str) -> Result<bool> {
    Ok(tenant.api()?.find(&format!("{}/{name}", core("default", "configmaps")))?.is_some())
}

/// The version of everything, as clients see it.
fn version(tenant: &Tenant<'_>) -> Result<u64> {
    let list = tenant.api()?.get(&core("default", "configmaps"))?;
    Ok(list["metadata"]["resourceVersion"].as_str().context("no version")?.parse()?)
}

fn cluster_id(tenant: &Tenant<'_>) -> Result<String> {
    let etcd = tenant.etcd()?;
    Ok(etcd["status"]["clusterId"].as_str().context("no cluster ID")?.to_owned())
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

fn wipe(world: &World, tenant: &Tenant<'_>, member: &str) -> Result<()> {
    for entry in fs::read_dir(tenant.volume_dir(member)?)?.flatten() {
        let path = entry.path();
        if path.is_dir() { fs::remove_dir_all(path)? } else { fs::remove_file(path)? }
    }
    let delete = ["-n", &tenant.cp_namespace, "delete", "pod", member, "--grace-period=0", "--force", "--wait=false"];
    world.kubectl(&delete).map(|_| ())
}
