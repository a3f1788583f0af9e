//! `make test`: every check and test, one after the other, with a count at the end.

use anyhow::{Context as _, bail};
use serde_json::Value;
use std::fs;
use std::io::{BufRead as _, BufReader, Write as _};
use std::path::PathBuf;
use std::process::{Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use crate::images;
use crate::shell::{Result, cache, cargo, ours, output, run as shell_run, say, target_dir};

/// Nothing that tests takes longer; what does hangs.
const PATIENCE: Duration = Duration::from_mins(40);

/// Crates whose tests need nothing but a processor.
const PURE: &[&str] = &["berth-api", "berth-pki", "berth-render", "berth-plan"];

/// The crate whose programs share the cluster `e2e`.
const E2E: &str = "berth-e2e";

/// What was counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Count {
    passed: u32,
    failed: u32,
}

/// One test program.
#[derive(Debug)]
struct Program {
    package: String,
    target: String,
    file: PathBuf,
    dir: PathBuf,
    /// Runs real pods. These run last, and may be tried twice.
    pods: bool,
}

#[derive(Debug, Default)]
struct Report {
    total: Count,
    failures: Vec<String>,
    flaky: Vec<String>,
    times: Vec<(String, Duration)>,
}

pub(crate) fn run(fast: bool, only: &[String]) -> Result<()> {
    let wanted = |name: &str| only.is_empty() || only.iter().any(|o| name.contains(o.as_str()));
    let mut report = Report::default();
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
        }
        self.times.push((name.to_owned(), started.elapsed()));
        Ok(())
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

/// What cargo says on its standard output; none if it could not build.
fn built(command: &mut Command) -> Result<Option<String>> {
    let output = command.stderr(Stdio::inherit()).output().context("cannot run cargo")?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    Ok(output.status.success().then_some(text))
}

/// A test program in cargo's messages.
fn program(line: &str) -> Option<Program> {
    let message: Value = serde_json::from_str(line).ok()?;
    let file = message["executable"].as_str().filter(|_| message["profile"]["test"] == true)?;
    let manifest = PathBuf::from(message["manifest_path"].as_str()?);
    let dir = manifest.parent()?.to_owned();
    // `path+file:///…/crates/plan#berth-plan@0.1.0`, or without the name where that is the folder's.
    let id = message["package_id"].as_str()?.rsplit(['#', '/']).next()?;
    let package = match id.split_once('@') {
        Some((name, _)) => name.to_owned(),
        None => dir.file_name()?.to_string_lossy().into_owned(),
    };
    let kind = message["target"]["kind"][0].as_str()?;
    let target = format!("{kind} {}", message["target"]["name"].as_str()?);
    let pods = [E2E, "berth-devcluster"].contains(&package.as_str());
    Some(Program { pods, package, target, file: file.into(), dir })
}

fn execute(program: &Program, arguments: &[&str]) -> Result<(ExitStatus, Results)> {
    let (reader, writer) = std::io::pipe()?;
    let mut command = Command::new(&program.file);
    command
        .args(arguments)
        .current_dir(&program.dir)
        .env("CARGO_MANIFEST_DIR", &program.dir)
        .env("BERTH_REAL", "1")
        .stdin(Stdio::null())
        .stdout(writer.try_clone()?)
        .stderr(writer);
    let mut child = command.spawn().with_context(|| format!("cannot run {}", program.file.display()))?;
    // The command holds the writing end; without it the reader would wait for ever.
    drop(command);
    let reader = std::thread::spawn(move || {
        let mut results = Results::default();
        let mut lines = BufReader::new(reader);
        let mut line = vec![];
        while lines.read_until(b'\n', &mut line).is_ok_and(|n| n > 0) {
            let text = String::from_utf8_lossy(&line).into_owned();
            print!("{text}");
            results.line(text.trim_end());
            line.clear();
        }
        results
    });
    let deadline = Instant::now() + PATIENCE;
    let status = loop {
        if let Some(status) = child.try_wait()? {
            break status;
        }
        if Instant::now() > deadline {
            println!("FAILED: no end after {PATIENCE:?}");
            child.kill()?;
        }
        std::thread::sleep(Duration::from_millis(20));
    };
    // What a test left running may hold the pipe; its output is no longer of interest.
    let grace = Instant::now() + Duration::from_secs(5);
    while !reader.is_finished() && Instant::now() < grace {
        std::thread::sleep(Duration::from_millis(20));
    }
    let results = if reader.is_finished() { reader.join().unwrap_or_default() } else { Results::default() };
    Ok((status, results))
}

/// What a test program prints, read line by line.
#[derive(Debug, Default)]
struct Results {
    count: Count,
    failures: Vec<String>,
    in_failures: bool,
}

impl Results {
    fn line(&mut self, line: &str) {
        if line == "failures:" {
            // Printed twice: before the outputs, and before the names.
            self.in_failures = true;
            self.failures.clear();
        } else if let Some(rest) = line.strip_prefix("test result: ") {
            let number = |word: &str| {
                let before = rest.split(word).next().unwrap_or_default();
                before.split_whitespace().last().and_then(|n| n.parse().ok()).unwrap_or(0)
            };
            self.count = Count { passed: number(" passed"), failed: number(" failed") };
            self.in_failures = false;
        } else if self.in_failures {
            match line.strip_prefix("    ") {
                Some(name) if !name.contains(' ') => self.failures.push(name.to_owned()),
                _ => {}
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_output_of_a_test_program_is_understood() {
        let mut results = Results::default();
        let text = "running 3 tests\ntest a ... ok\ntest b::c ... FAILED\n\nfailures:\n\n---- b::c stdout ----\n    left: 1\n    boom\n\n\nfailures:\n    b::c\n\ntest result: FAILED. 2 passed; 1 failed; 0 ignored; 0 measured; 0 filtered out; finished in 0.00s\n";
        text.lines().for_each(|l| results.line(l));
        assert_eq!(results.count, Count { passed: 2, failed: 1 });
        assert_eq!(results.failures, ["b::c"]);
    }

    #[test]
    fn only_clusters_of_tests_are_leftovers() {
        let status = "demo: Running, https://x\n  etcd 12\ne2e: Running\n  etcd dead\ne2e-2: cut off\n";
        assert_eq!(clusters(status), ["e2e", "e2e-2"]);
    }
}
