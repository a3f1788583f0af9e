//! A chart in many tenants, each with a real API server: until the last one has it.

use anyhow::{Context as _, Result, ensure};
use berth_api::{labels, names};
use berth_e2e::Registry;
use berth_testkit::ports::port;
use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::ListParams;
use kube::{Api, Client};
use serde_json::json;
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::charts::{self, VERSION};
use super::jobs;
use super::servers::Servers;
use super::setup::{Pretended, SETTLE, Setup};
use crate::Figure;

const APP: &str = "web";
/// `spec.maxConcurrent`.
const AT_ONCE: usize = 10;
/// Tenants that are made at once: their API servers start meanwhile.
const MADE_AT_ONCE: usize = 10;
/// What has to be left of the machine's memory before more API servers start. MiB.
const LEFT: f64 = 3072.0;
/// How long API servers that nobody asks are looked at.
const LOOK: Duration = Duration::from_mins(1);

pub(super) async fn run(setup: &Setup<'_>) -> Result<Vec<Figure>> {
    let (client, dir) = (setup.client, tempfile::tempdir()?);
    let program = setup.program.context("this step needs --program: `make bench` gives it")?;
    let registry = Registry::serve(&format!("127.0.0.1:{}", port()), dir.path())?;
    registry.push_web(VERSION)?;
    let servers = Arc::new(Servers::start(client)?);
    let runs = jobs::run(client, &servers, program)?;
    let pretended = Pretended::start(setup, runs, Some(servers.tenants())).await?;
    let names: Vec<String> = (0..setup.tenants).map(|n| format!("many-{n}")).collect();
    pretended.make(&names, MADE_AT_ONCE, enough_memory).await?;
    tokio::time::sleep(SETTLE).await;
    let (cpu, _) = servers.usage();
    tokio::time::sleep(LOOK).await;
    let (rested, memory) = servers.usage();
    let cores = (rested - cpu) / LOOK.as_secs_f64();
    println!("{} API servers at rest take {cores:.2} cores, and {memory:.0} MiB of their own", names.len());

    let (before, written, since) = (pretended.operator()?.usage()?, setup.written()?, Instant::now());
    charts::create(client, APP, &registry.host, &json!({"maxConcurrent": AT_ONCE, "drift": {"mode": "Ignore"}}))
        .await?;
    let mut most = 0;
    let seconds = charts::deployed(client, APP, names.len(), since, async || {
        most = most.max(at_work(client).await?);
        Ok(())
    })
    .await?;
    let after = pretended.operator()?.usage()?;
    let writes = setup.written()? - written;
    ensure!(most <= AT_ONCE, "{most} Jobs were at work at once");
    let has = has_it(&servers).await?;
    ensure!(has == names.len(), "{has} of {} tenants have what the chart has", names.len());
    pretended.end().await?;
    let one = |name, unit, value| Figure::new(name, unit, vec![value]);
    Ok(vec![
        one("apps.many_tenants", "tenants", count(names.len())),
        one("apps.many", "s", seconds),
        one("apps.many_jobs", "at once", count(most)),
        one("apps.many_cpu", "s each", (after.cpu - before.cpu) / count(names.len())),
        one("apps.many_writes", "each", count(writes) / count(names.len())),
        one("apps.many_servers_cpu", "cores", cores),
        one("apps.many_servers_memory", "MiB", memory),
    ])
}

#[expect(clippy::cast_precision_loss, reason = "small numbers")]
fn count(n: usize) -> f64 {
    n as f64
}

/// The machine has room for some more API servers.
fn enough_memory() -> Result<()> {
    let text = std::fs::read_to_string("/proc/meminfo")?;
    let kib =
        text.lines().find_map(|line| line.strip_prefix("MemAvailable:")?.trim().strip_suffix(" kB")?.parse().ok());
    let left = kib.map_or(0.0, |kib: f64| kib / 1024.0);
    ensure!(left > LEFT, "{left:.0} MiB of memory are left: take fewer tenants with --count");
    Ok(())
}

/// Jobs that have not ended.
async fn at_work(client: &Client) -> Result<usize> {
    let of_apps = ListParams::default().labels(&format!("{}={}", labels::COMPONENT, names::APPS));
    let jobs = Api::<Job>::all(client.clone()).list(&of_apps).await?;
    let is_over = |job: &&Job| {
        let conditions = job.status.iter().flat_map(|status| status.conditions.iter().flatten());
        conditions.into_iter().any(|c| (c.type_ == "Complete" || c.type_ == "Failed") && c.status == "True")
    };
    Ok(jobs.items.iter().filter(|job| !is_over(job)).count())
}

/// Tenants in which the chart's ConfigMap is.
async fn has_it(servers: &Servers) -> Result<usize> {
    let mut has = 0;
    for tenant in servers.serving() {
        let maps: Api<ConfigMap> = Api::namespaced((*tenant.client().await?).clone(), APP);
        has += usize::from(maps.get_opt("web").await?.is_some());
    }
    Ok(has)
}
