//! Test programs: found in what cargo says, and run.

use anyhow::Context as _;
use serde_json::Value;
use std::io::{BufRead as _, BufReader};
use std::mem;
use std::path::PathBuf;
use std::process::{Command, ExitStatus, Stdio};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use super::E2E;
use super::results::Results;
use super::running::Child;
use super::speed;
use crate::shell::{Result, in_checkout, output};

/// Nothing that `make test` runs takes longer, beside whatever else runs; what does hangs.
pub(super) const TIMEOUT: Duration = Duration::from_mins(75);

/// Tests of one program at once, where they have no pods: they wait for most of their time.
const AT_ONCE: &str = "3";

/// How long output is waited for once the program has ended: what it left running may hold the pipe.
const GRACE: Duration = Duration::from_secs(5);

/// One test program.
#[derive(Clone, Debug)]
pub(crate) struct Program {
    pub(super) package: String,
    /// Such as `test sweep`.
    pub(super) target: String,
    pub(super) file: PathBuf,
    pub(super) dir: PathBuf,
}

impl Program {
    pub(super) fn name(&self) -> String {
        format!("{} {}", self.package, self.target)
    }

    /// Runs it as cargo would.
    pub(crate) fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(&self.file);
        command.args(arguments).current_dir(&self.dir).env("CARGO_MANIFEST_DIR", &self.dir).env("BERTH_REAL", "1");
        command.env("INSTA_WORKSPACE_ROOT", crate::root()).env(speed::VARIABLE, speed::factor().to_string());
        // As .cargo/config.toml has it.
        command.env("RUST_MIN_STACK", "8388608");
        if !self.has_pods() {
            command.env("RUST_TEST_THREADS", AT_ONCE);
        }
        command
    }

    /// Real pods are slow where a machine is busy: a test that failed is run again.
    pub(super) fn has_pods(&self) -> bool {
        self.is_integration() && [E2E, "berth-devcluster"].contains(&&*self.package)
    }

    /// Its unit tests are not: these wait for nothing.
    pub(super) fn is_integration(&self) -> bool {
        self.target.starts_with("test ")
    }

    /// Its tests take turns at the cluster `e2e`.
    pub(super) fn shares_a_cluster(&self) -> bool {
        self.package == E2E && self.is_integration() && !self.makes_a_cluster()
    }

    /// It calls `make`, which waits as long as cargo builds something else.
    pub(super) fn makes_a_cluster(&self) -> bool {
        self.package == E2E && self.target == "test make"
    }

    /// Names of its tests, also of those that are ignored.
    pub(super) fn tests(&self) -> Result<Vec<String>> {
        Ok(listed(&output(&mut self.command(&["--list", "--format", "terse"]))?))
    }
}

/// What cargo says on its standard output, and what it says to people. No first one: it could not build.
pub(crate) fn built(command: &mut Command) -> Result<(Option<String>, String)> {
    let output = command.stdin(Stdio::null()).output().context("cannot run cargo")?;
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    Ok((output.status.success().then(|| text(&output.stdout)), text(&output.stderr)))
}

/// A test program in cargo's messages.
pub(crate) fn program(line: &str) -> Option<Program> {
    let message: Value = serde_json::from_str(line).ok()?;
    let file = message["executable"].as_str().filter(|_| message["profile"]["test"] == true)?;
    let manifest = PathBuf::from(message["manifest_path"].as_str()?);
    let dir = manifest.parent()?.to_owned();
    // `path+file:///…/crates/plan#berth-plan@0.1.0`, or without the name where that is the folder's.
    let id = message["package_id"].as_str()?.rsplit(['#', '/']).next()?;
    let package = match id.split_once('@') {
        Some((name, _)) => name.to_owned(),
        None => dir.file_name()?.to_string_lossy().into_owned(),
    };
    let kind = message["target"]["kind"][0].as_str()?;
    let target = format!("{kind} {}", message["target"]["name"].as_str()?);
    Some(Program { package, target, file: file.into(), dir: in_checkout(&dir) })
}

/// Tests, from what a test program says of itself.
fn listed(text: &str) -> Vec<String> {
    text.lines().filter_map(|line| line.strip_suffix(": test")).map(ToOwned::to_owned).collect()
}

/// Where the output of a program goes while it runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Screen {
    /// To the screen at once: nothing else runs.
    Live,
    /// Kept, and printed as a whole when it has ended.
    Kept,
}

/// A program that has ended.
#[derive(Debug)]
pub(super) struct Ran {
    pub(super) status: ExitStatus,
    pub(super) results: Results,
    /// What it printed, where that was [`Screen::Kept`].
    pub(super) text: String,
}

