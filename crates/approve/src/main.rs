//! `berth-approve` runs beside a tenant's kube-controller-manager and approves what kubelets ask for: serving certificates with their own
//! names and addresses, and client certificates for machines that join. The controller-manager then signs them.
//!
//! It also writes the endpoints of the tenant's `kubernetes` Service again when they are gone, see [`keep`].
//!
//! Its certificate may approve requests of these two signers, read nodes, and write these endpoints, and nothing else. It denies a client certificate for the name of
//! another machine's node, and nothing more: what else it does not approve stays for the tenant's admins, with an Event that says why.
//! Several of it do not get in each other's way, so there is no leader. It ends only when it is told to.

mod api;
mod client;
mod decide;
mod keep;
mod open;
mod request;
mod run;
mod text;
mod tls;

use std::process::ExitCode;
use std::sync::{Arc, atomic::AtomicBool};

use clap::Parser;
use ipnet::IpNet;

use api::Tenant;
use decide::Reserved;
use request::Signer;
use text::NAME;

#[derive(Debug, Parser)]
#[command(
    name = "berth-approve",
    version,
    about = "Approves the certificates of a tenant's kubelets, and keeps the endpoints of its API"
)]
struct Cli {
    /// The tenant's API: `https://host:port`.
    #[arg(long)]
    server: String,
    #[command(flatten)]
    files: tls::Files,
    /// Where Services have their addresses; repeat for the second.
    #[arg(long = "service-cidr", required = true)]
    service_cidrs: Vec<IpNet>,
    /// Decide client certificates of kubelets, too: of machines that join, and of nodes that renew theirs. Without it
    /// kube-controller-manager has to, by the ClusterRoleBinding kubeadm:node-autoapprove-bootstrap.
    #[arg(long)]
    client_certificates: bool,
}

fn main() -> ExitCode {
    match start(Cli::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{NAME}: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn start(cli: Cli) -> anyhow::Result<()> {
    // As process 1 of its container it would ignore SIGTERM, and every deletion of its pod would take the grace period.
    let stop = Arc::new(AtomicBool::new(true));
    signal_hook::flag::register_conditional_shutdown(signal_hook::consts::SIGTERM, 0, stop)?;
    let Cli { server, files, service_cidrs, client_certificates } = cli;
    let signers: &[Signer] = if client_certificates { &[Signer::Serving, Signer::Client] } else { &[Signer::Serving] };
    let reserved = Reserved { service_cidrs, ..Reserved::default() };
    tokio::runtime::Builder::new_current_thread().enable_all().build()?.block_on(async {
        let tenant = Tenant::new(&server, files)?;
        for signer in signers {
            println!("deciding requests for {} at {server}", signer.name());
        }
        println!("keeping the endpoints of the Service kubernetes at {server}");
        tokio::join!(run::run(&tenant, &reserved, signers), keep::run(&tenant));
        Ok(())
    })
}
