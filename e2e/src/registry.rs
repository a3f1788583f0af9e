//! A registry of charts.

use std::fs;
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command};

use anyhow::{Context as _, Result, ensure};
use berth_devcluster::binaries;
use nix::{
    sys::signal::{Signal, kill},
    unistd::Pid,
};

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
}
