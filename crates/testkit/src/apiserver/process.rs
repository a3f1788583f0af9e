//! A child process that cannot outlive the test binary.
//!
//! A `static` is never dropped and a killed test runs no destructor, so each child has a small shell beside it that
//! holds the read end of a pipe: when the test process is gone, however it went, the shell kills the child.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail};
use rustix::process::{Pid, Signal, kill_process};

/// `$1` log file, `$2` pid file, then the command. Standard input is the pipe from the test process.
const KEEPER: &str = r#"
log=$1 pidfile=$2; shift 2
exec 3<&0
"$@" </dev/null >>"$log" 2>&1 3<&- &
child=$!
echo $child >"$pidfile.new" && mv "$pidfile.new" "$pidfile"
(trap '' INT; read -r _ <&3; kill -9 $child 2>/dev/null) &
watcher=$!
wait $child; code=$?
kill $watcher 2>/dev/null
rm -f "$pidfile"
exit $code
"#;

/// A running server process: killed on drop, and when the test process dies.
#[derive(Debug)]
pub struct Process {
    name: String,
    keeper: Child,
    pid: Pid,
    log: PathBuf,
}

impl Process {
    /// Starts `binary` with `args`; its output goes to `<dir>/<name>.log`, its pid to `<dir>/<name>.pid`.
    pub fn spawn(dir: &Path, name: &str, binary: &Path, args: &[String]) -> Result<Self> {
        let log = dir.join(format!("{name}.log"));
        let pidfile = dir.join(format!("{name}.pid"));
        let mut keeper = Command::new("/bin/sh")
            .args(["-c", KEEPER, "berth-testkit-keeper"])
            .args([&log, &pidfile])
            .arg(binary)
            .args(args)
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .context("starting /bin/sh")?;
        let deadline = Instant::now() + Duration::from_secs(10);
        let pid = loop {
            if let Some(pid) = read_pid(&pidfile) {
                break pid;
            }
            if keeper.try_wait()?.is_some() || Instant::now() > deadline {
                let _ = keeper.kill();
                bail!("{name} did not start:\n{}", tail(&log));
            }
            std::thread::sleep(Duration::from_millis(2));
        };
        Ok(Self { name: name.to_owned(), keeper, pid, log })
    }

    /// The pid of the process itself.
    pub fn pid(&self) -> i32 {
        self.pid.as_raw_nonzero().get()
    }

    /// An error with the end of the log if the process has ended.
    pub fn check(&mut self) -> Result<()> {
        match self.keeper.try_wait()? {
            None => Ok(()),
            Some(status) => bail!("{} ended with {status}:\n{}", self.name, tail(&self.log)),
        }
    }

    /// SIGKILL, and waits until it is gone.
    pub fn kill(&mut self) {
        if let Ok(None) = self.keeper.try_wait() {
            let _ = kill_process(self.pid, Signal::KILL);
            let _ = self.keeper.wait();
        }
    }

    /// SIGSTOP, and waits until every thread has stopped: connections stay open, nothing answers.
    pub fn pause(&self) {
        kill_process(self.pid, Signal::STOP).unwrap_or_else(|e| panic!("SIGSTOP to {}: {e}", self.name));
        let deadline = Instant::now() + Duration::from_secs(10);
        while !self.stopped() {
            assert!(Instant::now() < deadline, "{} does not stop", self.name);
            std::thread::sleep(Duration::from_millis(2));
        }
    }

    fn stopped(&self) -> bool {
        let threads = std::fs::read_dir(format!("/proc/{}/task", self.pid())).into_iter().flatten().flatten();
        // `pid (name) state …`; a thread that has ended has no file any more.
        let stats = threads.filter_map(|t| std::fs::read_to_string(t.path().join("stat")).ok());
        stats.filter_map(|s| s.rsplit_once(") ").map(|(_, rest)| rest.starts_with('T'))).all(|stopped| stopped)
    }

    /// SIGCONT after [`Process::pause`].
    pub fn resume(&self) {
        kill_process(self.pid, Signal::CONT).unwrap_or_else(|e| panic!("SIGCONT to {}: {e}", self.name));
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.kill();
    }
}

