//! Many tenants whose pods never run: what the operator costs by itself. It runs as a process of this machine, with the rights,
//! policies and configuration that the chart gives it.

use crate::audit::{self, Request, Sort};
use crate::floor::{self, Objects};
use crate::outside::{self, AGENT, Operator, Outside};
use crate::tenant::{self, TEAM};
use crate::{Figure, operator};
use anyhow::{Context as _, bail};
use berth_api::{Cluster, labels};
use futures::{StreamExt as _, TryStreamExt as _};
use kube::api::{DynamicObject, ListParams, PostParams};
use kube::core::{ApiResource, GroupVersionKind};
use kube::{Api, Client};
use serde_json::json;
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant, SystemTime};

/// Nothing made for so long: all is there that can be.
const QUIET: Duration = Duration::from_secs(20);
const TIMEOUT: Duration = Duration::from_mins(30);
/// How long it takes for what came up to settle before rest is measured.
const SETTLE: Duration = Duration::from_mins(2);
/// `Cluster`s created at once by one client.
const AT_ONCE: usize = 16;
/// Calls that the operator has under way at most (kubeio's `AT_ONCE`).
const CALLS: usize = 32;

/// What `scale` needs to know.
pub(crate) struct Scale<'a> {
    pub(crate) client: &'a Client,
    /// Access to the meta cluster; the operator gets the same address.
    pub(crate) kubeconfig: &'a Path,
    pub(crate) audit_log: &'a Path,
    /// The operator's program.
    pub(crate) program: &'a Path,
    /// Where its files are put.
    pub(crate) dir: PathBuf,
    pub(crate) tenants: usize,
    /// Minutes with all objects there, while pods are awaited.
    pub(crate) rest_minutes: u64,
    /// Only until all objects are there.
    pub(crate) brief: bool,
}

/// Measures.
pub(crate) async fn run(scale: &Scale<'_>) -> anyhow::Result<Vec<Figure>> {
    let outside = Outside::write(scale.client, scale.kubeconfig, scale.program, scale.dir.clone()).await?;
    let operator = outside.start(AGENT)?;
    tenant::clear(scale.client).await?;
    tokio::time::sleep(Duration::from_secs(5)).await;
    let idle = operator.usage()?;
    println!("operator without tenants: {:.1} MiB, {:.2} s of CPU", idle.rss, idle.cpu);
    let since = SystemTime::now();
    create(scale).await?;
    println!("{} Clusters created in {:.1} s", scale.tenants, since.elapsed()?.as_secs_f64());
    let (there, cpu) = all_there(scale, &operator, since).await?;
    let after = operator.usage()?;
    let made = check(scale).await?;
    let last = there.iter().filter(|w| w.sort == Sort::Created).map(|w| w.at).max().context("nothing was made")?;
    let one = |name, unit, value| Figure::new(name, unit, vec![value]);
    let mut figures = vec![
        one("scale.tenants", "tenants", count(scale.tenants)),
        one("scale.objects", "objects", count(made)),
        one("scale.there", "s", last.duration_since(since)?.as_secs_f64()),
        one("scale.cpu", "s", cpu - idle.cpu),
        one("scale.writes", "writes", count(there.len())),
        one("scale.rss", "MiB", after.rss),
    ];
    if scale.brief {
        return Ok(figures);
    }
    let raw = floor::dump(scale.client, "scale-0").await?;

    tokio::time::sleep(SETTLE).await;
    let (before, started, writes) = (operator.usage()?, Instant::now(), written(scale)?);
    tokio::time::sleep(Duration::from_mins(scale.rest_minutes)).await;
    let rest = operator.usage()?;
    let rest_cpu = (rest.cpu - before.cpu) / started.elapsed().as_secs_f64() * 1000.0;
    let rest_writes = written(scale)? - writes;
    drop(operator);

    let operator = outside.start(AGENT)?;
    let again = Instant::now();
    operator::all_reconciled("127.0.0.1", outside::PORT, scale.tenants, again).await?;
    let restarted = (again.elapsed().as_secs_f64(), operator.usage()?);
    let names: Vec<String> = names(scale).collect();
    let deleted = tenant::delete(scale.client, &names).await?;
    let end = operator.usage()?;
    drop(operator);
    let floor = without_berth(scale, &raw).await?;
    figures.extend([
        one("scale.cpu_settled", "s", before.cpu - idle.cpu),
        one("scale.rss_peak", "MiB", rest.peak),
        one("scale.rest_cpu", "ms/s", rest_cpu),
        one("scale.rest_writes", "writes", count(rest_writes)),
        one("scale.rest_rss", "MiB", rest.rss),
        one("scale.restart_looked", "s", restarted.0),
        one("scale.restart_cpu", "s", restarted.1.cpu),
        one("scale.restart_rss", "MiB", restarted.1.rss),
        one("scale.deleted", "s", deleted),
        one("scale.deleted_cpu", "s", end.cpu - restarted.1.cpu),
        one("floor_scale.objects", "objects", count(raw.count() * scale.tenants)),
        one("floor_scale.there", "s", floor),
        one("scale.ratio", "", last.duration_since(since)?.as_secs_f64() / floor),
    ]);
    Ok(figures)
}

