//! Machines beside the cluster, with nothing on them but containerd, kubelet and kubeadm: what becomes a node of somebody else's
//! control plane, by `kubeadm join`.
//!
//! A machine is a process that holds network, mount and UTS namespaces of its own, with /etc/kubernetes, /var/lib/kubelet and the logs
//! of pods in the machine's own directory. Everything on it is started in these.

use std::{
    fs::{self, OpenOptions},
    net::Ipv4Addr,
    os::unix::fs::PermissionsExt as _,
    path::{Path, PathBuf},
    process::{Command, Stdio},
    thread,
    time::{Duration, Instant},
};

use anyhow::{Context, Result, bail, ensure};
use serde_json::json;

use crate::{
    binaries, cgroups, deps, files, images,
    layout::{Layout, RunDir},
    network, node_config, process,
    slot::Slot,
    versions,
};

/// Directories that are the machine's own, as it sees them.
const OWN: [&str; 4] = ["/etc/kubernetes", "/var/lib/kubelet", "/var/log/pods", "/var/log/containers"];

/// The first machine's address is the node network's with this last byte.
const FIRST_ADDRESS: u8 = 20;

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
    number: u8,
}

impl Worker {
    pub(crate) fn new(layout: &Layout, slot: Slot, number: u8) -> Result<Self> {
        ensure!((1..=MAX_WORKERS).contains(&number), "machine {number} is not one of 1 to {MAX_WORKERS}");
        Ok(Self { layout: layout.clone(), slot, number })
    }

    /// Its host name, and the name of the node that it becomes.
    pub fn name(&self) -> String {
        format!("worker-{}", self.number)
    }

    /// Its address on the cluster's node network.
    pub fn address(&self) -> Ipv4Addr {
        let [a, b, c, _] = self.slot.node_address().octets();
        Ipv4Addr::new(a, b, c, FIRST_ADDRESS + self.number)
    }

    /// Starts the machine with containerd, and imports these images. One that runs is left as it is.
    pub(crate) fn start(&self, archives: &[PathBuf]) -> Result<()> {
        let (dir, run) = (self.dir(), self.run_dir());
        for own in OWN {
            files::create_dir(&self.own(own))?;
        }
        for directory in [dir.join("cni"), dir.join("bin"), dir.join("patches"), run.clone()] {
            files::create_dir(&directory)?;
        }
        // kubelet asks for the address of its own name first, and on this network no name server answers.
        files::write(&dir.join("hosts"), format!("127.0.0.1 localhost\n{} {}\n", self.address(), self.name()))?;
        files::write(&dir.join("resolv.conf"), "nameserver 127.0.0.1\n")?;
        let toml = node_config::containerd(&self.layout, &dir.join("containerd"), &run, &dir.join("cni"))?;
        files::write(&dir.join("containerd.toml"), toml)?;
        files::write(&dir.join("patches/kubeletconfiguration+merge.json"), serde_json::to_vec(&self.kubelet_patch())?)?;
        self.write_systemctl()?;
        cgroups::ensure(&self.cgroup())?;
        network::nodes::connect_machine(&self.layout, self.slot, &self.scope(), &self.port(), self.address())?;
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
        images::import(&socket, archives)
    }

    /// Cuts the machine's power and removes what it was: processes, pods included, its link and its files.
    pub fn remove(&self) -> Result<()> {
        let run = RunDir::new(self.slot);
        network::nodes::remove_machine(&self.scope())?;
        let records = ["machine", "containerd"].map(|name| self.component(name));
        process::kill_until_gone(&self.name(), || {
            let mut all = process::marked(self.marker());
            all.extend(cgroups::processes(&self.cgroup()));
            all.extend(records.iter().filter_map(|record| process::recorded(&run, record)));
            all
        })?;
        wait("the machine's cgroups", || Ok(cgroups::remove(&self.cgroup()).ok()))?;
        records.iter().try_for_each(|record| files::remove(&run.process(record)))?;
        files::remove(&self.run_dir())?;
        files::remove(&self.dir())
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

    /// Gives its pods addresses of the range that the node was given, which a network plugin would do. Waits for the range.
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
        files::write(&self.dir().join("cni/10-pods.conflist"), serde_json::to_vec_pretty(&network)?)?;
        Ok(range)
    }

