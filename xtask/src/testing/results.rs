//! What a test program prints, understood line by line.

use std::collections::BTreeMap;
use std::ops::AddAssign;

/// What was counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Count {
    /// Passed at the first try.
    pub(super) passed: u32,
    pub(super) failed: u32,
    /// Left out of this run: `#[ignore]`d.
    pub(super) skipped: u32,
    /// Failed, and passed when run again.
    pub(super) flaky: u32,
}

impl AddAssign for Count {
    fn add_assign(&mut self, other: Self) {
        self.passed += other.passed;
        self.failed += other.failed;
        self.skipped += other.skipped;
        self.flaky += other.flaky;
    }
}

/// By the command that runs it: how much was left out.
pub(super) type LeftTo = BTreeMap<String, u32>;

/// What a test program has said so far. A program that is cut off has said no result; then its tests were counted one by one.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Results {
    pub(super) count: Count,
    pub(super) failures: Vec<String>,
    /// Names of tests that were left out, and why.
    pub(super) ignored: Vec<(String, String)>,
    /// Whether it said `test result: …`.
    pub(super) ended: bool,
    /// What is printed at the end in two sections of the same name: the outputs, and the names.
    sections: u32,
}

impl Results {
    pub(super) fn line(&mut self, line: &str) {
        if line == "failures:" {
            self.sections += 1;
            if self.sections > 1 {
                self.failures.clear();
            }
        } else if let Some((_, summary)) = line.split_once("test result: ") {
            let number = |word: &str| {
                let before = summary.split(word).next().unwrap_or_default();
                before.split_whitespace().last().and_then(|n| n.parse().ok()).unwrap_or(0)
            };
            let (passed, failed, skipped) = (number(" passed"), number(" failed"), number(" ignored"));
            self.count = Count { passed, failed, skipped, flaky: 0 };
            self.ended = true;
        } else if self.sections > 1 {
            self.failures.extend(line.strip_prefix("    ").filter(|name| !name.contains(' ')).map(str::to_owned));
        } else if let Some((name, result)) = line.split_once("test ").and_then(|(_, rest)| rest.split_once(" ... "))
            && self.sections == 0
        {
            match result.split_once(", ").unwrap_or((result, "")) {
                ("ok", "") => self.count.passed += 1,
                ("FAILED", "") => {
                    self.count.failed += 1;
                    self.failures.push(name.to_owned());
                }
                ("ignored", reason) => {
                    self.count.skipped += 1;
                    self.ignored.push((name.to_owned(), reason.to_owned()));
                }
                _ => {}
            }
        }
    }
}

/// Lines of a reason at most: what a test prints may be a whole tenant.
const REASON: usize = 15;

/// Why a test failed: what the last panic of its thread said, without the backtrace.
pub(super) fn reason(text: &str, test: &str) -> Option<String> {
    let begins = format!("thread '{test}' ");
    let panics = |(_, line): &(usize, &str)| line.contains(" panicked at ");
    let lines: Vec<&str> = text.lines().collect();
    let of = |begins: &str| lines.iter().copied().enumerate().filter(panics).rfind(|(_, l)| l.contains(begins));
    // A test that runs alone has the main thread.
    let (at, _) = of(&begins).or_else(|| of("thread 'main' "))?;
    let said = lines[at + 1..].iter().map(|line| line.trim_end());
    let backtrace =
        |line: &&str| !line.to_lowercase().starts_with("stack backtrace:") && !line.starts_with("note: run with");
    let said: Vec<&str> = said.take_while(backtrace).take(REASON).collect();
    Some(said.join("\n").trim().to_owned()).filter(|said| !said.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Results {
        let mut results = Results::default();
        text.lines().for_each(|l| results.line(l));
        results
    }

    const BEGIN: &str = "running 4 tests\ntest a ... ok\ntest late ... ignored, make test-all: half an hour\n\
                         test b::c ... FAILED\ntest d ... ok\n";

    #[test]
    fn the_output_of_a_test_program_is_understood() {
        let results = read(&format!(
            "{BEGIN}\nfailures:\n\n---- b::c stdout ----\n    left: 1\n    boom\ntest x ... ignored\n\n\nfailures:\n    b::c\n\n\
             test result: FAILED. 2 passed; 1 failed; 1 ignored; 0 measured; 0 filtered out; finished in 0.00s\n"
        ));
        assert_eq!(results.count, Count { passed: 2, failed: 1, skipped: 1, flaky: 0 });
        assert_eq!(results.failures, ["b::c"]);
        assert_eq!(results.ignored, [("late".to_owned(), "make test-all: half an hour".to_owned())]);
        assert!(results.ended);
    }

    #[test]
    fn of_a_program_that_was_cut_off_what_it_said_so_far_is_counted() {
        let results = read(BEGIN);
        assert_eq!(results.count, Count { passed: 2, failed: 1, skipped: 1, flaky: 0 });
        assert_eq!((&results.failures[..], results.ended), (&["b::c".to_owned()][..], false));
        let within = read(&format!("{BEGIN}\nfailures:\n\n---- b::c stdout ----\n    boom\n"));
        assert_eq!(within.failures, ["b::c"], "what a test prints is no name");
    }

    #[test]
    fn what_a_process_prints_without_an_end_of_line_hides_no_result() {
        let results =
            read("server readytest a ... ok\nbyetest result: ok. 1 passed; 0 failed; 2 ignored; 0 measured\n");
        assert_eq!(results.count, Count { passed: 1, failed: 0, skipped: 2, flaky: 0 });
    }

    #[test]
    fn why_a_test_failed_is_what_its_last_panic_said() {
        let text = "thread 'a::b' (12) panicked at x.rs:3:1:\nfirst\nthread 'a::c' (13) panicked at y.rs:4:1:\nothers\n\
                    again: a::b\nthread 'a::b' (14) panicked at x.rs:3:1:\nLATE: Ready\nnot yet\n\nStack backtrace:\n   0: f\n";
        assert_eq!(reason(text, "a::b").as_deref(), Some("LATE: Ready\nnot yet"));
        assert_eq!(reason(text, "a::d"), None);
        assert_eq!(reason("thread 'main' (1) panicked at z.rs:1:1:\nboom\n", "a::d").as_deref(), Some("boom"));
    }
}
