//! Many tenants whose pods are pretended, and a patch version for all of them: what the operator costs, and how long it takes.

use crate::kubelet::Kubelet;
use crate::outside::{self, AGENT, Operator, Outside};
use crate::tenant::{self, TEAM};
use crate::{Figure, audit, backups, operator};
use anyhow::{Context as _, bail, ensure};
use berth_api::cluster::TurnState;
use berth_api::revision::RevisionOutcome;
use berth_api::{Cluster, ClusterRevision, labels};
use futures::{StreamExt as _, TryStreamExt as _};
use k8s_openapi::api::core::v1::{ConfigMap, Namespace};
use kube::api::{ListParams, Patch, PatchParams, PostParams};
use kube::{Api, Client, ResourceExt as _};
use serde_json::{Value, json};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

const OLD: &str = "1.36.2";
const NEW: &str = "1.36.3";
const OLD_MINOR: &str = "1.35.4";
/// How many change at once: `rollouts.maxConcurrent`.
const AT_ONCE: usize = 20;
/// Writes of a person at once.
const WRITERS: usize = 16;
const TIMEOUT: Duration = Duration::from_mins(30);
/// How long what came up takes to settle before rest is measured.
const SETTLE: Duration = Duration::from_mins(2);
/// How often `kubectl berth plan` runs.
const PLANS: u32 = 20;
/// An agent as a new release has one.
const NEW_AGENT: &str = "ghcr.io/berth-dev/agent:bench-2";

/// What `fleet` needs to know.
pub(crate) struct Fleet<'a> {
    pub(crate) client: &'a Client,
    /// Access to the meta cluster; the operator gets the same address.
    pub(crate) kubeconfig: &'a Path,
    pub(crate) audit_log: &'a Path,
    /// `berth-pretended`.
    pub(crate) program: &'a Path,
    /// `kubectl-berth`.
    pub(crate) plugin: &'a Path,
    /// Where the operator's files are put.
    pub(crate) dir: PathBuf,
    pub(crate) tenants: usize,
    /// Minutes at rest.
    pub(crate) rest_minutes: u64,
}

/// Measures.
pub(crate) async fn run(fleet: &Fleet<'_>) -> anyhow::Result<Vec<Figure>> {
    let mut outside = Outside::write(fleet.client, fleet.kubeconfig, fleet.program, fleet.dir.clone()).await?;
    outside.env.push(("BERTH_PRETENDED", fleet.kubeconfig.to_owned()));
    outside.configure(|config| config["rollouts"]["maxConcurrent"] = json!(AT_ONCE))?;
    let kubelet = Kubelet::start(fleet.client).await?;
    let operator = outside.start(AGENT)?;
    tenant::clear(fleet.client).await?;
    let since = Instant::now();
    futures::stream::iter(names(fleet))
        .map(Ok)
        .try_for_each_concurrent(WRITERS, |name| async move { create(fleet.client, &name, OLD).await })
        .await?;
    all(fleet, "to be up", |c| is_up(c) && version(c) == Some(OLD)).await?;
    println!("{} tenants are up after {:.1} s", fleet.tenants, since.elapsed().as_secs_f64());

    let patch = patch(fleet, &operator).await?;
    let taken = backups::all(fleet.client, &names(fleet).collect::<Vec<_>>(), &operator).await?;
    tokio::time::sleep(SETTLE).await;
    let before = written(fleet)?;
    tokio::time::sleep(Duration::from_mins(fleet.rest_minutes)).await;
    let rest = written(fleet)? - before;
    let rss = operator.usage()?.rss;
    drop(operator);

    let before = written(fleet)?;
    let operator = outside.start(NEW_AGENT)?;
    operator::all_reconciled("127.0.0.1", outside::PORT, fleet.tenants, Instant::now()).await?;
    tokio::time::sleep(Duration::from_mins(fleet.rest_minutes)).await;
    let anew = written(fleet)? - before;
    let revisions = revisions(fleet.client).await?;
    let plan = plan(fleet)?;
    tenant::clear(fleet.client).await?;
    drop(operator);
    kubelet.end(fleet.client).await?;
    let one = |name, unit, value| Figure::new(name, unit, vec![value]);
    Ok(vec![
        one("fleet.tenants", "tenants", count(fleet.tenants)),
        one("fleet.done", "s", patch.seconds),
        one("fleet.most", "at once", count(patch.most)),
        one("fleet.cpu", "s each", patch.cpu / count(fleet.tenants)),
        one("fleet.writes", "each", count(patch.writes) / count(fleet.tenants)),
        one("fleet.rss", "MiB", patch.rss),
        one("fleet.backups", "s", taken.seconds),
        one("fleet.backup_jobs", "at once", count(taken.most)),
        one("fleet.backup_rss", "MiB", taken.rss),
        one("fleet.rest_writes", "writes", count(rest)),
        one("fleet.rest_rss", "MiB", rss),
        one("fleet.new_operator_writes", "each", count(anew) / count(fleet.tenants)),
        one("fleet.revisions", "KiB", revisions),
        one("fleet.plan", "ms", plan),
    ])
}

