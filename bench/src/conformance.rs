//! Kubernetes' own conformance specs, against a tenant with two machines in its VPC.

use crate::{Figure, machines::Programs, tenant};
use anyhow::{Context as _, ensure};
use berth_api::names;
use k8s_openapi::api::core::v1::Secret;
use kube::{Api, Client};
use serde_json::{Value, json};
use std::collections::{BTreeMap, VecDeque};
use std::fmt::Write as _;
use std::fs::{self, File, OpenOptions};
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Mutex;

/// Which specs are not run: a reason, `: `, and what their names contain.
const SKIPPED: &str = include_str!("conformance/skipped.txt");
/// What changes nodes, or wants them for itself: one after the other, when the others are through.
const ALONE: [&str; 2] = ["[Serial]", "[Disruptive]"];
/// Specs that one process runs. Cut off, no more than these are run again.
const AT_ONCE: usize = 12;
/// With what its machines are added.
const IMAGES: &str = "--conformance";
const MACHINES: [&str; 2] = ["conformance-a", "conformance-b"];

/// What is run, and with what.
pub(crate) struct Suite<'a> {
    pub(crate) programs: Programs<'a>,
    /// `e2e.test` of the tenant's version.
    pub(crate) binary: &'a Path,
    /// Processes of it at once.
    pub(crate) processes: usize,
    /// Only specs whose names contain this.
    pub(crate) only: Option<&'a str>,
    /// A line for each spec that was run. What is `passed` there is not run again.
    pub(crate) results: PathBuf,
}

/// Makes a tenant and its nodes, and runs what has not passed yet.
pub(crate) async fn run(client: &Client, suite: &Suite<'_>) -> anyhow::Result<Vec<Figure>> {
    let specs = suite.list()?;
    let (skipped, wanted): (Vec<_>, Vec<_>) = specs.into_iter().partition(|spec| reason(spec).is_some());
    let wanted: Vec<_> = wanted.into_iter().filter(|spec| suite.only.is_none_or(|part| spec.contains(part))).collect();
    let done = suite.results()?;
    let left: Vec<_> = wanted.iter().filter(|spec| !passed(&done, spec)).cloned().collect();
    println!(
        "{} specs, {} of them passed before, {} are skipped",
        wanted.len(),
        wanted.len() - left.len(),
        skipped.len()
    );
    if !left.is_empty() {
        suite.machines(false)?;
        suite.programs.define_vpc()?;
        tenant::create_with(client, &["conformance".to_owned()], &spec()).await?;
        let outcome = suite.join_and_run(client, left).await;
        suite.machines(false)?;
        tenant::delete(client, &["conformance".to_owned()]).await?;
        outcome?;
    }
    let done = suite.results()?;
    let failed: Vec<_> = wanted.iter().filter(|spec| !passed(&done, spec)).collect();
    let mut reasons: BTreeMap<&str, usize> = BTreeMap::new();
    skipped.iter().filter_map(|spec| reason(spec)).for_each(|why| *reasons.entry(why).or_default() += 1);
    for (why, number) in reasons {
        println!("skipped {number:>4}: {why}");
    }
    for spec in &failed {
        println!("FAILED: {spec}");
    }
    let count = |number: usize| vec![f64::from(u32::try_from(number).unwrap_or(u32::MAX))];
    Ok(vec![
        Figure::new("conformance.passed", "specs", count(wanted.len() - failed.len())),
        Figure::new("conformance.failed", "specs", count(failed.len())),
        Figure::new("conformance.skipped", "specs", count(skipped.len())),
    ])
}

/// A tenant whose API servers reach the pods: webhooks and proxies are tested, too.
fn spec() -> Value {
    json!({
        "vpc": {
            "attachment": {"name": "vpc-a"},
            "addresses": ["172.20.0.2/24"],
            "routes": [{"dst": "10.160.0.0/16", "via": "172.20.0.1"}],
        },
        // A machine of devcluster's does not size its kernel's table of connections.
        "addons": {"kubeProxy": {"mode": "nftables", "config": {"conntrack": {"maxPerCore": 0, "min": 0}}}},
    })
}