fn read_pid(path: &Path) -> Option<Pid> {
    fs::read_to_string(path).ok()?.trim().parse().ok().and_then(Pid::from_raw)
}

fn tail(log: &Path) -> String {
    let text = fs::read_to_string(log).unwrap_or_default();
    let lines: Vec<&str> = text.lines().collect();
    lines[lines.len().saturating_sub(20)..].join("\n")
}

/// A directory for this process' servers under the common root, after those of dead processes were cleared.
///
/// The name says who owns it (pid and start time), so there is no moment at which it looks abandoned.
pub(crate) fn run_dir() -> Result<tempfile::TempDir> {
    let root = std::env::temp_dir().join("berth-testkit");
    fs::create_dir_all(&root).with_context(|| format!("creating {}", root.display()))?;
    for entry in fs::read_dir(&root)?.flatten() {
        let name = entry.file_name().to_string_lossy().into_owned();
        let mut parts = name.split('-');
        let (Some(Ok(pid)), Some(start)) = (parts.next().map(str::parse::<i32>), parts.next()) else { continue };
        if start_time(pid).is_none_or(|now| now != start) {
            clear(&entry.path());
        }
    }
    let me = i32::try_from(std::process::id())?;
    let start = start_time(me).context("reading /proc/self/stat")?;
    Ok(tempfile::Builder::new().prefix(&format!("{me}-{start}-")).tempdir_in(&root)?)
}

/// Kills the processes recorded in an abandoned directory, if they still are what was started there, and removes it.
fn clear(dir: &Path) {
    for entry in fs::read_dir(dir).into_iter().flatten().flatten() {
        let path = entry.path();
        if path.extension().is_none_or(|e| e != "pid") {
            continue;
        }
        let Some(pid) = read_pid(&path) else { continue };
        let ours = || runs_in(dir, pid.as_raw_nonzero());
        if ours() {
            let _ = kill_process(pid, Signal::KILL);
        }
        let deadline = Instant::now() + Duration::from_secs(5);
        while ours() && Instant::now() < deadline {
            std::thread::sleep(Duration::from_millis(5));
        }
    }
    let _ = fs::remove_dir_all(dir);
}

/// Whether the process has the directory in its command line.
fn runs_in(dir: &Path, pid: impl std::fmt::Display) -> bool {
    let cmdline = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
    String::from_utf8_lossy(&cmdline).contains(&*dir.to_string_lossy())
}

/// Start time of a process in clock ticks (field 22 of its stat), with the pid a name that is never used twice.
fn start_time(pid: i32) -> Option<String> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    stat.rsplit_once(") ")?.1.split(' ').nth(19).map(str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_killed_run_left_behind_is_cleared() {
        let root = std::env::temp_dir().join("berth-testkit");
        // No process has this start time. Another test binary may clear it as soon as it has this name.
        let dir = root.join(format!("{}-0-left", std::process::id()));
        let aside = root.join(format!("aside-{}", std::process::id()));
        fs::create_dir_all(&aside).expect("directory");
        let mut left = Command::new("/bin/sh").args(["-c", "read -r _"]).arg(&dir).stdin(Stdio::piped()).spawn();
        let left = left.as_mut().expect("process");
        fs::write(aside.join("etcd.pid"), left.id().to_string()).expect("pid file");
        // A pid that was given to somebody else since.
        fs::write(aside.join("other.pid"), std::process::id().to_string()).expect("pid file");
        // spawn() returns a moment before the new command line can be read.
        while !runs_in(&dir, left.id()) {
            std::thread::yield_now();
        }
        fs::rename(&aside, &dir).expect("rename");
        let mine = run_dir().expect("a directory of our own");
        assert!(!dir.exists() && mine.path().exists());
        let killed = std::os::unix::process::ExitStatusExt::signal(&left.wait().expect("wait"));
        assert_eq!(killed, Some(9));
        let again = run_dir().expect("another one");
        assert!(mine.path().exists() && again.path() != mine.path(), "those of the living stay");
    }
}
