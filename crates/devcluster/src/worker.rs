//! Machines beside the cluster, with nothing on them but containerd, kubelet and kubeadm: what becomes a node of somebody else's
//! control plane, by `kubeadm join`. One is on the cluster's own node network, or in a VPC.
//!
//! A machine is a process that holds network, mount and UTS namespaces of its own, with /etc/kubernetes, /var/lib/kubelet, what a network
//! plugin writes, and the logs of pods in the machine's own directory. Everything on it is started in these.

mod machine;
mod record;

use std::{
    fs,
    net::Ipv4Addr,
    os::unix::fs::PermissionsExt as _,
    path::PathBuf,
    thread,
    time::{Duration, Instant},
};

use anyhow::{Context, Result, bail, ensure};
use serde_json::json;

pub(crate) use self::record::Record;
use crate::{
    binaries, cgroups, files, images,
    layout::{Layout, RunDir},
    network,
    node_config::{self, Cni},
    process,
    slot::Slot,
    versions,
    vpc::Vpc,
};

/// Directories that are the machine's own, as it sees them.
const OWN: [&str; 7] = [
    "/etc/kubernetes",
    "/var/lib/kubelet",
    "/var/log/pods",
    "/var/log/containers",
    CNI_CONFIG,
    CNI_PLUGINS,
    "/var/lib/cni",
];

/// Where network plugins put what they are, on any machine with containerd. Both are empty until then.
const CNI_CONFIG: &str = "/etc/cni/net.d";
const CNI_PLUGINS: &str = "/opt/cni/bin";

/// The first machine's address on the node network has this last byte and one more.
const FIRST_ADDRESS: u8 = 20;

/// The first machine's place in a VPC's subnet is one more. Those below are left to pods and others.
const FIRST_IN_VPC: u8 = 100;

/// The most machines that a cluster can have.
pub const MAX_WORKERS: u8 = 8;

/// The network namespaces that a cluster's machines may have.
pub(crate) fn scopes(layout: &Layout) -> Vec<String> {
    (1..=MAX_WORKERS).map(|number| scope(layout, number)).collect()
}

fn scope(layout: &Layout, number: u8) -> String {
    format!("{}.w{number}", layout.scope())
}

/// A machine.
#[derive(Clone, Debug)]
pub struct Worker {
    layout: Layout,
    slot: Slot,
    name: String,
    number: u8,
    vpc: Option<Vpc>,
}

impl Worker {
    pub(crate) fn new(layout: &Layout, slot: Slot, name: &str, record: &Record, vpc: Option<Vpc>) -> Result<Self> {
        let number = record.number;
        ensure!((1..=MAX_WORKERS).contains(&number), "machine {number} is not one of 1 to {MAX_WORKERS}");
        Ok(Self { layout: layout.clone(), slot, name: name.to_owned(), number, vpc })
    }

    /// Its host name, and the name of the node that it becomes.
    pub fn name(&self) -> String {
        self.name.clone()
    }

    /// Its address in its VPC, or else on the cluster's node network.
    pub fn address(&self) -> Ipv4Addr {
        if let Some(vpc) = &self.vpc {
            return vpc.address(FIRST_IN_VPC + self.number);
        }
        let [a, b, c, _] = self.slot.node_address().octets();
        Ipv4Addr::new(a, b, c, FIRST_ADDRESS + self.number)
    }

