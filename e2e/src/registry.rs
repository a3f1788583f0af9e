//! A registry of charts.

use std::fs;
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command};

use anyhow::{Context as _, Result, ensure};
use berth_devcluster::binaries;

use crate::until;

/// A registry without TLS, which pods reach at the host's address. It needs crane and Helm 4.
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
        // Ends with this test, however that ends.
        let mut registry = Command::new("setpriv");
        registry.args(["--pdeathsig", "KILL"]).arg(binaries::crane()?);
        registry.args(["registry", "serve", "--address", host, "--disk"]).arg(disk);
        let process = registry.spawn()?;
        let registry = Self { host: host.to_owned(), place: place.to_owned(), process };
        until("the registry to listen", || Ok(TcpStream::connect(&registry.host).map(drop)?))?;
        Ok(registry)
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

    /// Writes a small chart, and pushes it.
    pub fn push_web(&self, version: &str) -> Result<()> {
        let chart = self.place.join(format!("web-{version}"));
        fs::create_dir_all(chart.join("templates"))?;
        fs::write(chart.join("Chart.yaml"), format!("apiVersion: v2\nname: web\nversion: {version}\n"))?;
        fs::write(chart.join("values.yaml"), "word: none\n")?;
        fs::write(chart.join("templates/all.yaml"), WEB)?;
        self.push(&chart)
    }
}

/// A ConfigMap with a word, and a Deployment without pods.
const WEB: &str = "apiVersion: v1
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
