//! The cluster's processes: started in its network namespace, recorded by pid and start time, ended by those only.

use std::{
    collections::BTreeSet,
    fs::{self, File, OpenOptions},
    path::Path,
    process::{Child, Command, Stdio},
    thread,
    time::{Duration, Instant},
};

use anyhow::{Context, Result, anyhow, bail};
use nix::{
    errno::Errno,
    sched::{CloneFlags, setns},
    sys::signal::{Signal, kill},
    unistd::Pid,
};
use serde::{Deserialize, Serialize};

use crate::{
    deps, files,
    layout::{Layout, RunDir},
    paths,
};

/// A process to start: the component's name, the node on which it runs, and its command line.
#[derive(Clone, Debug)]
pub(crate) struct Spec {
    pub(crate) name: String,
    pub(crate) node: u8,
    pub(crate) argv: Vec<String>,
}

/// A process that runs, or ran. Pids are reused; a pid with its start time is not.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub(crate) struct Process {
    pub(crate) pid: i32,
    /// Field 22 of /proc/<pid>/stat: clock ticks since boot.
    start_time: u64,
}

impl Process {
    /// The process that has this pid now; none if it is gone or a zombie.
    pub(crate) fn find(pid: i32) -> Option<Self> {
        let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
        // The second field is the program's name in parentheses, and may itself hold blanks and parentheses.
        let mut fields = stat.get(stat.rfind(')')? + 1..)?.split_whitespace();
        let state = fields.next()?;
        let start_time = fields.nth(18)?.parse().ok()?;
        (!matches!(state, "Z" | "X")).then_some(Self { pid, start_time })
    }

    pub(crate) fn is_alive(self) -> bool {
        Self::find(self.pid) == Some(self)
    }

    fn signal(self, signal: Signal) -> Result<()> {
        if !self.is_alive() {
            return Ok(());
        }
        match kill(Pid::from_raw(self.pid), signal) {
            Ok(()) | Err(Errno::ESRCH) => Ok(()),
            Err(e) => Err(anyhow!(e).context(format!("cannot send {signal} to process {}", self.pid))),
        }
    }
}

/// Reads the record of a component that was started.
pub(crate) fn recorded(run: &RunDir, component: &str) -> Option<Process> {
    serde_json::from_str(&fs::read_to_string(run.process(component)).ok()?).ok()
}

/// Starts a component unless the recorded one is alive. Gives the child if one was started.
///
/// The child is a session of its own (so it outlives a terminal), with a clean environment and the cluster's marker:
/// even a process that was started and not yet recorded when `devcluster` was killed is found again.
pub(crate) fn ensure(layout: &Layout, run: &RunDir, spec: &Spec) -> Result<Option<Child>> {
    if recorded(run, &spec.name).is_some_and(Process::is_alive) {
        return Ok(None);
    }
    let log = layout.log(&spec.name);
    let output = OpenOptions::new()
        .create(true)
        .append(true)
        .open(&log)
        .with_context(|| format!("cannot open {}", log.display()))?;
    let mut command = Command::new("setsid");
    let node = layout.node(spec.node);
    let (marker, value) = layout.marker();
    command
        .args(&spec.argv)
        .env_clear()
        .env("PATH", deps::search_path())
        .env("HOME", &layout.dir)
        .env(marker, value)
        .envs(node.marker())
        // The supervisor must find what this program finds, whatever it was told by $HOME and others.
        .env("BERTH_CACHE", paths::cache())
        .env("BERTH_STATE", paths::state())
        .current_dir("/")
        .stdin(Stdio::null())
        .stdout(output.try_clone()?)
        .stderr(output);
    let child = in_netns(&node.netns(), move || {
        command.spawn().with_context(|| format!("cannot start {}", command.get_program().display()))
    })?;
    let pid = i32::try_from(child.id())?;
    let process = Process::find(pid).ok_or_else(|| anyhow!("{} ended at once, see {}", spec.name, log.display()))?;
    files::create_dir(&run.processes())?;
    files::write(&run.process(&spec.name), serde_json::to_vec(&process)?)?;
    Ok(Some(child))
}

/// Runs something on a thread of its own inside a network namespace. Children that it starts are in there too.
///
/// A namespace belongs to a thread, so the caller stays where it is; `ip netns exec` would also mount a fresh /sys, and
/// kubelet and containerd would then find no cgroups.
pub(crate) fn in_netns<T: Send>(netns: &Path, work: impl FnOnce() -> Result<T> + Send) -> Result<T> {
    let file = File::open(netns).with_context(|| format!("there is no network namespace {}", netns.display()))?;
    thread::scope(|scope| {
        let handle = scope.spawn(move || {
            setns(&file, CloneFlags::CLONE_NEWNET)
                .with_context(|| format!("cannot enter the network namespace {}", netns.display()))?;
            work()
        });
        handle.join().map_err(|_| anyhow!("the thread in {} panicked", netns.display()))?
    })
}

/// Every process with a marker in its environment: components, and containerd's shims.
pub(crate) fn marked((name, value): (&str, String)) -> BTreeSet<Process> {
    let wanted = format!("{name}={value}");
    let Ok(entries) = fs::read_dir("/proc") else { return BTreeSet::new() };
    entries
        .flatten()
        .filter_map(|entry| entry.file_name().to_str()?.parse::<i32>().ok())
        .filter(|pid| {
            fs::read(format!("/proc/{pid}/environ"))
                .is_ok_and(|environ| environ.split(|byte| *byte == 0).any(|variable| variable == wanted.as_bytes()))
        })
        .filter_map(Process::find)
        .collect()
}

/// The components that have a record.
pub(crate) fn recorded_all(run: &RunDir) -> Vec<(String, Process)> {
    let Ok(entries) = fs::read_dir(run.processes()) else { return Vec::new() };
    let mut all: Vec<_> = entries
        .flatten()
        .filter_map(|entry| {
            let name = entry.file_name().to_str()?.strip_suffix(".json")?.to_owned();
            let process = recorded(run, &name)?;
            Some((name, process))
        })
        .collect();
    all.sort();
    all
}

/// Kills processes and waits until they are gone. `find` is asked again each round: a process may have forked.
pub(crate) fn kill_until_gone(what: &str, find: impl Fn() -> BTreeSet<Process>) -> Result<()> {
    let deadline = Instant::now() + Duration::from_secs(30);
    loop {
        let alive: Vec<_> = find().into_iter().filter(|p| p.is_alive()).collect();
        if alive.is_empty() {
            return Ok(());
        }
        if Instant::now() > deadline {
            let pids: Vec<_> = alive.iter().map(|p| p.pid.to_string()).collect();
            bail!("{what}: processes {} did not end within 30 s of SIGKILL", pids.join(", "));
        }
        for process in &alive {
            process.signal(Signal::SIGKILL)?;
        }
        thread::sleep(Duration::from_millis(20));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_is_known_by_pid_and_start_time() {
        let mut child = Command::new("sleep").arg("60").spawn().unwrap();
        let process = Process::find(i32::try_from(child.id()).unwrap()).unwrap();
        assert!(process.is_alive());
        let reused = Process { start_time: process.start_time + 1, ..process };
        reused.signal(Signal::SIGKILL).unwrap();
        assert!(process.is_alive(), "another process with the same pid is left alone");
        process.signal(Signal::SIGKILL).unwrap();
        let start = Instant::now();
        while process.is_alive() && start.elapsed() < Duration::from_secs(5) {
            thread::sleep(Duration::from_millis(5));
        }
        assert!(!process.is_alive(), "a zombie counts as gone");
        child.wait().unwrap();
    }
}
