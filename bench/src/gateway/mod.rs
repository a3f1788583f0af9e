//! `berth-gateway` and `berth-access` as processes of this machine, with real API servers on it. See `bench/README.md`.

mod access;
mod bytes;
mod calls;
mod client;
mod flood;
mod many;
mod moves;
mod opens;
mod program;
mod rest;
mod samples;
mod standin;
mod world;

use anyhow::Result;
use clap::ValueEnum;
use nix::sys::resource::{Resource, getrlimit, setrlimit};

pub(crate) use world::Programs;

use crate::Figure;
use world::World;

/// Connections are two open files of the gateway, and two of who measures it.
const FILES: u64 = 200_000;

/// What is measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Step {
    /// What a call takes longer.
    Calls,
    /// Ten thousand watches at rest.
    Rest,
    /// New connections.
    Opens,
    /// Large answers.
    Bytes,
    /// A changed address.
    Moves,
    /// The login.
    Access,
    /// Others while one tenant is flooded.
    Flood,
    /// A thousand tenants.
    Many,
}

/// One step after the other; what fails is said at the end, after what the others measured.
pub(crate) async fn run(programs: Programs, only: &[Step]) -> Result<(Vec<Figure>, Result<()>)> {
    let room = room()?;
    let world = World::start(programs).await?;
    let (mut figures, mut failed) = (vec![], vec![]);
    for step in Step::value_variants().iter().filter(|step| only.is_empty() || only.contains(step)) {
        let load = std::fs::read_to_string("/proc/loadavg")?;
        println!("{step:?}; load before it: {}", load.split(' ').next().unwrap_or_default());
        let measured = match step {
            Step::Calls => calls::run(&world).await,
            Step::Rest => rest::run(&world, room).await,
            Step::Opens => opens::run(&world).await,
            Step::Bytes => bytes::run(&world).await,
            Step::Moves => moves::run(&world).await,
            Step::Access => access::run(&world).await,
            Step::Flood => flood::run(&world, room).await,
            Step::Many => many::run(&world).await,
        };
        match measured {
            Ok(measured) => figures.extend(measured),
            Err(error) => failed.push(format!("{step:?}: {error:#}")),
        }
    }
    let outcome = if failed.is_empty() { Ok(()) } else { Err(anyhow::anyhow!(failed.join("\n"))) };
    Ok((figures, outcome))
}

/// Lets this process, and those that it starts, have as many open files as it may, at most [`FILES`]. How many connections a gateway has room for with them.
fn room() -> Result<usize> {
    let (_, most) = getrlimit(Resource::RLIMIT_NOFILE)?;
    let wanted = most.max(FILES);
    let files = if setrlimit(Resource::RLIMIT_NOFILE, wanted, wanted).is_ok() {
        wanted
    } else {
        println!(
            "{most} files may be open, and not {FILES}: there are fewer connections at once than docs/benchmarks.md asks for"
        );
        setrlimit(Resource::RLIMIT_NOFILE, most, most)?;
        most
    };
    Ok(usize::try_from(files)?.saturating_sub(200) / 2)
}
