//! A registry of charts and images.

use std::fs::{self, File};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command};

use anyhow::{Context as _, Result, ensure};
use berth_devcluster::{Cluster, binaries};
use nix::{
    sys::signal::{Signal, kill},
    unistd::Pid,
};

use crate::until;

/// A registry without TLS, which pods reach at the host's address. It needs crane; charts need Helm 4.
#[derive(Debug)]
pub struct Registry {
    /// Its address and port.
    pub host: String,
    place: PathBuf,
    process: Child,
}

impl Drop for Registry {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

impl Registry {
    /// Serves there, and keeps what it has below a folder.
    pub fn serve(host: &str, place: &Path) -> Result<Self> {
        let disk = place.join("registry");
        fs::create_dir_all(&disk)?;
        let log = File::create(place.join(LOG))?;
        // Ends with this test, however that ends.
        let mut registry = Command::new("setpriv");
        registry.args(["--pdeathsig", "KILL"]).arg(binaries::crane()?);
        registry.args(["registry", "serve", "--address", host, "--disk"]).arg(disk);
        let process = registry.stdout(log.try_clone()?).stderr(log).spawn()?;
        let mut registry = Self { host: host.to_owned(), place: place.to_owned(), process };
        until("the registry to listen", || Ok(TcpStream::connect(&registry.host).map(drop)?))?;
        let ended = registry.process.try_wait()?;
        ensure!(ended.is_none(), "it is another registry that listens on {host}: {ended:?}");
        Ok(registry)
    }

    /// Who connects from now on is not answered.
    pub fn stop(&self) -> Result<()> {
        self.signal(Signal::SIGSTOP)
    }

    /// All are answered again.
    pub fn go_on(&self) -> Result<()> {
        self.signal(Signal::SIGCONT)
    }

    fn signal(&self, signal: Signal) -> Result<()> {
        Ok(kill(Pid::from_raw(self.process.id().try_into()?), signal)?)
    }

    /// Packs the chart in a folder, and pushes it below `charts`.
    pub fn push(&self, chart: &Path) -> Result<()> {
        let helm = |arguments: &[&str]| -> Result<()> {
            let mut helm = Command::new(binaries::helm4()?);
            let output = helm.args(arguments).env("HOME", &self.place).output()?;
            ensure!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
            Ok(())
        };
        let packed = tempfile::tempdir_in(&self.place)?;
        helm(&["package", &chart.display().to_string(), "--destination", &packed.path().display().to_string()])?;
        let archive = fs::read_dir(packed.path())?.flatten().next().context("Helm made an archive")?.path();
        helm(&["push", &archive.display().to_string(), &format!("oci://{}/charts", self.host), "--plain-http"])
    }

    /// Pushes a chart that has one template. Its value `word` is `none`.
    pub fn push_chart(&self, name: &str, version: &str, template: &str) -> Result<()> {
        let chart = tempfile::tempdir_in(&self.place)?;
        let templates = chart.path().join("templates");
        fs::create_dir(&templates)?;
        fs::write(chart.path().join("Chart.yaml"), format!("apiVersion: v2\nname: {name}\nversion: {version}\n"))?;
        fs::write(chart.path().join("values.yaml"), "word: none\n")?;
        fs::write(templates.join("all.yaml"), template)?;
        self.push(chart.path())
    }

    /// Pushes a small chart with the name `web`, whose value `word` is the word of a ConfigMap.
    pub fn push_web(&self, version: &str) -> Result<()> {
        self.push_chart("web", version, WEB)
    }

    /// Pushes an image that is in an archive, under its whole name.
    pub fn push_image(&self, archive: &Path, to: &str) -> Result<()> {
        let layout = tempfile::tempdir_in(&self.place)?;
        run(Command::new("tar").arg("-xf").arg(archive).arg("-C").arg(layout.path()))?;
        run(Command::new(binaries::crane()?).arg("push").arg(layout.path()).arg(to))
    }

    /// Has containerd pull from it, on all nodes of a cluster and on machines beside it: it has no TLS, since nobody else is on that network.
    pub fn is_trusted_by(&self, cluster: &Cluster) -> Result<()> {
        let (host, dir) = (&self.host, cluster.registries().join(&self.host));
        fs::create_dir_all(&dir)?;
        let hosts =
            format!("server = \"http://{host}\"\n[host.\"http://{host}\"]\n  capabilities = [\"pull\", \"resolve\"]\n");
        Ok(fs::write(dir.join("hosts.toml"), hosts)?)
    }

    /// What was pulled from it: a line of its log for each manifest.
    pub fn asked(&self) -> Result<Vec<String>> {
        let text = fs::read_to_string(self.place.join(LOG))?;
        let pulls = text.lines().filter(|l| l.contains("GET /v2/") && l.contains("/manifests/"));
        Ok(pulls.map(ToOwned::to_owned).collect())
    }
}

const LOG: &str = "registry.log";

fn run(command: &mut Command) -> Result<()> {
    let output = command.output().with_context(|| format!("cannot run {command:?}"))?;
    ensure!(output.status.success(), "{command:?}: {}", String::from_utf8_lossy(&output.stderr).trim());
    Ok(())
}

/// A template: a ConfigMap with a word (value `word`), and a Deployment without pods.
pub const WEB: &str = "apiVersion: v1
kind: ConfigMap
metadata:
  name: web
data:
  word: {{ .Values.word | quote }}
---
apiVersion: apps/v1
kind: Deployment
metadata:
  name: web
spec:
  replicas: 0
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec:
      containers: [{name: c, image: registry.k8s.io/pause:3.10.1}]
";
