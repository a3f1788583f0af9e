//! What is run, and what comes of it: checks, and programs with tests.

use std::process::Command;
use std::time::{Duration, Instant};

use super::program::{Program, Ran, Screen, TIMEOUT, execute};
use super::results::{Count, Results};
use crate::shell::Result;

/// What came of a step.
#[derive(Clone, Debug, Default)]
pub(super) struct Outcome {
    pub(super) count: Count,
    /// What failed of it; an empty name where it has no parts.
    pub(super) failures: Vec<String>,
    /// What failed, and passed when it was run again.
    pub(super) flaky: Vec<String>,
    /// What it printed, where that was not on the screen at once.
    pub(super) text: String,
    /// The command that runs what was left out.
    pub(super) left_to: &'static str,
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
    pub(super) fn left_out(skipped: u32, left_to: &'static str) -> Self {
        Self { count: Count { skipped, ..Count::default() }, left_to, ..Self::default() }
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

/// The tests of a program. `all`: with those that `make test` leaves out.
pub(super) fn tests(program: &Program, all: bool) -> Outcome {
    timed(|| {
        let include = all && program.left_to() == "make test-all";
        let arguments = if include { &["--include-ignored"][..] } else { &[] };
        let ran = execute(program.command(arguments), TIMEOUT, Screen::Kept)?;
        let mut again = |failed: &str| {
            let arguments = ["--exact", failed, "--include-ignored", "--nocapture"];
            let ran = execute(program.command(&arguments), TIMEOUT, Screen::Kept)?;
            Ok((ran.status.success(), ran.text))
        };
        let again: Option<Again> = if program.has_pods() { Some(&mut again) } else { None };
        Ok(Outcome { lasting: true, ..judged(ran, program.left_to(), again)? })
    })
}

/// Runs one test again: whether it passed, and what it printed.
type Again<'a> = &'a mut dyn FnMut(&str) -> Result<(bool, String)>;

fn judged(ran: Ran, left_to: &'static str, mut again: Option<Again>) -> Result<Outcome> {
    let Ran { status, results, text } = ran;
    let Results { count, failures, ignored, ended, .. } = results;
    let mut outcome = Outcome { count, text, left_to, ..Outcome::default() };
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
    for (test, why) in ignored {
        // Else nobody could say who runs it.
        if !why.starts_with(&format!("{left_to}: ")) {
            outcome.count.skipped = outcome.count.skipped.saturating_sub(1);
            outcome.failures.push(format!("{test} (ignored, and why does not begin with `{left_to}: `)"));
        }
    }
    outcome.count.failed = outcome.count.failed.max(u32::try_from(outcome.failures.len())?);
    Ok(outcome)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ran(script: &str) -> Ran {
        let mut command = Command::new("sh");
        command.args(["-c", script]);
        execute(command, TIMEOUT, Screen::Kept).unwrap()
    }

    const FAILED: &str = "printf 'test a ... ok\ntest b ... FAILED\nfailures:\n\nfailures:\n    b\n\n\
                          test result: FAILED. 1 passed; 1 failed; 0 ignored\n'; exit 101";

    #[test]
    fn only_with_pods_a_test_is_run_again_and_then_it_is_flaky_and_has_not_passed() {
        let outcome = judged(ran(FAILED), "make test-all", None).unwrap();
        assert_eq!((outcome.count.passed, outcome.count.failed, &*outcome.failures), (1, 1, &["b".to_owned()][..]));
        let mut second = |name: &str| Ok((name == "b", "well".to_owned()));
        let outcome = judged(ran(FAILED), "make test-all", Some(&mut second)).unwrap();
        assert_eq!(outcome.count, Count { passed: 1, flaky: 1, ..Count::default() });
        assert_eq!((&*outcome.flaky, outcome.failures.len()), (&["b".to_owned()][..], 0));
        assert!(outcome.text.ends_with("again: b\nwell"), "{}", outcome.text);
        let mut second = |_: &str| Ok((false, String::new()));
        let outcome = judged(ran(FAILED), "make test-all", Some(&mut second)).unwrap();
        assert_eq!((outcome.count.failed, outcome.failures.len()), (1, 1));
    }

    #[test]
    fn a_program_that_does_not_say_what_its_tests_came_to_has_failed() {
        for script in ["printf 'test a ... ok\n'", "exit 3", "kill -9 $$"] {
            let outcome = judged(ran(script), "make test-all", None).unwrap();
            assert_eq!((outcome.count.failed, outcome.failures.len()), (1, 1), "{script}");
        }
        // What else it lost does not make up for one that passes the second time.
        let mut second = |_: &str| Ok((true, String::new()));
        let outcome = judged(ran("printf 'test a ... FAILED\n'; exit 3"), "make test-all", Some(&mut second)).unwrap();
        assert_eq!((outcome.count.failed, outcome.count.flaky), (1, 1));
    }

    #[test]
    fn what_is_left_out_says_by_which_command_it_runs() {
        let script = |why: &str| {
            format!("printf 'test a ... ok\ntest b ... ignored{why}\ntest result: ok. 1 passed; 0 failed; 1 ignored\n'")
        };
        let judge = |why: &str| judged(ran(&script(why)), "make test-all", None).unwrap().count;
        let passed = Count { passed: 1, ..Count::default() };
        assert_eq!(judge(", make test-all: it takes an hour"), Count { skipped: 1, ..passed });
        for why in ["", ", it takes an hour", ", make chaos: it takes an hour"] {
            assert_eq!(judge(why), Count { failed: 1, ..passed }, "{why}");
        }
    }
}
