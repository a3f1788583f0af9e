//! What is run, counted and timed, and what is said of it at the end.

use anyhow::bail;
use std::io::Write as _;
use std::process::Command;
use std::time::{Duration, Instant};

use super::E2E;
use super::program::{Count, PATIENCE, Program, built, execute, program};
use super::progress::{Progress, Step};
use crate::images;
use crate::shell::{Result, cargo, ours, output, run as shell_run, say, target_dir};

/// Crates whose tests need nothing but a processor.
const PURE: &[&str] = &["berth-contract", "berth-api", "berth-pki", "berth-render", "berth-plan", "berth-sim"];

/// What a run has come to.
#[derive(Debug, Default)]
pub(super) struct Report {
    total: Count,
    pub(super) progress: Progress,
    failures: Vec<String>,
    flaky: Vec<String>,
    times: Vec<(String, Duration)>,
    /// What passed in a run before that was cut off.
    before: Step,
    /// What the row for docs/test-results.md says that was run, if there is to be one.
    pub(super) of: Option<Of>,
}

/// A command that has rows in docs/test-results.md.
#[derive(Debug)]
pub(super) struct Of {
    pub(super) command: String,
    pub(super) what: &'static str,
}

impl Report {
    /// A check counts as one.
    pub(super) fn check(&mut self, name: &str, body: impl FnOnce() -> Result<()>) -> Result<()> {
        say(name);
        // Other checks make what the steps after them need.
        let lasting = name.starts_with("lint");
        if lasting && self.passed_before(name) {
            return Ok(());
        }
        let started = Instant::now();
        let result = body();
        let time = started.elapsed();
        self.times.push((name.to_owned(), time));
        if let Err(error) = result {
            println!("FAILED {name}: {error:#}");
            self.failed(name);
            if name.starts_with("prepare") {
                // Without it, everything else would fail for no reason of its own.
                bail!("{error:#}");
            }
        } else {
            self.total.passed += 1;
            if lasting {
                self.progress.keep(name, Step { count: Count { passed: 1, failed: 0 }, again: 0, time })?;
            }
        }
        Ok(())
    }

    fn passed_before(&mut self, name: &str) -> bool {
        let Some(step) = self.progress.before(name) else { return false };
        println!("passed before at this commit: {}", step.count.passed);
        self.total.passed += step.count.passed;
        self.before.again += step.again;
        self.before.time += step.time;
        true
    }

    /// Builds the test programs, of these packages or of all, and runs them.
    pub(super) fn programs(&mut self, fast: bool, packages: &[&str]) -> Result<()> {
        say("building tests");
        let started = Instant::now();
        ours()?;
        let mut build = cargo();
        build.args(["test", "--locked", "--no-run", "--message-format", "json-render-diagnostics"]);
        match (fast, packages) {
            (true, []) => PURE.iter().for_each(|p| {
                build.args(["-p", p]);
            }),
            (_, []) => {
                build.arg("--workspace");
            }
            (_, some) => some.iter().for_each(|p| {
                build.args(["-p", p]);
            }),
        }
        let Some(text) = built(&mut build)? else {
            self.failed("building tests");
            return Ok(());
        };
        self.times.push(("building tests".into(), started.elapsed()));
        let mut programs: Vec<Program> = text.lines().filter_map(program).collect();
        programs.sort_by_key(|p| (p.pods, p.package.clone(), p.target.clone()));
        let on_e2e = programs.iter().any(|p| p.package == E2E);
        if on_e2e {
            // What the e2e tests install, as this checkout has it.
            self.check("images of the operator and the agent", || images::build().map(|_| ()))?;
        }
        for program in &programs {
            self.program(program)?;
        }
        if on_e2e {
            // One cluster serves all of its programs.
            self.check("removing the e2e cluster", || {
                shell_run(Command::new(target_dir().join("debug/devcluster")).args(["down", "--name", "e2e"]))
            })?;
        }
        Ok(())
    }

    fn program(&mut self, program: &Program) -> Result<()> {
        let name = format!("{} {}", program.package, program.target);
        say(&name);
        if self.passed_before(&name) {
            return Ok(());
        }
        let started = Instant::now();
        let (status, results) = execute(program.command(&[]), PATIENCE)?;
        let (mut count, mut again) = (results.count, 0);
        for failed in &results.failures {
            // Only what runs real pods has a second chance.
            if !program.pods {
                self.failures.push(format!("{name} {failed}"));
                continue;
            }
            println!("\nagain: {failed}");
            let (status, _) = execute(program.command(&["--exact", failed, "--nocapture"]), PATIENCE)?;
            if status.success() {
                println!("FLAKY {name} {failed}: it failed, and passed when run again");
                self.flaky.push(format!("{name} {failed}"));
                count.failed -= 1;
                count.passed += 1;
                again += 1;
            } else {
                self.failures.push(format!("{name} {failed}"));
            }
        }
        if !status.success() && results.failures.is_empty() {
            println!("FAILED {name}: it ended with {status}");
            self.failures.push(format!("{name} ({status})"));
            count.failed = count.failed.max(1);
        }
        self.add(&name, Step { count, again, time: started.elapsed() })
    }

