//! The library's face: bring a cluster up, ask where its things are, take it down.

mod down;
mod import;
mod nodes;
mod power;
mod ready;
mod up;
mod vpcs;

use std::{
    net::Ipv4Addr,
    path::{Path, PathBuf},
    process::Command,
    time::Duration,
};

use anyhow::{Result, anyhow, bail};

use crate::{
    binaries, deps, files,
    layout::{Layout, RunDir},
    node::{FIRST, MAX_NODES},
    process::{self, Process},
    s3::S3,
    slot::{self, Slot},
    state::{Phase, State},
    vpc::{self, Vpc, VpcConfig},
};

/// What a cluster shall be. `Config::default()` is the cluster `demo`.
#[derive(Clone, Debug)]
pub struct Config {
    /// The cluster's name: at most 20 lower-case letters, digits and dashes.
    pub name: String,
    /// How many local volumes are offered. A running cluster keeps the number that it was made with.
    pub volumes: u16,
    /// How many nodes there are, up to [`MAX_NODES`]. With none there is a control plane to which nothing is attached: no pod
    /// ever runs, and no volumes are offered. A running cluster keeps the number that it was made with.
    pub nodes: u8,
    /// More images to import, beside pause, CoreDNS and the newest Kubernetes control plane and etcd. A running cluster is
    /// left as it is: use [`Cluster::load_images`] there.
    pub images: Vec<PathBuf>,
    /// Networks beside the cluster's own, to which pods are attached by NetworkAttachmentDefinitions. A running cluster
    /// keeps those that it has, and is given the others.
    pub vpcs: Vec<VpcConfig>,
    /// The CNI plugin that attaches pods to VPCs, configured as multus is; this project's own by default.
    pub cni_meta_plugin: Option<PathBuf>,
    /// Whether there is an S3 server, for backups. A running cluster that has none is given one, and keeps it.
    pub s3: bool,
    /// Whether NetworkPolicies are enforced: `kube-router` has to be built. A running cluster stays as it was made.
    pub network_policies: bool,
    /// How long coming up may take.
    pub timeout: Duration,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            name: "demo".to_owned(),
            volumes: 24,
            nodes: 1,
            images: Vec::new(),
            vpcs: Vec::new(),
            cni_meta_plugin: None,
            s3: false,
            network_policies: false,
            timeout: Duration::from_mins(3),
        }
    }
}

impl Config {
    /// The default under another name.
    pub fn named(name: impl Into<String>) -> Self {
        Self { name: name.into(), ..Self::default() }
    }
}

/// A cluster that is up, or was.
#[derive(Clone, Debug)]
pub struct Cluster {
    layout: Layout,
    slot: Slot,
    nodes: u8,
    vpcs: Vec<VpcConfig>,
    has_s3: bool,
}

impl Cluster {
    /// Brings a cluster up and waits until its nodes are ready and cluster DNS answers.
    ///
    /// A running cluster is left as it is, a stopped one is started, one whose `up` was cut off is cleared and made again.
    pub fn up(config: &Config) -> Result<Self> {
        deps::check_root()?;
        deps::check()?;
        let layout = Layout::new(&config.name)?;
        if config.nodes > MAX_NODES {
            bail!("{} nodes are more than the {MAX_NODES} that a cluster can have", config.nodes);
        }
        vpc::check_names(&config.vpcs)?;
        let _lock = lock(&layout)?;
        let state = up::up(&layout, config)?;
        Ok(Self::of(layout, state))
    }

    /// A handle to a cluster that exists.
    pub fn open(name: &str) -> Result<Self> {
        let layout = Layout::new(name)?;
        let Some(state) = State::read(&layout)? else {
            bail!("there is no cluster `{name}` in {}: run `devcluster up --name {name}`", layout.dir.display());
        };
        Ok(Self::of(layout, state))
    }

    fn of(layout: Layout, state: State) -> Self {
        Self { layout, slot: state.slot, nodes: state.nodes, vpcs: state.vpcs, has_s3: state.s3 }
    }

    /// Ends the cluster: kills what it started, and removes its mounts, cgroups, network namespace and files.
    pub fn down(&self) -> Result<()> {
        Self::remove(&self.layout.name)
    }

    /// Like [`Cluster::down`], by name; also clears what a cut-off `up` left. A cluster that does not exist is fine.
    pub fn remove(name: &str) -> Result<()> {
        deps::check_root()?;
        let layout = Layout::new(name)?;
        let lock = lock(&layout)?;
        down::remove(&layout)?;
        files::remove(&layout.lock())?;
        drop(lock);
        Ok(())
    }

    /// Stops every process at once, pods included, as if the machine lost its power. Data and addresses are kept.
    pub fn stop(&self) -> Result<()> {
        deps::check_root()?;
        let _lock = lock(&self.layout)?;
        down::stop(&self.layout)
    }

    /// Starts a stopped cluster, with the same addresses, certificates, etcd data and volumes.
    pub fn start(&self, timeout: Duration) -> Result<()> {
        deps::check_root()?;
        let _lock = lock(&self.layout)?;
        up::start(&self.layout, timeout)
    }