impl Suite<'_> {
    /// The names of all conformance specs.
    fn list(&self) -> anyhow::Result<Vec<String>> {
        fs::create_dir_all(&self.programs.dir)?;
        let report = self.programs.dir.join("all.json");
        let mut command = Command::new(self.binary);
        command.args(["--ginkgo.dry-run", "--provider=skeleton", r"--ginkgo.focus=\[Conformance\]"]);
        command.arg("--kubeconfig=/nowhere").arg(format!("--ginkgo.json-report={}", report.display()));
        let output = command.output().with_context(|| format!("cannot run {}", self.binary.display()))?;
        ensure!(output.status.success(), "the specs cannot be listed: {}", output.status);
        Ok(outcomes(&report)?.into_iter().map(|(spec, ..)| spec).collect())
    }

    /// What is on record, the newest line of a spec last.
    fn results(&self) -> anyhow::Result<Vec<Value>> {
        let text = fs::read_to_string(&self.results).unwrap_or_default();
        text.lines().map(|line| Ok(serde_json::from_str(line)?)).collect()
    }

    /// Removes the machines; starts them anew if asked to.
    fn machines(&self, start: bool) -> anyhow::Result<()> {
        for machine in MACHINES {
            // One that is not there is no error.
            let _ = self.programs.devcluster(&["worker", "remove", machine], &[]);
            if start {
                self.programs.devcluster(&["worker", "add", machine, IMAGES], &["--vpc", "a"])?;
            }
        }
        Ok(())
    }

    async fn join_and_run(&self, client: &Client, specs: Vec<String>) -> anyhow::Result<()> {
        let secrets: Api<Secret> = Api::namespaced(client.clone(), tenant::TEAM);
        let kubeconfig = self.programs.dir.join("conformance.kubeconfig");
        fs::write(&kubeconfig, tenant::value(&secrets.get(&names::kubeconfig("conformance")).await?)?)?;
        self.machines(true)?;
        for machine in MACHINES {
            self.programs.join_one("conformance", machine, &[IMAGES], &kubeconfig)?;
        }
        let (alone, together): (Vec<_>, Vec<_>) =
            specs.into_iter().partition(|spec| ALONE.iter().any(|label| spec.contains(label)));
        for (specs, processes) in [(together, self.processes), (alone, 1)] {
            let chunks: VecDeque<_> = specs.chunks(AT_ONCE).map(<[String]>::to_vec).enumerate().collect();
            let (total, chunks) = (chunks.len(), Mutex::new(chunks));
            let next = || chunks.lock().ok().and_then(|mut all| all.pop_front());
            std::thread::scope(|scope| {
                let work = || -> anyhow::Result<()> {
                    while let Some((number, chunk)) = next() {
                        println!("{} of {total}, with {processes} at once", number + 1);
                        self.run_chunk(&format!("{processes}-{number}"), &chunk, &kubeconfig)?;
                    }
                    Ok(())
                };
                let threads: Vec<_> = (0..processes).map(|_| scope.spawn(work)).collect();
                threads.into_iter().try_for_each(|t| t.join().unwrap_or_else(|_| anyhow::bail!("a thread panicked")))
            })?;
        }
        Ok(())
    }

    /// Runs some specs in one process, and records how they ended.
    fn run_chunk(&self, name: &str, specs: &[String], kubeconfig: &Path) -> anyhow::Result<()> {
        // What it is compared with begins with the suite's name.
        let focus: Vec<_> = specs.iter().map(|spec| escaped(spec)).collect();
        let (report, log) =
            (self.programs.dir.join(format!("{name}.json")), self.programs.dir.join(format!("{name}.log")));
        let _ = fs::remove_file(&report);
        let file = File::create(&log)?;
        let mut command = Command::new(self.binary);
        command.args(["--provider=skeleton", "--disable-log-dump", "--ginkgo.no-color", "--ginkgo.timeout=3h"]);
        command.arg(format!("--kubeconfig={}", kubeconfig.display()));
        command.arg(format!("--kubectl-path={}", self.programs.kubectl.display()));
        command.arg(format!("--ginkgo.focus= ({})$", focus.join("|")));
        command.arg(format!("--ginkgo.json-report={}", report.display()));
        // Whether specs failed is in the report.
        command.stdout(file.try_clone()?).stderr(file).status()?;
        let outcomes = outcomes(&report).with_context(|| format!("no report: see {}", log.display()))?;
        ensure!(
            outcomes.len() == specs.len(),
            "{} of {} specs were run: see {}",
            outcomes.len(),
            specs.len(),
            log.display()
        );
        let mut lines = String::new();
        for (spec, state, seconds, why) in outcomes {
            if state != "passed" {
                println!("{state}: {spec}\n    {why}");
            }
            let line = json!({"spec": spec, "state": state, "seconds": seconds, "why": why, "log": log});
            writeln!(lines, "{line}")?;
        }
        let mut results = OpenOptions::new().create(true).append(true).open(&self.results)?;
        results.write_all(lines.as_bytes())?;
        Ok(())
    }
}

