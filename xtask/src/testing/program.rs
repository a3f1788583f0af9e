//! Test programs: found in what cargo says, run, and their output understood.

use anyhow::Context as _;
use serde_json::Value;
use std::io::{BufRead as _, BufReader};
use std::path::PathBuf;
use std::process::{Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use super::E2E;
use crate::shell::Result;

/// Nothing that `make test` runs takes longer; what does hangs.
pub(super) const PATIENCE: Duration = Duration::from_mins(40);

/// Tests of one program at once, where they have no pods: they wait for most of their time.
const AT_ONCE: &str = "3";

/// What was counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Count {
    pub(super) passed: u32,
    pub(super) failed: u32,
}

/// One test program.
#[derive(Debug)]
pub(super) struct Program {
    pub(super) package: String,
    pub(super) target: String,
    pub(super) file: PathBuf,
    pub(super) dir: PathBuf,
    /// Runs real pods. These run last, and may be tried twice.
    pub(super) pods: bool,
}

impl Program {
    /// Runs it as cargo would.
    pub(super) fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(&self.file);
        command.args(arguments).current_dir(&self.dir).env("CARGO_MANIFEST_DIR", &self.dir).env("BERTH_REAL", "1");
        if !self.pods {
            command.env("RUST_TEST_THREADS", AT_ONCE);
        }
        command
    }
}

/// What cargo says on its standard output; none if it could not build.
pub(super) fn built(command: &mut Command) -> Result<Option<String>> {
    let output = command.stderr(Stdio::inherit()).output().context("cannot run cargo")?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    Ok(output.status.success().then_some(text))
}

/// A test program in cargo's messages.
pub(super) fn program(line: &str) -> Option<Program> {
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
    let pods = [E2E, "berth-devcluster"].contains(&package.as_str());
    Some(Program { pods, package, target, file: file.into(), dir })
}

/// Runs a test program, and reads what it prints.
pub(super) fn execute(mut command: Command, patience: Duration) -> Result<(ExitStatus, Results)> {
    let (reader, writer) = std::io::pipe()?;
    command.stdin(Stdio::null()).stdout(writer.try_clone()?).stderr(writer);
    let mut child = command.spawn().with_context(|| format!("cannot run {}", command.get_program().display()))?;
    // The command holds the writing end; without it the reader would wait for ever.
    drop(command);
    let reader = std::thread::spawn(move || {
        let mut results = Results::default();
        let mut lines = BufReader::new(reader);
        let mut line = vec![];
        while lines.read_until(b'\n', &mut line).is_ok_and(|n| n > 0) {
            let text = String::from_utf8_lossy(&line).into_owned();
            print!("{text}");
            results.line(text.trim_end());
            line.clear();
        }
        results
    });
    let deadline = Instant::now() + patience;
    let status = loop {
        if let Some(status) = child.try_wait()? {
            break status;
        }
        if Instant::now() > deadline {
            println!("FAILED: no end after {patience:?}");
            child.kill()?;
        }
        std::thread::sleep(Duration::from_millis(20));
    };
    // What a test left running may hold the pipe; its output is no longer of interest.
    let grace = Instant::now() + Duration::from_secs(5);
    while !reader.is_finished() && Instant::now() < grace {
        std::thread::sleep(Duration::from_millis(20));
    }
    let results = if reader.is_finished() { reader.join().unwrap_or_default() } else { Results::default() };
    Ok((status, results))
}

/// What a test program prints, read line by line.
#[derive(Debug, Default)]
pub(super) struct Results {
    pub(super) count: Count,
    pub(super) failures: Vec<String>,
    in_failures: bool,
}

impl Results {
    fn line(&mut self, line: &str) {
        if line == "failures:" {
            // Printed twice: before the outputs, and before the names.
            self.in_failures = true;
            self.failures.clear();
        } else if let Some(rest) = line.strip_prefix("test result: ") {
            let number = |word: &str| {
                let before = rest.split(word).next().unwrap_or_default();
                before.split_whitespace().last().and_then(|n| n.parse().ok()).unwrap_or(0)
            };
            self.count = Count { passed: number(" passed"), failed: number(" failed") };
            self.in_failures = false;
        } else if self.in_failures {
            match line.strip_prefix("    ") {
                Some(name) if !name.contains(' ') => self.failures.push(name.to_owned()),
                _ => {}
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_output_of_a_test_program_is_understood() {
        let mut results = Results::default();
        let text = "running 3 tests\ntest a ... ok\ntest b::c ... FAILED\n\nfailures:\n\n---- b::c stdout ----\n    left: 1\n    boom\n\n\nfailures:\n    b::c\n\ntest result: FAILED. 2 passed; 1 failed; 0 ignored; 0 measured; 0 filtered out; finished in 0.00s\n";
        text.lines().for_each(|l| results.line(l));
        assert_eq!(results.count, Count { passed: 2, failed: 1 });
        assert_eq!(results.failures, ["b::c"]);
    }
}