/// The objects of one tenant, as often, created raw by one client with as many calls under way as the operator has. Seconds.
async fn without_berth(scale: &Scale<'_>, raw: &Objects) -> anyhow::Result<f64> {
    let started = Instant::now();
    futures::stream::iter((0..scale.tenants).map(|i| raw.in_namespace(&format!("floor-{i}"))))
        .map(Ok)
        .try_for_each_concurrent(CALLS, |objects| async move { objects.make(scale.client).await })
        .await?;
    Ok(started.elapsed().as_secs_f64())
}

#[expect(clippy::cast_precision_loss, reason = "small numbers")]
fn count(n: usize) -> f64 {
    n as f64
}

fn names(scale: &Scale<'_>) -> impl Iterator<Item = String> {
    (0..scale.tenants).map(|i| format!("scale-{i}"))
}

fn written(scale: &Scale<'_>) -> anyhow::Result<usize> {
    Ok(audit::writes(scale.audit_log)?.len())
}

async fn create(scale: &Scale<'_>) -> anyhow::Result<()> {
    let api: Api<Cluster> = Api::namespaced(scale.client.clone(), TEAM);
    futures::stream::iter(names(scale))
        .map(Ok)
        .try_for_each_concurrent(AT_ONCE, |name| {
            let api = api.clone();
            async move {
                api.create(&PostParams::default(), &tenant::cluster(&name, &json!({}))?).await?;
                anyhow::Ok(())
            }
        })
        .await
}

/// Waits until nothing more is made. Returns the writes since then, and the operator's CPU when the last object was there.
async fn all_there(scale: &Scale<'_>, operator: &Operator, since: SystemTime) -> anyhow::Result<(Vec<Request>, f64)> {
    let mut samples = vec![(since, operator.usage()?.cpu)];
    loop {
        // The audit log is read as a whole: not too often.
        for _ in 0..QUIET.as_secs() {
            tokio::time::sleep(Duration::from_secs(1)).await;
            samples.push((SystemTime::now(), operator.usage()?.cpu));
        }
        let writes: Vec<Request> = audit::writes(scale.audit_log)?.into_iter().filter(|w| w.at >= since).collect();
        let last = writes.iter().filter(|w| w.sort == Sort::Created).map(|w| w.at).max().unwrap_or(since);
        println!("{} objects made", writes.iter().filter(|w| w.sort == Sort::Created).count());
        if last != since && last.elapsed()? > QUIET {
            let cpu = samples.iter().find(|(at, _)| *at >= last).map_or(0.0, |(_, cpu)| *cpu);
            return Ok((writes, cpu));
        }
        if since.elapsed()? > TIMEOUT {
            bail!("objects are still made after {TIMEOUT:?}");
        }
    }
}

/// Kinds that tenants have objects of in the meta cluster.
const KINDS: [(&str, &str, &str); 9] = [
    ("", "v1", "ConfigMap"),
    ("", "v1", "Namespace"),
    ("", "v1", "Secret"),
    ("", "v1", "Service"),
    ("apps", "v1", "Deployment"),
    ("apps", "v1", "StatefulSet"),
    ("berth.dev", "v1alpha1", "EtcdCluster"),
    ("networking.k8s.io", "v1", "NetworkPolicy"),
    ("rbac.authorization.k8s.io", "v1", "RoleBinding"),
];

/// How many objects are there, as the API server says and not as it answered; an error if tenants differ in what they have, or
/// miss what every tenant has.
async fn check(scale: &Scale<'_>) -> anyhow::Result<usize> {
    let cp_namespaces: BTreeSet<String> = names(scale).map(|n| tenant::cp_namespace(&n)).collect();
    let mut by_tenant: BTreeMap<&str, BTreeMap<&str, usize>> = BTreeMap::new();
    let mut published = 0;
    for (group, version, kind) in KINDS {
        let resource = ApiResource::from_gvk(&GroupVersionKind::gvk(group, version, kind));
        let api: Api<DynamicObject> = Api::all_with(scale.client.clone(), &resource);
        let ours = ListParams::default().labels(&format!("{}={}", labels::MANAGED_BY, labels::MANAGED_BY_VALUE));
        for object in api.list_metadata(&ours).await? {
            let meta = object.metadata;
            let namespace = if kind == "Namespace" { meta.name } else { meta.namespace }.unwrap_or_default();
            published += usize::from(namespace == TEAM);
            if let Some(cp_namespace) = cp_namespaces.get(&namespace) {
                *by_tenant.entry(cp_namespace).or_default().entry(kind).or_default() += 1;
            }
        }
    }
    let first = by_tenant.values().next().context("nothing was made")?;
    println!("each tenant has {first:?}, and a kubeconfig in {TEAM}");
    if let Some((name, other)) = by_tenant.iter().find(|(_, other)| *other != first) {
        bail!("{name} has {other:?}");
    }
    if first.get("Deployment") != Some(&3) || first.get("StatefulSet") != Some(&1) {
        bail!("not every component is there");
    }
    if (by_tenant.len(), published) != (scale.tenants, scale.tenants) {
        bail!("{} tenants have objects, {published} a kubeconfig, of {}", by_tenant.len(), scale.tenants);
    }
    Ok(by_tenant.values().flat_map(BTreeMap::values).sum::<usize>() + published)
}
