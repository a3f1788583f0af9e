//! The operator as it ships, but for what it reaches of tenants: their APIs and etcds are pretended, as in its tests, so that no pod has to
//! run. Everything else is real: its calls to the meta cluster, its rights, its plans.
//!
//! `BERTH_PRETENDED`: kubeconfig of an admin of the meta cluster, whose API server stands for that of every tenant. `BERTH_TENANTS`: a folder
//! that says where tenants' own API servers are in place of that. Then only the address is another one, and etcds are pretended.

#[allow(clippy::unwrap_used, dead_code, reason = "of the operator's tests")]
#[path = "../../../crates/operator/tests/common/etcd.rs"]
mod etcd;
#[allow(clippy::unwrap_used, dead_code, reason = "of the operator's tests")]
#[path = "../../../crates/operator/tests/common/tenant.rs"]
mod tenant;

use anyhow::Context as _;
use berth_api::common::AgentDelivery;
use berth_fence::{Fence, FencedClient};
use berth_kubeio::{Connect, TenantTarget};
use berth_operator::run::wait_for_crds;
use berth_operator::{Context, args::Args, clock, delivery, http, meta, run};
use clap::Parser as _;
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Client, Config};
use std::path::PathBuf;
use std::sync::Arc;
use tokio_util::sync::CancellationToken;
use tracing_subscriber::EnvFilter;

fn main() -> anyhow::Result<()> {
    let args = Args::parse();
    let filter = EnvFilter::try_from_default_env().unwrap_or_else(|_| EnvFilter::new("info,kube_client=off"));
    tracing_subscriber::fmt().with_env_filter(filter).init();
    let _ = rustls::crypto::ring::default_provider().install_default();
    // As in the operator's own `main`.
    tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?.block_on(serve(args))
}

async fn serve(args: Args) -> anyhow::Result<()> {
    let client = FencedClient::infer(Fence::open()).await.context("no access to a meta cluster; set KUBECONFIG")?;
    let config = args.configuration()?;
    let mut context = Context::new(&client, args.settings(&config, AgentDelivery::default()), &args.identity);
    context.concurrency = args.concurrency;
    let path = std::env::var("BERTH_PRETENDED").context("BERTH_PRETENDED is not set")?;
    let tenants = Config::from_custom_kubeconfig(Kubeconfig::read_from(path)?, &KubeConfigOptions::default()).await?;
    let tenants = Client::try_from(tenants)?;
    context.connect = match std::env::var_os("BERTH_TENANTS") {
        Some(folder) => to_own(folder.into()),
        None => tenant::connect(tenants.clone(), tenants),
    };
    context.ask_etcd = Arc::new(|target| Box::pin(async move { etcd::ask(&target) }));
    context.call_etcd = Arc::new(|target, _, what| Box::pin(async move { etcd::call(&target, &what) }));
    wait_for_crds(&context).await;
    let delivery = delivery::decide(args.agent_delivery, &context.io).await;
    context.settings = Arc::new(args.settings(&config, delivery));
    let (listen, metrics) = (args.listen.clone(), context.metrics.clone());
    tokio::spawn(async move { http::serve(&listen, http::Health::default(), metrics).await });
    let context = Arc::new(context);
    let stop = CancellationToken::new();
    let known = meta::refresh(&context, &config.given).await;
    let answered = clock::refresh(&context).await;
    tokio::spawn(clock::follow(context.clone(), answered, stop.clone()));
    tokio::spawn(meta::follow(context.clone(), config.given, known, stop.clone()));
    run(context, stop).await;
    anyhow::bail!("the controllers stopped")
}

/// Connects as the operator does, at the port of this machine that the folder has for a tenant.
fn to_own(folder: PathBuf) -> Connect {
    let connect = berth_kubeio::connect(Fence::open());
    Arc::new(move |target: TenantTarget| {
        let (connect, file) = (connect.clone(), folder.join(tenant::id(&target.ca_cert)));
        Box::pin(async move {
            let port = std::fs::read_to_string(&file).map_err(|error| format!("{}: {error}", file.display()))?;
            connect(target.at(format!("https://127.0.0.1:{port}"))).await
        })
    })
}
