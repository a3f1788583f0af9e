//! `berth-agent` runs with tenants, from an image of its own: upstream images have no shell, so what has to happen before etcd or
//! an apiserver starts happens here, in the component's container (see [`install`]). One part is a sidecar (see [`net`]).
//!
//! It knows nothing of Kubernetes' API and holds no token. Exit codes: 0 go, 1 error, 2 usage, 42 held (see [`guard`]).

mod copy;
mod dial;
mod guard;
mod install;
mod interface;
mod net;
mod volume;
mod wait;

use std::{
    path::PathBuf,
    process::ExitCode,
    time::{Duration, SystemTime},
};

use berth_contract::{Bootstrap, HELD, Marker, aside};
use clap::{Parser, Subcommand};

#[derive(Debug, Parser)]
#[command(name = "berth-agent", version, about = "Runs beside Berth's tenants: gates before etcd and apiservers start")]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Copies this program to where the component's container finds it.
    Install(install::Args),
    /// Waits until interfaces have their addresses and HTTPS endpoints answer 200, for as long as it takes.
    Wait(wait::Args),
    /// Decides whether an etcd member may start on its volume; if not, says why and exits with 42.
    Guard(GuardArgs),
    /// Copies data that was set aside, for a person who looks at it.
    Copy(copy::Args),
    /// Holds the network of an API server in a VPC, as a sidecar.
    #[command(subcommand)]
    Net(net::Command),
    /// Takes connections: the other end of `dial`.
    Listen(dial::ListenArgs),
    /// Finds out whether connections get through.
    Dial(dial::DialArgs),
}

#[derive(Debug, clap::Args)]
struct GuardArgs {
    /// Etcd's data directory. The marker lies beside it, on the same volume.
    #[arg(long)]
    data_dir: PathBuf,
    /// The member's name.
    #[arg(long)]
    member: String,
    /// What the operator says about the cluster: `{"clusterUID", "epoch", "state", "joined", "members",
    /// "keepOldData"}`.
    #[arg(long)]
    bootstrap: PathBuf,
    /// Where the reason goes when the member is held.
    #[arg(long, default_value = "/dev/termination-log")]
    termination_log: PathBuf,
    #[command(flatten)]
    then: install::ExecArgs,
}

fn main() -> ExitCode {
    let outcome = match Cli::parse().command {
        Command::Install(args) => install::run(&args).map(|()| ExitCode::SUCCESS),
        Command::Wait(args) => wait::run(&args).map(|()| ExitCode::SUCCESS),
        Command::Guard(args) => guard(&args),
        Command::Copy(args) => copy::run(&args).map(|()| ExitCode::SUCCESS),
        Command::Net(command) => net::run(&command).map(|()| ExitCode::SUCCESS),
        Command::Listen(args) => dial::listen(&args).map(|()| ExitCode::SUCCESS),
        Command::Dial(args) => dial::dial(&args).map(|()| ExitCode::SUCCESS),
    };
    outcome.unwrap_or_else(|error| {
        eprintln!("berth-agent: {error:#}");
        ExitCode::FAILURE
    })
}

fn guard(args: &GuardArgs) -> anyhow::Result<ExitCode> {
    let bootstrap = volume::read_bootstrap(&args.bootstrap)?;
    let marker = volume::read_marker(&args.data_dir)?;
    let data = volume::look(&args.data_dir)?;
    match guard::decide(&bootstrap, &args.member, &marker, data) {
        guard::Decision::Start => {
            tend(args, &bootstrap, data == guard::Data::Present);
            println!("member {} may start", args.member);
        }
        guard::Decision::MarkAndStart(marker) => {
            volume::write_marker(&args.data_dir, &marker)?;
            println!("member {} may start for the first time", args.member);
        }
        guard::Decision::Join(join) => {
            if join.set_aside {
                let name = match &marker {
                    guard::Found::Marker(marker) if marker.epoch < bootstrap.epoch => format!("epoch-{}", marker.epoch),
                    guard::Found::Marker(Marker { id: Some(id), .. }) => format!("removed-{id}"),
                    _ => "removed-first".to_owned(),
                };
                println!("data of an earlier member is in {}", volume::set_aside(&args.data_dir, &name)?.display());
            }
            tend(args, &bootstrap, false);
            if let Some(marker) = &join.marker {
                volume::write_marker(&args.data_dir, marker)?;
            }
            println!("member {} may join {}", args.member, join.initial_cluster);
            args.then.joining(&join.initial_cluster, &join.peer_url).exec()?;
            return Ok(ExitCode::SUCCESS);
        }
        guard::Decision::Hold(hold) => {
            eprintln!("{hold}");
            if let Err(error) = std::fs::write(&args.termination_log, hold.message()) {
                eprintln!("berth-agent: {}: {error}", args.termination_log.display());
            }
            return Ok(ExitCode::from(HELD));
        }
    }
    args.then.exec()?;
    Ok(ExitCode::SUCCESS)
}

/// Sees to old data on the volume. Only a member that votes, or did, and goes on with its own data deletes any. Nothing that happens here
/// keeps a member from its start.
fn tend(args: &GuardArgs, bootstrap: &Bootstrap, goes_on: bool) {
    let keep = bootstrap.keep_old_data.filter(|_| goes_on).map(Duration::from_secs);
    let Some(volume) = args.data_dir.parent() else { return };
    for said in aside::tend(volume, &args.data_dir, keep, SystemTime::now()) {
        println!("{said}");
    }
}
