//! Backups of a tenant with real pods, in a real S3 server: proven, refused for wrong credentials, and restored by hand.

use std::{
    fs,
    path::Path,
    process::{Command, Stdio},
    time::Duration,
};

use anyhow::{Context as _, Result, ensure};
use berth_devcluster::{binaries, versions::ETCD};
use berth_e2e::{
    Tenant, World, berth, core, run,
    s3::{self, ACCESS_KEY, credentials, taken},
    tenant::condition,
    until, until_within,
};
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

#[test]
#[ignore = "make test-all: Berth is installed anew, twice, and an S3 server is built"]
fn a_backup_is_proven_and_can_be_restored() {
    run("backup", |world| {
        let place = tempfile::tempdir()?;
        let _server = s3::start(world, place.path())?;
        world.install(&s3::options(world))?;
        let result = backups(world, place.path());
        s3::end(world, &["etcdbackupschedules", "etcdbackups"])?;
        result
    });
}

fn backups(world: &World, place: &Path) -> Result<()> {
    credentials(world, "secret")?;
    let tenant = Tenant::ready(world, "kept", &json!({}))?;
    let map = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "before-the-backup"}});
    tenant.api()?.create(&core("default", "configmaps"), &map)?;
    let before = tenant.pod_identities()?;

    let status = taken(world, &tenant, "first", "Verified")?;
    let key = status["key"].as_str().context("no key")?;
    let etcd = tenant.etcd()?;
    let identity = etcd["status"]["identity"].as_str().context("no identity")?;
    ensure!(key.starts_with(&format!("e2e/{}/kept/{identity}/", tenant.namespace)), "{key}");
    let snapshot = place.join("berth").join(key);
    let bytes = fs::read(&snapshot).with_context(|| snapshot.display().to_string())?;
    let digest = Sha256::digest(&bytes).iter().fold(String::new(), |text, byte| format!("{text}{byte:02x}"));
    ensure!(status["sha256"] == digest.as_str() && status["size"] == bytes.len(), "{status}");
    ensure!(status["clusterId"] == etcd["status"]["clusterId"], "{status}");
    ensure!(snapshot.with_extension("json").is_file(), "no manifest beside it");
    restored_by_hand(&snapshot, place)?;
    until("the backup's pod to be gone", || {
        ensure!(tenant.pod_identities()? == before, "a backup restarts nothing, and leaves no pod");
        Ok(())
    })?;

    credentials(world, "wrong")?;
    let failed = taken(world, &tenant, "refused", "Failed")?;
    let ready = condition(&json!({"status": failed}), "Ready")?.clone();
    ensure!(ready["reason"] == "StoreUnavailable", "{ready}");
    let message = ready["message"].as_str().unwrap_or_default();
    ensure!(message.contains("403") && !message.contains("wrong") && !message.contains(ACCESS_KEY), "{message}");
    credentials(world, "secret")?;
    taken(world, &tenant, "again", "Verified")?;
    a_quota_refuses_its_pod(world, &tenant)?;
    every_minute(world, &tenant, place)?;
    tenant.let_go()
}

