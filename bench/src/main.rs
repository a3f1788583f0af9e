//! Measures Berth on a meta cluster. See `bench/README.md`.

mod apps;
mod audit;
mod backups;
mod called;
mod conformance;
mod etcd;
mod fleet;
mod floor;
mod gateway;
mod idle;
mod kubelet;
mod levers;
mod machines;
mod nodes;
mod operator;
mod outside;
mod process;
mod report;
mod reserved;
mod scale;
mod sizes;
mod sleep;
mod starts;
mod targets;
mod tenant;
mod upgrade;

use clap::{Parser, Subcommand};
use kube::Client;
use report::{Figure, Targets, report};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

#[derive(Parser)]
struct Args {
    /// Access to the meta cluster; all parts but `gateway` and `sizes` need it.
    #[arg(long, default_value = "kubeconfig")]
    kubeconfig: PathBuf,
    /// The meta cluster's audit log; all parts but `gateway` and `sizes` need it.
    #[arg(long, default_value = "audit.log")]
    audit_log: PathBuf,
    /// Where results are appended.
    #[arg(long, default_value = "target/bench/results.jsonl")]
    out: PathBuf,
    /// Runs of `single` and `floor`.
    #[arg(long, default_value_t = 10)]
    runs: usize,
    /// Tenants at once.
    #[arg(long, default_value_t = 10)]
    tenants: usize,
    /// Runs of `ten`; the operator at rest and its restart are looked at in the first one.
    #[arg(long, default_value_t = 3)]
    ten_runs: usize,
    /// Minutes at rest.
    #[arg(long, default_value_t = 10)]
    rest_minutes: u64,
    /// Does not compare figures with their targets, for a slow machine. Without it a target that is missed is an error.
    #[arg(long)]
    no_targets: bool,
    #[command(subcommand)]
    part: Part,
}

impl Args {
    fn targets(&self) -> Targets {
        match self.part {
            _ if self.no_targets => Targets::None,
            Part::Scale { count, .. } | Part::Fleet { count, .. } | Part::Apps { count, .. } => Targets::Of(count),
            _ => Targets::Of(self.tenants),
        }
    }
}

