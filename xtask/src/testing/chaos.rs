//! `make chaos`: the sweeps and faults of the meta cluster, every case of them, test by test. What failed does not keep the rest from being run,
//! and what passed is not run again at the same commit.

use super::alone;
use super::program::{Program, Screen, built, program};
use super::progress::Progress;
use super::report::{Of, Report};
use super::steps::{Outcome, check};
use crate::shell::{Result, cache, cargo, ours, say};
use anyhow::bail;
use std::time::Duration;

const PACKAGE: &str = "berth-operator";

/// Programs of the operator, and which of their modules are run; all if none is named.
const PROGRAMS: &[(&str, &[&str])] =
    &[("alone", &["sweep", "faults", "etcd_life"]), ("shared", &["refusals"]), ("processes", &[])];

/// In the cache: what passed, a file for each commit, and beside these what sweeps keep.
const FOLDER: &str = "chaos";

/// The longest sweep takes some hours; what takes a day hangs.
const TIMEOUT: Duration = Duration::from_hours(24);

/// Runs the tests whose name, with its modules, contains one of the filters; all without any. `seed`: another order, and other
/// walks.
pub(crate) fn run(seed: u64, filters: &[String]) -> Result<()> {
    let _alone = alone()?;
    super::speed::begin();
    let mut report = Report::new(Progress::of_checkout(FOLDER)?, Some(of(seed, filters)));
    say("building tests");
    let mut found = false;
    for program in build()? {
        for test in program.tests()? {
            let Some(name) = name(&program, &test).filter(|name| wanted(name, filters)) else { continue };
            found = true;
            let step = step(&name, seed);
            if report.passed_before(&step) {
                continue;
            }
            let exactly = ["--exact", &test, "--include-ignored", "--nocapture", "--test-threads", "1"];
            let mut command = program.command(&exactly);
            command
                .env("BERTH_SWEEP", "full")
                .env("BERTH_SWEEP_SEED", seed.to_string())
                .env("BERTH_SWEEP_STATE", cache().join(FOLDER));
            say(&step);
            report.add(&step, Outcome { lasting: true, ..check(command, TIMEOUT, Screen::Live) });
        }
    }
    if !found {
        bail!("no test has a name that contains {}", filters.join(" or "));
    }
    report.end();
    Ok(())
}

fn build() -> Result<Vec<Program>> {
    let _held = ours()?;
    let mut build = cargo();
    build.args(["test", "--locked", "--no-run", "--message-format", "json-render-diagnostics", "-p", PACKAGE]);
    for (program, _) in PROGRAMS {
        build.args(["--test", program]);
    }
    // Its tests bring the agent's program, which runs beside the operator's.
    build.args(["-p", "berth-agent", "--test", "it"]);
    let (messages, text) = built(&mut build)?;
    let Some(messages) = messages else { bail!("the tests could not be built:\n{text}") };
    let mut programs: Vec<Program> = messages.lines().filter_map(program).filter(|p| p.package == PACKAGE).collect();
    programs.sort_by(|a, b| a.target.cmp(&b.target));
    Ok(programs)
}

/// Such as `processes::lease::one_leads`, and `sweep::a_crash` for what is in a program with others. None: that is not run here.
fn name(program: &Program, test: &str) -> Option<String> {
    let target = program.target.strip_prefix("test ")?;
    let (_, modules) = PROGRAMS.iter().find(|(name, _)| *name == target)?;
    if modules.is_empty() {
        return Some(format!("{target}::{test}"));
    }
    modules.contains(&test.split("::").next()?).then(|| test.to_owned())
}

fn wanted(name: &str, filters: &[String]) -> bool {
    filters.is_empty() || filters.iter().any(|f| name.contains(f.as_str()))
}

/// What passed with one seed says nothing about another one.
fn step(name: &str, seed: u64) -> String {
    if seed == 0 { name.to_owned() } else { format!("{name} (seed {seed})") }
}

fn of(seed: u64, filters: &[String]) -> Of {
    let (arguments, what) = if filters.is_empty() {
        (String::new(), "every case of the sweeps and of faults of the meta cluster")
    } else {
        (format!(" ARGS=\"{}\"", filters.join(" ")), "every case of the tests with such a name")
    };
    let seed = if seed == 0 { String::new() } else { format!(" SEED={seed}") };
    Of { command: format!("make chaos{arguments}{seed}"), what }
}

#[cfg(test)]
mod tests {
    use super::super::program::named;
    use super::*;

    fn some(filters: &[&str]) -> Vec<String> {
        filters.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn tests_are_named_after_their_program_or_their_module() {
        let name = |target: &str, test: &str| name(&named(PACKAGE, target), test);
        assert_eq!(name("test processes", "clock::ahead").as_deref(), Some("processes::clock::ahead"));
        assert_eq!(name("test alone", "faults::rights::each").as_deref(), Some("faults::rights::each"));
        assert_eq!([name("test alone", "idle::at_rest"), name("lib berth_operator", "faults::a")], [None, None]);
    }

    #[test]
    fn a_filter_is_a_part_of_the_name_of_a_test_with_its_modules() {
        let all = ["processes::clock::ahead", "sweep::a_crash", "faults::rights::each"];
        let chosen = |filters: &[&str]| all.iter().filter(|n| wanted(n, &some(filters))).count();
        assert_eq!([chosen(&[]), chosen(&["clock"]), chosen(&["sweep", "rights"]), chosen(&["poison"])], [3, 1, 2, 0]);
    }

    #[test]
    fn the_entry_says_what_was_run_and_another_seed_is_another_test() {
        assert_eq!(of(0, &[]).command, "make chaos");
        assert_eq!(of(7, &some(&["clock", "lease"])).command, "make chaos ARGS=\"clock lease\" SEED=7");
        assert_eq!([step("a", 0), step("a", 7)], ["a", "a (seed 7)"]);
    }
}