#[expect(clippy::cast_precision_loss, reason = "small numbers")]
fn count(n: usize) -> f64 {
    n as f64
}

fn names(fleet: &Fleet<'_>) -> impl Iterator<Item = String> {
    (0..fleet.tenants).map(|i| format!("fleet-{i}"))
}

fn written(fleet: &Fleet<'_>) -> anyhow::Result<usize> {
    Ok(audit::writes(fleet.audit_log)?.len())
}

fn clusters(client: &Client) -> Api<Cluster> {
    Api::namespaced(client.clone(), TEAM)
}

async fn create(client: &Client, name: &str, version: &str) -> anyhow::Result<()> {
    let upgrade = json!({"soak": "0s", "finalizeAfter": "0s"});
    // Nothing is to run inside: what is there counts as the meta cluster's.
    let addons = json!({"coreDNS": {"enabled": false}, "kubeProxy": {"enabled": false}});
    let spec = json!({"version": version, "apiServer": {"replicas": 2}, "upgrade": upgrade, "addons": addons});
    clusters(client).create(&PostParams::default(), &tenant::cluster(name, &spec)?).await?;
    Ok(())
}

async fn set(client: &Client, name: &str, spec: &Value) -> anyhow::Result<()> {
    clusters(client).patch(name, &PatchParams::default(), &Patch::Merge(json!({"spec": spec}))).await?;
    Ok(())
}

/// What ran last and was well. What its API says of itself is the meta cluster's version.
fn version(cluster: &Cluster) -> Option<&str> {
    let newest = cluster.status.as_ref()?.history.first()?;
    (newest.outcome == Some(RevisionOutcome::Succeeded)).then_some(&*newest.version)
}

/// Its present spec is what runs and is recorded as such.
fn is_up(cluster: &Cluster) -> bool {
    let Some(status) = &cluster.status else { return false };
    let ready = status.conditions.iter().any(|c| c.type_ == "Ready" && c.status == "True" && c.reason == "AsExpected");
    let newest = status.history.first().is_some_and(|r| r.outcome.is_some() && r.version == cluster.spec.version);
    ready && newest && status.observed_generation == cluster.metadata.generation
}

/// Waits until all are as wanted.
async fn all(fleet: &Fleet<'_>, what: &str, wanted: impl Fn(&Cluster) -> bool) -> anyhow::Result<()> {
    let started = Instant::now();
    loop {
        let all = clusters(fleet.client).list(&ListParams::default()).await?.items;
        let open: Vec<&Cluster> = all.iter().filter(|c| !wanted(c)).collect();
        let Some(one) = open.first() else { return Ok(()) };
        if started.elapsed() > TIMEOUT {
            bail!("{} of {} {what}, not after {TIMEOUT:?}: {}", open.len(), all.len(), json!(one.status));
        }
        tokio::time::sleep(Duration::from_secs(1)).await;
    }
}

struct Patched {
    seconds: f64,
    most: usize,
    cpu: f64,
    writes: usize,
    rss: f64,
}