    /// Starts the machine with containerd, and imports these images. One that runs is left as it is.
    pub(crate) fn start(&self, archives: &[PathBuf]) -> Result<()> {
        let (dir, run) = (self.dir(), self.run_dir());
        for own in OWN {
            files::create_dir(&self.own(own))?;
        }
        for directory in [dir.join("bin"), dir.join("patches"), run.clone()] {
            files::create_dir(&directory)?;
        }
        // kubelet asks for the address of its own name first, and on this network no name server answers.
        files::write(&dir.join("hosts"), format!("127.0.0.1 localhost\n{} {}\n", self.address(), self.name()))?;
        // Not 127.0.0.1: a tenant's CoreDNS takes it over, and would forward to itself.
        files::write(&dir.join("resolv.conf"), format!("nameserver {}\n", self.address()))?;
        let cni = Cni { plugins: CNI_PLUGINS.as_ref(), config: CNI_CONFIG.as_ref() };
        let toml = node_config::containerd(&self.layout, &dir.join("containerd"), &run, &cni)?;
        files::write(&dir.join("containerd.toml"), toml)?;
        files::write(&dir.join("patches/kubeletconfiguration+merge.json"), serde_json::to_vec(&self.kubelet_patch())?)?;
        self.write_systemctl()?;
        cgroups::ensure(&self.cgroup())?;
        self.connect()?;
        if self.machine().is_none() {
            self.boot()?;
        }
        if process::recorded(&RunDir::new(self.slot), &self.component("containerd")).is_none_or(|p| !p.is_alive()) {
            let binary = binaries::path("containerd", versions::CONTAINERD, "containerd")?;
            let config = dir.join("containerd.toml");
            self.spawn("containerd", &[&binary.to_string_lossy(), "--config", &config.to_string_lossy()])?;
        }
        let socket = run.join("containerd.sock");
        wait("containerd's socket", || Ok(socket.exists().then_some(())))?;
        images::import(&socket, &images::essential()?)?;
        images::import(&socket, archives)?;
        // A machine that has joined starts its kubelet when it boots.
        if self.own("/etc/kubernetes/kubelet.conf").exists() {
            let output = self.command(&dir.join("bin/systemctl"))?.args(["start", "kubelet"]).output();
            ensure!(output.context("cannot start kubelet")?.status.success(), "kubelet did not start on {}", self.name);
        }
        Ok(())
    }

    /// Cuts the machine's power: nobody hears from it any more, not even that its connections end. Its files stay, and it can be started
    /// again.
    pub fn kill(&self) -> Result<()> {
        let run = RunDir::new(self.slot);
        match &self.vpc {
            Some(vpc) => network::vpc::disconnect_machine(vpc, &self.port())?,
            None => network::nodes::disconnect_machine(&self.layout, &self.port())?,
        }
        let records = ["machine", "containerd"].map(|name| self.component(name));
        process::kill_until_gone(&self.name(), || {
            let mut all = process::marked(self.marker());
            all.extend(cgroups::processes(&self.cgroup()));
            all.extend(records.iter().filter_map(|record| process::recorded(&run, record)));
            all
        })?;
        network::nodes::remove_machine(&self.scope())?;
        wait("the machine's cgroups", || Ok(cgroups::remove(&self.cgroup()).ok()))?;
        records.iter().try_for_each(|record| files::remove(&run.process(record)))?;
        files::remove(&self.run_dir())
    }

    /// Cuts the machine's power and removes what it was: processes, pods included, its link and its files.
    pub fn remove(&self) -> Result<()> {
        self.kill()?;
        files::remove(&self.dir())?;
        Record::forget(&self.layout, &self.name)
    }

    /// Its link. The routes to its pods are those of the VPC's router, which forgets them when the cluster stops.
    fn connect(&self) -> Result<()> {
        let (scope, port, address) = (self.scope(), self.port(), self.address());
        let Some(vpc) = &self.vpc else {
            return network::nodes::connect_machine(&self.layout, self.slot, &scope, &port, address);
        };
        network::vpc::connect_machine(vpc, &scope, &port, address)?;
        let pods = Record::read(&self.layout, &self.name)?.and_then(|record| record.pods);
        pods.map_or(Ok(()), |range| vpc.route(&range, address))
    }

    /// Runs `kubeadm join` with these arguments, as a person would type them. kubeadm itself starts kubelet.
    pub fn join(&self, arguments: &[String]) -> Result<()> {
        let kubeadm = binaries::path("kubernetes", versions::KUBERNETES, "kubeadm")?;
        let socket = format!("--cri-socket=unix://{}", self.run_dir().join("containerd.sock").display());
        let patches = format!("--patches={}", self.dir().join("patches").display());
        let mut command = self.command(&kubeadm)?;
        command.arg("join").args(arguments).args([&*socket, &*patches, "--ignore-preflight-errors=all"]);
        let output = command.output().context("cannot run kubeadm")?;
        let said = [output.stdout, output.stderr].map(|text| String::from_utf8_lossy(&text).into_owned()).concat();
        ensure!(output.status.success(), "kubeadm join on {}:\n{said}", self.name());
        Ok(())
    }

