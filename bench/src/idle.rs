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

/// A control plane's processes, as the kernel names them and as figures do.
pub(crate) const PROCESSES: [(&str, &str); 4] = [
    ("kube-apiserver", "apiserver"),
    ("kube-controller", "controllers"),
    ("kube-scheduler", "scheduler"),
    ("etcd", "etcd"),
];

/// How long a new tenant takes to come to rest: Go gives memory back slowly.
const SETTLE: Duration = Duration::from_mins(3);

/// One process over a while.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Cost {
    rss: f64,
    pss: f64,
    anonymous: f64,
    /// Milliseconds of CPU a second.
    cpu: f64,
}

impl std::ops::Add for Cost {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        Self {
            rss: self.rss + other.rss,
            pss: self.pss + other.pss,
            anonymous: self.anonymous + other.anonymous,
            cpu: self.cpu + other.cpu,
        }
    }
}

/// What became of one process while it was looked at.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Seen {
    Cost(Cost),
    /// It ended; what was started in its place was not measured.
    Restarted,
    /// It did not run when measuring began.
    Absent,
}

impl Seen {
    fn cost(self) -> Option<Cost> {
        if let Self::Cost(cost) = self { Some(cost) } else { None }
    }

    /// A cell of the table.
    fn cell(self) -> String {
        match self {
            Self::Cost(c) => format!("{:.0} MiB ({:.0}), {:.1} ms/s", c.rss, c.anonymous, c.cpu),
            Self::Restarted => "restarted".into(),
            Self::Absent => "not running".into(),
        }
    }
}

/// One tenant's processes, in the order of [`PROCESSES`].
type Tenant = [Seen; 4];

/// All processes together, if all were measured.
fn total(tenant: &Tenant) -> Option<Cost> {
    tenant.iter().try_fold(Cost::default(), |sum, seen| Some(sum + seen.cost()?))
}

/// One tenant alone, as Berth makes it.
pub(crate) async fn alone(client: &Client, minutes: u64) -> anyhow::Result<Vec<Figure>> {
    let name = ["idle-0".to_owned()];
    tenant::create(client, &name).await?;
    tokio::time::sleep(SETTLE).await;
    let seen = measure(client, &name, minutes).await?;
    tenant::delete(client, &name).await?;
    let seen = seen.first().context("nothing was measured")?;
    for ((process, _), seen) in PROCESSES.iter().zip(seen).filter(|(_, seen)| seen.cost().is_none()) {
        println!("{process}: {}, so it has no figures", seen.cell());
    }
    Ok(figures("idle", seen))
}

/// The figures of one tenant: of each process that was measured, and of all together if all were.
fn figures(prefix: &str, tenant: &Tenant) -> Vec<Figure> {
    let processes = PROCESSES.iter().zip(tenant).map(|((_, short), seen)| (format!("{prefix}.{short}"), seen.cost()));
    let all = processes.chain([(prefix.to_owned(), total(tenant))]);
    let measured = all.filter_map(|(name, cost)| Some((name, cost?)));
    measured
        .flat_map(|(name, c)| {
            let each = [
                ("rss", "MiB", c.rss),
                ("pss", "MiB", c.pss),
                ("anonymous", "MiB", c.anonymous),
                ("cpu", "ms/s", c.cpu),
            ];
            each.map(|(what, unit, value)| Figure::new(format!("{name}.{what}"), unit, vec![value]))
        })
        .collect()
}

/// The levers of these names, behind the row without any. Without names: all.
pub(crate) fn chosen<'a>(all: &'a [Lever], only: &[String]) -> anyhow::Result<Vec<&'a Lever>> {
    if let Some(unknown) = only.iter().find(|o| all.iter().all(|l| l.name != o.as_str())) {
        bail!("no lever is called {unknown}: there are {:?}", all.iter().map(|l| l.name).collect::<Vec<_>>());
    }
    let is_chosen = |l: &&Lever| only.is_empty() || l.name == levers::NONE || only.iter().any(|o| o == l.name);
    Ok(all.iter().filter(is_chosen).collect())
}

/// One tenant for each lever, side by side and without Berth. Prints a table. Those that share a machine share programs in memory too, so
/// each one's PSS is less than that of one alone.
pub(crate) async fn compare(client: &Client, minutes: u64, only: &[String]) -> anyhow::Result<Vec<Figure>> {
    let all = levers::all();
    let chosen = chosen(&all, only)?;
    let names: Vec<String> = (0..chosen.len()).map(|i| format!("lever-{i}")).collect();
    let mut objects: Vec<Objects> = vec![];
    // One after the other: a dozen that start at once keep a small machine from anything else.
    for (name, lever) in names.iter().zip(&chosen) {
        let name = std::slice::from_ref(name);
        tenant::create(client, name).await?;
        let mut dumped = floor::dump(client, &name[0]).await?;
        tenant::delete(client, name).await?;
        dumped.edit(|object| levers::only(lever, &all, object));
        floor::start(client, std::slice::from_ref(&dumped)).await?;
        objects.push(dumped);
    }
    tokio::time::sleep(SETTLE).await;
    let seen = measure(client, &names, minutes).await?;
    floor::remove(client, &objects).await?;
    println!("\n{}", table(&chosen, &seen));
    Ok(chosen.iter().zip(&seen).flat_map(|(lever, seen)| figures(&format!("lever.{}", lever.key()), seen)).collect())
}