    /// The cluster's name.
    pub fn name(&self) -> &str {
        &self.layout.name
    }

    /// The file of the administrator's kubeconfig. It holds its certificates and works on the host, by address.
    pub fn kubeconfig(&self) -> PathBuf {
        self.layout.kubeconfig(crate::pki::ADMIN)
    }

    /// `kubectl` with the administrator's kubeconfig.
    pub fn kubectl(&self) -> Result<Command> {
        let mut command = Command::new(binaries::kubectl()?);
        command.env("KUBECONFIG", self.kubeconfig());
        Ok(command)
    }

    /// The API server's audit log: one JSON event per line, level Metadata.
    pub fn audit_log(&self) -> PathBuf {
        self.layout.audit_log()
    }

    /// The log of a component, for example `kube-apiserver`, `kubelet`, or `kubelet-2` for that of the second node.
    pub fn log(&self, component: &str) -> PathBuf {
        self.layout.log(component)
    }

    /// The cluster's directory.
    pub fn dir(&self) -> &Path {
        &self.layout.dir
    }

    /// The first node's name.
    pub fn node(&self) -> String {
        self.layout.node(FIRST).name()
    }

    /// The directory behind a PersistentVolume of the pool, on this machine.
    pub fn volume_dir(&self, pv: &str) -> PathBuf {
        self.layout.volume(pv)
    }

    /// The socket of the first node's containerd, for `ctr --address`.
    pub fn containerd_socket(&self) -> PathBuf {
        RunDir::new(self.slot).containerd_socket(FIRST)
    }

    /// The name of the cluster's network namespace, for `ip -n`.
    pub fn netns(&self) -> String {
        self.layout.scope()
    }

    /// Where containerd looks how registries are reached: `<host:port>/hosts.toml`, for every node.
    pub fn registries(&self) -> PathBuf {
        self.layout.registries()
    }

    /// The addresses that the cluster uses.
    pub fn slot(&self) -> Slot {
        self.slot
    }

    /// A VPC, by its name.
    pub fn vpc(&self, name: &str) -> Result<Vpc> {
        let Some(config) = self.vpcs.iter().find(|vpc| vpc.name() == name) else {
            let all: Vec<_> = self.vpcs.iter().map(VpcConfig::name).collect();
            let all = if all.is_empty() { "none".to_owned() } else { all.join(", ") };
            bail!(
                "the cluster `{}` has no VPC `{name}`, it has {all}: `devcluster up --vpc {name}` adds it",
                self.layout.name
            );
        };
        Ok(Vpc::new(&self.layout, config))
    }

    /// The S3 server, if there is one.
    pub fn s3(&self) -> Option<S3> {
        self.has_s3.then(|| S3::new(&self.layout, self.slot))
    }

    /// All VPCs.
    pub fn vpcs(&self) -> Vec<Vpc> {
        self.vpcs.iter().map(|config| Vpc::new(&self.layout, config)).collect()
    }

    /// This machine's address as pods see it: a server that a test runs on the host is reachable there.
    pub fn host_address(&self) -> Ipv4Addr {
        self.slot.host_address()
    }

    /// How the cluster is.
    pub fn status(&self) -> Result<Status> {
        let state = State::read(&self.layout)?.ok_or_else(|| anyhow!("cluster `{}` is gone", self.layout.name))?;
        let components = power::recorded(&self.layout, &RunDir::new(self.slot), self.nodes)
            .into_iter()
            .map(|(name, process)| Component { name, pid: process.pid, alive: process.is_alive() })
            .collect();
        Ok(Status { phase: state.phase, components, killed: self.killed_nodes() })
    }

    /// The pid of a component's process, if it runs: for tests that kill one.
    pub fn component_pid(&self, component: &str) -> Option<i32> {
        process::recorded(&RunDir::new(self.slot), component).filter(|p| Process::is_alive(*p)).map(|p| p.pid)
    }
}

/// How a cluster is.
#[derive(Clone, Debug)]
pub struct Status {
    /// What was last done with it.
    pub phase: Phase,
    /// Its processes.
    pub components: Vec<Component>,
    /// The nodes whose power is off; their processes are not among the components.
    pub killed: Vec<String>,
}

/// One process of a cluster.
#[derive(Clone, Debug)]
pub struct Component {
    /// The component's name.
    pub name: String,
    /// Its last known pid.
    pub pid: i32,
    /// Whether it runs.
    pub alive: bool,
}

/// The names of all clusters of this state directory.
pub fn list() -> Result<Vec<String>> {
    let mut names: Vec<String> = slot::holders()?
        .into_iter()
        .filter(|(_, owner)| owner.parent() == Some(crate::paths::state().as_path()))
        .filter_map(|(_, owner)| Some(owner.file_name()?.to_string_lossy().into_owned()))
        .collect();
    names.sort();
    Ok(names)
}

/// One at a time for each cluster.
fn lock(layout: &Layout) -> Result<files::Lock> {
    files::Lock::acquire(&layout.lock(), &format!("the cluster {}", layout.name))
}
