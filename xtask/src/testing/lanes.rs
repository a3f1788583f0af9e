//! What `make test` does at the same time, on a machine with two cores.
//!
//! | lane | what | needs |
//! |---|---|---|
//! | Go | Kubernetes' binaries, where the cache has none: what most tests need comes first | processors |
//! | cargo | quick checks, images, test programs, then checks that take longer | processors |
//! | pods | tests that take turns at the cluster `e2e` | images, their programs, binaries; waits for most of its time |
//! | others | all other tests, the longest first; those that call `make` come last | their programs, some of them binaries; waits a lot, too |
//!
//! Tests come out of one [`Queue`]: who needs binaries that are not there yet keeps nobody waiting. Tests wait for what the first two
//! build, so these have the same priority; checks for which nothing waits have a low one. What a step printed is printed when it has
//! ended.

use std::collections::BTreeSet;
use std::mem;
use std::path::PathBuf;
use std::process::Command;
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

use super::binaries::{Binaries, Stage};
use super::part::Part;
use super::program::{Program, Screen, built, program};
use super::progress::Progress;
use super::queue::{Closing, Queue};
use super::report::Report;
use super::running::{self, Running};
use super::speed;
use super::steps::{Outcome, check, tests, timed};
use super::{E2E, Extent, devcluster};
use crate::crates::PURE;
use crate::shell::{Result, cache, cargo, ours, xtask};
use crate::{names, pages, root};

/// Whatever is built takes less, also where caches are empty.
const LONG: Duration = Duration::from_hours(2);

/// Programs without pods that run at once. With a second one the load is above 40, and what has deadlines of seconds, as etcd and probes of
/// real pods, misses them.
const OTHERS: usize = 1;

/// A run of checks and tests.
#[derive(Debug)]
pub(super) struct Run {
    pub(super) extent: Extent,
    pub(super) lint: bool,
    /// Packages whose tests are run, all if none is named. None: no tests.
    pub(super) packages: Option<Vec<String>>,
    /// Whether Kubernetes' binaries are built, or taken as they are.
    pub(super) prepared: bool,
    pub(super) binaries: Binaries,
    pub(super) queue: Queue,
    /// One at a time of those that make a cluster of their own.
    pub(super) apart: Mutex<()>,
    /// What is under way.
    pub(super) running: Running,
    pub(super) report: Mutex<Report>,
}

/// What the message of a missed deadline begins with, in the tests: as in testkit's fixtures.
const LATE: &str = "LATE:";

impl Run {
    /// Runs everything. One that takes longer than it may is ended with a word about what took so long.
    pub(super) fn all(&self) {
        let (over, ended) = channel::<()>();
        thread::scope(|scope| {
            scope.spawn(move || {
                if let Some(limit) = running::limit()
                    && ended.recv_timeout(limit) == Err(RecvTimeoutError::Timeout)
                {
                    self.stop(limit);
                }
            });
            self.everything();
            drop(over);
        });
    }

    /// Ends the run with what has come of it.
    fn stop(&self, limit: Duration) {
        let mut report = mem::replace(&mut *self.report(), Report::new(Progress::default(), None));
        let minutes = limit.as_secs() / 60;
        let under_way = self.running.beside("");
        running::end_children();
        report.add(
            &format!("a run that may take {minutes} minutes"),
            Outcome::failed(format!(
                "(stopped; it was at: {under_way}. What took longest is listed above: shorten that)"
            )),
        );
        report.end();
    }

    fn everything(&self) {
        thread::scope(|scope| {
            // As long as this is held, more may come.
            let more = self.queue.closing();
            scope.spawn(|| self.go());
            scope.spawn(|| self.cargo(more));
            scope.spawn(|| {
                if self.each(|part| part.program.shares_a_cluster()) > 0 {
                    // One cluster serves all of these tests.
                    self.check("removing the e2e cluster", devcluster(&["down", "--name", "e2e"]));
                }
            });
            for _ in 0..OTHERS {
                scope.spawn(|| self.each(|part| !part.program.shares_a_cluster()));
            }
        });
    }