/// Why a spec is not run, if it is not.
fn reason(spec: &str) -> Option<&'static str> {
    SKIPPED.lines().filter_map(|line| line.split_once(": ")).find(|(_, part)| spec.contains(part)).map(|(why, _)| why)
}

/// Whether the newest record of a spec says so.
fn passed(results: &[Value], spec: &str) -> bool {
    results.iter().rev().find(|line| line["spec"] == spec).is_some_and(|line| line["state"] == "passed")
}

/// Of each spec in ginkgo's report that was run: its name, how it ended, seconds, and why it failed.
fn outcomes(report: &Path) -> anyhow::Result<Vec<(String, String, f64, String)>> {
    let report: Value = serde_json::from_str(&fs::read_to_string(report)?)?;
    let specs = report.pointer("/0/SpecReports").and_then(Value::as_array).context("no SpecReports")?;
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let all = specs
        .iter()
        .filter(|spec| spec["LeafNodeType"] == "It" && spec["NumAttempts"] != 0 || spec["State"] == "passed");
    let all = all.filter(|spec| spec["LeafNodeType"] == "It").map(|spec| {
        let above = spec["ContainerHierarchyTexts"].as_array().into_iter().flatten().map(text);
        let name = above.chain([text(&spec["LeafNodeText"])]).collect::<Vec<_>>().join(" ");
        let seconds = spec["RunTime"].as_f64().unwrap_or_default() / 1e9;
        let why = text(&spec["Failure"]["Message"]).lines().take(3).collect::<Vec<_>>().join(" ");
        (name, text(&spec["State"]), seconds, why)
    });
    Ok(all.collect())
}

/// As a regular expression that matches this text alone.
fn escaped(text: &str) -> String {
    let special = |c: char| r"\.+*?()|[]{}^$".contains(c);
    text.chars().flat_map(|c| special(c).then_some('\\').into_iter().chain([c])).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_spec_is_skipped_for_the_reason_in_its_line() {
        for line in SKIPPED.lines() {
            let (why, part) = line.split_once(": ").unwrap();
            assert_eq!(reason(&format!("[sig-x] {part} [Conformance]")), Some(why));
        }
        assert_eq!(reason("[sig-x] anything else [Conformance]"), None);
    }

    #[test]
    fn the_newest_record_counts() {
        let line = |state: &str| json!({"spec": "a", "state": state});
        assert!(passed(&[line("failed"), line("passed")], "a"));
        assert!(!passed(&[line("passed"), line("failed")], "a"));
        assert!(!passed(&[line("passed")], "b"));
    }

    #[test]
    fn what_is_special_in_an_expression_is_escaped() {
        assert_eq!(escaped("[sig-x] a (b.c)"), r"\[sig-x\] a \(b\.c\)");
    }
}