/// The version of all is set, as one commit would; until all of them are through.
async fn patch(fleet: &Fleet<'_>, operator: &Operator) -> anyhow::Result<Patched> {
    let (before, writes, started) = (operator.usage()?, written(fleet)?, Instant::now());
    futures::stream::iter(names(fleet))
        .map(Ok)
        .try_for_each_concurrent(
            WRITERS,
            |name| async move { set(fleet.client, &name, &json!({"version": NEW})).await },
        )
        .await?;
    let (mut most, mut rss, mut last) = (0, before.rss, None);
    let seconds = loop {
        let spaces = Api::<Namespace>::all(fleet.client.clone()).list_metadata(&ListParams::default()).await?;
        let turns = spaces.iter().filter(|ns| ns.annotations().contains_key(labels::TURN)).count();
        ensure!(turns <= AT_ONCE, "{turns} have a turn");
        most = most.max(turns);
        rss = f64::max(rss, operator.usage()?.rss);
        let all = clusters(fleet.client).list(&ListParams::default()).await?.items;
        let through = |c: &&Cluster| {
            let turn = c.status.as_ref().and_then(|s| s.turn.as_ref());
            is_up(c) && version(c) == Some(NEW) && turn.is_some_and(|turn| turn.state == TurnState::Succeeded)
        };
        let done = all.iter().filter(through).count();
        if last != Some(done) {
            println!("{:.0} s: {done} of {} have it, {turns} have a turn", started.elapsed().as_secs_f64(), all.len());
            last = Some(done);
        }
        if done == all.len() {
            break started.elapsed().as_secs_f64();
        }
        if started.elapsed() > TIMEOUT {
            let other = all.iter().find(|c| !through(c)).map(|c| json!(c.status));
            bail!("{done} of {} have it after {TIMEOUT:?}; one that has not: {other:?}", all.len());
        }
        tokio::time::sleep(Duration::from_secs(1)).await;
    };
    let cpu = operator.usage()?.cpu - before.cpu;
    Ok(Patched { seconds, most, cpu, writes: written(fleet)? - writes, rss })
}

/// Ten revisions of a tenant over two minors: they, and the templates that are stored, as JSON. KiB.
async fn revisions(client: &Client) -> anyhow::Result<f64> {
    const NAME: &str = "revisions";
    create(client, NAME, OLD_MINOR).await?;
    settled(client, NAME).await?;
    for revision in 2..=10 {
        let flag = json!([{"name": "v", "value": (revision % 4).to_string()}]);
        let spec = if revision == 6 { json!({"version": NEW}) } else { json!({"apiServer": {"extraArgs": flag}}) };
        set(client, NAME, &spec).await?;
        settled(client, NAME).await?;
    }
    let at = tenant::cp_namespace(NAME);
    let kept = Api::<ClusterRevision>::namespaced(client.clone(), &at).list(&ListParams::default()).await?.items;
    let maps = Api::<ConfigMap>::namespaced(client.clone(), &at).list(&ListParams::default()).await?.items;
    let sets: Vec<ConfigMap> = maps.into_iter().filter(|map| map.name_any().starts_with("templates-")).collect();
    ensure!(kept.len() == 10, "{} revisions", kept.len());
    let sizes = kept.iter().map(|r| json!(r)).chain(sets.iter().map(|s| json!(s))).map(|o| o.to_string().len());
    let bytes: usize = sizes.sum();
    println!("{} revisions and {} sets of templates: {bytes} bytes", kept.len(), sets.len());
    ensure!(sets.len() == 2, "{} sets of templates", sets.len());
    Ok(count(bytes) / 1024.0)
}

async fn settled(client: &Client, name: &str) -> anyhow::Result<()> {
    let started = Instant::now();
    loop {
        let cluster = clusters(client).get(name).await?;
        let status = cluster.status.clone().unwrap_or_default();
        if is_up(&cluster) && status.emulated_version.is_none() {
            return Ok(());
        }
        if started.elapsed() > TIMEOUT {
            bail!("{name} does not settle: {}", json!(status));
        }
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
}

/// CPU of `kubectl berth plan` of a tenant that nothing changes. Milliseconds.
fn plan(fleet: &Fleet<'_>) -> anyhow::Result<f64> {
    let before = of_children()?;
    for _ in 0..PLANS {
        let mut plan = Command::new(fleet.plugin);
        plan.env("KUBECONFIG", fleet.kubeconfig).args(["plan", "fleet-0", "-n", TEAM]);
        let status = plan.stdout(Stdio::null()).status().context("kubectl-berth")?;
        ensure!(status.success(), "plan: {status}");
    }
    Ok((of_children()? - before) / f64::from(PLANS) * 1000.0)
}

/// CPU of all children of this process that have ended. Seconds.
fn of_children() -> anyhow::Result<f64> {
    let stat = std::fs::read_to_string("/proc/self/stat")?;
    // The name comes first, in parentheses, and may hold anything.
    let fields: Vec<&str> = stat.rsplit(')').next().unwrap_or_default().split_whitespace().collect();
    let ticks: f64 = [13, 14].iter().filter_map(|i| fields.get(*i)?.parse::<f64>().ok()).sum();
    Ok(ticks / 100.0)
}
