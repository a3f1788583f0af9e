//! What is run, and what comes of it: checks, and programs with tests.

use std::process::Command;
use std::time::{Duration, Instant};

use super::part::Part;
use super::program::{Ran, Screen, TIMEOUT, execute};
use super::results::{Count, LeftTo, Results};
use crate::shell::Result;

/// What came of a step.
#[derive(Clone, Debug, Default)]
pub(super) struct Outcome {
    pub(super) count: Count,
    /// What failed of it; an empty name where it has no parts.
    pub(super) failures: Vec<String>,
    /// Deadlines that were missed, and what else ran.
    pub(super) late: Vec<String>,
    /// What failed, and passed when it was run again.
    pub(super) flaky: Vec<String>,
    /// What it printed, where that was not on the screen at once.
    pub(super) text: String,
    pub(super) left_to: LeftTo,
    pub(super) time: Duration,
    /// Whether a later run need not do it again. Others make what steps after them need.
    pub(super) lasting: bool,
}

impl Outcome {
    /// Something without parts that passed.
    pub(super) fn passed() -> Self {
        Self { count: Count { passed: 1, ..Count::default() }, ..Self::default() }
    }

    /// Something without parts that failed.
    pub(super) fn failed(why: String) -> Self {
        Self { count: Count { failed: 1, ..Count::default() }, failures: vec![why], ..Self::default() }
    }

    /// Something that could not even be tried.
    pub(super) fn not_run(why: &str) -> Self {
        Self::failed(format!("(not run: {why})"))
    }

    /// Something that another command does.
    pub(super) fn left_out(skipped: u32, to: &str) -> Self {
        let left_to = [(to.to_owned(), skipped)].into();
        Self { count: Count { skipped, ..Count::default() }, left_to, ..Self::default() }
    }

    /// With what came of more of the same.
    fn and(mut self, more: Self) -> Self {
        self.count += more.count;
        self.failures.extend(more.failures);
        self.flaky.extend(more.flaky);
        self.text.push_str(&more.text);
        for (command, n) in more.left_to {
            *self.left_to.entry(command).or_default() += n;
        }
        self
    }
}

/// Runs something; an error is a failure.
pub(super) fn timed(body: impl FnOnce() -> Result<Outcome>) -> Outcome {
    let began = Instant::now();
    let outcome = body().unwrap_or_else(|e| Outcome::not_run(&format!("{e:#}")));
    Outcome { time: began.elapsed(), ..outcome }
}

/// A command that counts as one: a check, or a test that is run alone.
pub(super) fn check(command: Command, timeout: Duration, screen: Screen) -> Outcome {
    timed(|| {
        let Ran { status, text, .. } = execute(command, timeout, screen)?;
        let outcome = if status.success() { Outcome::passed() } else { Outcome::failed(format!("({status})")) };
        Ok(Outcome { text, ..outcome })
    })
}

/// Commands that run what is `#[ignore]`d: its reason begins with one of them.
const COMMANDS: [&str; 2] = [TEST_ALL, "make chaos"];

const TEST_ALL: &str = "make test-all";

/// The tests of a part. `all`: with those that `make test` leaves to `make test-all`.
pub(super) fn tests(part: &Part, all: bool) -> Outcome {
    timed(|| {
        let mut again = |failed: &str| {
            let arguments = ["--exact", failed, "--include-ignored", "--nocapture"];
            let ran = execute(part.program.command(&arguments), TIMEOUT, Screen::Kept)?;
            Ok((ran.status.success(), ran.text))
        };
        let mut run = |command: Command| {
            let again: Option<Again> = if part.program.has_pods() { Some(&mut again) } else { None };
            judged(execute(command, TIMEOUT, Screen::Kept)?, again)
        };
        let (mut outcome, ignored) = run(part.command())?;
        let late: Vec<&str> = ignored.iter().filter(|(_, to)| *to == TEST_ALL).map(|(test, _)| &**test).collect();
        if all && !late.is_empty() {
            outcome.count.skipped -= outcome.left_to.remove(TEST_ALL).unwrap_or_default();
            let (more, _) = run(part.program.command(&[&["--ignored", "--exact"], &late[..]].concat()))?;
            outcome = outcome.and(more);
        }
        Ok(Outcome { lasting: true, ..outcome })
    })
}

/// Runs one test again: whether it passed, and what it printed.
type Again<'a> = &'a mut dyn FnMut(&str) -> Result<(bool, String)>;

