//! `kubectl` as a tenant's owner.

use std::{
    fs,
    path::PathBuf,
    process::{Command, Stdio},
};

use anyhow::{Result, ensure};
use berth_devcluster::{Vpc, binaries};
use serde_json::Value;

use crate::{Tenant, until};

/// `kubectl` with the kubeconfig that the tenant's people get.
#[derive(Debug)]
pub struct Kubectl {
    file: PathBuf,
    dir: tempfile::TempDir,
}

impl Kubectl {
    /// With the kubeconfig as it is now.
    pub fn of(tenant: &Tenant<'_>) -> Result<Self> {
        Self::with(&tenant.kubeconfig()?)
    }

    /// With that kubeconfig.
    pub fn with(kubeconfig: &str) -> Result<Self> {
        let dir = tempfile::tempdir()?;
        let file = dir.path().join("kubeconfig");
        fs::write(&file, kubeconfig)?;
        Ok(Self { file, dir })
    }

    /// A command without arguments.
    pub fn command(&self) -> Result<Command> {
        let mut command = Command::new(binaries::kubectl()?);
        command.arg("--kubeconfig").arg(&self.file);
        Ok(command)
    }

    /// Runs it; what it prints.
    pub fn run(&self, arguments: &[&str]) -> Result<String> {
        said(self.command()?.args(arguments), arguments)
    }

    /// Runs it until it succeeds.
    pub fn until(&self, what: &str, arguments: &[&str]) -> Result<String> {
        until(what, || self.run(arguments))
    }

    /// Runs it once in a VPC, at the router's address, against the API at an address there. It gives up after two seconds.
    pub fn in_vpc(&self, vpc: &Vpc, address: &str, arguments: &[&str]) -> Result<String> {
        let mut command = vpc.command(&binaries::kubectl()?.to_string_lossy());
        command.arg("--kubeconfig").arg(&self.file);
        command.args([&*format!("--server=https://{address}:6443"), "--request-timeout=2s"]);
        said(command.args(arguments), arguments)
    }

    /// Applies objects.
    pub fn apply(&self, objects: &[Value]) -> Result<()> {
        let file = self.dir.path().join("objects.json");
        let list = serde_json::json!({"apiVersion": "v1", "kind": "List", "items": objects});
        fs::write(&file, list.to_string())?;
        self.run(&["apply", "-f", &file.to_string_lossy()]).map(drop)
    }
}

fn said(command: &mut Command, arguments: &[&str]) -> Result<String> {
    let output = command.stdin(Stdio::null()).output()?;
    ensure!(output.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
    Ok(String::from_utf8(output.stdout)?)
}