    /// Runs one test, by a command that runs nothing else.
    pub(super) fn test(&mut self, name: &str, command: Command, patience: Duration) -> Result<()> {
        say(name);
        if self.passed_before(name) {
            return Ok(());
        }
        let started = Instant::now();
        let (status, _) = execute(command, patience)?;
        let passed = status.success();
        if !passed {
            println!("FAILED {name}: it ended with {status}");
            self.failures.push(name.to_owned());
        }
        let count = Count { passed: passed.into(), failed: (!passed).into() };
        self.add(name, Step { count, again: 0, time: started.elapsed() })
    }

    /// Something that could not even be tried.
    pub(super) fn failed(&mut self, name: &str) {
        self.total.failed += 1;
        self.failures.push(name.to_owned());
    }

    fn add(&mut self, name: &str, step: Step) -> Result<()> {
        self.total.passed += step.count.passed;
        self.total.failed += step.count.failed;
        self.times.push((name.to_owned(), step.time));
        self.progress.keep(name, step)
    }

    /// The row of docs/test-results.md for this run, with what earlier ones at the same commit had done.
    fn row(&self, of: &Of, commit: &str, date: &str) -> String {
        let Count { passed, failed } = self.total;
        let failures = if failed > 0 { format!(" ({})", self.failures.join(", ")) } else { String::new() };
        let again = match self.before.again as usize + self.flaky.len() {
            0 => String::new(),
            n => format!("; {n} of those that passed did so only when they were run again"),
        };
        let time: Duration = self.times.iter().map(|(_, time)| *time).sum::<Duration>() + self.before.time;
        let whole = if self.before.time.is_zero() { "" } else { ", in several runs" };
        let commit = commit.get(..7).unwrap_or(commit);
        let minutes = (time.as_secs() + 30) / 60;
        let Of { command, what } = of;
        format!(
            "| `{command}` | {what} | `{commit}`, {date} | \
             {passed} passed, {failed} failed{failures}{again}; {minutes} min{whole} |"
        )
    }

    /// Prints it, and ends with exit code 1 if anything failed.
    pub(super) fn end(mut self) {
        self.times.sort_by_key(|(_, t)| std::cmp::Reverse(*t));
        say("what took longest");
        for (name, time) in self.times.iter().take(8) {
            println!("{:>6.1} s  {name}", time.as_secs_f32());
        }
        for name in &self.flaky {
            println!("FLAKY  {name}");
        }
        for name in &self.failures {
            println!("FAILED {name}");
        }
        let today = output(Command::new("date").args(["-u", "+%F"]));
        if let (Some(of), Some(commit), Ok(today)) = (&self.of, self.progress.commit(), today) {
            say("for docs/test-results.md");
            println!("{}", self.row(of, &commit, today.trim()));
        }
        println!("\n{} passed, {} failed", self.total.passed, self.total.failed);
        let _ = std::io::stdout().flush();
        if self.total.failed > 0 || self.total.passed == 0 {
            // The count is the last line; nothing is said after it.
            std::process::exit(1);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_run_ends_with_the_row_for_the_docs() {
        let mut report = Report { total: Count { passed: 812, failed: 0 }, ..Report::default() };
        report.times = vec![("a".into(), Duration::from_secs(50)), ("b".into(), Duration::from_secs(100))];
        let of = Of { command: "make test-all".into(), what: "all checks and tests" };
        let row = report.row(&of, "c0ffee123456", "2026-11-21");
        assert_eq!(
            row,
            "| `make test-all` | all checks and tests | `c0ffee1`, 2026-11-21 | 812 passed, 0 failed; 3 min |"
        );
        report.before = Step { again: 1, time: Duration::from_hours(1), ..Step::default() };
        (report.flaky, report.failures) = (vec!["c".into()], vec!["d".into(), "e".into()]);
        report.total.failed = 2;
        let row = report.row(&of, "c0ffee123456", "2026-11-21");
        assert!(
            row.ends_with(
                "| 812 passed, 2 failed (d, e); 2 of those that passed did so only when they were run again; 63 min, in several runs |"
            ),
            "{row}"
        );
    }

    #[test]
    fn a_test_that_failed_is_run_again_by_the_next_run_and_one_that_passed_is_not() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("c0ffee");
        let run = |name: &str, program: &str| {
            let mut report = Report { progress: Progress::at(&file), ..Report::default() };
            report.test(name, Command::new(program), PATIENCE).unwrap();
            (report.total, report.failures, report.times.len())
        };
        assert_eq!(run("a", "true"), (Count { passed: 1, failed: 0 }, vec![], 1));
        assert_eq!(run("b", "false"), (Count { passed: 0, failed: 1 }, vec!["b".to_owned()], 1));
        assert_eq!(run("a", "false"), (Count { passed: 1, failed: 0 }, vec![], 0));
        assert_eq!(run("b", "true"), (Count { passed: 1, failed: 0 }, vec![], 1));
    }
}