/// It says what refuses the pod of its Job, and goes on by itself.
fn a_quota_refuses_its_pod(world: &World, tenant: &Tenant<'_>) -> Result<()> {
    let quotas = core(&tenant.cp_namespace, "resourcequotas");
    let quota = json!({"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "none"}, "spec": {"hard": {"pods": "0"}}});
    world.kube.create(&quotas, &quota)?;
    until("the quota to be at work", || {
        let quota = world.kube.get(&format!("{quotas}/none"))?;
        ensure!(quota["status"]["used"]["pods"].is_string(), "{quota}");
        Ok(())
    })?;
    let backup = json!({
        "apiVersion": "berth.dev/v1alpha1", "kind": "EtcdBackup", "metadata": {"name": "without-a-pod"},
        "spec": {"clusterRef": {"name": tenant.name}, "store": "main"},
    });
    let backups = berth(&tenant.namespace, "etcdbackups");
    world.kube.create(&backups, &backup)?;
    let one = format!("{backups}/without-a-pod");
    until("what refuses its pod", || {
        let ready = condition(&world.kube.get(&one)?, "Ready")?.clone();
        let message = ready["message"].as_str().unwrap_or_default();
        ensure!(ready["reason"] == "Rejected" && message.contains("raise spec.hard of ResourceQuota none"), "{ready}");
        Ok(())
    })?;
    world.kube.delete(&format!("{quotas}/none"))?;
    until("it to be proven", || {
        let status = world.kube.get(&one)?["status"].clone();
        ensure!(status["phase"] == "Verified", "{status}");
        Ok(())
    })
}

/// A schedule keeps the last two, and what it deletes is gone from the store.
fn every_minute(world: &World, tenant: &Tenant<'_>, place: &Path) -> Result<()> {
    let schedules = berth(&tenant.namespace, "etcdbackupschedules");
    let schedule = json!({
        "apiVersion": "berth.dev/v1alpha1", "kind": "EtcdBackupSchedule", "metadata": {"name": "often"},
        "spec": {
            "clusterRef": {"name": tenant.name}, "store": "main", "schedule": "* * * * *",
            "keep": {"last": 2, "daily": 0, "weekly": 0},
        },
    });
    world.kube.create(&schedules, &schedule)?;
    let proven = || -> Result<Vec<String>> {
        let all = world.kube.list(&berth(&tenant.namespace, "etcdbackups"))?;
        let own = all.iter().filter(|b| b["metadata"]["labels"]["berth.dev/etcd-backup-schedule"] == "often");
        let key =
            |b: &Value| b["status"]["key"].as_str().map(|key| place.join("berth").join(key).display().to_string());
        Ok(own.filter_map(key).collect())
    };
    let first = until("the first backup of the schedule", || proven()?.pop().context("none is proven"))?;
    until_within(Duration::from_mins(8), "the first one to be gone, and two newer ones to be there", || {
        let now = proven()?;
        ensure!(now.len() == 2 && !now.contains(&first), "{now:?}");
        ensure!(!Path::new(&first).exists(), "{first} is still in the store");
        ensure!(now.iter().all(|key| Path::new(key).exists()), "{now:?}");
        Ok(())
    })?;
    world.kube.delete(&format!("{schedules}/often"))?;
    Ok(())
}

/// As docs/backup.md says, with etcd's programs alone: what was in the tenant is there.
fn restored_by_hand(snapshot: &Path, place: &Path) -> Result<()> {
    let data = place.join("restored");
    let (client, peer) = ("http://127.0.0.1:9751", "http://127.0.0.1:9752");
    let restored = etcds("etcdutl")?
        .args(["snapshot", "restore"])
        .arg(snapshot)
        .arg(format!("--data-dir={}", data.display()))
        .args(["--name=etcd-0", "--initial-cluster-token=by-hand", "--bump-revision=1000000000", "--mark-compacted"])
        .args([format!("--initial-cluster=etcd-0={peer}"), format!("--initial-advertise-peer-urls={peer}")])
        .output()?;
    ensure!(restored.status.success(), "{}", String::from_utf8_lossy(&restored.stderr));
    let etcd = etcds("etcd")?
        .arg(format!("--data-dir={}", data.display()))
        .args(["--name=etcd-0", "--log-level=error"])
        .args([format!("--listen-client-urls={client}"), format!("--advertise-client-urls={client}")])
        .arg(format!("--listen-peer-urls={peer}"))
        .stderr(Stdio::null())
        .spawn()?;
    let _etcd = s3::Process(etcd);
    until("the restored etcd to have the ConfigMap", || {
        let found = etcds("etcdctl")?
            .args([
                &format!("--endpoints={client}"),
                "get",
                "--keys-only",
                "/registry/configmaps/default/before-the-backup",
            ])
            .output()?;
        ensure!(String::from_utf8_lossy(&found.stdout).contains("before-the-backup"), "it is not there");
        Ok(())
    })
}

fn etcds(program: &str) -> Result<Command> {
    Ok(Command::new(binaries::path("etcd", ETCD, program)?))
}
