//! A chart in one tenant, with real pods: how long it takes, and what its Job needs.

use anyhow::{Context as _, Result, ensure};
use berth_api::{AppInstallation, labels, names};
use berth_devcluster::Cluster;
use berth_e2e::Registry;
use berth_testkit::ports::port;
use k8s_openapi::api::core::v1::Pod;
use kube::api::{DeleteParams, ListParams};
use kube::{Api, Client};
use serde_json::json;
use std::time::{Duration, Instant};

use super::charts::{self, VERSION};
use super::memory::Watch;
use super::setup::Setup;
use crate::operator::SYSTEM;
use crate::tenant::{self, TEAM};
use crate::{Figure, sleep};

const TENANT: &str = "apps";
/// Between two looks.
const PAUSE: Duration = Duration::from_millis(20);
const TIMEOUT: Duration = Duration::from_mins(5);
/// Runs in which memory is looked at. They are no others, since who looks that often takes a part of the machine.
const LOOKED_AT: usize = 3;

pub(super) async fn run(setup: &Setup<'_>) -> Result<Vec<Figure>> {
    let (client, dir) = (setup.client, tempfile::tempdir()?);
    let cluster = setup.cluster.context("this step needs --cluster: `make bench` gives it")?;
    tenant::clear(client).await?;
    charts::clear(client).await?;
    // Pods reach this machine at that address.
    let registry = Registry::serve(&format!("{}:{}", Cluster::open(cluster)?.host_address(), port()), dir.path())?;
    registry.push_web(VERSION)?;
    tenant::create(client, &[TENANT.to_owned()]).await?;
    let (mut seconds, mut memory) = (vec![], vec![]);
    for run in 0..setup.runs {
        let (took, _) = deploy(client, &registry, &format!("timed-{run}"), false).await?;
        println!("run {run}: deployed {took:.2} s");
        seconds.push(took);
    }
    for run in 0..LOOKED_AT {
        let (_, most) = deploy(client, &registry, &format!("looked-at-{run}"), true).await?;
        println!("run {run}: its Job had {most:.1} MiB");
        ensure!(most > 0.0, "no process of the Job was seen on this machine");
        memory.push(most);
    }
    tenant::delete(client, &[TENANT.to_owned()]).await?;
    Ok(vec![
        Figure::new("apps.deployed", "s", seconds),
        Figure::new("apps.job_memory", "MiB", vec![sleep::most(&memory)]),
    ])
}

/// Deploys it under a new name, and deletes it. Seconds from the `App` until it is deployed, and if that is looked at the most memory of its Job.
async fn deploy(client: &Client, registry: &Registry, name: &str, looked_at: bool) -> Result<(f64, f64)> {
    let since = Instant::now();
    charts::create(client, name, &registry.host, &json!({})).await?;
    let watch = if looked_at { Some(Watch::begin(pod(client, name, since).await?)) } else { None };
    let installations: Api<AppInstallation> = Api::namespaced(client.clone(), TEAM);
    let installation = names::app_installation(SYSTEM, name, TENANT);
    let seconds = loop {
        let status = installations.get_opt(&installation).await?.and_then(|live| live.status).unwrap_or_default();
        if status.phase.as_deref() == Some("Deployed") {
            break since.elapsed().as_secs_f64();
        }
        ensure!(status.failures.unwrap_or_default() == 0, "{name} has failed: {:?}", status.message);
        ensure!(since.elapsed() < TIMEOUT, "{name} is not deployed after {TIMEOUT:?}: {:?}", status.conditions);
        tokio::time::sleep(PAUSE).await;
    };
    let most = watch.map(Watch::most).unwrap_or_default();
    charts::apps(client).delete(name, &DeleteParams::default()).await?;
    charts::clear(client).await?;
    Ok((seconds, most))
}

/// The UID of its Job's pod.
async fn pod(client: &Client, name: &str, since: Instant) -> Result<String> {
    let pods: Api<Pod> = Api::namespaced(client.clone(), &tenant::cp_namespace(TENANT));
    let job = names::app_job(&names::app_installation(SYSTEM, name, TENANT));
    let of_job = ListParams::default().labels(&format!("{}={job}", labels::JOB_NAME));
    loop {
        if let Some(uid) = pods.list(&of_job).await?.items.into_iter().find_map(|pod| pod.metadata.uid) {
            return Ok(uid);
        }
        ensure!(since.elapsed() < TIMEOUT, "{name} has no pod after {TIMEOUT:?}");
        tokio::time::sleep(PAUSE).await;
    }
}
