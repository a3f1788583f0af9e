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
mod early;
mod ended;
mod facts;
mod held;
mod hello;
mod hold;
mod idle;
mod kept;
mod limits;
mod line;
mod link;
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
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use berth_contract::calls::GATEWAY;
use clap::Parser as _;
use k8s_openapi::api::coordination::v1::Lease;
use kube::{Api, Client};
use tokio::net::TcpListener;
use tokio::signal::unix::{SignalKind, signal};
use tokio::task::JoinSet;

use args::{Args, ToOperator};
use berth_edge::link::{Identity, Replica, publish, serve as serve_operator};
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
    let operator = args.replica().map(|replica| Ok::<_, anyhow::Error>((socket::listen(replica.address)?, replica)));
    let operator = operator.transpose()?;
    let metrics = socket::listen(args.metrics)?;
    let client = client::client().await?;
    let gateway = Gateway::new(args.limits(), log);
    tokio::spawn(http::serve(metrics, gateway.clone()));
    if let Some((listener, replica)) = operator {
        tell_operator(&client, &gateway, listener, replica)?;
    }
    let watching = gateway.clone();
    tokio::spawn(async move { watch::run(&client, &watching).await });
    let mut doors = JoinSet::new();
    for (listener, by) in listeners {
        let gateway = gateway.clone();
        doors.spawn(async move {
            // Whoever comes sooner waits: no name is unknown only because nothing is known yet.
            while !gateway.is_known.load(Relaxed) && !gateway.stop.is_cancelled() {
                tokio::time::sleep(LOOK).await;
            }
            gateway.accept(listener, by).await;
        });
    }
    tokio::select! { _ = term.recv() => (), _ = int.recv() => () }
    eprintln!("berth-gateway: received a signal to stop; {} connections are open", gateway.connections.len());
    gateway.stop.cancel();
    while doors.join_next().await.is_some() {}
    // Who is cut off by its end uses a tenant until then: that is for the operator to count.
    if gateway.drained().await {
        gateway.last_words().await;
    }
    Ok(())
}

/// Lets the operator find this replica, and tells it who calls tenants that sleep, and uses them.
fn tell_operator(client: &Client, gateway: &Arc<Gateway>, listener: TcpListener, to: ToOperator) -> anyhow::Result<()> {
    let identity = Arc::new(Identity::new(GATEWAY)?);
    let leases: Api<Lease> = Api::namespaced(client.clone(), &to.namespace);
    let certificate = identity.pem().to_owned();
    let replica = Replica { name: to.pod, uid: to.pod_uid, address: to.address.to_string(), certificate };
    gateway.is_unknown.store(true, Relaxed);
    let known = gateway.clone();
    let published = move || known.is_unknown.store(false, Relaxed);
    tokio::spawn(publish(link::NAMES, leases.clone(), replica, published));
    let gateway = gateway.clone();
    let speak = move |lines| {
        let gateway = gateway.clone();
        async move { gateway.operators.track_future(link::speak(&gateway, lines)).await }
    };
    tokio::spawn(serve_operator(link::NAMES, listener, identity, leases, speak));
    Ok(())
}
