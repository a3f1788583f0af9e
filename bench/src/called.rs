//! Tenants behind the gateway that sleep, and are woken by whoever calls: from the connection until the answer.

use crate::sleep::{Sizes, TIMEOUT, fall_asleep, most, reaches};
use crate::{Figure, tenant};
use anyhow::{Context as _, bail};
use berth_api::hibernation::{SleepRequest, SleepState};
use berth_api::{labels, names};
use futures::future::try_join_all;
use jiff::Timestamp;
use k8s_openapi::api::core::v1::Secret;
use kube::config::Kubeconfig;
use kube::{Api, Client};
use serde_json::{Value, json};
use std::net::SocketAddr;
use std::time::{Duration, Instant};

/// When kubectl gives up a connection that is not yet open.
const CONNECTS: Duration = Duration::from_secs(10);

/// One tenant again and again, then many at once.
pub(crate) async fn run(client: &Client, gateway: SocketAddr, sizes: &Sizes) -> anyhow::Result<Vec<Figure>> {
    let one = ["called-one".to_owned()];
    let spec = json!({"endpoint": {"type": "Gateway"}, "hibernation": {"wake": {"onConnect": true}}});
    tenant::create_unasked(client, &one, &spec).await?;
    let (mut answers, mut tries) = (vec![], vec![]);
    for run in 0..sizes.runs {
        fall_asleep(client, &one, &asked()).await?;
        let (seconds, tried) = call(client, gateway, &one[0], Instant::now()).await?;
        println!("run {run}: called, it answers after {seconds:.2} s, at try {tried}");
        answers.push(seconds);
        tries.push(tried);
        reaches(client, &one[0], SleepState::Awake, Instant::now()).await?;
    }
    tenant::delete(client, &one).await?;

    let many: Vec<String> = (0..sizes.at_once).map(|i| format!("called-{i}")).collect();
    tenant::create_unasked(client, &many, &spec).await?;
    fall_asleep(client, &many, &asked()).await?;
    let began = Instant::now();
    let called = try_join_all(many.iter().map(|name| call(client, gateway, name, began))).await?;
    tenant::delete(client, &many).await?;
    let many_answer = most(&called.iter().map(|(seconds, _)| *seconds).collect::<Vec<_>>());
    println!("{} are called at once: all answer after {many_answer:.1} s", many.len());
    Ok(vec![
        Figure::new("called.answers_worst", "s", vec![most(&answers)]),
        Figure::new("called.answers", "s", answers),
        Figure::new("called.tries", "", tries),
        Figure::new("called.many_answer", "s", vec![many_answer]),
    ])
}

/// What a person asks for once: a connection does not wake who is to sleep by the spec.
fn asked() -> Value {
    let sleep = SleepRequest { sleep: true, at: Timestamp::now() }.to_string();
    json!({"metadata": {"annotations": {(labels::HIBERNATE): sleep}}})
}

/// Seconds until an answer through the gateway, and at which try. Each is over a new connection.
async fn call(client: &Client, gateway: SocketAddr, name: &str, began: Instant) -> anyhow::Result<(f64, f64)> {
    let secrets: Api<Secret> = Api::namespaced(client.clone(), tenant::TEAM);
    let kubeconfig = tenant::value(&secrets.get(&names::kubeconfig(name)).await?)?;
    let mut kubeconfig = Kubeconfig::from_yaml(&kubeconfig)?;
    let cluster = kubeconfig.clusters.first_mut().and_then(|cluster| cluster.cluster.as_mut()).context("no cluster")?;
    let server: http::Uri = cluster.server.as_deref().context("no server")?.parse()?;
    cluster.tls_server_name = Some(server.host().context("no name")?.to_owned());
    cluster.server = Some(format!("https://{gateway}"));
    for tried in 1..u32::MAX {
        match tenant::ask_within(kubeconfig.clone(), CONNECTS).await {
            Ok(()) => return Ok((began.elapsed().as_secs_f64(), f64::from(tried))),
            Err(error) if began.elapsed() > TIMEOUT => {
                return Err(error.context(format!("{name} does not answer after {TIMEOUT:?}")));
            }
            // As kubectl repeats a read.
            Err(_) => tokio::time::sleep(Duration::from_secs(1)).await,
        }
    }
    bail!("{name} was called too often")
}
