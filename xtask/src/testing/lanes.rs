//! What `make test` does at the same time, on a machine with two cores.
//!
//! | lane | what | needs |
//! |---|---|---|
//! | Go | Kubernetes' binaries, where the cache has none: what most tests need comes first | processors |
//! | cargo | quick checks, images, test programs, then checks that take longer | processors |
//! | pods | tests that take turns at the cluster `e2e` | images, their programs, binaries; waits for most of its time |
//! | others | all other tests; those that call `make` come last | their programs, some of them binaries; waits a lot, too |
//!
//! Tests wait for what the first two build, so these have the same priority; checks for which nothing waits have a low one. What a
//! step printed is printed when it has ended.

use std::collections::BTreeSet;
use std::fs;
use std::path::PathBuf;
use std::process::Command;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

use super::binaries::{Binaries, Stage};
use super::program::{Program, Screen, built, listed, program};
use super::report::Report;
use super::steps::{Outcome, check, tests, timed};
use super::{E2E, Extent, devcluster};
use crate::crates::PURE;
use crate::shell::{Result, cache, cargo, ours, output, xtask};
use crate::{pages, root};

/// Whatever is built takes less, also where caches are empty.
const LONG: Duration = Duration::from_hours(2);

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
    pub(super) report: Mutex<Report>,
}

impl Run {
    /// Runs everything.
    pub(super) fn all(&self) {
        let (pods, with_pods) = channel();
        let (others, without) = channel();
        thread::scope(|scope| {
            scope.spawn(|| self.go());
            scope.spawn(|| self.cargo(pods, others));
            scope.spawn(|| {
                if self.each(with_pods) > 0 {
                    // One cluster serves all of these programs.
                    self.check("removing the e2e cluster", devcluster(&["down", "--name", "e2e"]));
                }
            });
            self.each(without);
        });
    }

    fn report(&self) -> MutexGuard<'_, Report> {
        self.report.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Runs a step, unless it passed before. Says whether it passed.
    fn step(&self, name: &str, left_to: &'static str, step: impl FnOnce() -> Outcome) -> bool {
        if self.report().passed_before(name, left_to) {
            return true;
        }
        println!("    begins: {name}");
        let outcome = step();
        let passed = outcome.failures.is_empty();
        self.report().add(name, outcome);
        passed
    }

    /// A check counts as one.
    fn check(&self, name: &str, command: Command) -> bool {
        let lasting = name.starts_with("lint");
        self.step(name, "", || Outcome { lasting, ..check(command, LONG, Screen::Kept) })
    }

    fn go(&self) {
        if !self.prepared {
            return self.binaries.build(Stage::All, |_| true);
        }
        let last = if self.extent == Extent::All { Stage::All } else { Stage::Core };
        self.binaries.build(last, |stage| {
            let name = format!("Kubernetes' binaries: {}", stage.name());
            self.check(&name, devcluster(&["build", "--only", stage.name()]))
        });
    }

    fn cargo(&self, pods: Sender<Program>, others: Sender<Program>) {
        if self.lint {
            self.check("lint: format", with_cargo(&["fmt", "--all", "--check"]));
            self.check("lint: generated files", xtask(&["gen", "--check"]));
            self.check("lint: rules between crates", xtask(&["check-crates"]));
            self.check("lint: documentation", xtask(&["check-docs"]));
        }
        if let Some(packages) = &self.packages {
            self.programs(packages, &pods, &others);
        }
        // Nothing more comes.
        drop((pods, others));
        low_priority();
        if self.lint && self.extent != Extent::Fast {
            let clippy = ["clippy", "--workspace", "--all-targets", "--locked", "--quiet", "--", "-D", "warnings"];
            self.check("lint: clippy", with_cargo(&clippy));
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

    /// Builds test programs, and sends them to their lanes: first those that take turns at a cluster, since they take longest.
    fn programs(&self, packages: &[String], pods: &Sender<Program>, others: &Sender<Program>) {
        let chosen: Vec<&str> = match (self.extent, packages) {
            (Extent::Fast, []) => PURE.iter().flat_map(|package| ["-p", package]).collect(),
            (_, []) => vec!["--workspace"],
            (_, some) => some.iter().flat_map(|package| ["-p", package]).collect(),
        };
        let with_pods = self.extent != Extent::Fast && (packages.is_empty() || packages.iter().any(|p| p == E2E));
        let mut sent = BTreeSet::new();
        let mut parts = vec![("building tests", vec![])];
        // What the e2e tests install, as this checkout has it.
        let images = with_pods && self.check("images of the operator and the agent", xtask(&["demo-images"]));
        if images {
            parts.insert(0, ("building tests with pods", e2e_targets()));
        }
        for (name, targets) in parts {
            let mut programs = self.build(name, &chosen, &targets);
            // What calls `make` waits for cargo, which is at work until all is built.
            programs.sort_by_key(|p| (p.makes_a_cluster(), p.needs(), p.name()));
            for program in programs {
                let later = !targets.is_empty() && !program.shares_a_cluster();
                if later || !sent.insert(program.file.clone()) {
                    continue;
                }
                if program.package == E2E && with_pods && !images {
                    self.report()
                        .add(&program.name(), Outcome::not_run("there are no images of the operator and the agent"));
                    continue;
                }
                let lane = if program.shares_a_cluster() { pods } else { others };
                // A lane that is gone has panicked, and says so itself.
                let _ = lane.send(program);
            }
        }
    }

    /// Builds these targets of the packages, or all.
    fn build(&self, name: &str, packages: &[&str], targets: &[String]) -> Vec<Program> {
        let mut programs = vec![];
        self.step(name, "", || {
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

    /// Runs programs as they come; how many.
    fn each(&self, programs: Receiver<Program>) -> usize {
        programs.into_iter().map(|program| self.program(&program)).count()
    }

    fn program(&self, program: &Program) {
        let there = self.binaries.wait(program.needs());
        let missing = self.extent == Extent::Fast && !cache().join("bin/kubernetes").exists();
        self.step(&program.name(), program.left_to(), || {
            if missing && program.needs() > Stage::Nothing {
                timed(|| left_to_others(program))
            } else if there {
                tests(program, self.extent == Extent::All)
            } else {
                Outcome::not_run("Kubernetes' binaries could not be built")
            }
        });
    }
}

/// Without Go nobody has these binaries, and what a developer runs in a minute asks for no more than Rust.
fn left_to_others(program: &Program) -> Result<Outcome> {
    let all = listed(&output(&mut program.command(&["--list", "--format", "terse"]))?);
    Ok(Outcome::left_out(u32::try_from(all.len())?, "make test"))
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

/// Names of the e2e test programs.
fn e2e_targets() -> Vec<String> {
    let files: Vec<PathBuf> =
        fs::read_dir(root().join("e2e/tests")).into_iter().flatten().flatten().map(|e| e.path()).collect();
    files.iter().filter_map(|file| Some(file.file_stem()?.to_str()?.to_owned())).collect()
}