#[derive(Clone, PartialEq, Subcommand)]
enum Part {
    /// One tenant after the other, with and without Berth in turns.
    Single,
    /// Ten at once, with and without Berth in turns; the operator at rest, and restarted.
    Ten,
    /// Both of these.
    All,
    /// One tenant after the other with three etcd members and two of everything else, with and without Berth in turns.
    Ha,
    /// A tenant's etcd grows, is backed up, and loses a member, its leader and its quorum, while a client writes.
    Etcd {
        /// MiB that etcd holds.
        #[arg(long, default_value_t = 100)]
        mib: usize,
    },
    /// One tenant after the other changes its minor, then its patch version, and comes back from one that fails; the minor with and without
    /// Berth in turns.
    Upgrade,
    /// What one tenant costs that nobody uses, by process.
    Idle {
        /// Minutes that are measured, after three to settle.
        #[arg(long, default_value_t = 5)]
        minutes: u64,
        /// A tenant for each lever in place of that, all at once; prints a table for docs/benchmarks.md.
        #[arg(long)]
        levers: bool,
        /// Only these levers, by name, beside a tenant without any: `--only "all that are taken"`.
        #[arg(long, requires = "levers")]
        only: Vec<String>,
        /// What each lever costs the start, in so many starts with and without it in turns, in place of what it saves at rest: `--runs`.
        #[arg(long, requires = "levers")]
        starts: bool,
    },
    /// A tenant sleeps and wakes, then many at once; what the operator does while they sleep.
    Sleep {
        /// Tenants that wake at once.
        #[arg(long, default_value_t = 10)]
        at_once: usize,
        /// Minutes asleep that are measured. 0: none.
        #[arg(long, default_value_t = 15)]
        minutes: u64,
        /// Where the gateway is, by which tenants are called. `make bench` fills it in.
        #[arg(long)]
        gateway: SocketAddr,
    },
    /// What one tenant's processes take with many nodes, and while everything is listed.
    Nodes {
        /// Nodes, which are objects alone.
        #[arg(long, default_value_t = 100)]
        nodes: usize,
        /// Pods on each.
        #[arg(long, default_value_t = 30)]
        pods: usize,
        /// Clients that list all pods at once.
        #[arg(long, default_value_t = 20)]
        lists: usize,
        /// Loads what is behind this kubeconfig and measures nothing, for a control plane that is not a tenant's.
        #[arg(long)]
        of: Option<PathBuf>,
    },
    /// A machine in a tenant's VPC joins, runs a pod and shows its log; what runs beside API servers at rest. `make bench` fills in the rest.
    Machines {
        #[command(flatten)]
        programs: ProgramArgs,
    },
    /// Kubernetes' own conformance specs, against a tenant with two machines in its VPC. `make bench` fills in the rest. Cut off, it goes on
    /// where it was, at the same commit.
    Conformance {
        #[command(flatten)]
        programs: ProgramArgs,
        /// `e2e.test`.
        #[arg(long)]
        suite: PathBuf,
        /// Where the outcome of each spec is kept.
        #[arg(long)]
        results: PathBuf,
        /// Processes that run specs at once.
        #[arg(long, default_value_t = 3)]
        processes: usize,
        /// Only specs whose names contain this.
        #[arg(long)]
        only: Option<String>,
    },
    /// Many tenants whose pods never run, for a meta cluster without nodes.
    Scale {
        /// Tenants at once.
        #[arg(long, default_value_t = 200)]
        count: usize,
        /// Minutes of waiting for pods that are measured.
        #[arg(long, default_value_t = 3)]
        wait_minutes: u64,
        /// Only until all objects are there; the tenants stay.
        #[arg(long)]
        brief: bool,
        /// The operator's program, which is run on this machine.
        #[arg(long)]
        operator: PathBuf,
    },
    /// Many tenants whose pods are pretended, and a patch version for all. For a meta cluster without nodes; `make bench` fills in the rest.
    Fleet {
        /// Tenants.
        #[arg(long, default_value_t = 200)]
        count: usize,
        /// Minutes at rest that are measured, and after the start of a new operator.
        #[arg(long, default_value_t = 3)]
        rest_minutes: u64,
        /// `berth-pretended`, which is run on this machine.
        #[arg(long)]
        operator: PathBuf,
        /// `kubectl-berth`.
        #[arg(long)]
        plugin: PathBuf,
    },
    /// Helm charts in tenants, and the rights of people there. `deployed` is for a meta cluster with nodes, other steps are for one without; `make
    /// bench` runs both, and fills in the rest.
    Apps {
        /// Only these steps; they run in the order in which they are listed here.
        #[arg(long, value_delimiter = ',')]
        only: Vec<apps::Step>,
        /// Tenants of `many` and `rest`; `access` has twice as many.
        #[arg(long, default_value_t = 100)]
        count: usize,
        /// Minutes at rest that are measured.
        #[arg(long, default_value_t = 5)]
        rest_minutes: u64,
        /// `berth-pretended`, which is run on this machine. All steps but `deployed` need it.
        #[arg(long)]
        operator: Option<PathBuf>,
        /// `berth-apps`, which is run on this machine. `many` needs it.
        #[arg(long)]
        program: Option<PathBuf>,
        /// The meta cluster's name. `deployed` needs it.
        #[arg(long)]
        cluster: Option<String>,
    },
    /// What requests that follow usage cost the operator, computed by this process alone. It needs no meta cluster.
    Sizes {
        /// Tenants with autoscaling.
        #[arg(long, default_value_t = 200)]
        count: usize,
    },
    /// What the gateway and the login cost, as processes of this machine with real API servers. It needs no meta cluster; `make bench` fills in
    /// the rest.
    Gateway {
        /// Only these steps; they run in the order in which they are listed here.
        #[arg(long, value_delimiter = ',')]
        only: Vec<gateway::Step>,
        /// `berth-gateway`.
        #[arg(long)]
        gateway: PathBuf,
        /// `berth-access`.
        #[arg(long)]
        access: PathBuf,
    },
}

