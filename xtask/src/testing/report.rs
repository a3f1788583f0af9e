//! What is counted and timed, and what is said of it at the end.

use std::collections::BTreeMap;
use std::io::Write as _;
use std::process::Command;
use std::time::{Duration, Instant};

use super::progress::{Progress, Step};
use super::results::{Count, LeftTo, reason};
use super::runs::Run;
use super::speed;
use super::steps::Outcome;
use crate::evidence::last::{self, SOURCE};
use crate::shell::{Result, output, say};

/// What a run has come to.
#[derive(Debug)]
pub(super) struct Report {
    began: Instant,
    total: Count,
    progress: Progress,
    failures: Vec<String>,
    /// Why, of those that said so.
    reasons: BTreeMap<String, String>,
    flaky: Vec<String>,
    late: Vec<String>,
    left_to: LeftTo,
    times: Vec<(String, Duration)>,
    /// How long that took which passed in a run before that was cut off.
    before: Duration,
    /// What the entry for docs/evidence.yaml says that was run, if there is to be one.
    of: Option<Of>,
}

/// A command whose last run is in docs/evidence.yaml.
#[derive(Debug)]
pub(super) struct Of {
    pub(super) command: String,
    pub(super) what: &'static str,
}

impl Report {
    pub(super) fn new(progress: Progress, of: Option<Of>) -> Self {
        Self {
            began: Instant::now(),
            total: Count::default(),
            progress,
            failures: vec![],
            reasons: BTreeMap::new(),
            flaky: vec![],
            late: vec![],
            left_to: LeftTo::new(),
            times: vec![],
            before: Duration::ZERO,
            of,
        }
    }

    /// Whether a step passed before at this commit: then it counts, and need not be run.
    pub(super) fn passed_before(&mut self, name: &str) -> bool {
        let Some(step) = self.progress.before(name) else { return false };
        println!("passed before at this commit: {name}");
        self.before += step.time;
        self.count(step.count, &step.left_to);
        true
    }

    /// Takes in what came of a step, and prints what it said.
    pub(super) fn add(&mut self, name: &str, outcome: Outcome) {
        let Outcome { count, failures, late, flaky, text, left_to, time, lasting } = outcome;
        say(&format!("{name} ({:.1} s)", time.as_secs_f32()));
        if !text.is_empty() {
            println!("{}", text.trim_end());
        }
        for failure in &failures {
            println!("FAILED {name} {failure}");
        }
        let named = |f: &String| format!("{name} {f}").trim_end().to_owned();
        let why = |f: &String| Some((named(f), reason(&text, f)?));
        self.reasons.extend(failures.iter().chain(&flaky).filter_map(why));
        self.failures.extend(failures.iter().map(named));
        self.flaky.extend(flaky.iter().map(named));
        self.late.extend(late.iter().map(|l| format!("{name}: {l}")));
        self.count(count, &left_to);
        self.times.push((name.to_owned(), time));
        if lasting && let Err(error) = self.progress.keep(name, &Step { count, left_to, time }) {
            println!("it will be run again, since that it passed cannot be kept: {error:#}");
        }
        let _ = std::io::stdout().flush();
    }

    fn count(&mut self, count: Count, left_to: &LeftTo) {
        self.total += count;
        for (command, n) in left_to {
            *self.left_to.entry(command.clone()).or_default() += n;
        }
    }

    /// The entry for docs/evidence.yaml of this run, with what earlier ones at the same commit had done.
    fn last(&self, of: &Of, commit: &str, date: &str, time: Duration) -> last::LastRun {
        let Count { passed, failed, skipped, flaky } = self.total;
        let failures = if failed > 0 { format!(" ({})", self.failures.join(", ")) } else { String::new() };
        let flaky = if flaky > 0 { format!("; {flaky} more passed at the second try") } else { String::new() };
        let whole = if self.before.is_zero() { "" } else { ", in several runs" };
        let commit = commit.get(..7).unwrap_or(commit);
        let minutes = ((time + self.before).as_secs() + 30) / 60;
        let Of { command, what } = of;
        last::LastRun {
            run: command.clone(),
            what: (*what).to_owned(),
            commit: Some(commit.to_owned()),
            date: Some(date.to_owned()),
            result: format!(
                "{passed} passed, {failed} failed{failures}, {skipped} skipped{flaky}; {minutes} min{whole}"
            ),
        }
    }

