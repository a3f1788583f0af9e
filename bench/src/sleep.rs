//! A tenant that sleeps and wakes: how long both take, and what one that sleeps costs.

use crate::{Figure, operator, tenant};
use anyhow::bail;
use berth_api::hibernation::SleepState;
use berth_api::{Cluster, names};
use futures::future::try_join_all;
use k8s_openapi::api::core::v1::{Pod, Secret};
use kube::api::{ListParams, Patch, PatchParams};
use kube::{Api, Client};
use serde_json::{Value, json};
use std::path::Path;
use std::time::{Duration, Instant};

/// Between two looks at one tenant.
const PAUSE: Duration = Duration::from_millis(20);
pub(crate) const TIMEOUT: Duration = Duration::from_mins(5);

/// How it is measured.
pub(crate) struct Sizes {
    /// Times that one tenant sleeps and wakes.
    pub(crate) runs: usize,
    /// Tenants that wake at once.
    pub(crate) at_once: usize,
    /// Minutes asleep that are measured.
    pub(crate) minutes: u64,
}

/// One tenant again and again, then many at once; what the operator does while they sleep.
pub(crate) async fn run(client: &Client, audit: &Path, sizes: &Sizes) -> anyhow::Result<Vec<Figure>> {
    let (mut asleep, mut answers, mut awake) = (vec![], vec![], vec![]);
    let one = ["sleep-one".to_owned()];
    tenant::create(client, &one).await?;
    for run in 0..sizes.runs {
        asleep.push(fall_asleep(client, &one, &asked(true)).await?);
        let times = wake(client, &one).await?;
        println!(
            "run {run}: asleep {:.2} s; answers {:.2} s, awake {:.2} s",
            asleep[run], times.answers[0], times.ready[0]
        );
        answers.extend(times.answers);
        awake.extend(times.ready);
    }
    tenant::delete(client, &one).await?;

    let many: Vec<String> = (0..sizes.at_once).map(|i| format!("sleep-{i}")).collect();
    tenant::create(client, &many).await?;
    let many_asleep = fall_asleep(client, &many, &asked(true)).await?;
    let pods = pods(client, &many).await?;
    let mut figures = at_rest(client, audit, sizes.minutes, many.len()).await?;
    let times = wake(client, &many).await?;
    tenant::delete(client, &many).await?;
    println!("{} at once: asleep {many_asleep:.1} s; all answer {:.1} s", many.len(), most(&times.answers));
    figures.extend([
        Figure::new("sleep.asleep", "s", asleep),
        Figure::new("sleep.answers_worst", "s", vec![most(&answers)]),
        Figure::new("sleep.answers", "s", answers),
        Figure::new("sleep.awake", "s", awake),
        Figure::new("sleep.many_asleep", "s", vec![many_asleep]),
        Figure::new("sleep.many_answer", "s", vec![most(&times.answers)]),
        Figure::new("sleep.many_awake", "s", vec![most(&times.ready)]),
        Figure::new("sleep.pods", "pods", vec![pods]),
    ]);
    Ok(figures)
}

/// Seconds until all of them sleep, to whom that is done.
pub(crate) async fn fall_asleep(client: &Client, all: &[String], by: &Value) -> anyhow::Result<f64> {
    let started = Instant::now();
    change(client, all, by).await?;
    try_join_all(all.iter().map(|name| reaches(client, name, SleepState::Asleep, started))).await?;
    Ok(started.elapsed().as_secs_f64())
}

/// By the spec.
fn asked(sleep: bool) -> Value {
    json!({"spec": {"hibernation": {"enabled": sleep}}})
}

/// The most of them. 0: there are none.
pub(crate) fn most(all: &[f64]) -> f64 {
    all.iter().copied().fold(0.0, f64::max)
}

/// Seconds until each answers, and until it is awake with all of its components.
async fn wake(client: &Client, all: &[String]) -> anyhow::Result<tenant::Times> {
    let secrets: Api<Secret> = Api::namespaced(client.clone(), tenant::TEAM);
    let started = Instant::now();
    change(client, all, &asked(false)).await?;
    let one = async |name: &str| -> anyhow::Result<(f64, f64)> {
        let kubeconfig = tenant::value(&secrets.get(&names::kubeconfig(name)).await?)?;
        while tenant::ask(&kubeconfig).await.is_err() {
            if started.elapsed() > TIMEOUT {
                bail!("{name} does not answer after {TIMEOUT:?}");
            }
            tokio::time::sleep(tenant::pause(all.len())).await;
        }
        let answers = started.elapsed().as_secs_f64();
        Ok((answers, reaches(client, name, SleepState::Awake, started).await?))
    };
    let (answers, ready) = try_join_all(all.iter().map(|name| one(name))).await?.into_iter().unzip();
    Ok(tenant::Times { answers, ready })
}

async fn change(client: &Client, all: &[String], by: &Value) -> anyhow::Result<()> {
    let api: Api<Cluster> = Api::namespaced(client.clone(), tenant::TEAM);
    for name in all {
        api.patch(name, &PatchParams::default(), &Patch::Merge(by)).await?;
    }
    Ok(())
}

/// Seconds since then when its status says so.
pub(crate) async fn reaches(client: &Client, name: &str, state: SleepState, since: Instant) -> anyhow::Result<f64> {
    let api: Api<Cluster> = Api::namespaced(client.clone(), tenant::TEAM);
    loop {
        let status = api.get(name).await?.status.unwrap_or_default();
        if status.hibernation.is_some_and(|hibernation| hibernation.state == state) {
            return Ok(since.elapsed().as_secs_f64());
        }
        if since.elapsed() > TIMEOUT {
            bail!("{name} is not {state:?} after {TIMEOUT:?}: {:?}", status.conditions);
        }
        tokio::time::sleep(PAUSE).await;
    }
}

/// Pods of all their control planes.
#[expect(clippy::cast_precision_loss, reason = "small numbers")]
async fn pods(client: &Client, all: &[String]) -> anyhow::Result<f64> {
    let mut found = 0;
    for name in all {
        let pods: Api<Pod> = Api::namespaced(client.clone(), &tenant::cp_namespace(name));
        found += pods.list(&ListParams::default()).await?.items.len();
    }
    Ok(found as f64)
}

/// The operator while all of them sleep, for each of them.
#[expect(clippy::cast_precision_loss, reason = "small numbers")]
async fn at_rest(client: &Client, audit: &Path, minutes: u64, tenants: usize) -> anyhow::Result<Vec<Figure>> {
    if minutes == 0 {
        return Ok(vec![]);
    }
    // What the sleep still has to settle is not rest.
    tokio::time::sleep(Duration::from_secs(70)).await;
    let before = operator::look(client, audit).await?;
    tokio::time::sleep(Duration::from_mins(minutes)).await;
    let after = operator::look(client, audit).await?;
    let each = (tenants as u64 * minutes) as f64 / 15.0;
    Ok(vec![
        Figure::new("sleep.writes", "writes", vec![after.writes - before.writes]),
        Figure::new("sleep.reads", "1/15min", vec![(after.reads - before.reads) / each]),
        Figure::new("sleep.tenant_calls", "1/15min", vec![(after.tenant_calls - before.tenant_calls) / each]),
    ])
}
