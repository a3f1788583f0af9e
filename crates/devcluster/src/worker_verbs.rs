//! `devcluster worker`.

use anyhow::{Result, bail};
use berth_devcluster::{Cluster, images};
use clap::{Args, Subcommand};

use crate::Name;

#[derive(Debug, Subcommand)]
pub(crate) enum WorkerVerb {
    /// Start a machine, and join it to a control plane: after `--` goes what `kubectl berth join-command` prints.
    ///
    /// One that runs is left as it is; one that was killed is started again. In a VPC, the router leads to the machine's pods.
    Add {
        #[command(flatten)]
        name: Name,
        /// The machine's name, and that of the node which it becomes.
        worker: String,
        #[command(flatten)]
        place: Place,
        /// With the images that Kubernetes' own tests ask for.
        #[arg(long)]
        conformance: bool,
        /// `kubeadm join` and its arguments. Without them the machine is started only.
        #[arg(last = true, value_name = "COMMAND")]
        join: Vec<String>,
    },
    /// Cut a machine's power: every process of it ends, and its network link. Its files stay.
    Kill {
        #[command(flatten)]
        name: Name,
        /// The machine's name.
        worker: String,
    },
    /// Remove a machine: processes, pods included, its link and its files. Its Node object is left to you.
    Remove {
        #[command(flatten)]
        name: Name,
        /// The machine's name.
        worker: String,
    },
}

#[derive(Debug, Args)]
#[group(required = true, multiple = false)]
pub(crate) struct Place {
    /// In this VPC.
    #[arg(long)]
    vpc: Option<String>,
    /// On the cluster's own node network: it reaches Services of type LoadBalancer.
    #[arg(long)]
    outside: bool,
}

impl WorkerVerb {
    pub(crate) fn run(self) -> Result<()> {
        match self {
            Self::Add { name, worker, place, conformance, join } => {
                let arguments = match &join[..] {
                    [] => None,
                    [kubeadm, join, arguments @ ..] if kubeadm == "kubeadm" && join == "join" => Some(arguments),
                    _ => {
                        bail!(
                            "after `--` goes `kubeadm join` with its arguments: `kubectl berth join-command` prints them"
                        )
                    }
                };
                let images = if conformance {
                    [images::addons()?, images::conformance()?].concat()
                } else {
                    images::of_nodes()?
                };
                let worker = Cluster::open(&name.name)?.add_worker(&worker, place.vpc.as_deref(), &images)?;
                println!("{} runs, with the address {}", worker.name(), worker.address());
                if let Some(arguments) = arguments {
                    worker.join(arguments)?;
                    println!("{} has joined; its pods have addresses of {}", worker.name(), worker.configure_pods()?);
                }
                Ok(())
            }
            Self::Kill { name, worker } => Cluster::open(&name.name)?.find_worker(&worker)?.kill(),
            Self::Remove { name, worker } => Cluster::open(&name.name)?.find_worker(&worker)?.remove(),
        }
    }
}