    /// What is said last. Programs read the last line.
    fn closing(&self) -> String {
        let Count { passed, failed, skipped, flaky } = self.total;
        let why = |name: &String| match self.reasons.get(name) {
            Some(reason) => format!("\n{}", indented(reason)),
            None => String::new(),
        };
        let flaky_ones = self.flaky.iter().map(|name| format!("FLAKY  {name}{}", why(name)));
        let red = self.failures.iter().map(|name| format!("FAILED {name}{}", why(name)));
        let mut lines: Vec<String> = flaky_ones.chain(red).collect();
        lines.extend(self.late.iter().map(|late| format!("LATE   {late}")));
        lines.push(String::new());
        if flaky > 0 {
            lines.push(format!("{flaky} passed at the second try, after a failure: not counted as passed."));
        }
        if skipped > 0 {
            let by: Vec<_> = self.left_to.iter().map(|(command, n)| format!("`{command}` runs {n}")).collect();
            lines.push(format!("{skipped} left out, counted as skipped: {}.", by.join(", ")));
        }
        lines.push(format!("{passed} passed, {failed} failed, {skipped} skipped"));
        lines.join("\n")
    }

    fn record(&self, date: &str, time: Duration) -> Result<()> {
        let Some(factor) = speed::measured() else { return Ok(()) };
        let run = Run {
            date: date.to_owned(),
            commit: head()?,
            time,
            factor,
            passed: self.total.passed,
            failed: self.failures.clone(),
            flaky: self.flaky.clone(),
        };
        run.keep()
    }

    /// Prints it, and ends with exit code 1 if anything failed.
    pub(super) fn end(mut self) {
        self.times.sort_by_key(|(_, t)| std::cmp::Reverse(*t));
        let time = self.began.elapsed();
        say(&format!("what took longest of {:.1} minutes", time.as_secs_f32() / 60.0));
        for (name, time) in self.times.iter().take(12) {
            println!("{:>6.1} s  {name}", time.as_secs_f32());
        }
        println!("by part, of which several run at once: {}", by_part(&self.times));
        let today = output(Command::new("date").args(["-u", "+%F"]));
        if let (Some(of), Some(commit), Ok(today)) = (&self.of, self.progress.commit(), &today) {
            say(&format!("for {SOURCE}, in place of its last run"));
            print!("{}", self.last(of, &commit, today.trim(), time).entry());
        }
        if let Err(error) = self.record(today.unwrap_or_default().trim(), time) {
            println!("this run is not in the record: {error:#}");
        }
        println!("{}", self.closing());
        let _ = std::io::stdout().flush();
        if self.total.failed > 0 || self.total.passed == 0 {
            // The count is the last line; nothing is said after it.
            std::process::exit(1);
        }
    }
}

/// What follows a line as its detail; as much of each line as helps.
fn indented(text: &str) -> String {
    let line = |line: &str| format!("       {}", line.chars().take(600).collect::<String>());
    text.lines().map(line).collect::<Vec<_>>().join("\n")
}

/// The commit that is checked out; with a `+` if that is not all.
fn head() -> Result<String> {
    let git = |args: &[&str]| output(Command::new("git").current_dir(crate::root()).args(args));
    let more = if git(&["status", "--porcelain"])?.trim().is_empty() { "" } else { "+" };
    Ok(format!("{}{more}", git(&["rev-parse", "--short=12", "HEAD"])?.trim()))
}

