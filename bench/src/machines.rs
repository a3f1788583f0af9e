//! Machines in a tenant's VPC: how long from `kubeadm join` to a node and a log, and what runs beside API servers and controller-managers.

use crate::{Figure, process, tenant};
use anyhow::{Context as _, bail, ensure};
use berth_api::names;
use k8s_openapi::api::core::v1::{Pod, Secret};
use kube::api::ListParams;
use kube::{Api, Client};
use serde_json::json;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

/// What makes machines, and what is asked on them.
pub(crate) struct Programs<'a> {
    /// The meta cluster, which has a VPC `a`.
    pub(crate) cluster: &'a str,
    pub(crate) devcluster: &'a Path,
    pub(crate) kubectl: &'a Path,
    /// `kubectl-berth`.
    pub(crate) plugin: &'a Path,
    pub(crate) kubeconfig: &'a Path,
    /// Where the tenant's kubeconfig is written.
    pub(crate) dir: PathBuf,
}

const VPC: &str = "a";
const TIMEOUT: Duration = Duration::from_mins(3);
/// How long CPU is counted, after half of it to settle.
const REST: Duration = Duration::from_mins(1);
const POD: &str = r#"{"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "first", "namespace": "default"}, "spec": {"containers":
    [{"name": "first", "image": "registry.k8s.io/e2e-test-images/agnhost:2.63.0", "args": ["netexec"]}]}}"#;

/// A tenant and a machine a run.
pub(crate) async fn run(client: &Client, runs: usize, programs: &Programs<'_>) -> anyhow::Result<Vec<Figure>> {
    programs.define_vpc()?;
    let spec = json!({
        "replicas": 2,
        "vpc": {
            "attachment": {"name": "vpc-a"},
            "addresses": ["172.20.0.2/24", "172.20.0.3/24", "172.20.0.4/24"],
            "virtualIP": "172.20.0.10",
            "routes": [{"dst": "10.160.0.0/16", "via": "172.20.0.1"}],
        },
        // A machine of devcluster's does not size its kernel's table of connections.
        "addons": {"kubeProxy": {"mode": "nftables", "config": {"conntrack": {"maxPerCore": 0, "min": 0}}}},
    });
    let (mut ready, mut log, mut whole, mut rest) = (vec![], vec![], vec![], vec![]);
    for run in 0..runs {
        let (name, machine) = (format!("machines-{run}"), format!("bench-{run}"));
        // One that runs: what is measured is the join.
        programs.devcluster(&["worker", "add", &machine], &["--vpc", VPC])?;
        let applied = Instant::now();
        tenant::create_with(client, std::slice::from_ref(&name), &spec).await?;
        let times = programs.join(client, &name, &machine, applied).await;
        if run == 0 && times.is_ok() {
            rest = at_rest(client, &name).await?;
        }
        programs.devcluster(&["worker", "remove", &machine], &[])?;
        tenant::delete(client, &[name]).await?;
        let [to_ready, to_log, to_pod] = times?;
        println!(
            "run {run}: joined and Ready in {to_ready:.1} s, first log after {to_log:.1} s; {to_pod:.1} s from `apply` to the pod"
        );
        ready.push(to_ready);
        log.push(to_log);
        whole.push(to_pod);
    }
    let times = [("join.ready", ready), ("join.log", log), ("join.pod", whole)];
    let times = times.into_iter().map(|(name, values)| Figure::new(name, "s", values));
    Ok(times.chain(rest).collect())
}

