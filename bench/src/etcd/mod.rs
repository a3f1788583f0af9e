//! Changes of a tenant's etcd under a client: it grows, is backed up, loses a member, its leader, and its quorum.

mod client;

use self::client::{Seen, Writer};
use crate::{Figure, operator, process, tenant};
use anyhow::{Context as _, bail, ensure};
use berth_api::{Cluster, EtcdBackup, EtcdCluster, EtcdRestore, names};
use k8s_openapi::api::core::v1::{PersistentVolume, PersistentVolumeClaim, Pod, Secret};
use kube::api::{DeleteParams, ListParams, Patch, PatchParams, PostParams};
use kube::{Api, Client};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::{Value, json};
use std::time::{Duration, Instant};

const NAME: &str = "etcd-0";
/// The store of the chart that `make bench` configures.
const STORE: &str = "main";
const TIMEOUT: Duration = Duration::from_mins(8);
/// From one call of the client to the next.
const PACE: Duration = Duration::from_millis(50);
/// Clients of an API whose etcd loses its leader: a call that is under way then hangs until etcd gives it up after seven seconds, and is no
/// measure of whether the API answers.
const CLIENTS: usize = 5;
/// How long a client is watched where nothing else says when it is over.
const WHILE: Duration = Duration::from_secs(30);
/// How long an etcd at rest is watched.
const REST: Duration = Duration::from_mins(2);
/// The port of an etcd's metrics.
const METRICS: u16 = 2381;

/// One tenant that holds so many MiB.
pub(crate) async fn run(client: &Client, mib: usize) -> anyhow::Result<Vec<Figure>> {
    let name = [NAME.to_owned()];
    clear(client).await?;
    tenant::create_with(client, &name, &json!({"etcd": {"storage": {"size": "8Gi"}}})).await?;
    let secrets: Api<Secret> = Api::namespaced(client.clone(), tenant::TEAM);
    let kubeconfig = tenant::value(&secrets.get(&names::kubeconfig(NAME)).await?)?;
    client::fill(&kubeconfig, mib).await?;
    let subject = Subject { client, kubeconfig };
    let figures = [
        subject.grows().await.context("growing")?,
        subject.is_backed_up().await.context("the backup")?,
        subject.loses_a_member().await.context("a member's loss")?,
        subject.loses_its_leader().await.context("the leader's loss")?,
        subject.rests().await.context("rest")?,
        subject.loses_its_quorum().await.context("the quorum's loss")?,
    ];
    clear(client).await?;
    tenant::delete(client, &name).await?;
    Ok(figures.into_iter().flatten().collect())
}

/// Backups and restores of a run.
async fn clear(client: &Client) -> anyhow::Result<()> {
    let restores: Api<EtcdRestore> = Api::namespaced(client.clone(), tenant::TEAM);
    let backups: Api<EtcdBackup> = Api::namespaced(client.clone(), tenant::TEAM);
    restores.delete_collection(&DeleteParams::default(), &ListParams::default()).await?;
    backups.delete_collection(&DeleteParams::default(), &ListParams::default()).await?;
    let begun = Instant::now();
    while !backups.list(&ListParams::default()).await?.items.is_empty() {
        ensure!(begun.elapsed() < TIMEOUT, "backups are left");
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
    Ok(())
}

struct Subject<'a> {
    client: &'a Client,
    kubeconfig: String,
}