    fn report(&self) -> MutexGuard<'_, Report> {
        self.report.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Runs a step, unless it passed before. Says whether it passed.
    fn step(&self, name: &str, step: impl FnOnce() -> Outcome) -> bool {
        if self.report().passed_before(name) {
            return true;
        }
        println!("    begins: {name}");
        let running = self.running.begin(name);
        let mut outcome = step();
        if outcome.text.contains(LATE) {
            outcome.late = late(&outcome.text, &self.running.beside(name));
        }
        drop(running);
        let passed = outcome.failures.is_empty();
        self.report().add(name, outcome);
        passed
    }

    /// A check counts as one.
    fn check(&self, name: &str, command: Command) -> bool {
        let lasting = name.starts_with("lint");
        self.step(name, || Outcome { lasting, ..check(command, LONG, Screen::Kept) })
    }

    fn go(&self) {
        if !self.prepared {
            return self.binaries.build(Stage::All, |_| true);
        }
        let last = if self.extent == Extent::All { Stage::All } else { Stage::Core };
        self.binaries.build(last, |stage| {
            // By now most tests run, and few wait for more: a machine that builds beside them answers none of their deadlines.
            if stage == Stage::Core {
                low_priority();
            }
            let name = format!("Kubernetes' binaries: {}", stage.name());
            self.check(&name, devcluster(&["build", "--only", stage.name()]))
        });
    }

    fn cargo(&self, more: Closing<'_>) {
        if self.lint {
            let mut format = with_cargo(&["fmt", "--all", "--check"]);
            // Names of files are those of the checkout.
            format.current_dir(root());
            self.check("lint: format", format);
            self.check("lint: generated files", xtask(&["gen", "--check"]));
            self.check("lint: rules between crates", xtask(&["check-crates"]));
            self.check("lint: documentation", xtask(&["check-docs"]));
        }
        if let Some(packages) = &self.packages {
            self.programs(packages);
        }
        drop(more);
        low_priority();
        if self.lint && self.extent != Extent::Fast {
            let clippy = ["clippy", "--workspace", "--all-targets", "--locked", "--quiet", "--", "-D", "warnings"];
            // An error to wait for the place is one that clippy will have, too.
            let held = ours().ok();
            self.check("lint: clippy", with_cargo(&clippy));
            // `--all-targets` leaves out what only `make test-all` builds.
            let long = ["clippy", "--workspace", "--test", LONG_TESTS, "--locked", "--quiet", "--", "-D", "warnings"];
            self.check("lint: clippy of what only `make test-all` builds", with_cargo(&long));
            drop(held);
            self.book();
            let dependencies =
                "lint: dependencies (bans, licenses, sources; no advisories: their database is not asked)";
            self.check(dependencies, xtask(&["check-dependencies"]));
            self.binaries.wait(Stage::Server);
            self.check("lint: charts", xtask(&["check-charts"]));
        }
    }

    /// mdBook takes minutes to build: where it is not there, only `make test-all` does that.
    fn book(&self) {
        let name = "lint: the book";
        if self.extent == Extent::All || pages::mdbook().exists() {
            self.check(name, xtask(&["check-book"]));
        } else {
            self.report().add(name, Outcome::left_out(1, "make test-all"));
        }
    }