/// Minutes of each part of a run.
fn by_part(times: &[(String, Duration)]) -> String {
    let of = |name: &str| match name {
        _ if name.starts_with("Kubernetes' binaries") => "Kubernetes' binaries",
        _ if name.starts_with("lint") => "checks",
        _ if name.starts_with("berth-e2e test") || name.starts_with("berth-devcluster test") => "tests with pods",
        _ if name.starts_with("berth-") || name.starts_with("xtask ") => "other tests",
        _ => "builds and the rest",
    };
    let mut parts: BTreeMap<&str, Duration> = BTreeMap::new();
    for (name, time) in times {
        *parts.entry(of(name)).or_default() += *time;
    }
    let minutes = |(part, time): (&str, Duration)| format!("{part} {:.1} min", time.as_secs_f32() / 60.0);
    parts.into_iter().map(minutes).collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_runs_time_is_told_by_part() {
        let step = |name: &str, seconds| (name.to_owned(), Duration::from_secs(seconds));
        let times = [
            step("berth-e2e test usual create", 90),
            step("berth-plan lib berth_plan", 30),
            step("berth-e2e test usual ha", 90),
            step("lint: clippy", 60),
            step("building tests", 6),
        ];
        assert_eq!(
            by_part(&times),
            "builds and the rest 0.1 min, checks 1.0 min, other tests 0.5 min, tests with pods 3.0 min"
        );
    }

    fn report(of: &[(&str, Outcome)]) -> Report {
        let mut report = Report::new(Progress::default(), None);
        for (name, outcome) in of {
            report.add(name, outcome.clone());
        }
        report
    }

    fn counted(passed: u32, failed: u32, skipped: u32, flaky: u32) -> Outcome {
        Outcome { count: Count { passed, failed, skipped, flaky }, ..Outcome::default() }
    }

    fn left(to: &[(&str, u32)]) -> LeftTo {
        to.iter().map(|(command, n)| ((*command).to_owned(), *n)).collect()
    }

    #[test]
    fn a_run_ends_with_a_line_that_programs_read() {
        assert_eq!(report(&[("a", counted(630, 0, 0, 0))]).closing(), "\n630 passed, 0 failed, 0 skipped");
    }

    #[test]
    fn what_was_left_out_and_what_passed_at_the_second_try_has_not_passed() {
        let flaky = Outcome {
            flaky: vec!["b::c".into()],
            left_to: left(&[("make chaos", 1), ("make test-all", 1)]),
            ..counted(3, 0, 2, 1)
        };
        let failed =
            Outcome { failures: vec!["d".into()], left_to: left(&[("make test-all", 1)]), ..counted(0, 1, 1, 0) };
        assert_eq!(
            report(&[("x test e", flaky), ("y test f", failed)]).closing(),
            "FLAKY  x test e b::c\nFAILED y test f d\n\n\
             1 passed at the second try, after a failure: not counted as passed.\n\
             3 left out, counted as skipped: `make chaos` runs 1, `make test-all` runs 2.\n\
             3 passed, 1 failed, 3 skipped"
        );
    }

    #[test]
    fn a_run_ends_with_why_it_failed() {
        let text = "thread 'd' (1) panicked at x.rs:1:1:\nboom\nof it\n".to_owned();
        let failed = Outcome { failures: vec!["d".into()], text, ..counted(0, 1, 0, 0) };
        assert!(report(&[("y", failed)]).closing().starts_with("FAILED y d\n       boom\n       of it\n"));
    }

    #[test]
    fn a_run_ends_with_its_entry_for_the_docs() {
        let of = Of { command: "make test-all".into(), what: "all checks and tests" };
        let mut report = report(&[("a", counted(812, 0, 2, 0))]);
        let time = Duration::from_secs(150);
        assert_eq!(
            report.last(&of, "c0ffee123456", "2026-11-21", time).entry(),
            "  - run: \"make test-all\"\n    what: \"all checks and tests\"\n    commit: \"c0ffee1\"\n    date: \"2026-11-21\"\n    \
             result: \"812 passed, 0 failed, 2 skipped; 3 min\"\n"
        );
        report.before = Duration::from_hours(1);
        report.add("b", Outcome { failures: vec!["d".into(), "e".into()], ..counted(0, 2, 0, 1) });
        let result =
            "812 passed, 2 failed (b d, b e), 2 skipped; 1 more passed at the second try; 63 min, in several runs";
        assert_eq!(report.last(&of, "c0ffee123456", "2026-11-21", time).result, result);
    }

    #[test]
    fn a_step_that_failed_is_run_again_by_the_next_run_and_one_that_passed_is_not() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("c0ffee");
        let run = |name: &str, outcome: Outcome| {
            let mut report = Report::new(Progress::at(&file), None);
            if !report.passed_before(name) {
                let left_to = left(&[("make chaos", outcome.count.skipped)]);
                report.add(name, Outcome { lasting: true, left_to, ..outcome });
            }
            (report.total, report.left_to.values().sum::<u32>(), report.times.len())
        };
        let (passed, failed) = (counted(1, 0, 2, 0), counted(0, 1, 0, 0));
        assert_eq!(run("a", passed.clone()), (passed.count, 2, 1));
        assert_eq!(run("b", failed.clone()), (failed.count, 0, 1));
        assert_eq!(run("a", failed.clone()), (passed.count, 2, 0));
        assert_eq!(run("b", passed.clone()), (passed.count, 2, 1));
    }
}
