//! `berth-api-proxy` is on each node of a tenant whose API is found by a name. Pods dial Service `kubernetes` by its address and send no name: so it has an
//! address of its own on `lo`, to which that Service leads, and carries each connection to the API by the name. To a gateway it says the tenant in
//! a PROXY header of version 2 (type 0x02), and then copies bytes: TLS is between pod and API server, and this program has no key and no access to
//! Kubernetes.
//!
//! A new address of the gateway is one of DNS, and restarts nobody.
//!
//! Pure: [`header`] (what a gateway is told), and messages of [`address`].

mod address;
mod args;
mod carry;
mod dial;
mod header;
mod serve;

use std::process::ExitCode;

use clap::Parser as _;
use tokio::signal::unix::{SignalKind, signal};

use args::Args;
use berth_edge::{http, socket};
use serve::Proxy;

/// A node's pods are few, and mostly at rest.
const THREADS: usize = 2;

fn main() -> ExitCode {
    match start(Args::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("berth-api-proxy: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn start(args: Args) -> anyhow::Result<()> {
    socket::raise_limit("berth-api-proxy");
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(THREADS).enable_all().build()?;
    let outcome = runtime.block_on(run(args));
    // A name that is being resolved has a thread that nothing ends.
    runtime.shutdown_background();
    outcome
}

async fn run(args: Args) -> anyhow::Result<()> {
    // As process 1 of its container it would ignore what it does not ask for.
    let (mut term, mut int) = (signal(SignalKind::terminate())?, signal(SignalKind::interrupt())?);
    let own = args.listen;
    put(own)?;
    let (listener, health) = (socket::listen(own)?, socket::listen(args.health)?);
    let proxy = Proxy::new(args);
    tokio::spawn(http::serve(health, proxy.clone()));
    tokio::spawn(proxy.clone().look());
    tokio::spawn(proxy.clone().accept(listener));
    tokio::spawn(async move {
        loop {
            tokio::time::sleep(address::RENEWED).await;
            if let Err(error) = put(own) {
                eprintln!("berth-api-proxy: {error:#}");
            }
        }
    });
    tokio::select! { _ = term.recv() => (), _ = int.recv() => () }
    eprintln!("berth-api-proxy: received a signal to stop; {} connections are open", proxy.connections.len());
    proxy.stop.cancel();
    proxy.drained().await;
    Ok(())
}

fn put(own: std::net::SocketAddr) -> anyhow::Result<()> {
    use anyhow::Context as _;
    let ip = own.ip();
    address::put(ip).with_context(|| format!("cannot put {ip} on lo; this takes the capability NET_ADMIN"))
}