impl Programs<'_> {
    /// Seconds from the join to a node that is ready and to a pod's first log, and from `applied` to the pod that runs.
    async fn join(&self, client: &Client, name: &str, machine: &str, applied: Instant) -> anyhow::Result<[f64; 3]> {
        let secrets: Api<Secret> = Api::namespaced(client.clone(), tenant::TEAM);
        let (kubeconfig, pod) = (self.dir.join("tenant.kubeconfig"), self.dir.join("pod.json"));
        std::fs::write(&kubeconfig, tenant::value(&secrets.get(&names::kubeconfig(name)).await?)?)?;
        std::fs::write(&pod, POD)?;
        self.until(&kubeconfig, &["apply", "-f", &pod.to_string_lossy()])?;
        let joined = Instant::now();
        self.join_one(name, machine, &[], &kubeconfig)?;
        let ready = joined.elapsed();
        self.until(&kubeconfig, &["wait", "pod", "first", "--for=condition=Ready", "--timeout=1s"])?;
        let pod = applied.elapsed();
        self.until(&kubeconfig, &["logs", "first"])?;
        Ok([ready, joined.elapsed(), pod].map(|time| time.as_secs_f64()))
    }

    /// The VPC's NetworkAttachmentDefinition in the team's namespace.
    pub(crate) fn define_vpc(&self) -> anyhow::Result<()> {
        let definition = self.devcluster(&["vpc", VPC], &["--namespace", tenant::TEAM])?;
        let file = self.dir.join("vpc.yaml");
        std::fs::create_dir_all(&self.dir)?;
        std::fs::write(&file, definition)?;
        self.kubectl(self.kubeconfig, &["apply", "-f", &file.to_string_lossy()]).map(drop)
    }

    /// Joins a machine that runs, and waits until its node is ready. `images` is what it was added with; `kubeconfig` is the tenant's.
    pub(crate) fn join_one(&self, name: &str, machine: &str, images: &[&str], kubeconfig: &Path) -> anyhow::Result<()> {
        let mut command = Command::new(self.plugin);
        command.env("KUBECONFIG", self.kubeconfig).args(["join-command", name, "-n", tenant::TEAM, "--ttl", "15m"]);
        let command = said(&mut command)?;
        let words: Vec<&str> = ["--vpc", VPC, "--"].into_iter().chain(command.split_whitespace()).collect();
        self.devcluster(&[&["worker", "add", machine], images].concat(), &words)?;
        self.until(kubeconfig, &["wait", "node", machine, "--for=condition=Ready", "--timeout=1s"])
    }

    pub(crate) fn devcluster(&self, verb: &[&str], more: &[&str]) -> anyhow::Result<String> {
        said(Command::new(self.devcluster).args(verb).args(["--name", self.cluster]).args(more))
    }

    fn kubectl(&self, kubeconfig: &Path, arguments: &[&str]) -> anyhow::Result<String> {
        said(Command::new(self.kubectl).arg("--kubeconfig").arg(kubeconfig).args(arguments))
    }

    fn until(&self, kubeconfig: &Path, arguments: &[&str]) -> anyhow::Result<()> {
        let start = Instant::now();
        loop {
            match self.kubectl(kubeconfig, arguments) {
                Ok(_) => return Ok(()),
                Err(error) if start.elapsed() > TIMEOUT => return Err(error),
                Err(_) => std::thread::sleep(Duration::from_millis(100)),
            }
        }
    }
}

fn said(command: &mut Command) -> anyhow::Result<String> {
    let output = command.output().with_context(|| format!("{command:?}"))?;
    ensure!(output.status.success(), "{command:?}: {}", String::from_utf8_lossy(&output.stderr));
    Ok(String::from_utf8(output.stdout)?)
}

/// The sidecars of API servers, and the approvers: the most that one of them has.
async fn at_rest(client: &Client, name: &str) -> anyhow::Result<Vec<Figure>> {
    let pods: Api<Pod> = Api::namespaced(client.clone(), &tenant::cp_namespace(name));
    let uids: Vec<String> =
        pods.list(&ListParams::default()).await?.into_iter().filter_map(|p| p.metadata.uid).collect();
    let of = |comm: &str| -> Vec<u32> {
        let ours = |pid: &u32| uids.iter().any(|uid| process::is_of(*pid, uid));
        process::all().into_iter().filter(|(_, c)| c == comm).map(|(pid, _)| pid).filter(ours).collect()
    };
    let (sidecars, approvers) = (of("berth-agent"), of("berth-approve"));
    if sidecars.is_empty() || approvers.is_empty() {
        bail!("{} sidecars and {} approvers run", sidecars.len(), approvers.len());
    }
    tokio::time::sleep(REST / 2).await;
    let usage = |pid: &u32| process::usage(*pid).with_context(|| format!("process {pid} is gone"));
    let before = sidecars.iter().map(usage).collect::<anyhow::Result<Vec<_>>>()?;
    tokio::time::sleep(REST).await;
    let after = sidecars.iter().map(usage).collect::<anyhow::Result<Vec<_>>>()?;
    let approvers = approvers.iter().map(usage).collect::<anyhow::Result<Vec<_>>>()?;
    let cpu = after.iter().zip(&before).map(|(a, b)| (a.cpu - b.cpu) / REST.as_secs_f64() * 1000.0);
    let most = |values: Vec<f64>| vec![values.into_iter().fold(0.0, f64::max)];
    Ok(vec![
        Figure::new("sidecar.rss", "MiB", most(after.iter().map(|u| u.rss).collect())),
        Figure::new("sidecar.cpu", "ms/s", most(cpu.collect())),
        Figure::new("approver.rss", "MiB", most(approvers.iter().map(|u| u.rss).collect())),
    ])
}
