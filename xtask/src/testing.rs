//! `make test`: every check and test, as many at the same time as two cores allow, with a count at the end.

mod binaries;
pub(crate) mod chaos;
mod lanes;
mod part;
pub(crate) mod program;
mod progress;
mod queue;
mod report;
mod results;
mod running;
pub(crate) mod runs;
mod speed;
mod steps;

use anyhow::Context as _;
use lanes::Run;
use progress::Progress;
use report::{Of, Report};
use running::Running;
use std::fs;
use std::process::Command;
use std::sync::{Mutex, PoisonError};
use std::time::Instant;
use steps::Outcome;

use crate::shell::{
    Result, build_programs, cache, cargo, output, program as built_program, run as shell_run, say, state,
};

/// The crate whose tests share the cluster `e2e`.
const E2E: &str = "berth-e2e";

/// How much is run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Extent {
    /// What a developer runs in a minute.
    Fast,
    /// What runs with every change.
    Usual,
    /// Also what `#[ignore = "make test-all: …"]` leaves out of that. Cut off, it goes on where it was.
    All,
}

pub(crate) fn run(extent: Extent, only: &[String]) -> Result<()> {
    let wanted = |name: &str| only.is_empty() || only.iter().any(|o| name.contains(o.as_str()));
    let mut report = Report::new(Progress::default(), None);
    if extent == Extent::All {
        let all = Of { command: "make test-all".into(), what: "all checks and tests" };
        report = Report::new(Progress::of_checkout("test-all")?, only.is_empty().then_some(all));
    }
    let _alone = if extent == Extent::Fast { None } else { Some(alone()?) };
    if extent != Extent::Fast {
        speed::begin();
    }

    let prepared = extent != Extent::Fast && wanted("prepare");
    if prepared {
        let name = "prepare: leftovers of a run that was cut off, packages";
        say(name);
        let began = Instant::now();
        prepare()?;
        report.add(name, Outcome { time: began.elapsed(), ..Outcome::passed() });
    }
    let packages: Vec<String> = only.iter().filter(|o| *o != "test").cloned().collect();
    let tests = wanted("test") || only.iter().any(|o| o.starts_with("berth-") || o == "xtask");
    let run = Run {
        extent,
        lint: wanted("lint"),
        packages: tests.then_some(packages),
        prepared,
        binaries: binaries::Binaries::default(),
        queue: queue::Queue::default(),
        apart: Mutex::default(),
        running: Running::default(),
        report: Mutex::new(report),
    };
    run.all();
    run.report.into_inner().unwrap_or_else(PoisonError::into_inner).end();
    Ok(())
}

/// One run at a time: two would fight over clusters and cores.
fn alone() -> Result<fs::File> {
    let path = cache().join("locks/test");
    fs::create_dir_all(path.parent().unwrap_or(&path))?;
    let file = fs::File::create(&path).with_context(|| format!("cannot make {}", path.display()))?;
    if file.try_lock().is_err() {
        println!("another `make test` runs; waiting for it to end");
        file.lock()?;
    }
    Ok(file)
}

/// What may come into the binaries. Installs the tool where it is missing.
pub(crate) fn deny() -> Result<()> {
    const VERSION: &str = "0.20.2";
    let root = cache().join("tools").join(format!("cargo-deny-{VERSION}"));
    let tool = root.join("bin/cargo-deny");
    if !tool.exists() {
        println!("building cargo-deny {VERSION}");
        let install = ["install", "--quiet", "--locked", "cargo-deny", "--version", VERSION, "--root"];
        shell_run(cargo().args(install).arg(&root).env_remove("CARGO_TARGET_DIR"))?;
    }
    let check = ["check", "--hide-inclusion-graph", "bans", "licenses", "sources"];
    shell_run(Command::new(tool).current_dir(crate::root()).args(check))?;
    // Its database is fetched from another host than crates are.
    println!("advisories: NOT checked. Where RustSec's database can be fetched, run: cargo deny check advisories");
    Ok(())
}

/// What clusters and tests are made of, into the cache.
pub(crate) fn build_binaries() -> Result<()> {
    packages()?;
    shell_run(&mut devcluster(&["build"]))
}

/// Debian's, for devcluster.
fn packages() -> Result<()> {
    build_programs(&["devcluster", "cni-meta"])?;
    shell_run(&mut devcluster(&["deps", "--install"]))
}

fn prepare() -> Result<()> {
    packages()?;
    // The lock says that no run of tests is under way, so what has a test's name is of one that was cut off.
    for name in clusters(&output(&mut devcluster(&["status"])).unwrap_or_default()) {
        // A test by hand, outside of `make test`, holds this while it uses the cluster.
        let turn = fs::File::open(state().join(format!("{name}.turn")));
        if turn.as_ref().is_ok_and(|turn| turn.try_lock().is_err()) {
            println!("the cluster {name} is in use");
            continue;
        }
        println!("removing the cluster {name}, which a run left");
        shell_run(&mut devcluster(&["down", "--name", &name]))?;
    }
    Ok(())
}

/// The devcluster program, as it was built last.
fn devcluster(arguments: &[&str]) -> Command {
    let mut command = Command::new(built_program("devcluster"));
    command.args(arguments);
    command
}

/// Clusters of tests, from `devcluster status`.
fn clusters(status: &str) -> Vec<String> {
    let names = status.lines().filter(|l| !l.starts_with(' ')).filter_map(|l| l.split_once(':')).map(|(name, _)| name);
    names.filter(|n| *n == "e2e" || n.starts_with("e2e-")).map(ToOwned::to_owned).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_clusters_of_tests_are_leftovers() {
        let status = "demo: Running, https://x\n  etcd 12\ne2e: Running\n  etcd dead\ne2e-2: cut off\n";
        assert_eq!(clusters(status), ["e2e", "e2e-2"]);
    }
}
