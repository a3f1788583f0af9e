//! A tenant that sleeps and wakes by time, after a backup that has all that was written. Nobody is there when it is to wake.

use std::{
    path::Path,
    thread::sleep,
    time::{Duration, SystemTime},
};

use anyhow::{Context as _, Result, ensure};
use berth_e2e::{
    Tenant, World, Writer, berth, core, run,
    s3::{self, credentials},
    tenant::{condition, name_of},
    until_within,
};
use serde_json::{Value, json};

/// Minutes from now: time for it to get ready, and for all tenants to be spread over.
const TO_SLEEP: u64 = 2;
const TO_WAKE: u64 = 9;
const SPREAD: u64 = 2;

#[test]
#[ignore = "make test-all: an S3 server is built, and minutes of schedules are waited for"]
fn a_tenant_sleeps_by_time_after_a_proven_backup() {
    run("sleep_by_time", |world| {
        let place = tempfile::tempdir()?;
        let _server = s3::start(world, place.path())?;
        world.install(&s3::options(world))?;
        credentials(world, "secret")?;
        let result = by_time(world, place.path());
        s3::end(world, &["etcdbackups"])?;
        result
    });
}

fn by_time(world: &World, place: &Path) -> Result<()> {
    let tenant = Tenant::ready(world, "nightly", &json!({}))?;
    let writer = Writer::start(&tenant.kubeconfig()?);
    let begun = minutes()?;
    let at = |minutes: u64| format!("{} * * * *", (begun + minutes) % 60);
    let schedule = json!({"sleep": at(TO_SLEEP), "wake": at(TO_WAKE)});
    tenant.change(&json!({"hibernation": {"schedules": [schedule], "backupFirst": true}}))?;
    let state = |wanted: &str| -> Result<Value> {
        let cluster = tenant.cluster()?;
        let hibernation = &cluster["status"]["hibernation"];
        ensure!(hibernation["state"] == wanted, "{hibernation}: {}", condition(&cluster, "Ready")?);
        Ok(hibernation.clone())
    };
    let slept = until_within(Duration::from_mins(TO_SLEEP + SPREAD + 5), "it to sleep", || state("Asleep"))?;
    println!("    {slept}");
    ensure!(slept["cause"].as_str().is_some_and(|cause| cause.contains("schedules[0].sleep")), "{slept}");
    ensure!(slept["next"]["state"] == "Awake", "{slept}");

    let backups = world.kube.list(&berth(&tenant.namespace, "etcdbackups"))?;
    ensure!(backups.len() == 1, "{backups:?}");
    let status = &backups[0]["status"];
    ensure!(status["phase"] == "Verified", "{status}");
    ensure!(place.join("berth").join(status["key"].as_str().context("no key")?).is_file(), "{status}");
    let revision = status["revision"].as_u64().context("no revision")?;

    println!("    no operator when it is to wake");
    world.stop_operator()?;
    while minutes()? <= begun + TO_WAKE + SPREAD {
        sleep(Duration::from_secs(1));
    }
    world.start_operator()?;
    let woken = until_within(Duration::from_mins(5), "it to be awake", || state("Awake"))?;
    ensure!(woken["cause"].as_str().is_some_and(|cause| cause.contains("schedules[0].wake")), "{woken}");
    tenant.wait_ready()?;

    let since = slept["since"].as_str().context("since when")?;
    let maps = tenant.api()?.list(&core("default", "configmaps"))?;
    let own = maps.iter().filter(|map| name_of(map).starts_with("n-"));
    let before = own.filter(|map| map["metadata"]["creationTimestamp"].as_str().is_some_and(|at| at < since));
    let versions = before.filter_map(|map| map["metadata"]["resourceVersion"].as_str()?.parse::<u64>().ok());
    let last = versions.max().context("nothing was written before")?;
    ensure!(last <= revision, "the backup ends at revision {revision}, and {last} was acknowledged");
    writer.nothing_was_lost(&tenant)?;
    tenant.delete()
}

/// Since 1970.
fn minutes() -> Result<u64> {
    Ok(SystemTime::now().duration_since(SystemTime::UNIX_EPOCH)?.as_secs() / 60)
}
