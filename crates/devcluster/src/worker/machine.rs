//! The process that holds a machine's namespaces, and what is started in them.

use std::{
    fs::{self, OpenOptions},
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

use anyhow::{Context, Result};

use super::{OWN, Worker, wait};
use crate::{deps, files, layout::RunDir, process};

impl Worker {
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

    pub(super) fn machine(&self) -> Option<process::Process> {
        let recorded = process::recorded(&RunDir::new(self.slot), &self.component("machine"));
        recorded.filter(|process| process.is_alive())
    }

    /// The process that holds the machine's namespaces.
    pub(super) fn boot(&self) -> Result<()> {
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

    pub(super) fn spawn(&self, name: &str, argv: &[&str]) -> Result<()> {
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
}