/// What makes machines and joins them.
#[derive(Clone, PartialEq, clap::Args)]
struct ProgramArgs {
    /// The meta cluster's name.
    #[arg(long)]
    cluster: String,
    /// Makes machines.
    #[arg(long)]
    devcluster: PathBuf,
    /// Asks the tenant.
    #[arg(long)]
    kubectl: PathBuf,
    /// `kubectl-berth`.
    #[arg(long)]
    plugin: PathBuf,
}

impl ProgramArgs {
    /// `part` is the name of a folder beside the results.
    fn with<'a>(&'a self, args: &'a Args, part: &str) -> machines::Programs<'a> {
        machines::Programs {
            cluster: &self.cluster,
            devcluster: &self.devcluster,
            kubectl: &self.kubectl,
            plugin: &self.plugin,
            kubeconfig: &args.kubeconfig,
            dir: args.out.parent().unwrap_or(Path::new(".")).join(part),
        }
    }
}

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let args = Args::parse();
    let _ = rustls::crypto::ring::default_provider().install_default();
    if let Part::Gateway { only, gateway, access } = &args.part {
        let programs = gateway::Programs { gateway: gateway.clone(), access: access.clone() };
        let (figures, outcome) = gateway::run(programs, only).await?;
        return report(&args.out, &figures, args.targets()).and(outcome);
    }
    if let Part::Sizes { count } = args.part {
        let mut figures = sizes::run(count, args.runs)?;
        figures.extend(reserved::run()?);
        return report(&args.out, &figures, args.targets());
    }
    let config = kube::config::Kubeconfig::read_from(&args.kubeconfig)?;
    let config = kube::Config::from_custom_kubeconfig(config, &kube::config::KubeConfigOptions::default()).await?;
    let client = Client::try_from(config)?;
    tenant::team(&client).await?;
    let mut figures = vec![];
    if let Part::Scale { count, wait_minutes, brief, operator } = &args.part {
        let scale = scale::Scale {
            client: &client,
            kubeconfig: &args.kubeconfig,
            audit_log: &args.audit_log,
            program: operator,
            dir: args.out.parent().unwrap_or(Path::new(".")).join("scale"),
            tenants: *count,
            rest_minutes: *wait_minutes,
            brief: *brief,
        };
        return report(&args.out, &scale::run(&scale).await?, args.targets());
    }
    if let Part::Fleet { count, rest_minutes, operator, plugin } = &args.part {
        let fleet = fleet::Fleet {
            client: &client,
            kubeconfig: &args.kubeconfig,
            audit_log: &args.audit_log,
            program: operator,
            plugin,
            dir: args.out.parent().unwrap_or(Path::new(".")).join("fleet"),
            tenants: *count,
            rest_minutes: *rest_minutes,
        };
        return report(&args.out, &fleet::run(&fleet).await?, args.targets());
    }
    if let Part::Apps { only, count, rest_minutes, operator, program, cluster } = &args.part {
        let setup = apps::Setup {
            client: &client,
            kubeconfig: &args.kubeconfig,
            audit_log: &args.audit_log,
            dir: args.out.parent().unwrap_or(Path::new(".")).join("apps"),
            operator: operator.as_deref(),
            program: program.as_deref(),
            cluster: cluster.as_deref(),
            tenants: *count,
            runs: args.runs,
            rest_minutes: *rest_minutes,
        };
        let (figures, outcome) = apps::run(&setup, only).await?;
        return report(&args.out, &figures, args.targets()).and(outcome);
    }
    tenant::clear(&client).await?;
    match &args.part {
        Part::Idle { levers: true, starts: true, only, .. } => {
            figures.extend(starts::compare(&client, args.runs, only).await?);
        }
        Part::Idle { minutes, levers: true, only, .. } => {
            // Too many for a second table.
            return report::keep(&args.out, &idle::compare(&client, *minutes, only).await?, |_| None);
        }
        Part::Idle { minutes, .. } => figures.extend(idle::alone(&client, *minutes).await?),
        Part::Sleep { at_once, minutes, gateway } => {
            let sizes = sleep::Sizes { runs: args.runs, at_once: *at_once, minutes: *minutes };
            figures.extend(called::run(&client, *gateway, &sizes).await?);
            figures.extend(sleep::run(&client, &args.audit_log, &sizes).await?);
        }
        Part::Nodes { nodes, pods, lists, of } => {
            let size = nodes::Size { nodes: *nodes, pods: *pods, lists: *lists };
            match of {
                Some(path) => drop(nodes::load(&std::fs::read_to_string(path)?, size, async |_| vec![]).await?),
                None => figures.extend(nodes::run(&client, size).await?),
            }
        }
        Part::Machines { programs } => {
            figures.extend(machines::run(&client, args.runs, &programs.with(&args, "machines")).await?);
        }
        Part::Conformance { programs, suite, results, processes, only } => {
            let suite = conformance::Suite {
                programs: programs.with(&args, "conformance"),
                binary: suite,
                processes: *processes,
                only: only.as_deref(),
                results: results.clone(),
            };
            figures.extend(conformance::run(&client, &suite).await?);
        }
        Part::Etcd { mib } => figures.extend(etcd::run(&client, *mib).await?),
        Part::Upgrade => figures.extend(upgrade::run(&client, args.runs).await?),
        Part::Ha => figures.extend(in_turns(&client, args.runs, &HA).await?),
        Part::Single | Part::All => figures.extend(in_turns(&client, args.runs, &SINGLE).await?),
        Part::Ten
        | Part::Scale { .. }
        | Part::Fleet { .. }
        | Part::Gateway { .. }
        | Part::Sizes { .. }
        | Part::Apps { .. } => {}
    }
    if matches!(args.part, Part::Ten | Part::All) {
        figures.extend(ten(&client, &args).await?);
    }
    report(&args.out, &figures, args.targets())
}