    /// Sends packets for these addresses to another machine, as a cloud's route table does.
    pub fn route(&self, range: &str, via: Ipv4Addr) -> Result<()> {
        network::nodes::route(&self.scope(), range, via)
    }

    /// A program on the machine.
    pub fn command(&self, program: &Path) -> Result<Command> {
        let machine = self.machine().with_context(|| format!("{} does not run", self.name()))?;
        let mut command = Command::new("nsenter");
        let (marker, value) = self.layout.marker();
        let path = format!("{}:{}", self.dir().join("bin").display(), deps::search_path());
        command
            .args(["--net", "--mount", "--uts", "--target", &machine.pid.to_string(), "--"])
            .arg(program)
            .env_clear()
            .env("PATH", path)
            .env("HOME", self.dir())
            .env(marker, value)
            .envs([self.marker()])
            .stdin(Stdio::null());
        Ok(command)
    }

    /// kubelet's log.
    pub fn kubelet_log(&self) -> PathBuf {
        self.layout.log(&self.component("kubelet"))
    }

    /// By which its processes are told from the rest of the cluster's.
    fn marker(&self) -> (&'static str, String) {
        ("BERTH_DEVCLUSTER_NODE", self.dir().to_string_lossy().into_owned())
    }

    fn machine(&self) -> Option<process::Process> {
        let recorded = process::recorded(&RunDir::new(self.slot), &self.component("machine"));
        recorded.filter(|process| process.is_alive())
    }

    /// The process that holds the machine's namespaces.
    fn boot(&self) -> Result<()> {
        let binds = OWN.map(|own| format!("mkdir -p {own}; mount --bind {} {own}", self.own(own).display())).join("; ");
        let files = ["hosts", "resolv.conf"]
            .map(|file| format!("mount --bind {} /etc/{file}", self.dir().join(file).display()));
        let script = format!("set -e; {binds}; {}; hostname {}; exec sleep infinity", files.join("; "), self.name());
        let mut command = Command::new("setsid");
        command.args(["unshare", "--mount", "--uts", "--propagation", "slave", "bash", "-c", &script]);
        self.record("machine", command)?;
        // The mounts are the last that is made before it sleeps.
        let pid = self.machine().map(|process| process.pid).context("the machine ended at once")?;
        wait("the machine's mounts", || {
            let name = fs::read_to_string(format!("/proc/{pid}/comm")).unwrap_or_default();
            Ok((name.trim() == "sleep").then_some(()))
        })
    }

    fn spawn(&self, name: &str, argv: &[&str]) -> Result<()> {
        let mut command = self.command(Path::new("setsid"))?;
        command.args(argv);
        self.record(name, command)
    }

    fn record(&self, name: &str, mut command: Command) -> Result<()> {
        let (name, run) = (self.component(name), RunDir::new(self.slot));
        let log = self.layout.log(&name);
        let output = OpenOptions::new().create(true).append(true).open(&log);
        let output = output.with_context(|| format!("cannot open {}", log.display()))?;
        let (marker, value) = self.layout.marker();
        command
            .env(marker, value)
            .envs([self.marker()])
            .stdin(Stdio::null())
            .stdout(output.try_clone()?)
            .stderr(output);
        let netns = PathBuf::from(crate::paths::NETNS_DIR).join(self.scope());
        let child = process::in_netns(&netns, move || command.spawn().context("cannot start a process of a machine"))?;
        let process = process::Process::find(i32::try_from(child.id())?);
        let process = process.with_context(|| format!("{name} ended at once, see {}", log.display()))?;
        files::create_dir(&run.processes())?;
        files::write(&run.process(&name), serde_json::to_vec(&process)?)
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
