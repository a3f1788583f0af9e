//! The operator's process: arguments, logs, lease, and the end on SIGTERM.

use anyhow::Context as _;
use berth_api::common::AgentDelivery;
use berth_fence::{Fence, FencedClient};
use berth_operator::leader::Candidate;
use berth_operator::run::wait_for_crds;
use berth_operator::{Context, args::Args, clock, delivery, http, meta, run};
use clap::Parser;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use tokio::signal::unix::{SignalKind, signal};
use tokio_util::sync::CancellationToken;
use tracing_subscriber::EnvFilter;

fn main() -> anyhow::Result<()> {
    let args = Args::parse();
    let filter = EnvFilter::try_from_default_env().unwrap_or_else(|_| EnvFilter::new("info,kube_client=off"));
    if args.log_json {
        tracing_subscriber::fmt().with_env_filter(filter).json().init();
    } else {
        tracing_subscriber::fmt().with_env_filter(filter).init();
    }
    if rustls::crypto::ring::default_provider().install_default().is_err() {
        anyhow::bail!("a TLS provider is installed already");
    }
    tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?.block_on(serve(args))
}

async fn serve(args: Args) -> anyhow::Result<()> {
    let fence = if args.leader_elect { Fence::closed() } else { Fence::open() };
    let client = FencedClient::infer(fence.clone()).await.context("no access to a meta cluster; set KUBECONFIG")?;
    let config = args.configuration()?;
    // Before anything is planned, it is known what the nodes can do.
    let mut ctx = Context::new(&client, args.settings(&config, AgentDelivery::default()), &args.identity);
    ctx.concurrency = args.concurrency;
    let health = http::Health::default();
    if !args.listen.is_empty() {
        let (listen, health, metrics) = (args.listen.clone(), health.clone(), ctx.metrics.clone());
        tokio::spawn(async move {
            if let Err(error) = http::serve(&listen, health, metrics).await {
                tracing::error!(error = format!("{error:#}"), "cannot serve health and metrics");
            }
        });
    }
    let mut term = signal(SignalKind::terminate())?;
    let mut int = signal(SignalKind::interrupt())?;
    let stop = CancellationToken::new();
    let asked = stop.clone();
    tokio::spawn(async move {
        tokio::select! { _ = term.recv() => (), _ = int.recv() => () }
        tracing::info!("received a signal to stop");
        asked.cancel();
    });
    tokio::select! { () = wait_for_crds(&ctx) => (), () = stop.cancelled() => return Ok(()) }
    let delivery = delivery::decide(args.agent_delivery, &ctx.io).await;
    ctx.settings = Arc::new(args.settings(&config, delivery));
    let ctx = Arc::new(ctx);
    let known = meta::refresh(&ctx, &config.given).await;
    let answered =
        tokio::select! { answered = clock::refresh(&ctx) => answered, () = stop.cancelled() => return Ok(()) };
    tokio::spawn(clock::follow(ctx.clone(), answered, stop.clone()));
    tokio::spawn(meta::follow(ctx.clone(), config.given, known, stop.clone()));
    health.ready.store(true, Ordering::Relaxed);
    if !args.leader_elect {
        run(ctx, stop.clone()).await;
        anyhow::ensure!(stop.is_cancelled(), "the controllers stopped unexpectedly");
        return Ok(());
    }
    let heard = health.ready.clone();
    let mut candidate =
        Candidate::new((*client).clone(), &args.namespace, "berth-operator", &args.identity, fence, heard);
    tokio::select! { () = candidate.acquire() => (), () = stop.cancelled() => return Ok(()) }
    ctx.metrics.leader.set(1);
    candidate.lead(run(ctx, stop.clone()), &stop).await
}
