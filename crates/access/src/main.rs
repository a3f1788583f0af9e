//! `berth-access` is one login for all tenants. It takes a token of the platform, asks the meta cluster's API server whose it is and whether they may
//! call that tenant, and passes the call on with their name in the headers of front proxies. How, and why so, is in
//! [ADR 72](../../../docs/adr/0072-one-login.md).
//!
//! Keys to tenants are in its memory alone, and by themselves they are nobody: a call whose headers got lost is a 401. The operator signs them, and
//! calls go on for hours without it.
//!
//! Pure: [`place`] and [`call`] (what is asked for), [`person`] and [`headers`] (what a tenant is told).

mod args;
mod body;
mod call;
mod certificate;
mod clusters;
mod counts;
mod headers;
mod line;
mod link;
mod listen;
mod metrics;
mod patient;
mod person;
mod place;
mod refusal;
mod reviews;
mod serve;
mod strangers;
mod tenants;

use berth_contract::access::ACCESS;
use berth_edge::link::{self as edge, Identity, Replica};
use berth_edge::log::Log;
use berth_edge::{client, http, socket};
use clap::Parser as _;
use k8s_openapi::api::coordination::v1::Lease;
use kube::Api;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::signal::unix::{SignalKind, signal};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use args::Args;
use certificate::Certificate;
use clusters::Clusters;
use counts::Counts;
use link::Link;
use reviews::Reviews;
use serve::Access;
use strangers::Strangers;
use tenants::Tenants;

fn main() -> ExitCode {
    match start(&Args::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("berth-access: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn start(args: &Args) -> anyhow::Result<()> {
    if rustls::crypto::ring::default_provider().install_default().is_err() {
        anyhow::bail!("a TLS provider is installed already");
    }
    socket::raise_limit("berth-access");
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
    let certificate = Certificate::read(&args.certificate)?;
    let listeners = socket::listen_all(&args.listen)?;
    let (metrics, operator) = (socket::listen(args.metrics)?, socket::listen(args.for_operator())?);
    let client = client::client().await?;
    let leases: Api<Lease> = Api::namespaced(client.clone(), &args.namespace);
    let identity = Arc::new(Identity::new(ACCESS)?);
    let link = Arc::new(Link::default());
    let access = Arc::new(Access {
        reviews: Reviews::new(client.clone()),
        strangers: Strangers::default(),
        tenants: Tenants::new(link.clone()),
        clusters: Clusters::new(client),
        link: link.clone(),
        log,
        counts: Counts::default(),
        certificate: certificate.clone(),
        login: args.login()?,
        ask_again: args.ask_again,
        began: Instant::now(),
        stop: CancellationToken::new(),
        over: CancellationToken::new(),
        streams: TaskTracker::new(),
    });
    let replica = Replica {
        name: args.pod.clone(),
        uid: args.pod_uid.clone(),
        address: args.for_operator().to_string(),
        certificate: identity.pem().to_owned(),
    };
    tokio::spawn(edge::publish(link::NAMES, leases.clone(), replica, || ()));
    let speak = move |lines| {
        let link = link.clone();
        async move { link.speak(lines).await }
    };
    tokio::spawn(edge::serve(link::NAMES, operator, identity, leases, speak));
    tokio::spawn(http::serve(metrics, access.clone()));
    tokio::spawn(certificate.clone().follow());
    let tls = listen::tls(certificate);
    let serving: Vec<_> = listeners
        .into_iter()
        .map(|listener| tokio::spawn(listen::serve(access.clone(), listener, tls.clone())))
        .collect();
    tokio::select! { _ = term.recv() => (), _ = int.recv() => () }
    eprintln!("berth-access: received a signal to stop; {} streams are open", access.streams.len());
    access.stop.cancel();
    access.streams.close();
    let drained = async {
        futures::future::join_all(serving).await;
        access.streams.wait().await;
    };
    if tokio::time::timeout(args.drain, drained).await.is_err() {
        access.over.cancel();
        tokio::time::sleep(Duration::from_millis(500)).await;
    }
    Ok(())
}