/// Runs a program, and reads what it prints.
pub(super) fn execute(mut command: Command, timeout: Duration, screen: Screen) -> Result<Ran> {
    let (reader, writer) = std::io::pipe()?;
    command.stdin(Stdio::null()).stdout(writer.try_clone()?).stderr(writer);
    let mut child = command.spawn().with_context(|| format!("cannot run {}", command.get_program().display()))?;
    let _child = Child::new(child.id());
    // The command holds the writing end; without it the reader would wait for ever.
    drop(command);
    let said = Arc::new(Mutex::new((Results::default(), String::new())));
    let heard = said.clone();
    let reader = std::thread::spawn(move || {
        let mut lines = BufReader::new(reader);
        let mut line = vec![];
        while lines.read_until(b'\n', &mut line).is_ok_and(|n| n > 0) {
            let text = String::from_utf8_lossy(&line).into_owned();
            let mut heard = heard.lock().unwrap_or_else(PoisonError::into_inner);
            heard.0.line(text.trim_end());
            match screen {
                Screen::Live => print!("{text}"),
                Screen::Kept => heard.1.push_str(&text),
            }
            line.clear();
        }
    });
    let timeout = timeout.mul_f64(speed::factor());
    let deadline = Instant::now() + timeout;
    let mut late = false;
    let status = loop {
        if let Some(status) = child.try_wait()? {
            break status;
        }
        if Instant::now() > deadline && !late {
            late = true;
            child.kill()?;
        }
        std::thread::sleep(Duration::from_millis(20));
    };
    let grace = Instant::now() + GRACE;
    while !reader.is_finished() && Instant::now() < grace {
        std::thread::sleep(Duration::from_millis(20));
    }
    let (results, mut text) = mem::take(&mut *said.lock().unwrap_or_else(PoisonError::into_inner));
    if late {
        text.extend(["\nit did not end within ", &format!("{timeout:?}"), "\n"]);
    }
    Ok(Ran { status, results, text })
}

/// One for tests.
#[cfg(test)]
pub(super) fn named(package: &str, target: &str) -> Program {
    named_at(package, target, std::path::Path::new("/t"))
}

/// Likewise, that can be run.
#[cfg(test)]
pub(super) fn named_at(package: &str, target: &str, file: &std::path::Path) -> Program {
    Program { package: package.into(), target: target.into(), file: file.into(), dir: "/".into() }
}

#[cfg(test)]
mod tests {
    use super::super::results::Count;
    use super::super::running::OWN_PROGRAMS;
    use super::*;

    #[test]
    fn what_a_program_left_running_costs_no_count() {
        let _alone = OWN_PROGRAMS.lock().unwrap_or_else(PoisonError::into_inner);
        let mut command = Command::new("sh");
        command.args(["-c", "sleep 30 & echo 'test a ... ok'; echo 'test result: ok. 1 passed; 0 failed; 2 ignored'"]);
        let began = Instant::now();
        let ran = execute(command, TIMEOUT, Screen::Kept).unwrap();
        assert!(ran.status.success() && began.elapsed() < 3 * GRACE);
        assert_eq!(ran.results.count, Count { passed: 1, skipped: 2, ..Count::default() });
        assert!(ran.text.starts_with("test a ... ok\n"), "{}", ran.text);
    }

    #[test]
    fn what_hangs_is_ended_and_what_it_said_is_counted() {
        let _alone = OWN_PROGRAMS.lock().unwrap_or_else(PoisonError::into_inner);
        let mut command = Command::new("sh");
        command.args(["-c", "echo 'test a ... ok'; exec sleep 30"]);
        let ran = execute(command, Duration::from_millis(300), Screen::Kept).unwrap();
        assert_eq!((ran.status.success(), ran.results.ended, ran.results.count.passed), (false, false, 1));
        assert!(ran.text.contains("did not end within"), "{}", ran.text);
    }

    #[test]
    fn tests_are_found_in_what_a_program_says() {
        let text = "clock::ahead: test\nlease::one_leads: test\nnothing: benchmark\n\n2 tests, 1 benchmark\n";
        assert_eq!(listed(text), ["clock::ahead", "lease::one_leads"]);
    }

    #[test]
    fn one_with_pods_takes_its_turn_unless_it_calls_make() {
        let turns = |target: &str| {
            let program = named(E2E, target);
            (program.has_pods(), program.shares_a_cluster(), program.makes_a_cluster())
        };
        assert_eq!(turns("test usual"), (true, true, false));
        assert_eq!(turns("test make"), (true, false, true));
        assert_eq!(turns("lib berth_e2e"), (false, false, false));
    }
}
