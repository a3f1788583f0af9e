//! `berth-gateway` gives the API servers of all tenants one address. It reads the server name of a ClientHello, finds the tenant that has it, and passes
//! the bytes on to one of its API servers and back: TLS ends there, and this program has no key. Pods send no name: for these `berth-api-proxy` on their
//! node says it in a PROXY header, at a listener of its own.
//!
//! What it knows is on the tenants' Services, see [`berth_contract::gateway`], and in their EndpointSlices. It watches both and needs neither the
//! operator nor a Secret; while the API of the meta cluster is away, it goes on with what it knows.
//!
//! Pure: [`hello`], [`proxy`] and [`opening`] (what a client says first), [`facts`], [`kept`] and [`table`] (what leads where), [`choose`] (which API
//! server), [`drain`] (who leaves when).

mod args;
mod choose;
mod copy;
mod counts;
mod dial;
mod drain;
mod ended;
mod facts;
mod hello;
mod kept;
mod limits;
mod line;
mod live;
mod metrics;
mod opening;
mod proxy;
mod serve;
mod sources;
mod table;
mod tenant;
#[cfg(test)]
mod tests;
mod visit;
mod watch;

use std::process::ExitCode;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use clap::Parser as _;
use tokio::signal::unix::{SignalKind, signal};

use args::Args;
use berth_edge::log::Log;
use berth_edge::{client, http, socket};
use serve::Gateway;

/// Between two looks whether all tenants are known.
const LOOK: Duration = Duration::from_millis(50);

fn main() -> ExitCode {
    match start(&Args::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("berth-gateway: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn start(args: &Args) -> anyhow::Result<()> {
    if rustls::crypto::ring::default_provider().install_default().is_err() {
        anyhow::bail!("a TLS provider is installed already");
    }
    socket::raise_limit("berth-gateway");
    let (log, writer) = Log::start();
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    let outcome = runtime.block_on(run(args, log));
    // With it ends whatever may still hold the log: its last lines are written before the process ends.
    runtime.shutdown_timeout(Duration::from_secs(1));
    if outcome.is_ok() {
        let _ = writer.join();
    }
    outcome
}

async fn run(args: &Args, log: Log) -> anyhow::Result<()> {
    // As process 1 of its container it would ignore what it does not ask for.
    let (mut term, mut int) = (signal(SignalKind::terminate())?, signal(SignalKind::interrupt())?);
    let listeners = args.listeners()?;
    let metrics = socket::listen(args.metrics)?;
    let client = client::client().await?;
    let gateway = Gateway::new(args.limits(), log);
    tokio::spawn(http::serve(metrics, gateway.clone()));
    let watching = gateway.clone();
    tokio::spawn(async move { watch::run(&client, &watching).await });
    for (listener, by) in listeners {
        let gateway = gateway.clone();
        tokio::spawn(async move {
            // Whoever comes sooner waits: no name is unknown only because nothing is known yet.
            while !gateway.is_known.load(Relaxed) {
                tokio::time::sleep(LOOK).await;
            }
            gateway.accept(listener, by).await;
        });
    }
    tokio::select! { _ = term.recv() => (), _ = int.recv() => () }
    eprintln!("berth-gateway: received a signal to stop; {} connections are open", gateway.connections.len());
    gateway.stop.cancel();
    gateway.drained().await;
    Ok(())
}
