//! `berth-approve` runs beside a tenant's kube-controller-manager and approves what kubelets ask for: serving certificates with their own
//! names and addresses. The controller-manager then signs them.
//!
//! Its certificate may approve requests of this one signer and read nodes, and nothing else. It denies nothing: what it does not approve
//! stays for the tenant's admins, with an Event that says why. Several of it do not get in each other's way, so there is no leader. It ends
//! only when it is told to.

mod api;
mod decide;
mod open;
mod request;
mod run;
mod tls;

use std::process::ExitCode;
use std::sync::{Arc, atomic::AtomicBool};

use clap::Parser;
use ipnet::IpNet;

use api::Tenant;
use decide::Reserved;

const NAME: &str = "berth-approve";

#[derive(Debug, Parser)]
#[command(name = "berth-approve", version, about = "Approves the serving certificates of a tenant's kubelets")]
struct Cli {
    /// The tenant's API: `https://host:port`.
    #[arg(long)]
    server: String,
    #[command(flatten)]
    files: tls::Files,
    /// Where Services have their addresses; repeat for the second.
    #[arg(long = "service-cidr", required = true)]
    service_cidrs: Vec<IpNet>,
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
    let Cli { server, files, service_cidrs } = cli;
    let reserved = Reserved { service_cidrs, ..Reserved::default() };
    tokio::runtime::Builder::new_current_thread().enable_all().build()?.block_on(async {
        let tenant = Tenant::new(&server, files)?;
        println!("approving serving certificates of kubelets at {server}");
        run::run(&tenant, &reserved).await;
        Ok(())
    })
}
