//! Tenants with Berth: creating, asking, deleting.

use anyhow::{Context as _, bail};
use base64::Engine;
use berth_api::{Cluster, names};
use futures::future::try_join_all;
use k8s_openapi::api::core::v1::{Namespace, Pod, Secret};
use kube::api::{DeleteParams, ListParams, PostParams};
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Api, Client, Config};
use serde_json::{Value, json};
use std::time::{Duration, Instant};

/// Where the benches' `Cluster`s live.
pub(crate) const TEAM: &str = "bench";
const TIMEOUT: Duration = Duration::from_mins(5);

/// How long to wait between two looks at one of so many: fifty looks a second altogether, so that looking costs the
/// same with one and with ten, with and without Berth.
pub(crate) fn pause(tenants: usize) -> Duration {
    Duration::from_millis(20) * u32::try_from(tenants).unwrap_or(u32::MAX)
}

/// Seconds from creation, for each tenant.
pub(crate) struct Times {
    pub(crate) answers: Vec<f64>,
    pub(crate) ready: Vec<f64>,
}

/// The team's namespace.
pub(crate) async fn team(client: &Client) -> anyhow::Result<()> {
    let namespace: Namespace = serde_json::from_value(json!({"metadata": {"name": TEAM}}))?;
    match Api::all(client.clone()).create(&PostParams::default(), &namespace).await {
        Ok(_) => Ok(()),
        Err(kube::Error::Api(s)) if s.code == 409 => Ok(()),
        Err(e) => Err(e.into()),
    }
}

/// Removes what a run that was cut off has left behind.
pub(crate) async fn clear(client: &Client) -> anyhow::Result<()> {
    let api: Api<Cluster> = Api::namespaced(client.clone(), TEAM);
    let names: Vec<String> =
        api.list(&ListParams::default()).await?.into_iter().filter_map(|c| c.metadata.name).collect();
    delete(client, &names).await?;
    let spaces: Api<Namespace> = Api::all(client.clone());
    for left in spaces.list(&ListParams::default().labels("berth.dev/bench=floor")).await? {
        let name = left.metadata.name.unwrap_or_default();
        spaces.delete(&name, &DeleteParams::default()).await?;
        while spaces.get_opt(&name).await?.is_some() {
            tokio::time::sleep(pause(10)).await;
        }
    }
    Ok(())
}

/// Creates them all at once and waits until each answers and is ready.
pub(crate) async fn create(client: &Client, all: &[String]) -> anyhow::Result<Times> {
    create_with(client, all, &json!({})).await
}

/// Likewise, with more in their specs.
pub(crate) async fn create_with(client: &Client, all: &[String], spec: &Value) -> anyhow::Result<Times> {
    let started = Instant::now();
    let done = try_join_all(all.iter().map(|name| one(client, name, spec, started, pause(all.len())))).await?;
    let (answers, ready) = done.into_iter().unzip();
    Ok(Times { answers, ready })
}

/// A `Cluster` with more in its spec than a bench needs.
pub(crate) fn cluster(name: &str, more: &Value) -> anyhow::Result<Cluster> {
    let mut spec = json!({"version": "1.36.3", "deletion": {"protected": false}});
    if let (Some(spec), Some(more)) = (spec.as_object_mut(), more.as_object()) {
        spec.extend(more.clone());
    }
    Ok(serde_json::from_value(json!({"metadata": {"name": name}, "spec": spec}))?)
}

async fn one(
    client: &Client,
    name: &str,
    spec: &Value,
    started: Instant,
    pause: Duration,
) -> anyhow::Result<(f64, f64)> {
    let api: Api<Cluster> = Api::namespaced(client.clone(), TEAM);
    api.create(&PostParams::default(), &cluster(name, spec)?).await?;
    let secrets: Api<Secret> = Api::namespaced(client.clone(), TEAM);
    let mut tenant = None;
    let answers = loop {
        if started.elapsed() > TIMEOUT {
            bail!("{name} does not answer after {TIMEOUT:?}");
        }
        if tenant.is_none() {
            tenant = secrets.get_opt(&names::kubeconfig(name)).await?.map(|s| value(&s)).transpose()?;
        }
        if let Some(kubeconfig) = &tenant
            && ask(kubeconfig).await.is_ok()
        {
            break started.elapsed().as_secs_f64();
        }
        tokio::time::sleep(pause).await;
    };
    Ok((answers, ready(client, name, started, pause).await?))
}

