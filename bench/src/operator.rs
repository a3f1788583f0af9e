//! The operator from outside: its process, its metrics, and what the audit log says of it.

use anyhow::{Context as _, bail};
use k8s_openapi::api::core::v1::Pod;
use kube::api::{DeleteParams, ListParams};
use kube::{Api, Client};
use std::io::{BufRead as _, BufReader};
use std::path::Path;
use std::time::{Duration, Instant};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

const SYSTEM: &str = "berth-system";
const USER: &str = "system:serviceaccount:berth-system:berth-operator";

/// What was seen at one moment.
pub(crate) struct Look {
    pub(crate) rss_mib: f64,
    /// Seconds of CPU since it started.
    pub(crate) cpu: f64,
    /// Writes so far by the operator's user, leases and dry runs aside.
    pub(crate) writes: f64,
    /// Requests into tenants since it started.
    pub(crate) tenant_calls: f64,
}

pub(crate) async fn look(client: &Client, audit: &Path) -> anyhow::Result<Look> {
    let text = metrics(client).await?;
    let tenant_calls =
        sum(&text, |l| l.starts_with("berth_api_calls_total") && l.contains("tenant") && !l.contains("failure"));
    let (rss_mib, cpu) = processes()?;
    Ok(Look { rss_mib, cpu, writes: writes(audit)?, tenant_calls })
}

fn sum(text: &str, wanted: impl Fn(&str) -> bool) -> f64 {
    text.lines().filter(|l| wanted(l)).filter_map(|l| l.rsplit(' ').next()?.parse::<f64>().ok()).sum()
}

/// The largest operator process: the one that leads. One that waits for the lease holds nothing.
fn processes() -> anyhow::Result<(f64, f64)> {
    let mut best: Option<(f64, f64)> = None;
    for entry in std::fs::read_dir("/proc")?.flatten() {
        let dir = entry.path();
        let comm = std::fs::read_to_string(dir.join("comm")).unwrap_or_default();
        if comm.trim() != "berth-operator" {
            continue;
        }
        let status = std::fs::read_to_string(dir.join("status")).unwrap_or_default();
        let kib = status
            .lines()
            .find_map(|l| l.strip_prefix("VmRSS:")?.trim().strip_suffix(" kB")?.trim().parse::<f64>().ok());
        let stat = std::fs::read_to_string(dir.join("stat")).unwrap_or_default();
        let fields: Vec<&str> = stat.rsplit(')').next().unwrap_or_default().split_whitespace().collect();
        let ticks: f64 = [11, 12].iter().filter_map(|i| fields.get(*i)?.parse::<f64>().ok()).sum();
        // USER_HZ is 100 on every Linux that Berth runs on.
        let found = (kib.unwrap_or_default() / 1024.0, ticks / 100.0);
        if best.is_none_or(|b| found.0 > b.0) {
            best = Some(found);
        }
    }
    best.context("no process berth-operator on this machine")
}

fn writes(audit: &Path) -> anyhow::Result<f64> {
    let file = std::fs::File::open(audit).with_context(|| format!("audit log {}", audit.display()))?;
    let mut count = 0.0;
    for line in BufReader::new(file).lines() {
        let line = line?;
        if !line.contains(USER) {
            continue;
        }
        let Ok(event) = serde_json::from_str::<serde_json::Value>(&line) else { continue };
        let verb = event["verb"].as_str().unwrap_or_default();
        let write = ["create", "update", "patch", "delete", "deletecollection"].contains(&verb);
        let lease = event["objectRef"]["resource"] == "leases";
        let dry = event["requestURI"].as_str().unwrap_or_default().contains("dryRun=All");
        if write && !lease && !dry && event["user"]["username"] == USER {
            count += 1.0;
        }
    }
    Ok(count)
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
    let mut stream = tokio::time::timeout(Duration::from_secs(2), TcpStream::connect((ip, 8080))).await??;
    stream.write_all(b"GET /metrics HTTP/1.0\r\nHost: operator\r\n\r\n").await?;
    let mut text = String::new();
    stream.read_to_string(&mut text).await?;
    Ok(text)
}

/// Deletes the operator's pods; seconds from then until a new process has looked at `tenants` tenants.
pub(crate) async fn restart(client: &Client, tenants: usize) -> anyhow::Result<f64> {
    let api: Api<Pod> = Api::namespaced(client.clone(), SYSTEM);
    let old = pods(client).await?;
    let asked = Instant::now();
    for pod in &old {
        api.delete(pod.metadata.name.as_deref().unwrap_or_default(), &DeleteParams::default().grace_period(5)).await?;
    }
    while asked.elapsed() < Duration::from_mins(2) {
        if let Ok(text) = metrics_but(client, &old).await {
            let done = sum(&text, |l| {
                l.starts_with("berth_reconcile_total") && l.contains("controller=\"cluster\"") && l.contains("\"ok\"")
            });
            #[expect(clippy::cast_precision_loss, reason = "small numbers")]
            if done >= tenants as f64 {
                return Ok(asked.elapsed().as_secs_f64());
            }
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    bail!("the new operator did not look at {tenants} tenants")
}