/// One sort of tenant.
struct Sort {
    name: &'static str,
    /// JSON: what its spec has more than the smallest.
    spec: &'static str,
    figures: [&'static str; 5],
}

const SINGLE: Sort = Sort {
    name: "single",
    spec: "{}",
    figures: ["single.answers", "single.ready", "single.deleted", "floor.answers", "single.ratio"],
};

const HA: Sort = Sort {
    name: "ha",
    spec: r#"{"replicas": 2, "etcd": {"replicas": 3}}"#,
    figures: ["ha.answers", "ha.ready", "ha.deleted", "floor_ha.answers", "ha.ratio"],
};

/// With and without Berth in turns, so that a machine whose speed drifts is fair to both.
async fn in_turns(client: &Client, runs: usize, sort: &Sort) -> anyhow::Result<Vec<Figure>> {
    let (mut answers, mut ready, mut deleted, mut bare) = (vec![], vec![], vec![], vec![]);
    let spec = serde_json::from_str(sort.spec)?;
    for run in 0..runs {
        let name = [format!("{}-{run}", sort.name)];
        let times = tenant::create_with(client, &name, &spec).await?;
        let objects = floor::dump(client, &name[0]).await?;
        answers.push(times.answers[0]);
        ready.push(times.ready[0]);
        deleted.push(tenant::delete(client, &name).await?);
        let floor = floor::create(client, &[objects]).await?;
        bare.push(floor);
        println!(
            "run {run}: answers {:.2} s, ready {:.2} s, deleted {:.2} s; floor answers {floor:.2} s",
            answers[run], ready[run], deleted[run]
        );
    }
    let ratios = answers.iter().zip(&bare).map(|(a, b)| a / b).collect();
    let all = sort.figures.into_iter().zip([answers, ready, deleted, bare, ratios]);
    Ok(all.map(|(name, values)| Figure::new(name, if name.ends_with("ratio") { "x" } else { "s" }, values)).collect())
}

/// With and without Berth in turns, as in [`in_turns`].
async fn ten(client: &Client, args: &Args) -> anyhow::Result<Vec<Figure>> {
    let names: Vec<String> = (0..args.tenants).map(|i| format!("ten-{i}")).collect();
    let max = |v: &[f64]| v.iter().copied().fold(0.0, f64::max);
    let (mut answers, mut ready, mut restarts, mut deleted, mut bare) = (vec![], vec![], vec![], vec![], vec![]);
    let (mut rss, mut cpu, mut writes, mut rest) = (vec![], vec![], vec![], vec![]);
    for run in 0..args.ten_runs {
        let before = operator::look(client, &args.audit_log).await?;
        let times = tenant::create(client, &names).await?;
        let after = operator::look(client, &args.audit_log).await?;
        answers.push(max(&times.answers));
        ready.push(max(&times.ready));
        restarts.push(tenant::restarts(client, &names).await?);
        rss.push(after.rss_mib);
        cpu.push(after.cpu - before.cpu);
        writes.push(after.writes - before.writes);
        if run == 0 {
            rest = at_rest(client, args, names.len()).await?;
        }
        let mut objects = vec![];
        for name in &names {
            objects.push(floor::dump(client, name).await?);
        }
        deleted.push(tenant::delete(client, &names).await?);
        let floor = floor::create(client, &objects).await?;
        bare.push(floor);
        println!(
            "run {run}, {} at once: all answer {:.1} s, all ready {:.1} s; floor: all answer {floor:.1} s",
            names.len(),
            answers[run],
            ready[run]
        );
    }
    let ratios = answers.iter().zip(&bare).map(|(a, b)| a / b).collect();
    let mut figures = vec![
        Figure::new("ten.answers", "s", answers),
        Figure::new("ten.ready", "s", ready),
        Figure::new("ten.restarts", "restarts", restarts),
        Figure::new("ten.deleted", "s", deleted),
        Figure::new("floor_ten.answers", "s", bare),
        Figure::new("ten.ratio", "x", ratios),
        Figure::new("operator.rss", "MiB", rss),
        Figure::new("operator.cpu", "s", cpu),
        Figure::new("operator.writes", "writes", writes),
    ];
    figures.extend(rest);
    Ok(figures)
}

/// The operator with tenants that nobody touches, and when it starts again.
async fn at_rest(client: &Client, args: &Args, tenants: usize) -> anyhow::Result<Vec<Figure>> {
    let mut figures = vec![];
    if args.rest_minutes > 0 {
        // What the creation still has to settle is not rest.
        tokio::time::sleep(Duration::from_secs(70)).await;
        let before = operator::look(client, &args.audit_log).await?;
        tokio::time::sleep(Duration::from_mins(args.rest_minutes)).await;
        let after = operator::look(client, &args.audit_log).await?;
        #[expect(clippy::cast_precision_loss, reason = "small numbers")]
        let (tenant_minutes, seconds) = ((tenants as u64 * args.rest_minutes) as f64, (args.rest_minutes * 60) as f64);
        figures.extend([
            Figure::new("rest.reads", "1/s", vec![(after.reads - before.reads) / tenant_minutes / 60.0]),
            Figure::new("rest.dry_runs", "1/15min", vec![(after.dry_runs - before.dry_runs) / tenant_minutes * 15.0]),
            Figure::new("rest.cpu", "ms/s", vec![(after.cpu - before.cpu) * 1000.0 / seconds]),
            Figure::new("rest.writes", "writes", vec![after.writes - before.writes]),
            Figure::new(
                "rest.tenant_requests",
                "1/min",
                vec![(after.tenant_calls - before.tenant_calls) / tenant_minutes],
            ),
        ]);
    }
    let before = operator::look(client, &args.audit_log).await?;
    let seconds = operator::restart(client, tenants).await?;
    let after = operator::look(client, &args.audit_log).await?;
    figures.extend([
        Figure::new("restart.reconciled", "s", vec![seconds]),
        Figure::new("restart.writes", "writes", vec![after.writes - before.writes]),
    ]);
    Ok(figures)
}
