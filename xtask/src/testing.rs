//! `make test`: every check and test, one after the other, with a count at the end.

mod program;
mod progress;

use anyhow::{Context as _, bail};
use program::{Count, Program, built, execute, program};
use progress::Progress;
use std::fs;
use std::io::Write as _;
use std::path::PathBuf;
use std::process::Command;
use std::time::{Duration, Instant};

use crate::images;
use crate::shell::{Result, cache, cargo, ours, output, run as shell_run, say, target_dir};

/// Crates whose tests need nothing but a processor.
const PURE: &[&str] = &["berth-api", "berth-pki", "berth-render", "berth-plan"];

/// The crate whose programs share the cluster `e2e`.
const E2E: &str = "berth-e2e";

#[derive(Debug, Default)]
struct Report {
    total: Count,
    progress: Progress,
    failures: Vec<String>,
    flaky: Vec<String>,
    times: Vec<(String, Duration)>,
}

pub(crate) fn run(fast: bool, only: &[String]) -> Result<()> {
    let wanted = |name: &str| only.is_empty() || only.iter().any(|o| name.contains(o.as_str()));
    let mut report = Report::default();
    if !fast && std::env::var_os("BERTH_E2E").is_some_and(|v| v == "all") {
        report.progress = Progress::of_checkout()?;
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

impl Report {
    /// A check counts as one.
    fn check(&mut self, name: &str, body: impl FnOnce() -> Result<()>) -> Result<()> {
        say(name);
        // Other checks make what the steps after them need.
        let lasting = name.starts_with("lint");
        if lasting && self.passed_before(name) {
            return Ok(());
        }
        let started = Instant::now();
        if let Err(error) = body() {
            println!("FAILED {name}: {error:#}");
            self.total.failed += 1;
            self.failures.push(name.to_owned());
            if name.starts_with("prepare") {
                // Without it, everything else would fail for no reason of its own.
                bail!("{error:#}");
            }
        } else {
            self.total.passed += 1;
            if lasting {
                self.progress.keep(name, Count { passed: 1, failed: 0 })?;
            }
        }
        self.times.push((name.to_owned(), started.elapsed()));
        Ok(())
    }

    fn passed_before(&mut self, name: &str) -> bool {
        let Some(count) = self.progress.before(name) else { return false };
        println!("passed before at this commit: {}", count.passed);
        self.total.passed += count.passed;
        true
    }

    fn programs(&mut self, fast: bool, packages: &[&str]) -> Result<()> {
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
            self.total.failed += 1;
            self.failures.push("building tests".into());
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
        let (status, results) = execute(program, &[])?;
        let mut count = results.count;
        for failed in &results.failures {
            // Only what runs real pods has a second chance.
            if !program.pods {
                self.failures.push(format!("{name} {failed}"));
                continue;
            }
            println!("\nagain: {failed}");
            let (status, _) = execute(program, &["--exact", failed, "--nocapture"])?;
            if status.success() {
                println!("FLAKY {name} {failed}: it failed, and passed when run again");
                self.flaky.push(format!("{name} {failed}"));
                count.failed -= 1;
                count.passed += 1;
            } else {
                self.failures.push(format!("{name} {failed}"));
            }
        }
        if !status.success() && results.failures.is_empty() {
            println!("FAILED {name}: it ended with {status}");
            self.failures.push(format!("{name} ({status})"));
            count.failed = count.failed.max(1);
        }
        self.total.passed += count.passed;
        self.total.failed += count.failed;
        self.progress.keep(&name, count)?;
        self.times.push((name, started.elapsed()));
        Ok(())
    }

    fn end(mut self) {
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
    fn only_clusters_of_tests_are_leftovers() {
        let status = "demo: Running, https://x\n  etcd 12\ne2e: Running\n  etcd dead\ne2e-2: cut off\n";
        assert_eq!(clusters(status), ["e2e", "e2e-2"]);
    }
}