impl Subject<'_> {
    async fn grows(&self) -> anyhow::Result<Vec<Figure>> {
        let writer = Writer::start(&self.kubeconfig, PACE, 1);
        let began = Instant::now();
        self.change(&json!({"etcd": {"replicas": 3}})).await?;
        self.settled(3).await?;
        let seconds = began.elapsed().as_secs_f64();
        let seen = writer.end().await?;
        say("1 to 3 members", seconds, &seen);
        Ok(vec![figure("etcd.grown", "s", seconds), figure("etcd.grown_failed", "calls", count(seen.failed))])
    }

    /// The client's writes before and meanwhile, and what the Job's program takes.
    async fn is_backed_up(&self) -> anyhow::Result<Vec<Figure>> {
        let writer = Writer::start(&self.kubeconfig, PACE, 1);
        tokio::time::sleep(WHILE).await;
        let before = writer.end().await?;
        let api: Api<EtcdBackup> = Api::namespaced(self.client.clone(), tenant::TEAM);
        let backup = json!({"metadata": {"name": "bench"}, "spec": {"clusterRef": {"name": NAME}, "store": STORE}});
        let (writer, mut rss) = (Writer::start(&self.kubeconfig, PACE, 1), 0.0_f64);
        let began = Instant::now();
        api.create(&PostParams::default(), &serde_json::from_value(backup)?).await?;
        loop {
            let peaks = process::all().into_iter().filter(|(_, comm)| comm == "berth-backup");
            rss = peaks.filter_map(|(pid, _)| process::usage(pid)).map(|u| u.peak).fold(rss, f64::max);
            match api.get("bench").await?.status.and_then(|s| s.phase).as_deref() {
                Some("Verified") => break,
                Some("Failed") => bail!("it failed: {:?}", api.get("bench").await?.status),
                _ => {}
            }
            ensure!(began.elapsed() < TIMEOUT, "it is not verified after {TIMEOUT:?}");
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        let seconds = began.elapsed().as_secs_f64();
        let seen = writer.end().await?;
        ensure!(rss > 0.0, "no process berth-backup was seen on this machine");
        say("a backup, proven", seconds, &seen);
        Ok(vec![
            figure("etcd.backup", "s", seconds),
            figure("etcd.backup_rss", "MiB", rss),
            figure("etcd.backup_p99", "x", seen.p99() / before.p99()),
        ])
    }

    async fn loses_a_member(&self) -> anyhow::Result<Vec<Figure>> {
        let before = self.id("etcd-1").await?;
        let writer = Writer::start(&self.kubeconfig, PACE, 1);
        let began = Instant::now();
        self.wipe(&["etcd-1"]).await?;
        while self.id("etcd-1").await? == before {
            ensure!(began.elapsed() < TIMEOUT, "etcd-1 is not replaced");
            tokio::time::sleep(Duration::from_millis(200)).await;
        }
        self.settled(3).await?;
        let seconds = began.elapsed().as_secs_f64();
        let seen = writer.end().await?;
        say("a member replaced", seconds, &seen);
        Ok(vec![figure("etcd.replaced", "s", seconds), figure("etcd.replaced_failed", "calls", count(seen.failed))])
    }

    async fn loses_its_leader(&self) -> anyhow::Result<Vec<Figure>> {
        let leader = self.leader().await?;
        let writer = Writer::start(&self.kubeconfig, PACE, CLIENTS);
        tokio::time::sleep(Duration::from_secs(2)).await;
        kill(Pid::from_raw(i32::try_from(leader)?), Signal::SIGKILL)?;
        tokio::time::sleep(WHILE).await;
        let seen = writer.end().await?;
        say("the leader killed", seen.gap, &seen);
        self.settled(3).await?;
        Ok(vec![figure("etcd.leader_gap", "s", seen.gap)])
    }

    /// How often the operator asks a member for its status; nobody else does.
    async fn rests(&self) -> anyhow::Result<Vec<Figure>> {
        self.settled(3).await?;
        tokio::time::sleep(WHILE).await;
        let before = self.looks().await?;
        tokio::time::sleep(REST).await;
        let after = self.looks().await?;
        ensure!(before.len() == 3 && after.len() == 3, "{} members are looked at", after.len());
        let each = after.iter().zip(&before).map(|(after, before)| after - before).fold(0.0, f64::max);
        Ok(vec![figure("etcd.looks", "in 15 s", each * 15.0 / REST.as_secs_f64())])
    }

    /// Answered requests for the status, of each member.
    async fn looks(&self) -> anyhow::Result<Vec<f64>> {
        let mut all = vec![];
        for pod in self.inside::<Pod>().list(&ListParams::default().labels("app.kubernetes.io/component=etcd")).await? {
            let ip = pod.status.and_then(|s| s.pod_ip).context("a pod without an address")?;
            let metrics = operator::get_from(&ip, METRICS).await?;
            let is_status = |line: &&str| line.starts_with("grpc_server_handled_total{") && line.contains("\"Status\"");
            let counts =
                metrics.lines().filter(is_status).filter_map(|line| line.rsplit(' ').next()?.parse::<f64>().ok());
            all.push(counts.sum());
        }
        Ok(all)
    }

    async fn loses_its_quorum(&self) -> anyhow::Result<Vec<Figure>> {
        self.change(&json!({"etcd": {"recovery": "Automatic"}})).await?;
        self.settled(3).await?;
        let began = Instant::now();
        self.wipe(&["etcd-0", "etcd-1"]).await?;
        // Until the restore has begun, an API server may answer from its cache.
        let etcd: Api<EtcdCluster> = self.inside();
        let restored = |e: EtcdCluster| e.status?.recovery?.restored_at;
        while restored(etcd.get("etcd").await?).is_none() {
            ensure!(began.elapsed() < TIMEOUT, "etcd is not restored");
            tokio::time::sleep(Duration::from_millis(200)).await;
        }
        while tenant::ask(&self.kubeconfig).await.is_err() {
            ensure!(began.elapsed() < TIMEOUT, "the API does not answer");
            tokio::time::sleep(Duration::from_millis(200)).await;
        }
        let seconds = began.elapsed().as_secs_f64();
        println!("quorum lost for good: the API answers after {seconds:.1} s");
        self.settled(3).await?;
        Ok(vec![figure("etcd.recovered", "s", seconds)])
    }

    fn inside<K>(&self) -> Api<K>
    where
        K: kube::Resource<DynamicType = (), Scope = kube::core::NamespaceResourceScope>,
    {
        Api::namespaced(self.client.clone(), &tenant::cp_namespace(NAME))
    }

    async fn change(&self, spec: &Value) -> anyhow::Result<()> {
        let clusters: Api<Cluster> = Api::namespaced(self.client.clone(), tenant::TEAM);
        let patch = Patch::Merge(json!({"spec": spec}));
        clusters.patch(NAME, &PatchParams::default(), &patch).await?;
        Ok(())
    }

    /// Waits until so many members are ready and nothing is under way.
    async fn settled(&self, members: usize) -> anyhow::Result<()> {
        let (api, began): (Api<EtcdCluster>, _) = (self.inside(), Instant::now());
        loop {
            let etcd = api.get("etcd").await?;
            let status = etcd.status.unwrap_or_default();
            let is_seen = status.observed_generation == etcd.metadata.generation;
            let is_ready = status.conditions.iter().any(|c| c.type_ == "Ready" && c.status == "True");
            let all = status.ready_members.as_deref() == Some(&format!("{members}/{members}"));
            if is_seen && is_ready && all && status.operation.is_none() {
                return Ok(());
            }
            ensure!(began.elapsed() < TIMEOUT, "not {members} members after {TIMEOUT:?}: {:?}", status.conditions);
            tokio::time::sleep(Duration::from_millis(200)).await;
        }
    }

    async fn id(&self, member: &str) -> anyhow::Result<Option<String>> {
        let status = self.inside::<EtcdCluster>().get("etcd").await?.status.unwrap_or_default();
        Ok(status.members.into_iter().find(|m| m.name == member).and_then(|m| m.id))
    }

    /// The process of the member that leads.
    async fn leader(&self) -> anyhow::Result<u32> {
        for pod in self.inside::<Pod>().list(&ListParams::default().labels("app.kubernetes.io/component=etcd")).await? {
            let Some(ip) = pod.status.as_ref().and_then(|s| s.pod_ip.clone()) else { continue };
            let metrics = operator::get_from(&ip, METRICS).await?;
            if metrics.lines().any(|line| line == "etcd_server_is_leader 1") {
                let uid = pod.metadata.uid.context("a pod without a UID")?;
                let found = process::all().into_iter().find(|(pid, comm)| comm == "etcd" && process::is_of(*pid, &uid));
                return Ok(found.context("the leader's process is not on this machine")?.0);
            }
        }
        bail!("no member says that it leads")
    }

    /// Their volumes are empty from one moment to the next, and their processes end.
    async fn wipe(&self, members: &[&str]) -> anyhow::Result<()> {
        for member in members {
            let claim = self.inside::<PersistentVolumeClaim>().get(&format!("data-{member}")).await?;
            let volume = claim.spec.and_then(|s| s.volume_name).context("the claim is not bound")?;
            let volume = Api::<PersistentVolume>::all(self.client.clone()).get(&volume).await?;
            let path = volume.spec.and_then(|s| s.local).context("not a volume of this machine")?.path;
            for entry in std::fs::read_dir(path)?.flatten() {
                let path = entry.path();
                if path.is_dir() { std::fs::remove_dir_all(path)? } else { std::fs::remove_file(path)? }
            }
        }
        for member in members {
            self.inside::<Pod>().delete(member, &DeleteParams::default().grace_period(0)).await?;
        }
        Ok(())
    }
}

fn figure(name: &str, unit: &'static str, value: f64) -> Figure {
    Figure::new(name, unit, vec![value])
}

#[expect(clippy::cast_precision_loss, reason = "small numbers")]
fn count(calls: usize) -> f64 {
    calls as f64
}

fn say(what: &str, seconds: f64, seen: &Seen) {
    println!(
        "{what}: {seconds:.1} s; {} calls answered at once, {} at the second attempt, {} failed; 99 % within {:.0} ms, at most {:.1} s without an answer",
        seen.times.len(),
        seen.retried,
        seen.failed,
        seen.p99() * 1000.0,
        seen.gap
    );
}
