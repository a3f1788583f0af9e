//! The sidecar as a container runtime starts it: two capabilities, and nothing to be written in /proc/sys.

use berth_testkit::patience::patience;
use std::{
    fs::{self, File},
    path::{Path, PathBuf},
    process::{Child, Command, Output},
    thread,
    time::{Duration, Instant},
};

use nix::{
    sys::signal::{Signal, kill},
    unistd::Pid,
};
use serde_json::Value;
use tempfile::TempDir;

use super::namespace::Namespace;

const AS_IN_A_POD: &str = "mount --bind /proc/sys /proc/sys && mount -o remount,ro,bind /proc/sys && \
    exec setpriv --bounding-set=-all,+net_admin,+net_raw --inh-caps=-all --no-new-privs -- \"$@\"";

/// A configuration, and the sidecar that has it.
pub(crate) struct Sidecar {
    dir: TempDir,
    namespace: String,
    flags: Vec<String>,
    child: Option<Child>,
}

impl Sidecar {
    /// Not started yet.
    pub(crate) fn new(namespace: &Namespace, net: &Value, flags: &[&str]) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let flags = flags.iter().map(|flag| (*flag).to_owned()).collect();
        let sidecar = Self { dir, namespace: namespace.name().to_owned(), flags, child: None };
        sidecar.write(&net.to_string());
        sidecar
    }

    /// Replaces the file as kubelet does.
    pub(crate) fn write(&self, text: &str) {
        let new = self.dir.path().join("new");
        fs::write(&new, text).unwrap();
        fs::rename(&new, self.config()).unwrap();
    }

    fn config(&self) -> PathBuf {
        self.dir.path().join("net.json")
    }

    fn log_file(&self) -> PathBuf {
        self.dir.path().join("log")
    }

    pub(crate) fn termination_log(&self) -> PathBuf {
        self.dir.path().join("termination-log")
    }

    pub(crate) fn log(&self) -> String {
        fs::read_to_string(self.log_file()).unwrap_or_default()
    }

    fn command(&self, verb: &str) -> Command {
        let agent = Path::new(env!("CARGO_BIN_EXE_berth-agent"));
        let mut command = Command::new("ip");
        command
            .args(["netns", "exec", &self.namespace, "unshare", "--mount", "sh", "-c", AS_IN_A_POD, "sh"])
            .arg(agent)
            .args(["net", verb, "--config"])
            .arg(self.config())
            .arg("--termination-log")
            .arg(self.termination_log())
            .args(&self.flags);
        command
    }

    pub(crate) fn start(&mut self) {
        let log = File::options().create(true).append(true).open(self.log_file()).unwrap();
        let child = self.command("run").stdout(log.try_clone().unwrap()).stderr(log).spawn().unwrap();
        self.child = Some(child);
    }

    /// Starts it, and waits until it says that all is in place.
    pub(crate) fn start_and_wait(&mut self) {
        self.start();
        self.wait_until("rules are in place", |sidecar| sidecar.check().status.success());
    }

    pub(crate) fn check(&self) -> Output {
        self.command("check").output().unwrap()
    }

    pub(crate) fn wait_until(&self, what: &str, done: impl Fn(&Self) -> bool) {
        let end = Instant::now() + patience(Duration::from_secs(20));
        while !done(self) {
            let said = String::from_utf8_lossy(&self.check().stderr).into_owned();
            assert!(Instant::now() < end, "not in 20 s: {what}; check: {said}; log:\n{}", self.log());
            thread::sleep(Duration::from_millis(50));
        }
    }

    /// Waits until it has found so often that the API server serves: it takes part from then on.
    pub(crate) fn takes_part(&self, times: usize) {
        self.wait_until("the API server serves", |sidecar| {
            sidecar.log().matches("the API server serves").count() >= times
        });
    }

    pub(crate) fn pid(&self) -> u32 {
        self.child.as_ref().map(Child::id).unwrap()
    }

    pub(crate) fn signal(&self, signal: Signal) {
        kill(Pid::from_raw(self.pid().cast_signed()), signal).unwrap();
    }

    /// How it ended; none if it did not within this time.
    pub(crate) fn ended(&mut self, within: Duration) -> Option<i32> {
        let end = Instant::now() + patience(within);
        let child = self.child.as_mut()?;
        while Instant::now() < end {
            if let Some(status) = child.try_wait().unwrap() {
                self.child = None;
                return Some(status.code().unwrap_or(-1));
            }
            thread::sleep(Duration::from_millis(5));
        }
        None
    }

    pub(crate) fn kill(&mut self) {
        if let Some(mut child) = self.child.take() {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

impl Drop for Sidecar {
    fn drop(&mut self) {
        self.kill();
        if thread::panicking() {
            eprintln!("log of {}:\n{}", self.namespace, self.log());
        }
    }
}