/// What `docs/benchmarks.md` shows of levers.
fn table(levers: &[&Lever], seen: &[Tenant]) -> String {
    let mut rows = vec![
        "| lever | taken | kube-apiserver | controller-manager | scheduler | etcd | all |".to_owned(),
        "|---|---|---|---|---|---|---|".to_owned(),
    ];
    for (lever, tenant) in levers.iter().zip(seen) {
        let each = tenant.map(Seen::cell).join(" | ");
        let all = total(tenant).map(|c| Seen::Cost(c).cell()).unwrap_or_default();
        let taken = if lever.taken { "**yes**" } else { "" };
        rows.push(format!("| {} | {taken} | {each} | {all} |", lever.name));
    }
    rows.join("\n")
}

/// Measures the processes of tenants for so many minutes. One that is started anew meanwhile costs the others nothing.
async fn measure(client: &Client, names: &[String], minutes: u64) -> anyhow::Result<Vec<Tenant>> {
    let mut pids = vec![];
    for name in names {
        pids.push(processes(client, name).await?);
    }
    let usage = |pids: &BTreeMap<&str, u32>, process: &str| {
        let pid = *pids.get(process)?;
        Some((pid, process::usage(pid)?))
    };
    let before: Vec<_> = pids.iter().map(|pids| PROCESSES.map(|(process, _)| usage(pids, process))).collect();
    let started = Instant::now();
    tokio::time::sleep(Duration::from_mins(minutes)).await;
    let seconds = started.elapsed().as_secs_f64();
    let now = |process: Option<(u32, Usage)>| {
        let Some((pid, before)) = process else { return Seen::Absent };
        let after = process::usage(pid).zip(process::pss(pid));
        cost(before, after, seconds).map_or(Seen::Restarted, Seen::Cost)
    };
    let seen: Vec<Tenant> = before.into_iter().map(|tenant| tenant.map(now)).collect();
    if seen.iter().flatten().all(|s| s.cost().is_none()) {
        bail!("no process of {names:?} was measured: do their pods run on this machine?");
    }
    Ok(seen)
}

/// What a process took in so many seconds; none if it is gone, or another one has its number.
fn cost(before: Usage, after: Option<(Usage, f64)>, seconds: f64) -> Option<Cost> {
    let (after, pss) = after.filter(|(after, _)| after.started == before.started)?;
    Some(Cost { rss: after.rss, pss, anonymous: after.anonymous, cpu: (after.cpu - before.cpu) / seconds * 1000.0 })
}

/// The processes of a tenant by name: what runs in the cgroups of its pods.
pub(crate) async fn processes(client: &Client, name: &str) -> anyhow::Result<BTreeMap<&'static str, u32>> {
    let pods: Api<Pod> = Api::namespaced(client.clone(), &tenant::cp_namespace(name));
    let uids: Vec<String> =
        pods.list(&ListParams::default()).await?.into_iter().filter_map(|p| p.metadata.uid).collect();
    let mut found = BTreeMap::new();
    for (pid, comm) in process::all() {
        let Some((process, _)) = PROCESSES.iter().find(|(p, _)| *p == comm) else { continue };
        if uids.iter().any(|uid| process::is_of(pid, uid)) {
            found.insert(*process, pid);
        }
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    const COST: Cost = Cost { rss: 250.0, pss: 200.0, anonymous: 180.0, cpu: 15.0 };

    #[test]
    fn a_process_that_was_started_anew_is_a_cell_and_no_error() {
        let before = Usage { cpu: 2.0, started: 7, ..Usage::default() };
        let after = Usage { cpu: 3.5, started: 7, rss: 250.0, anonymous: 180.0, ..Usage::default() };
        assert_eq!(cost(before, Some((after, 200.0)), 100.0), Some(COST));
        assert_eq!(
            cost(before, Some((Usage { started: 8, ..after }, 200.0)), 100.0),
            None,
            "its number is another's now"
        );
        assert_eq!(cost(before, None, 100.0), None);
        let levers = levers::all();
        let chosen = [&levers[0], levers.iter().find(|l| l.taken).expect("one is taken")];
        let whole = [Seen::Cost(COST); 4];
        let mut broken = whole;
        broken[1] = Seen::Restarted;
        let table = table(&chosen, &[whole, broken]);
        let rows: Vec<&str> = table.lines().collect();
        assert!(rows[2].starts_with("| none |  | 250 MiB (180), 15.0 ms/s | "), "{table}");
        assert!(rows[2].ends_with("| 1000 MiB (720), 60.0 ms/s |"), "{table}");
        assert!(rows[3].contains(" | **yes** | 250 MiB (180), 15.0 ms/s | restarted | 250 MiB"), "{table}");
        assert!(rows[3].ends_with(" ms/s |  |"), "the sum of some is no figure: {table}");
        assert!(rows.iter().all(|r| r.matches('|').count() == 8), "{table}");
    }

    #[test]
    fn what_was_not_measured_has_no_figure() {
        let names = |tenant: &Tenant| figures("lever.x", tenant).into_iter().map(|f| f.name).collect::<Vec<_>>();
        let whole = [Seen::Cost(COST); 4];
        assert_eq!(names(&whole).len(), 20);
        assert!(names(&whole).contains(&"lever.x.controllers.rss".to_owned()));
        assert!(names(&whole).contains(&"lever.x.cpu".to_owned()));
        let broken = [whole[0], whole[1], Seen::Absent, whole[3]];
        assert_eq!(names(&broken).len(), 12);
        assert!(names(&broken).iter().all(|n| !n.contains("scheduler") && n.matches('.').count() == 3));
    }
}
