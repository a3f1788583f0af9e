//! `make upgrade FROM=<commit>`: another commit's operator makes tenants, this one takes them over, and the other one gets them back.
//! No pod of a tenant may restart, and nothing is written but a record of each tenant, which may be completed once, and what a newer one has
//! to say of it. Then likewise amid a change of the minor.

mod amid;

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::{Context as _, bail, ensure};
use serde_json::{Value, json};

use crate::demo::{Demo, TEAM};
use crate::images::{self, Profile, devcluster};
use crate::root;
use crate::shell::{Result, cache, input, output, run, say, state};

const CLUSTER: &str = "upgrade";
const USER: &str = "system:serviceaccount:berth-system:berth-operator";

/// Every object is reconciled within this time after another operator began: the members of an etcd are asked every half minute, a
/// tenant's API every minute.
const TAKEN_OVER: Duration = Duration::from_secs(150);

/// What a newer operator says first: of each tenant, what it asks the tenant for comes after the rest.
const STATUSES: usize = 2;

/// What must not change: a pod's UID, and when each of its containers was started how often.
type Pods = BTreeMap<String, String>;

/// There and back. `keep`: the cluster stays, to look at it.
pub(crate) fn run_all(from: &str, keep: bool) -> Result<()> {
    let from = output(git().args(["rev-parse", "--verify", &format!("{from}^{{commit}}")]))?.trim().to_owned();
    let old = cache().join("upgrade").join(&from);
    checkout(&from, &old)?;
    let images = images::build(Profile::Dev)?;
    say(&format!("tenants by {from}"));
    make(&old, "demo")?;
    let demo = Demo::of_cluster(CLUSTER, root().join("target/upgrade"))?;
    input(demo.kubectl().args(["apply", "-f", "-"]), &highly_available().to_string())?;
    all_ready(&demo, "5m")?;
    ensure!(!writes(&audit_log(), 0)?.is_empty(), "the audit log does not show what the operator wrote");

    taken_over(&demo, "this checkout", || demo.berth(&images, &demo.front_if_there()?))?;
    taken_over(&demo, &from, || make(&old, "demo"))?;
    amid::minor(&demo, &from, &old, &images)?;
    if keep {
        return Ok(());
    }
    run(devcluster().args(["down", "--name", CLUSTER]))?;
    run(git().args(["worktree", "remove", "--force"]).arg(&old))
}

/// Three members, and two of everything else, beside the tenants that the demo makes.
fn highly_available() -> Value {
    json!({
        "apiVersion": "berth.dev/v1alpha1", "kind": "Cluster", "metadata": {"name": "ha", "namespace": TEAM},
        "spec": {
            "version": "1.36.3",
            "etcd": {"replicas": 3}, "apiServer": {"replicas": 2}, "controllerManager": {"replicas": 2},
            "scheduler": {"replicas": 2},
        },
    })
}

/// Installs another operator and compares.
fn taken_over(demo: &Demo, by: &str, install: impl FnOnce() -> Result<()>) -> Result<()> {
    let (before, mark) = (pods(demo)?, lines(&audit_log())?);
    // The demo's, and one that is highly available.
    let tenants = output(demo.kubectl().args(["get", "clusters.berth.dev", "-A", "-o", "name"]))?.lines().count();
    install()?;
    say(&format!("{by} takes over; for {} s", TAKEN_OVER.as_secs()));
    std::thread::sleep(TAKEN_OVER);
    let after = pods(demo)?;
    let restarted: Vec<&String> =
        before.iter().filter(|(pod, was)| after.get(*pod) != Some(*was)).map(|(p, _)| p).collect();
    let writes = writes(&audit_log(), mark)?;
    println!("{} pods, {} restarted {restarted:?}", before.len(), restarted.len());
    println!("{} writes", writes.len());
    for write in &writes {
        println!("  {write}");
    }
    all_ready(demo, "1s")?;
    ensure!(restarted.is_empty() && after.len() == before.len(), "pods of tenants are not as they were: {restarted:?}");
    let (statuses, records): (Vec<_>, Vec<_>) = writes.iter().partition(|write| write.ends_with(" status"));
    ensure!(records.len() <= tenants, "more is written than a record of each of {tenants} tenants");
    ensure!(statuses.len() <= STATUSES * tenants, "more than {STATUSES} statuses of each tenant are written");
    Ok(())
}