/// Seconds since then when it is ready.
async fn ready(client: &Client, name: &str, since: Instant, pause: Duration) -> anyhow::Result<f64> {
    let api: Api<Cluster> = Api::namespaced(client.clone(), TEAM);
    loop {
        let conditions = api.get(name).await?.status.map(|s| s.conditions).unwrap_or_default();
        if conditions.iter().any(|c| c.type_ == "Ready" && c.status == "True") {
            return Ok(since.elapsed().as_secs_f64());
        }
        if since.elapsed() > TIMEOUT {
            bail!("{name} is not ready after {TIMEOUT:?}: {conditions:?}");
        }
        tokio::time::sleep(pause).await;
    }
}

/// Creates them all at once and waits until each is ready, but asks none of them.
pub(crate) async fn create_unasked(client: &Client, all: &[String], spec: &Value) -> anyhow::Result<()> {
    let (api, since): (Api<Cluster>, _) = (Api::namespaced(client.clone(), TEAM), Instant::now());
    for name in all {
        api.create(&PostParams::default(), &cluster(name, spec)?).await?;
    }
    try_join_all(all.iter().map(|name| ready(client, name, since, pause(all.len())))).await.map(drop)
}

/// The kubeconfig in a Secret.
pub(crate) fn value(secret: &Secret) -> anyhow::Result<String> {
    let data = secret.data.as_ref().and_then(|d| d.get("value")).context("no key `value`")?;
    Ok(String::from_utf8(data.0.clone())?)
}

/// An authenticated `GET /api/v1/namespaces` over a new connection, as a `kubectl get ns` makes it.
pub(crate) async fn ask(kubeconfig: &str) -> anyhow::Result<()> {
    ask_within(Kubeconfig::from_yaml(kubeconfig)?, Duration::from_secs(1)).await
}

/// Likewise. `connects`: when the client gives up a connection that is not yet open, TLS included.
pub(crate) async fn ask_within(kubeconfig: Kubeconfig, connects: Duration) -> anyhow::Result<()> {
    let mut config = Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await?;
    config.connect_timeout = Some(connects);
    config.read_timeout = Some(Duration::from_secs(5));
    let api: Api<Namespace> = Api::all(Client::try_from(config)?);
    api.list(&ListParams::default()).await?;
    Ok(())
}

/// Deletes them all at once and waits until nothing is left. Seconds.
pub(crate) async fn delete(client: &Client, all: &[String]) -> anyhow::Result<f64> {
    let started = Instant::now();
    let api: Api<Cluster> = Api::namespaced(client.clone(), TEAM);
    let spaces: Api<Namespace> = Api::all(client.clone());
    for name in all {
        api.delete(name, &DeleteParams::default()).await?;
    }
    for name in all {
        while api.get_opt(name).await?.is_some() || spaces.get_opt(&cp_namespace(name)).await?.is_some() {
            let timeout = TIMEOUT + Duration::from_secs(all.len() as u64);
            if started.elapsed() > timeout {
                bail!("{name} is not gone after {timeout:?}");
            }
            tokio::time::sleep(pause(1)).await;
        }
    }
    Ok(started.elapsed().as_secs_f64())
}

/// The control-plane namespace.
pub(crate) fn cp_namespace(name: &str) -> String {
    names::control_plane_namespace(TEAM, name)
}

/// Restarts of all their containers.
pub(crate) async fn restarts(client: &Client, all: &[String]) -> anyhow::Result<f64> {
    let mut count = 0;
    for name in all {
        let pods: Api<Pod> = Api::namespaced(client.clone(), &cp_namespace(name));
        for pod in pods.list(&ListParams::default()).await? {
            let status = pod.status.unwrap_or_default();
            let containers = status.container_statuses.into_iter().chain(status.init_container_statuses).flatten();
            count += containers.map(|c| c.restart_count).sum::<i32>();
        }
    }
    Ok(f64::from(count))
}

/// Decodes what the API server keeps as base64.
pub(crate) fn decode(text: &str) -> Option<String> {
    String::from_utf8(base64::engine::general_purpose::STANDARD.decode(text).ok()?).ok()
}
