//! What a tenant costs that nobody uses: memory and CPU of its processes, and what each lever gives.

use crate::floor::{self, Objects};
use crate::levers::{self, Lever};
use crate::process::{self, Usage};
use crate::{Figure, tenant};
use anyhow::{Context as _, bail};
use k8s_openapi::api::core::v1::Pod;
use kube::api::ListParams;
use kube::{Api, Client};
use std::collections::BTreeMap;
use std::time::{Duration, Instant};

/// A control plane's processes, as the kernel names them.
pub(crate) const PROCESSES: [&str; 4] = ["kube-apiserver", "kube-controller", "kube-scheduler", "etcd"];

/// How long a new tenant takes to come to rest: Go gives memory back slowly.
const SETTLE: Duration = Duration::from_mins(3);

/// One process over a while.
#[derive(Clone, Copy, Debug, Default)]
struct Cost {
    rss: f64,
    pss: f64,
    /// Milliseconds of CPU a second.
    cpu: f64,
}

/// One tenant alone, as Berth makes it.
pub(crate) async fn alone(client: &Client, minutes: u64) -> anyhow::Result<Vec<Figure>> {
    let name = ["idle-0".to_owned()];
    tenant::create(client, &name).await?;
    tokio::time::sleep(SETTLE).await;
    let costs = measure(client, &name, minutes).await?;
    tenant::delete(client, &name).await?;
    let cost = costs.first().context("nothing was measured")?;
    let mut figures = vec![];
    for (process, names) in PROCESSES.iter().zip(NAMES) {
        let c = cost.get(process).copied().unwrap_or_default();
        for (name, unit, value) in [(names[0], "MiB", c.rss), (names[1], "MiB", c.pss), (names[2], "ms/s", c.cpu)] {
            figures.push(Figure::new(name, unit, vec![value]));
        }
    }
    let sum = |of: fn(&Cost) -> f64| cost.values().map(of).sum::<f64>();
    figures.extend([
        Figure::new("idle.rss", "MiB", vec![sum(|c| c.rss)]),
        Figure::new("idle.pss", "MiB", vec![sum(|c| c.pss)]),
        Figure::new("idle.cpu", "ms/s", vec![sum(|c| c.cpu)]),
    ]);
    Ok(figures)
}

const NAMES: [[&str; 3]; 4] = [
    ["idle.apiserver.rss", "idle.apiserver.pss", "idle.apiserver.cpu"],
    ["idle.controllers.rss", "idle.controllers.pss", "idle.controllers.cpu"],
    ["idle.scheduler.rss", "idle.scheduler.pss", "idle.scheduler.cpu"],
    ["idle.etcd.rss", "idle.etcd.pss", "idle.etcd.cpu"],
];

/// One tenant for each lever, side by side and without Berth. Prints a table. Those that share a machine share programs in memory too, so
/// each one's PSS is less than that of one alone.
pub(crate) async fn compare(client: &Client, minutes: u64, only: &[String]) -> anyhow::Result<()> {
    let all = levers::all();
    let chosen: Vec<&Lever> =
        all.iter().filter(|l| only.is_empty() || l.name == levers::NONE || only.iter().any(|o| o == l.name)).collect();
    let names: Vec<String> = (0..chosen.len()).map(|i| format!("lever-{i}")).collect();
    let mut objects: Vec<Objects> = vec![];
    // One after the other: a dozen that start at once keep a small machine from anything else.
    for (name, lever) in names.iter().zip(&chosen) {
        let name = std::slice::from_ref(name);
        tenant::create(client, name).await?;
        let mut dumped = floor::dump(client, &name[0]).await?;
        tenant::delete(client, name).await?;
        dumped.edit(|object| all.iter().filter(|l| l.taken).for_each(|l| l.undo(object)));
        dumped.edit(|object| levers::pull(lever, &all, object));
        floor::start(client, std::slice::from_ref(&dumped)).await?;
        objects.push(dumped);
    }
    tokio::time::sleep(SETTLE).await;
    let costs = measure(client, &names, minutes).await?;
    floor::remove(client, &objects).await?;
    println!(
        "\n| lever | taken | kube-apiserver | controller-manager | scheduler | etcd | all |\n|---|---|---|---|---|---|---|"
    );
    for (lever, cost) in chosen.iter().zip(&costs) {
        let cell = |c: Cost| format!("{:.0} MiB ({:.0}), {:.1} ms/s", c.rss, c.pss, c.cpu);
        let each: Vec<String> = PROCESSES.iter().map(|p| cell(cost.get(p).copied().unwrap_or_default())).collect();
        let total = cost.values().fold(Cost::default(), |a, b| Cost {
            rss: a.rss + b.rss,
            pss: a.pss + b.pss,
            cpu: a.cpu + b.cpu,
        });
        let taken = if lever.taken { "yes" } else { "" };
        println!("| {} | {taken} | {} | {} |", lever.name, each.join(" | "), cell(total));
    }
    Ok(())
}

/// What the processes of these tenants use for so many minutes; memory at their end.
async fn measure(client: &Client, names: &[String], minutes: u64) -> anyhow::Result<Vec<BTreeMap<&'static str, Cost>>> {
    let mut pids = vec![];
    for name in names {
        pids.push(processes(client, name).await?);
    }
    let usage = |pid: u32| process::usage(pid).context("a process of a tenant has ended");
    let before: Vec<Vec<Usage>> = pids
        .iter()
        .map(|all| all.values().map(|pid| usage(*pid)).collect::<anyhow::Result<_>>())
        .collect::<anyhow::Result<_>>()?;
    let started = Instant::now();
    tokio::time::sleep(Duration::from_mins(minutes)).await;
    let seconds = started.elapsed().as_secs_f64();
    pids.iter()
        .zip(before)
        .map(|(all, before)| {
            all.iter()
                .zip(before)
                .map(|((name, pid), before)| {
                    let after = usage(*pid)?;
                    let pss = process::pss(*pid).context("no smaps_rollup")?;
                    Ok((*name, Cost { rss: after.rss, pss, cpu: (after.cpu - before.cpu) / seconds * 1000.0 }))
                })
                .collect()
        })
        .collect()
}

/// The processes of a tenant by name: what runs in the cgroups of its pods.
async fn processes(client: &Client, name: &str) -> anyhow::Result<BTreeMap<&'static str, u32>> {
    let pods: Api<Pod> = Api::namespaced(client.clone(), &tenant::home(name));
    let uids: Vec<String> =
        pods.list(&ListParams::default()).await?.into_iter().filter_map(|p| p.metadata.uid).collect();
    let mut found = BTreeMap::new();
    for (pid, comm) in process::all() {
        let Some(process) = PROCESSES.iter().find(|p| **p == comm) else { continue };
        let cgroup = std::fs::read_to_string(format!("/proc/{pid}/cgroup")).unwrap_or_default();
        if uids.iter().any(|uid| cgroup.contains(uid.as_str())) {
            found.insert(*process, pid);
        }
    }
    if found.len() != PROCESSES.len() {
        bail!("{name} runs {:?} on this machine, and not all of {PROCESSES:?}", found.keys());
    }
    Ok(found)
}
