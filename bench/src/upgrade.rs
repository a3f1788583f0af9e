//! A patch version, a minor in two steps and what a failure costs, of one tenant with two API servers; and the same Deployments rolled in the
//! same order by one client, without Berth.

use crate::floor::{self, Objects};
use crate::tenant::{self, TEAM};
use crate::{Figure, floor::Roll};
use anyhow::bail;
use berth_api::{Cluster, names};
use kube::api::{Patch, PatchParams};
use kube::{Api, Client};
use serde_json::{Value, json};
use std::time::{Duration, Instant};

const OLD: &str = "1.35.4";
const OLD_MINOR: &str = "1.35";
const BETWEEN: &str = "1.36.2";
const NEW: &str = "1.36.3";
/// Nobody has an image of it.
const MISSING: &str = "1.36.99";
const DEADLINE: u64 = 30;
const TIMEOUT: Duration = Duration::from_mins(10);

/// Measures: with and without Berth in turns.
pub(crate) async fn run(client: &Client, runs: usize) -> anyhow::Result<Vec<Figure>> {
    let (mut minor, mut patch, mut back, mut floor) = (vec![], vec![], vec![], vec![]);
    for run in 0..runs {
        let name = format!("upgrade-{run}");
        let deadline = format!("{DEADLINE}s");
        let upgrade = json!({"soak": "0s", "finalizeAfter": "0s", "progressDeadline": deadline});
        let spec = json!({"version": OLD, "apiServer": {"replicas": 2}, "upgrade": upgrade});
        tenant::create_with(client, std::slice::from_ref(&name), &spec).await?;
        recorded(client, &name).await?;
        let old = floor::dump(client, &name).await?;
        minor.push(to(client, &name, BETWEEN).await?);
        let new = floor::dump(client, &name).await?;
        patch.push(to(client, &name, NEW).await?);
        back.push(fails(client, &name).await?);
        tenant::delete(client, std::slice::from_ref(&name)).await?;
        floor.push(without_berth(client, &old, &new).await?);
        println!(
            "run {run}: minor {:.1} s, patch {:.1} s, back by itself after the deadline {:.1} s; floor: minor {:.1} s",
            minor[run], patch[run], back[run], floor[run]
        );
    }
    let ratios = minor.iter().zip(&floor).map(|(a, b)| a / b).collect();
    Ok(vec![
        Figure::new("upgrade.minor", "s", minor),
        Figure::new("floor_upgrade.minor", "s", floor),
        Figure::new("upgrade.ratio", "x", ratios),
        Figure::new("upgrade.patch", "s", patch),
        Figure::new("upgrade.back", "s", back),
    ])
}

fn clusters(client: &Client) -> Api<Cluster> {
    Api::namespaced(client.clone(), TEAM)
}

async fn ask(client: &Client, name: &str, version: &str) -> anyhow::Result<()> {
    let patch = Patch::Merge(json!({"spec": {"version": version}}));
    clusters(client).patch(name, &PatchParams::default(), &patch).await?;
    Ok(())
}

/// Waits until its status is as wanted. Seconds.
async fn until(client: &Client, name: &str, what: &str, wanted: impl Fn(&Value) -> bool) -> anyhow::Result<f64> {
    let started = Instant::now();
    loop {
        let status = json!(clusters(client).get(name).await?.status);
        if wanted(&status) {
            return Ok(started.elapsed().as_secs_f64());
        }
        if started.elapsed() > TIMEOUT {
            bail!("{name}: {what}, not after {TIMEOUT:?}: {status}");
        }
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
}

async fn recorded(client: &Client, name: &str) -> anyhow::Result<f64> {
    until(client, name, "the first revision", |status| status["history"][0]["outcome"] == "Succeeded").await
}

/// Until all components run it, and serve what they are.
async fn to(client: &Client, name: &str, version: &str) -> anyhow::Result<f64> {
    ask(client, name, version).await?;
    until(client, name, version, |status| {
        let all = status["components"].as_array().is_some_and(|all| all.iter().all(|one| one["version"] == version));
        let serves = status["version"] == version && status["emulatedVersion"].is_null();
        all && serves && status["history"][0]["version"] == version && status["history"][0]["outcome"] == "Succeeded"
    })
    .await
}

/// A version of which there is no image: from the deadline on, until the pods from before are all there are.
async fn fails(client: &Client, name: &str) -> anyhow::Result<f64> {
    ask(client, name, MISSING).await?;
    let back = until(client, name, "to come back", |status| {
        status["history"][0]["outcome"] == "RolledBack"
            && status["conditions"].as_array().is_some_and(|all| {
                let is = |type_: &str, value: &str| all.iter().any(|c| c["type"] == type_ && c["status"] == value);
                is("Progressing", "False") && is("Available", "True")
            })
    })
    .await?;
    #[expect(clippy::cast_precision_loss, reason = "half a minute")]
    Ok(back - DEADLINE as f64)
}

/// The same two steps: the new Deployments with the flag, then without it; API servers first.
async fn without_berth(client: &Client, old: &Objects, new: &Objects) -> anyhow::Result<f64> {
    floor::start(client, std::slice::from_ref(old)).await?;
    let roll = Roll { first: names::APISERVER, others: &[names::CONTROLLER_MANAGER, names::SCHEDULER] };
    let mut emulating = new.clone();
    let flag = format!("--emulated-version={OLD_MINOR}");
    emulating.edit(|object| {
        let is_rolled = [roll.first].iter().chain(roll.others).any(|name| object["metadata"]["name"] == *name);
        let args = object.pointer_mut("/spec/template/spec/containers/0/args").and_then(Value::as_array_mut);
        args.filter(|_| is_rolled).into_iter().for_each(|args| args.push(json!(flag)));
    });
    let started = Instant::now();
    for objects in [&emulating, new] {
        roll.to(client, objects).await?;
    }
    let seconds = started.elapsed().as_secs_f64();
    floor::remove(client, std::slice::from_ref(old)).await?;
    Ok(seconds)
}