    /// Builds test programs, and hands their parts over: first those that take turns at a cluster, since they take longest.
    fn programs(&self, packages: &[String]) {
        let chosen: Vec<&str> = match (self.extent, packages) {
            (Extent::Fast, []) => PURE.iter().flat_map(|package| ["-p", package]).collect(),
            (_, []) => vec!["--workspace"],
            (_, some) => some.iter().flat_map(|package| ["-p", package]).collect(),
        };
        let with_pods = self.extent != Extent::Fast && (packages.is_empty() || packages.iter().any(|p| p == E2E));
        // What the e2e tests install, as this checkout has it.
        let images = with_pods && self.check("images of the operator and the agent", xtask(&["demo-images"]));
        let mut builds = vec![("building tests", &[][..])];
        if images {
            let targets: &[&str] = if self.extent == Extent::All { &["usual", LONG_TESTS] } else { &["usual"] };
            builds.insert(0, ("building tests with pods", targets));
        }
        if with_pods && self.extent != Extent::All {
            self.step("berth-e2e test long, which is not built", || timed(left_to_all));
        }
        let mut sent: BTreeSet<PathBuf> = BTreeSet::new();
        for (name, targets) in builds {
            for program in self.build(name, &chosen, targets) {
                if !sent.insert(program.file.clone()) {
                    continue;
                }
                if program.has_pods() && program.package == E2E && with_pods && !images {
                    let outcome = Outcome::not_run("there are no images of the operator and the agent");
                    self.report().add(&program.name(), outcome);
                    continue;
                }
                let name = program.name();
                match Part::of(program, self.binaries.there()) {
                    Ok(parts) => self.queue.add(parts),
                    Err(error) => self.report().add(&name, Outcome::not_run(&format!("{error:#}"))),
                }
            }
        }
    }

    /// Builds these targets of the packages, or all.
    fn build(&self, name: &str, packages: &[&str], targets: &[&str]) -> Vec<Program> {
        let mut programs = vec![];
        self.step(name, || {
            timed(|| {
                let _held = ours()?;
                let mut build = cargo();
                build.args(["test", "--locked", "--no-run", "--message-format", "json-render-diagnostics"]);
                build.args(packages).args(targets.iter().flat_map(|target| ["--test", target]));
                let (messages, text) = built(&mut build)?;
                let Some(messages) = messages else {
                    return Ok(Outcome { text, ..Outcome::failed("(it does not compile)".into()) });
                };
                programs = messages.lines().filter_map(program).collect();
                Ok(Outcome { text, ..Outcome::default() })
            })
        });
        programs
    }

    /// Runs parts as they come; how many.
    fn each(&self, mine: impl Fn(&Part) -> bool) -> usize {
        let next = || self.queue.take(&mine, |part| self.binaries.known(part.needs).is_some());
        std::iter::from_fn(next).map(|part| self.part(&part)).count()
    }

    fn part(&self, part: &Part) {
        let _apart = part.program.makes_a_cluster().then(|| self.apart.lock().unwrap_or_else(PoisonError::into_inner));
        let missing = self.extent == Extent::Fast && !cache().join("bin/kubernetes").exists();
        self.step(&part.name(), || {
            if missing && part.needs > Stage::Nothing {
                // Without Go nobody has these binaries, and what a developer runs in a minute asks for no more than Rust.
                timed(|| Ok(Outcome::left_out(part.len()?, "make test")))
            } else if self.binaries.wait(part.needs) {
                tests(part, self.extent == Extent::All)
            } else {
                Outcome::not_run("Kubernetes' binaries could not be built")
            }
        });
    }
}

/// Each deadline that was missed, and what else ran when the step ended.
fn late(text: &str, beside: &str) -> Vec<String> {
    let lines = text.lines().filter_map(|line| Some(line.split_once(LATE)?.1.trim()));
    let lines: BTreeSet<&str> = lines.collect();
    let factor = speed::factor();
    lines.into_iter().map(|line| format!("{line} (deadlines {factor:.1} times as long; beside it: {beside})")).collect()
}

/// The program of e2e that only `make test-all` builds.
const LONG_TESTS: &str = "long";

/// How many tests that program has, by its sources.
fn left_to_all() -> Result<Outcome> {
    let tests = names::in_folder(E2E, &root().join("e2e/tests").join(LONG_TESTS))?;
    Ok(Outcome { lasting: true, ..Outcome::left_out(u32::try_from(tests.len())?, "make test-all") })
}

/// For this thread and what it starts: tests come first.
fn low_priority() {
    if let Err(error) = rustix::process::nice(10) {
        println!("no lower priority: {error}");
    }
}

fn with_cargo(arguments: &[&str]) -> Command {
    let mut command = cargo();
    command.args(arguments);
    command
}