fn all_ready(demo: &Demo, timeout: &str) -> Result<()> {
    let wait = ["-n", TEAM, "wait", "clusters.berth.dev", "--all", "--for=condition=Ready", "--timeout", timeout];
    run(demo.kubectl().args(wait))
}

/// Pods of tenants.
fn pods(demo: &Demo) -> Result<Pods> {
    let others = ["kube-system", "berth-system", "berth-gateway", "berth-access"];
    let others = others.map(|namespace| format!("metadata.namespace!={namespace}")).join(",");
    let all = output(demo.kubectl().args(["get", "pods", "-A", "--field-selector", &others, "-o", "json"]))?;
    let all: Value = serde_json::from_str(&all)?;
    let pods = all["items"].as_array().context("no list of pods")?.iter().map(|pod| {
        let meta = &pod["metadata"];
        let containers = pod["status"]["containerStatuses"].as_array().into_iter().flatten();
        let runs: Vec<_> = containers.map(|c| format!("{}:{}", c["restartCount"], c["containerID"])).collect();
        let name = format!("{}/{}", meta["namespace"], meta["name"]).replace('"', "");
        (name, format!("{} {}", meta["uid"], runs.join(" ")))
    });
    let pods: Pods = pods.collect();
    ensure!(!pods.is_empty(), "no tenant has pods");
    Ok(pods)
}

fn audit_log() -> PathBuf {
    state().join(CLUSTER).join("log/audit.log")
}

fn lines(log: &Path) -> Result<usize> {
    let file = File::open(log).with_context(|| format!("audit log {}", log.display()))?;
    Ok(BufReader::new(file).lines().count())
}

/// What the operator wrote after so many lines, but for the Lease, Events and dry runs: verb, resource, namespace, name.
fn writes(log: &Path, after: usize) -> Result<Vec<String>> {
    let mut found = vec![];
    for line in BufReader::new(File::open(log)?).lines().skip(after) {
        let Ok(event) = serde_json::from_str::<Value>(&line?) else { continue };
        let text = |pointer: &str| event.pointer(pointer).and_then(Value::as_str).unwrap_or_default();
        let (verb, resource) = (text("/verb"), text("/objectRef/resource"));
        if text("/user/username") != USER
            || !["create", "update", "patch", "delete", "deletecollection"].contains(&verb)
            || ["leases", "events"].contains(&resource)
            || text("/requestURI").contains("dryRun=All")
        {
            continue;
        }
        let of = |name: &str| text(&format!("/objectRef/{name}")).to_owned();
        found.push(format!("{verb} {resource} {} {} {}", of("namespace"), of("name"), of("subresource")));
    }
    Ok(found)
}

fn git() -> Command {
    let mut command = Command::new("git");
    command.current_dir(root());
    command
}

fn checkout(commit: &str, to: &Path) -> Result<()> {
    if to.exists() {
        return Ok(());
    }
    run(git().args(["worktree", "prune"]))?;
    run(git().args(["worktree", "add", "--quiet", "--detach"]).arg(to).arg(commit))
}

/// `make` in another checkout, with what a shell has that was just opened and the caches. Where it builds is its own affair: earlier ones
/// would build theirs in place of ours.
fn make(checkout: &Path, target: &str) -> Result<()> {
    let kept = ["PATH", "HOME", "TERM", "BERTH_CACHE", "BERTH_STATE", "CARGO_HOME", "RUSTUP_HOME"];
    let kept = kept.into_iter().filter_map(|name| Some((name, std::env::var_os(name)?)));
    let mut command = Command::new("make");
    command.arg("-C").arg(checkout).arg(target).env_clear().envs(kept).env("BERTH_CLUSTER", CLUSTER);
    if !command.status()?.success() {
        bail!("`make {target}` failed in {}", checkout.display());
    }
    Ok(())
}
