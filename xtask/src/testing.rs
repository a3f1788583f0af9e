//! `make test`: every check and test, one after the other, with a count at the end.

pub(crate) mod chaos;
mod program;
mod progress;
mod report;

use anyhow::Context as _;
use progress::Progress;
use report::{Of, Report};
use std::fs;
use std::path::PathBuf;
use std::process::Command;

use crate::shell::{Result, cache, cargo, output, run as shell_run, target_dir};

/// The crate whose programs share the cluster `e2e`.
const E2E: &str = "berth-e2e";

pub(crate) fn run(fast: bool, only: &[String]) -> Result<()> {
    let wanted = |name: &str| only.is_empty() || only.iter().any(|o| name.contains(o.as_str()));
    let mut report = Report::default();
    if !fast && std::env::var_os("BERTH_E2E").is_some_and(|v| v == "all") {
        report.progress = Progress::of_checkout("test-all")?;
        let all = Of { command: "make test-all".into(), what: "all checks and tests" };
        report.of = only.is_empty().then_some(all);
    }
    let _alone = if fast { None } else { Some(alone()?) };

    if !fast && wanted("prepare") {
        report.check("prepare: leftovers of a run that was cut off, packages, binaries", prepare)?;
    }
    let exe = std::env::current_exe()?;
    let ours = |argument: &[&str]| shell_run(Command::new(&exe).args(argument));
    if wanted("lint") {
        report.check("lint: format", || shell_run(cargo().args(["fmt", "--all", "--check"])))?;
        report.check("lint: generated files", || ours(&["gen", "--check"]))?;
        report.check("lint: rules between crates", || ours(&["check-crates"]))?;
        report.check("lint: documentation", || ours(&["check-docs"]))?;
    }
    if wanted("lint") && !fast {
        report.check("lint: charts", || ours(&["check-charts"]))?;
        let clippy = ["clippy", "--workspace", "--all-targets", "--locked", "--quiet", "--", "-D", "warnings"];
        report.check("lint: clippy", || shell_run(cargo().args(clippy)))?;
        report
            .check("lint: dependencies (bans, licenses, sources; no advisories: their database is not asked)", deny)?;
    }
    if wanted("test") || only.iter().any(|o| o.starts_with("berth-") || o == "xtask") {
        let packages: Vec<&str> = only.iter().map(String::as_str).filter(|o| *o != "test").collect();
        report.programs(fast, &packages)?;
    }
    report.end();
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
    shell_run(Command::new(tool).current_dir(crate::root()).args(check))
}

fn prepare() -> Result<()> {
    shell_run(cargo().args(["build", "--quiet", "--locked", "-p", "berth-devcluster"]))?;
    let devcluster = || Command::new(target_dir().join("debug/devcluster"));
    shell_run(devcluster().args(["deps", "--install"]))?;
    // The lock says that no run of tests is under way, so what has a test's name is of one that was cut off.
    for name in clusters(&output(&mut devcluster_status(devcluster())).unwrap_or_default()) {
        // A test by hand, outside of `make test`, holds this while it uses the cluster.
        let turn = fs::File::open(state().join(format!("{name}.turn")));
        if turn.as_ref().is_ok_and(|turn| turn.try_lock().is_err()) {
            println!("the cluster {name} is in use");
            continue;
        }
        println!("removing the cluster {name}, which a run left");
        shell_run(devcluster().args(["down", "--name", &name]))?;
    }
    shell_run(devcluster().arg("build"))
}

/// Where devcluster keeps its clusters.
fn state() -> PathBuf {
    std::env::var_os("BERTH_STATE").map_or_else(|| "/var/lib/berth/devcluster".into(), PathBuf::from)
}

fn devcluster_status(mut command: Command) -> Command {
    command.arg("status");
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