    /// Gives its pods addresses of the range that the node was given, which a network plugin would do. Waits for the range. In a VPC the
    /// router leads there, as a cloud's route table does.
    pub fn configure_pods(&self) -> Result<String> {
        let range = wait("the node's range of pod addresses", || {
            let mut get = self.command(&binaries::kubectl()?)?;
            get.args(["--kubeconfig=/etc/kubernetes/kubelet.conf", "get", "node", &self.name()]);
            let output = get.args(["-o", "jsonpath={.spec.podCIDR}"]).output()?;
            let range = String::from_utf8_lossy(&output.stdout).into_owned();
            Ok((output.status.success() && !range.is_empty()).then_some(range))
        })?;
        let network = json!({
            "cniVersion": "1.0.0",
            "name": self.scope(),
            "plugins": [{
                "type": "bridge", "bridge": "cni0", "isGateway": true, "ipMasq": false, "hairpinMode": true,
                "ipam": {
                    "type": "host-local", "dataDir": self.dir().join("addresses"),
                    "ranges": [[{"subnet": range}]], "routes": [{"dst": "0.0.0.0/0"}],
                },
            }],
        });
        if let Some(vpc) = &self.vpc {
            let record = Record { number: self.number, vpc: Some(vpc.name().to_owned()), pods: Some(range.clone()) };
            record.write(&self.layout, &self.name)?;
            vpc.route(&range, self.address())?;
        }
        node_config::link_plugins(&self.own(CNI_PLUGINS))?;
        files::write(&self.own(CNI_CONFIG).join("10-pods.conflist"), serde_json::to_vec_pretty(&network)?)?;
        Ok(range)
    }

    /// Sends packets for these addresses to another machine, as a cloud's route table does.
    pub fn route(&self, range: &str, via: Ipv4Addr) -> Result<()> {
        network::nodes::route(&self.scope(), range, via)
    }

    /// Its network namespace, for `ip -n`.
    pub fn netns(&self) -> String {
        self.scope()
    }

    /// kubelet's log.
    pub fn kubelet_log(&self) -> PathBuf {
        self.layout.log(&self.component("kubelet"))
    }

    /// By which its processes are told from the rest of the cluster's.
    fn marker(&self) -> (&'static str, String) {
        ("BERTH_DEVCLUSTER_NODE", self.dir().to_string_lossy().into_owned())
    }

    fn write_systemctl(&self) -> Result<()> {
        let file = self.dir().join("bin/systemctl");
        let text = include_str!("systemctl.sh")
            .replace("@RUN@", &self.run_dir().to_string_lossy())
            .replace("@LOG@", &self.kubelet_log().to_string_lossy())
            .replace("@KUBELET@", &binaries::path("kubernetes", versions::KUBERNETES, "kubelet")?.to_string_lossy());
        files::write(&file, text)?;
        fs::set_permissions(&file, fs::Permissions::from_mode(0o755)).context("systemctl")
    }

    /// What this machine needs of a kubelet, beside what the cluster tells it.
    fn kubelet_patch(&self) -> serde_json::Value {
        json!({
            "cgroupDriver": "cgroupfs",
            "cgroupRoot": format!("/{}", self.cgroup()),
            "failCgroupV1": false,
            "failSwapOn": false,
            "imagePullCredentialsVerificationPolicy": "NeverVerify",
            "imageGCHighThresholdPercent": 100,
            "evictionHard": {"memory.available": "100Mi", "nodefs.available": "1%", "imagefs.available": "1%"},
        })
    }

    fn dir(&self) -> PathBuf {
        self.layout.dir.join(self.part())
    }

    /// What the machine sees under that path.
    fn own(&self, path: &str) -> PathBuf {
        self.dir().join("root").join(path.trim_start_matches('/'))
    }

    fn run_dir(&self) -> PathBuf {
        RunDir::new(self.slot).0.join(self.part())
    }

    fn scope(&self) -> String {
        scope(&self.layout, self.number)
    }

    fn cgroup(&self) -> String {
        format!("{}/{}", self.layout.scope(), self.part())
    }

    fn port(&self) -> String {
        format!("worker{}", self.number)
    }

    fn component(&self, name: &str) -> String {
        format!("{name}-{}", self.part())
    }

    fn part(&self) -> String {
        format!("w{}", self.number)
    }
}

/// Asks until there is an answer.
fn wait<T>(what: &str, ask: impl Fn() -> Result<Option<T>>) -> Result<T> {
    let deadline = Instant::now() + Duration::from_mins(2);
    loop {
        if let Some(answer) = ask()? {
            return Ok(answer);
        }
        if Instant::now() > deadline {
            bail!("{what}: nothing within two minutes");
        }
        thread::sleep(Duration::from_millis(100));
    }
}
