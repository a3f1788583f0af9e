//! Amid a change of the minor: between its steps no pod is replaced because the operator is another one, and a second step that one operator
//! began the next one ends.

use std::path::Path;
use std::process::Stdio;
use std::time::{Duration, Instant};

use anyhow::ensure;
use serde_json::{Value, json};

use super::{CLUSTER, TAKEN_OVER, make, pods};
use crate::demo::{Demo, TEAM};
use crate::images::{Images, devcluster};
use crate::shell::{Result, input, output, run, say};

const NAME: &str = "amid";
const OLDER: &str = "1.35.4";
const NEWER: &str = "1.36.3";
/// For each step: much else may run on the machine.
const TIMEOUT: Duration = Duration::from_mins(10);

/// The other commit's operator begins the first step and this checkout's ends it; between the steps each takes over from the other; the other
/// one begins the second step, and this one ends it.
pub(super) fn minor(demo: &Demo, from: &str, old: &Path, images: &Images) -> Result<()> {
    run(devcluster().args(["build", "kubernetes-v1.35.4"]))?;
    run(devcluster().args(["up", "--timeout", "300", "--name", CLUSTER, "--all-images"]).stdout(Stdio::null()))?;
    say(&format!("a minor: {from} creates a tenant of {OLDER}"));
    input(demo.kubectl().args(["apply", "-f", "-"]), &tenant().to_string())?;
    until(demo, "to run the older minor", |status| status["version"] == OLDER && ready(status))?;

    say(&format!("{from} begins the first step to {NEWER}, this checkout ends it"));
    set(demo, &json!({"version": NEWER}))?;
    until(demo, "to be changed", |status| !status["rollout"].is_null())?;
    demo.berth(images, &demo.front_if_there()?)?;
    until(demo, "to emulate the older minor", is_emulating)?;

    // Whose templates and images are newer does not matter.
    stays(demo, from, || make(old, "demo"))?;
    stays(demo, "this checkout", || demo.berth(images, &demo.front_if_there()?))?;
    make(old, "demo")?;

    say(&format!("{from} begins the second step, this checkout ends it"));
    set(demo, &json!({"upgrade": {"finalizeAfter": "0s"}}))?;
    until(demo, "to begin the second step", |status| status["emulatedVersion"].is_null() || !is_emulating(status))?;
    demo.berth(images, &demo.front_if_there()?)?;
    until(demo, "to run the newer minor", |status| {
        status["version"] == NEWER && status["emulatedVersion"].is_null() && ready(status)
    })
}

fn tenant() -> Value {
    json!({
        "apiVersion": "berth.dev/v1alpha1", "kind": "Cluster", "metadata": {"name": NAME, "namespace": TEAM},
        "spec": {
            "version": OLDER, "apiServer": {"replicas": 2},
            "upgrade": {"soak": "0s", "finalizeAfter": "2h"},
        },
    })
}

fn set(demo: &Demo, spec: &Value) -> Result<()> {
    let patch = json!({"spec": spec}).to_string();
    run(demo.kubectl().args(["-n", TEAM, "patch", "clusters.berth.dev", NAME, "--type=merge", "-p", &patch]))
}

fn status(demo: &Demo) -> Result<Value> {
    let cluster = output(demo.kubectl().args(["-n", TEAM, "get", "clusters.berth.dev", NAME, "-o", "json"]))?;
    let cluster: Value = serde_json::from_str(&cluster)?;
    let is_seen = cluster["status"]["observedGeneration"] == cluster["metadata"]["generation"];
    Ok(if is_seen { cluster["status"].clone() } else { Value::Null })
}

fn ready(status: &Value) -> bool {
    let conditions = status["conditions"].as_array().into_iter().flatten();
    conditions.into_iter().any(|c| c["type"] == "Ready" && c["status"] == "True")
}

/// The first step is done, and nothing runs that is not to stay.
fn is_emulating(status: &Value) -> bool {
    let emulates = status["emulatedVersion"].as_str().is_some_and(|minor| OLDER.starts_with(minor));
    emulates && status["version"] == NEWER && ready(status)
}

fn until(demo: &Demo, what: &str, wanted: impl Fn(&Value) -> bool) -> Result<()> {
    let began = Instant::now();
    loop {
        let now = status(demo)?;
        if wanted(&now) {
            return Ok(());
        }
        ensure!(began.elapsed() < TIMEOUT, "{TEAM}/{NAME} is {what}, not after {TIMEOUT:?}: {now}");
        std::thread::sleep(Duration::from_millis(500));
    }
}

/// Another operator is installed between the steps.
fn stays(demo: &Demo, by: &str, install: impl FnOnce() -> Result<()>) -> Result<()> {
    let before = pods(demo)?;
    install()?;
    say(&format!("{by} takes over between the steps; for {} s", TAKEN_OVER.as_secs()));
    std::thread::sleep(TAKEN_OVER);
    let after = pods(demo)?;
    let changed: Vec<&String> =
        before.iter().filter(|(pod, was)| after.get(*pod) != Some(*was)).map(|(p, _)| p).collect();
    println!("{} pods, {} restarted {changed:?}", before.len(), changed.len());
    ensure!(changed.is_empty() && after.len() == before.len(), "pods of tenants are not as they were: {changed:?}");
    ensure!(is_emulating(&status(demo)?), "it is between the steps");
    Ok(())
}
