//! The operator from outside: its process, its metrics, and what the audit log says of it.

use crate::audit::{self, Sort};
use crate::process::{self, Usage};
use anyhow::{Context as _, bail};
use k8s_openapi::api::core::v1::Pod;
use kube::api::{DeleteParams, ListParams};
use kube::{Api, Client};
use std::path::Path;
use std::time::{Duration, Instant};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

pub(crate) const SYSTEM: &str = "berth-system";

/// Port of its metrics in a pod.
const PORT: u16 = 8080;

/// What was seen at one moment.
pub(crate) struct Look {
    pub(crate) rss_mib: f64,
    /// Seconds of CPU since it started.
    pub(crate) cpu: f64,
    /// Writes so far by the operator's user, leases and dry runs aside.
    pub(crate) writes: f64,
    /// Gets and lists so far, leases aside.
    pub(crate) reads: f64,
    /// Dry runs so far.
    pub(crate) dry_runs: f64,
    /// Requests into tenants since it started.
    pub(crate) tenant_calls: f64,
}

pub(crate) async fn look(client: &Client, audit: &Path) -> anyhow::Result<Look> {
    let text = metrics(client).await?;
    let tenant_calls = tenant_calls(&text);
    let usage = leader()?;
    let requests = audit::requests(audit)?;
    #[expect(clippy::cast_precision_loss, reason = "small numbers")]
    let count = |wanted: fn(Sort) -> bool| requests.iter().filter(|r| wanted(r.sort)).count() as f64;
    Ok(Look {
        rss_mib: usage.rss,
        cpu: usage.cpu,
        writes: count(Sort::is_write),
        reads: count(|s| s == Sort::Read),
        dry_runs: count(|s| s == Sort::DryRun),
        tenant_calls,
    })
}

/// Requests into tenants, by the operator's metrics.
pub(crate) fn tenant_calls(metrics: &str) -> f64 {
    sum(metrics, |l| l.starts_with("berth_api_calls_total") && l.contains("tenant") && !l.contains("failure"))
}

fn sum(text: &str, wanted: impl Fn(&str) -> bool) -> f64 {
    text.lines().filter(|l| wanted(l)).filter_map(|l| l.rsplit(' ').next()?.parse::<f64>().ok()).sum()
}

/// The largest operator process: the one that leads. One that waits for the lease holds nothing.
fn leader() -> anyhow::Result<Usage> {
    let all = process::all().into_iter().filter(|(_, name)| name == "berth-operator");
    let found = all.filter_map(|(pid, _)| process::usage(pid)).max_by(|a, b| a.rss.total_cmp(&b.rss));
    found.context("no process berth-operator on this machine")
}

async fn pods(client: &Client) -> anyhow::Result<Vec<Pod>> {
    let api: Api<Pod> = Api::namespaced(client.clone(), SYSTEM);
    Ok(api.list(&ListParams::default().labels("app.kubernetes.io/name=berth")).await?.items)
}

/// The leader's metrics.
async fn metrics(client: &Client) -> anyhow::Result<String> {
    metrics_but(client, &[]).await
}

/// The leader's metrics, if it is none of these pods.
async fn metrics_but(client: &Client, gone: &[Pod]) -> anyhow::Result<String> {
    for pod in pods(client).await? {
        if gone.iter().any(|old| old.metadata.uid == pod.metadata.uid) {
            continue;
        }
        let Some(ip) = pod.status.and_then(|s| s.pod_ip) else { continue };
        if let Ok(text) = get(&ip).await
            && sum(&text, |l| l.starts_with("berth_leader ")) > 0.0
        {
            return Ok(text);
        }
    }
    bail!("no operator pod leads")
}

async fn get(ip: &str) -> anyhow::Result<String> {
    get_from(ip, PORT).await
}

pub(crate) async fn get_from(ip: &str, port: u16) -> anyhow::Result<String> {
    let mut stream = tokio::time::timeout(Duration::from_secs(2), TcpStream::connect((ip, port))).await??;
    stream.write_all(b"GET /metrics HTTP/1.0\r\nHost: operator\r\n\r\n").await?;
    let mut text = String::new();
    stream.read_to_string(&mut text).await?;
    Ok(text)
}

/// Reconciles of `Cluster`s that succeeded.
fn reconciles(metrics: &str) -> f64 {
    sum(metrics, |l| {
        l.starts_with("berth_reconcile_total") && l.contains("controller=\"cluster\"") && l.contains("\"ok\"")
    })
}

/// Waits until an operator that has just started has reconciled `tenants` tenants.
#[expect(clippy::cast_precision_loss, reason = "small numbers")]
pub(crate) async fn all_reconciled(ip: &str, port: u16, tenants: usize, since: Instant) -> anyhow::Result<()> {
    while since.elapsed() < Duration::from_mins(10) {
        if get_from(ip, port).await.is_ok_and(|text| reconciles(&text) >= tenants as f64) {
            return Ok(());
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    bail!("the operator did not reconcile {tenants} tenants")
}

/// Deletes the operator's pods; seconds from then until a new process has reconciled `tenants` tenants.
pub(crate) async fn restart(client: &Client, tenants: usize) -> anyhow::Result<f64> {
    let api: Api<Pod> = Api::namespaced(client.clone(), SYSTEM);
    let old = pods(client).await?;
    let asked = Instant::now();
    for pod in &old {
        api.delete(pod.metadata.name.as_deref().unwrap_or_default(), &DeleteParams::default().grace_period(5)).await?;
    }
    while asked.elapsed() < Duration::from_mins(2) {
        if let Ok(text) = metrics_but(client, &old).await {
            #[expect(clippy::cast_precision_loss, reason = "small numbers")]
            if reconciles(&text) >= tenants as f64 {
                return Ok(asked.elapsed().as_secs_f64());
            }
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    bail!("the new operator did not reconcile {tenants} tenants")
}