/// What came of it, and which tests were left out to which command.
type Judged = (Outcome, Vec<(String, &'static str)>);

fn judged(ran: Ran, mut again: Option<Again>) -> Result<Judged> {
    let Ran { status, results, text } = ran;
    let Results { count, failures, ignored, ended, .. } = results;
    let mut outcome = Outcome { count, text, ..Outcome::default() };
    for failed in failures {
        let Some(again) = again.as_mut() else {
            outcome.failures.push(failed);
            continue;
        };
        let (passed, text) = again(&failed)?;
        outcome.text.extend(["\nagain: ", &failed, "\n", &text]);
        if passed {
            outcome.count.failed = outcome.count.failed.saturating_sub(1);
            outcome.count.flaky += 1;
            outcome.flaky.push(failed);
        } else {
            outcome.failures.push(failed);
        }
    }
    let named = outcome.failures.len() + outcome.flaky.len();
    if !ended || (!status.success() && named == 0) {
        outcome.failures.push(format!("({status}, before it said what all of its tests came to)"));
    }
    let mut left = vec![];
    for (test, why) in ignored {
        let command = COMMANDS.into_iter().find(|command| why.starts_with(&format!("{command}: ")));
        if let Some(command) = command {
            *outcome.left_to.entry(command.to_owned()).or_default() += 1;
            left.push((test, command));
        } else {
            // Else nobody could say who runs it.
            outcome.count.skipped = outcome.count.skipped.saturating_sub(1);
            let commands = COMMANDS.map(|command| format!("`{command}: `")).join(" or ");
            outcome.failures.push(format!("{test} (ignored, and why does not begin with {commands})"));
        }
    }
    outcome.count.failed = outcome.count.failed.max(u32::try_from(outcome.failures.len())?);
    Ok((outcome, left))
}

#[cfg(test)]
mod tests {
    use super::super::running::OWN_PROGRAMS;
    use super::*;
    use std::sync::PoisonError;

    fn ran(script: &str) -> Ran {
        let mut command = Command::new("sh");
        command.args(["-c", script]);
        let _alone = OWN_PROGRAMS.lock().unwrap_or_else(PoisonError::into_inner);
        execute(command, TIMEOUT, Screen::Kept).unwrap()
    }

    const FAILED: &str = "printf 'test a ... ok\ntest b ... FAILED\nfailures:\n\nfailures:\n    b\n\n\
                          test result: FAILED. 1 passed; 1 failed; 0 ignored\n'; exit 101";

    #[test]
    fn only_with_pods_a_test_is_run_again_and_then_it_is_flaky_and_has_not_passed() {
        let outcome = judged(ran(FAILED), None).unwrap().0;
        assert_eq!((outcome.count.passed, outcome.count.failed, &*outcome.failures), (1, 1, &["b".to_owned()][..]));
        let mut second = |name: &str| Ok((name == "b", "well".to_owned()));
        let outcome = judged(ran(FAILED), Some(&mut second)).unwrap().0;
        assert_eq!(outcome.count, Count { passed: 1, flaky: 1, ..Count::default() });
        assert_eq!((&*outcome.flaky, outcome.failures.len()), (&["b".to_owned()][..], 0));
        assert!(outcome.text.ends_with("again: b\nwell"), "{}", outcome.text);
        let mut second = |_: &str| Ok((false, String::new()));
        let outcome = judged(ran(FAILED), Some(&mut second)).unwrap().0;
        assert_eq!((outcome.count.failed, outcome.failures.len()), (1, 1));
    }

    #[test]
    fn a_program_that_does_not_say_what_its_tests_came_to_has_failed() {
        for script in ["printf 'test a ... ok\n'", "exit 3", "kill -9 $$"] {
            let outcome = judged(ran(script), None).unwrap().0;
            assert_eq!((outcome.count.failed, outcome.failures.len()), (1, 1), "{script}");
        }
        // What else it lost does not make up for one that passes the second time.
        let mut second = |_: &str| Ok((true, String::new()));
        let outcome = judged(ran("printf 'test a ... FAILED\n'; exit 3"), Some(&mut second)).unwrap().0;
        assert_eq!((outcome.count.failed, outcome.count.flaky), (1, 1));
    }

    #[test]
    fn what_is_left_out_says_by_which_command_it_runs() {
        let script = |why: &str| {
            format!("printf 'test a ... ok\ntest b ... ignored{why}\ntest result: ok. 1 passed; 0 failed; 1 ignored\n'")
        };
        let judge = |why: &str| judged(ran(&script(why)), None).unwrap();
        let passed = Count { passed: 1, ..Count::default() };
        for command in COMMANDS {
            let (outcome, left) = judge(&format!(", {command}: it takes an hour"));
            assert_eq!(outcome.count, Count { skipped: 1, ..passed });
            assert_eq!((outcome.left_to, left), ([(command.to_owned(), 1)].into(), vec![("b".to_owned(), command)]));
        }
        for why in ["", ", it takes an hour", ", make lint: it takes an hour"] {
            assert_eq!(judge(why).0.count, Count { failed: 1, ..passed }, "{why}");
        }
    }

    #[test]
    fn what_another_command_runs_is_run_with_all_but_for_chaos() {
        // As a test program: what it is asked for decides.
        let script = "#!/bin/sh\ncase \"$*\" in\n\
            '--ignored --exact late') printf 'test late ... ok\ntest result: ok. 1 passed; 0 failed; 0 ignored\n';;\n\
            *) printf 'test a ... ok\ntest late ... ignored, make test-all: long\ntest sweep ... ignored, make chaos: long\n\
            test result: ok. 1 passed; 0 failed; 2 ignored\n';;\nesac\n";
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("program");
        std::fs::write(&file, script).unwrap();
        std::fs::set_permissions(&file, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
        let part = Part::whole(super::super::program::named_at("berth-operator", "test alone", &file));
        let usual = tests(&part, false);
        assert_eq!(usual.count, Count { passed: 1, skipped: 2, ..Count::default() });
        let all = tests(&part, true);
        assert_eq!(
            (all.count, all.left_to),
            (Count { passed: 2, skipped: 1, ..Count::default() }, [("make chaos".to_owned(), 1)].into())
        );
    }
}
