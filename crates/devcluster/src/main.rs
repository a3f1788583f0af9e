//! `devcluster`: a real Kubernetes cluster on one Linux machine, without Docker.

mod worker_verbs;

use std::{
    fs,
    os::unix::process::CommandExt,
    path::PathBuf,
    process::{Command, ExitCode},
    time::Duration,
};

use anyhow::{Context, Result, anyhow};
use berth_devcluster::{
    Cluster, Config, Phase, VpcConfig,
    binaries::{self, Selection},
    deps, images, supervisor,
};
use clap::{Args, Parser, Subcommand, ValueEnum};

use crate::worker_verbs::WorkerVerb;

/// A real Kubernetes cluster on one Linux machine, without Docker.
#[derive(Debug, Parser)]
#[command(name = "devcluster", version)]
struct Cli {
    #[command(subcommand)]
    command: Verb,
}

#[derive(Debug, Args)]
struct Name {
    /// The cluster's name.
    #[arg(long, default_value = "demo", env = "BERTH_CLUSTER")]
    name: String,
}

#[derive(Debug, Subcommand)]
enum Verb {
    /// Check which Debian packages are missing, or install them.
    Deps {
        /// Install what is missing with apt-get.
        #[arg(long)]
        install: bool,
    },
    /// Build or fetch the binaries that are not in the cache yet.
    ///
    /// `BERTH_BINARIES` says where from: `auto` (from publishers' release pages, and what cannot be had there is built; the default),
    /// `download` (from there or not at all), `build`, or the address or folder of another machine's cache, see `devcluster sums`.
    Build {
        /// What to build when no names are given.
        #[arg(long, value_enum, default_value_t = Only::Core)]
        only: Only,
        /// Artifacts by name, for example `kwok`, `e2e.test` or `kubernetes-v1.35.4`.
        names: Vec<String>,
    },
    /// Build a program for another machine, from the same sources as `build` has, and print where its module is.
    Cross {
        /// The artifact. Only those that are built from a wrapper module, such as `helm4`.
        name: String,
        /// Architecture in Go's words, such as `arm64`.
        #[arg(long)]
        arch: String,
        /// The file.
        #[arg(long)]
        to: PathBuf,
    },
    /// Write SHA256SUMS into the cache's folder bin, so that other machines can fetch all binaries from it.
    ///
    /// Serve the folder, or copy it, and name its address or path there in `BERTH_BINARIES`.
    Sums,
    /// Bring a cluster up, or leave it alone if it is.
    Up {
        #[command(flatten)]
        name: Name,
        /// Seconds that it may take.
        #[arg(long, default_value_t = 180)]
        timeout: u64,
        /// How many local volumes to offer.
        #[arg(long, default_value_t = 24)]
        volumes: u16,
        /// How many nodes there are: none for a control plane alone.
        #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u8).range(..=i64::from(berth_devcluster::MAX_NODES)))]
        nodes: u8,
        /// A network of a tenant, beside the cluster's own: NAME, or NAME=SUBNET (default 172.20.0.0/24). Repeat it for more; their
        /// subnets may be the same. Each is a bridge with a router in a network namespace of its own, and has a port in every node, on
        /// which pods get interfaces by a NetworkAttachmentDefinition: `devcluster vpc` prints one. A cluster that runs is given those
        /// that it does not have.
        #[arg(long = "vpc", value_name = "NAME[=SUBNET]")]
        vpcs: Vec<VpcConfig>,
        /// The CNI plugin that attaches pods to VPCs, for example multus (as a thin plugin). Default: devcluster's own, cni-meta.
        #[arg(long, value_name = "FILE", requires = "vpcs")]
        cni_meta_plugin: Option<PathBuf>,
        /// An S3 server for backups, which pods reach: `devcluster s3` says where. A cluster that runs is given one.
        #[arg(long)]
        s3: bool,
        /// Enforce NetworkPolicies, by kube-router, which is built first. A cluster that runs stays as it was made.
        #[arg(long)]
        network_policies: bool,
        /// Import the images of every version that is built, not only of the newest.
        #[arg(long)]
        all_images: bool,
    },
    /// Take a cluster down: nothing of it is left.
    Down {
        #[command(flatten)]
        name: Name,
        /// Every cluster of this state directory.
        #[arg(long)]
        all: bool,
    },
    /// Stop every process of a cluster at once, as if the machine lost its power. Its data is kept.
    Stop(Name),
    /// Start a stopped cluster.
    Start {
        #[command(flatten)]
        name: Name,
        /// Seconds that it may take.
        #[arg(long, default_value_t = 180)]
        timeout: u64,
    },
    /// Cut the power of one node, from the second on: every process of it ends, and its network link.
    KillNode {
        #[command(flatten)]
        name: Name,
        /// The node's number.
        node: u8,
    },
    /// Start a node that was killed.
    StartNode {
        #[command(flatten)]
        name: Name,
        /// The node's number.
        node: u8,
    },
    /// Machines beside a cluster, with containerd and kubeadm, which become nodes of other control planes.
    #[command(subcommand)]
    Worker(WorkerVerb),
    /// Print a NetworkAttachmentDefinition by which pods get an interface in a VPC, for `kubectl apply -f -`.
    ///
    /// A pod asks for it with an annotation, each with an address of its own:
    /// `k8s.v1.cni.cncf.io/networks: [{"name": "vpc-a", "namespace": "acme", "ips": ["172.20.0.10/24"]}]`.
    /// A program that runs in `ip netns exec berth-<cluster>.vpc-<name>` is in the VPC, at the router's address, the first of the subnet.
    Vpc {
        #[command(flatten)]
        name: Name,
        /// The VPC's name.
        vpc: String,
        /// The namespace of the NetworkAttachmentDefinition.
        #[arg(long, short, default_value = "default")]
        namespace: String,
        /// Print `vpc-<name>-pool` instead: pods are given addresses, from the 201st of the subnet on, and ask for none.
        #[arg(long)]
        pool: bool,
    },
    /// Print where the S3 server is, as variables for a shell: `eval "$(devcluster s3)"`.
    S3(Name),
    /// Show clusters and their processes. Exit code 3 if one is not whole.
    Status,
    /// Run kubectl as the administrator.
    Kubectl {
        #[command(flatten)]
        name: Name,
        /// kubectl's own arguments.
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        arguments: Vec<String>,
    },
    /// Print the administrator's kubeconfig, which works on this machine, or its path.
    Kubeconfig {
        #[command(flatten)]
        name: Name,
        /// Print the path of the file instead.
        #[arg(long)]
        path: bool,
        /// Write it to a file instead.
        #[arg(long)]
        out: Option<PathBuf>,
    },
    /// Print a component's log (without a name: list them).
    Logs {
        #[command(flatten)]
        name: Name,
        /// The component, for example `kubelet`; also `audit` and `supervisor`.
        component: Option<String>,
    },
    /// Write a FROM-scratch image of static binaries as an OCI archive.
    Image {
        /// The archive to write.
        #[arg(long)]
        out: PathBuf,
        /// The name under which pods ask for it: NAME:TAG.
        #[arg(long = "ref")]
        reference: String,
        /// The entry point.
        #[arg(long)]
        entrypoint: Option<String>,
        /// The user to run as, by number.
        #[arg(long, default_value = "")]
        user: String,
        /// Files: SOURCE:PATH-IN-IMAGE.
        #[arg(required = true)]
        files: Vec<String>,
    },
    /// Import image archives into a running cluster.
    Load {
        #[command(flatten)]
        name: Name,
        /// OCI archives.
        #[arg(required = true)]
        archives: Vec<PathBuf>,
    },
    /// Look after a cluster. `up` starts this; nobody else should.
    #[command(hide = true)]
    Supervise(Name),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Only {
    /// What tests with an API server and without pods need.
    Server,
    /// What a cluster needs.
    Cluster,
    /// What clusters and everyday tests need.
    Core,
    /// Also what only `make test-all` needs.
    All,
}

fn main() -> ExitCode {
    match run(Cli::parse().command) {
        Ok(code) => code,
        Err(e) => {
            eprintln!("error: {e:#}");
            ExitCode::FAILURE
        }
    }
}

fn run(verb: Verb) -> Result<ExitCode> {
    match verb {
        Verb::Deps { install: true } => deps::install()?,
        Verb::Deps { install: false } => deps::check()?,
        Verb::Build { only, names } => binaries::build(&match only {
            _ if !names.is_empty() => Selection::Named(names),
            Only::Server => Selection::Server,
            Only::Cluster => Selection::Cluster,
            Only::Core => Selection::Core,
            Only::All => Selection::All,
        })?,
        Verb::Cross { name, arch, to } => println!("{}", binaries::cross(&name, &arch, &to)?.display()),
        Verb::Sums => {
            let (list, count) = binaries::write_sums()?;
            println!("{}: {count} files", list.display());
        }
        Verb::Up { name, timeout, volumes, nodes, vpcs, cni_meta_plugin, s3, network_policies, all_images } => {
            // Before the minutes that binaries take.
            deps::check()?;
            binaries::build(&Selection::Cluster)?;
            if network_policies {
                binaries::build(&Selection::Named(vec!["kube-router".to_owned()]))?;
            }
            if s3 {
                binaries::build(&Selection::Named(vec!["s3s-fs".to_owned()]))?;
            }
            let images = if all_images { images::all_built()? } else { Vec::new() };
            let timeout = Duration::from_secs(timeout);
            let name = name.name;
            // A running cluster is left as it is by `up`, and images that were built since would be missing there.
            let later = if Cluster::open(&name).is_ok() { images.clone() } else { Vec::new() };
            let cluster = Cluster::up(&Config {
                name,
                volumes,
                nodes,
                images,
                vpcs,
                cni_meta_plugin,
                s3,
                network_policies,
                timeout,
            })?;
            cluster.load_images(&later)?;
            println!("export KUBECONFIG={}", cluster.kubeconfig().display());
        }
        Verb::Down { all: false, name } => Cluster::remove(&name.name)?,
        Verb::Down { all: true, .. } => {
            for name in berth_devcluster::list()? {
                Cluster::remove(&name)?;
            }
        }
        Verb::Stop(name) => Cluster::open(&name.name)?.stop()?,
        Verb::Start { name, timeout } => Cluster::open(&name.name)?.start(Duration::from_secs(timeout))?,
        Verb::KillNode { name, node } => Cluster::open(&name.name)?.kill_node(node)?,
        Verb::StartNode { name, node } => Cluster::open(&name.name)?.start_node(node)?,
        Verb::Worker(verb) => verb.run()?,
        Verb::Vpc { name, vpc, namespace, pool } => {
            let vpc = Cluster::open(&name.name)?.vpc(&vpc)?;
            let definition = if pool { vpc.pool_definition(&namespace) } else { vpc.definition(&namespace) };
            println!("{}", serde_json::to_string_pretty(&definition)?);
        }
        Verb::S3(name) => {
            let Some(server) = Cluster::open(&name.name)?.s3() else {
                let name = name.name;
                return Err(anyhow!(
                    "the cluster `{name}` has no S3 server: `devcluster up --name {name} --s3` adds it"
                ));
            };
            print!("{}", server.variables());
        }
        Verb::Status => return status(),
        Verb::Kubectl { name, arguments } => {
            let error = Cluster::open(&name.name)?.kubectl()?.args(arguments).exec();
            return Err(error).context("cannot run kubectl");
        }
        Verb::Kubeconfig { name, path, out } => {
            let file = Cluster::open(&name.name)?.kubeconfig();
            if path {
                println!("{}", file.display());
            } else if let Some(out) = out {
                fs::copy(&file, &out).with_context(|| format!("cannot write {}", out.display()))?;
            } else {
                print!("{}", fs::read_to_string(&file).with_context(|| format!("cannot read {}", file.display()))?);
            }
        }
        Verb::Logs { name, component } => logs(&Cluster::open(&name.name)?, component)?,
        Verb::Image { out, reference, entrypoint, user, files } => images::write_oci(
            &out,
            &images::ImageSpec {
                reference,
                entrypoint: entrypoint.into_iter().collect(),
                files: files.iter().map(|file| images::parse_file(file)).collect::<Result<_>>()?,
                user,
                ..images::ImageSpec::default()
            },
        )?,
        Verb::Load { name, archives } => Cluster::open(&name.name)?.load_images(&archives)?,
        Verb::Supervise(name) => supervisor::run(&name.name)?,
    }
    Ok(ExitCode::SUCCESS)
}

fn status() -> Result<ExitCode> {
    let mut whole = true;
    for name in berth_devcluster::list()? {
        let cluster = Cluster::open(&name);
        let Ok((cluster, status)) = cluster.and_then(|c| c.status().map(|s| (c, s))) else {
            println!("{name}: cut off before it came up; `devcluster up` makes it anew, `devcluster down` clears it");
            whole = false;
            continue;
        };
        println!(
            "{name}: {:?}, https://{}:6443, addresses {}",
            status.phase,
            cluster.slot().node_address(),
            cluster.slot().range()
        );
        for component in &status.components {
            println!(
                "  {:<24} {}",
                component.name,
                if component.alive { component.pid.to_string() } else { "dead".to_owned() }
            );
        }
        for vpc in cluster.vpcs() {
            println!("  {:<24} {}, router {} in {}", vpc.master(), vpc.subnet(), vpc.router(), vpc.netns());
        }
        for node in &status.killed {
            println!("  {node:<24} off: `devcluster start-node` starts it");
        }
        whole &= status.phase != Phase::Creating && status.components.iter().all(|c| c.alive);
    }
    Ok(if whole { ExitCode::SUCCESS } else { ExitCode::from(3) })
}

fn logs(cluster: &Cluster, component: Option<String>) -> Result<()> {
    let directory = cluster.dir().join("log");
    let Some(component) = component else {
        let entries = fs::read_dir(&directory).with_context(|| format!("cannot list {}", directory.display()))?;
        let mut names: Vec<_> =
            entries.flatten().map(|entry| entry.file_name().to_string_lossy().into_owned()).collect();
        names.sort();
        for name in names {
            println!("{}", name.trim_end_matches(".log"));
        }
        return Ok(());
    };
    let file = cluster.log(&component);
    if !file.exists() {
        return Err(anyhow!("there is no log {}: `devcluster logs` lists them", file.display()));
    }
    Err(Command::new("cat").arg(&file).exec()).with_context(|| format!("cannot print {}", file.display()))
}
