//! What a tenant's control plane takes with many nodes, and with clients that list everything: what default memory limits are sized by.
//!
//! Nodes and pods are objects alone: the bench renews leases and watches as kubelets do.

use crate::{Figure, idle, process, tenant};
use anyhow::Context as _;
use berth_api::names;
use futures::future::join_all;
use futures::{StreamExt, TryStreamExt, stream};
use http::Request;
use jiff::Timestamp;
use k8s_openapi::api::core::v1::Secret;
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Api, Client, Config};
use serde_json::{Value, json};
use std::time::{Duration, Instant};

/// How much there is.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Size {
    pub(crate) nodes: usize,
    /// On each node.
    pub(crate) pods: usize,
    /// Clients that list all pods, one list after the other.
    pub(crate) lists: usize,
}

/// How long is listed, and how long it is quiet before that.
const WHILE: Duration = Duration::from_mins(1);

/// Requests under way at once, while the tenant is filled.
const AT_ONCE: usize = 16;

/// One tenant alone, as Berth makes it.
pub(crate) async fn run(client: &Client, size: Size) -> anyhow::Result<Vec<Figure>> {
    let name = ["nodes-0".to_owned()];
    tenant::create(client, &name).await?;
    let secrets: Api<Secret> = Api::namespaced(client.clone(), tenant::TEAM);
    let kubeconfig = tenant::value(&secrets.get(&names::kubeconfig(&name[0])).await?)?;
    let pids = idle::processes(client, &name[0]).await?;
    let figures = load(&kubeconfig, size, async |phase| {
        let usage = |(process, short): (&str, &str)| {
            let usage = process::usage(*pids.get(process)?)?;
            let figure = |what: &str, value| Figure::new(format!("nodes.{phase}.{short}.{what}"), "MiB", vec![value]);
            Some([figure("rss", usage.rss), figure("anonymous", usage.anonymous), figure("peak", usage.peak)])
        };
        idle::PROCESSES.into_iter().filter_map(usage).flatten().collect()
    })
    .await?;
    tenant::delete(client, &name).await?;
    Ok(figures)
}

/// Fills the cluster and lists; `look` measures after each phase.
pub(crate) async fn load(
    kubeconfig: &str,
    size: Size,
    mut look: impl AsyncFnMut(&str) -> Vec<Figure>,
) -> anyhow::Result<Vec<Figure>> {
    let client = connect(kubeconfig).await?;
    let mut figures = look("empty").await;
    fill(&client, size).await?;
    println!("filled");
    let kubelets = tokio::spawn(kubelets(client.clone(), size.nodes));
    tokio::time::sleep(WHILE).await;
    figures.extend(look("filled").await);
    let until = Instant::now() + WHILE;
    let lister = async || -> anyhow::Result<usize> {
        let (client, mut count) = (connect(kubeconfig).await?, 0);
        while Instant::now() < until {
            // As text: what this side makes of it is not measured.
            client.request_text(Request::get("/api/v1/pods").body(vec![])?).await?;
            count += 1;
        }
        Ok(count)
    };
    let counts = join_all((0..size.lists).map(|_| lister())).await;
    let (done, failed): (Vec<_>, Vec<_>) = counts.into_iter().partition(Result::is_ok);
    let done: usize = done.into_iter().flatten().sum();
    println!("{done} lists of all pods; {} of {} clients ended by an error", failed.len(), size.lists);
    figures.extend(look("listed").await);
    kubelets.abort();
    Ok(figures)
}

async fn connect(kubeconfig: &str) -> anyhow::Result<Client> {
    let kubeconfig = Kubeconfig::from_yaml(kubeconfig)?;
    Ok(Client::try_from(Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await?)?)
}

fn node_name(n: usize) -> String {
    format!("node-{n}")
}

async fn fill(client: &Client, size: Size) -> anyhow::Result<()> {
    let post = async |path: String, object: Value| -> anyhow::Result<()> {
        let request =
            Request::post(path).header("Content-Type", "application/json").body(serde_json::to_vec(&object)?)?;
        client.request::<Value>(request).await.map(drop).context("create")
    };
    let nodes = stream::iter(0..size.nodes).map(|n| post("/api/v1/nodes".to_owned(), node(n)));
    nodes.buffer_unordered(AT_ONCE).try_collect::<()>().await?;
    beat(client, size.nodes).await;
    let account = Request::get("/api/v1/namespaces/default/serviceaccounts/default").body(vec![])?;
    while client.request_text(account.clone()).await.is_err() {
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
    let pods = (0..size.nodes).flat_map(|n| (0..size.pods).map(move |p| (n, p)));
    let pods = stream::iter(pods).map(async |(n, p)| {
        let (name, path) = (format!("pod-{n}-{p}"), "/api/v1/namespaces/default/pods");
        post(path.to_owned(), pod(&name, n)).await?;
        let request = Request::patch(format!("{path}/{name}/status"))
            .header("Content-Type", "application/merge-patch+json")
            .body(serde_json::to_vec(&json!({"status": running(n, p)}))?)?;
        client.request::<Value>(request).await.map(drop).context("status")
    });
    pods.buffer_unordered(AT_ONCE).try_collect::<()>().await
}

/// Leases, and the watches of kubelets.
async fn kubelets(client: Client, nodes: usize) {
    let heart = async {
        loop {
            beat(&client, nodes).await;
            tokio::time::sleep(Duration::from_secs(10)).await;
        }
    };
    let watches = (0..nodes).flat_map(|n| {
        let own = format!("pods?watch=true&fieldSelector=spec.nodeName%3D{}", node_name(n));
        let all = ["services?watch=true", "nodes?watch=true", "configmaps?watch=true"].map(str::to_owned);
        all.into_iter().chain([own]).map(|path| watch(&client, path))
    });
    futures::join!(heart, join_all(watches));
}

/// Reads events until the server ends the watch, and watches again.
async fn watch(client: &Client, path: String) {
    loop {
        let Ok(request) = Request::get(format!("/api/v1/{path}")).body(vec![]) else { return };
        match client.request_stream(request).await {
            Ok(events) => drop(futures::io::copy_buf(events, &mut futures::io::sink()).await),
            Err(_) => tokio::time::sleep(Duration::from_secs(1)).await,
        }
    }
}

/// Renews the lease of every node.
async fn beat(client: &Client, nodes: usize) {
    let renew = async |n: usize| {
        let (name, now) = (node_name(n), format!("{:.6}", Timestamp::now()));
        let lease = json!({
            "apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": {"name": name},
            "spec": {"holderIdentity": name, "leaseDurationSeconds": 40, "renewTime": now},
        });
        let path = format!(
            "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases/{name}?fieldManager=kubelet&force=true"
        );
        let request = Request::patch(path).header("Content-Type", "application/apply-patch+yaml");
        if let Ok(request) = request.body(lease.to_string().into_bytes()) {
            // One that is lost comes again.
            let _ = client.request_text(request).await;
        }
    };
    stream::iter(0..nodes).map(renew).buffer_unordered(AT_ONCE).collect::<()>().await;
}

fn node(n: usize) -> Value {
    let name = node_name(n);
    let ready = json!({"type": "Ready", "status": "True", "reason": "KubeletReady", "message": "kubelet is posting ready status"});
    let much = json!({"cpu": "8", "memory": "32Gi", "pods": "110", "ephemeral-storage": "100Gi"});
    // As many images as kubelet reports of a node in use.
    let images = (0..25).map(|i| json!({"names": [format!("registry.example.com/team/application-{i}@sha256:{i:064}")], "sizeBytes": 50_000_000}));
    json!({
        "apiVersion": "v1", "kind": "Node",
        "metadata": {"name": name, "labels": {"kubernetes.io/hostname": name, "kubernetes.io/os": "linux", "kubernetes.io/arch": "amd64"}},
        "status": {
            "conditions": [ready], "capacity": much, "allocatable": much, "images": images.collect::<Vec<_>>(),
            "addresses": [{"type": "InternalIP", "address": format!("192.0.2.{n}")}, {"type": "Hostname", "address": name}],
        },
    })
}

fn pod(name: &str, n: usize) -> Value {
    let env = (0..10)
        .map(|i| json!({"name": format!("SETTING_{i}"), "value": "a value of some length, as applications have"}));
    json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {"name": name, "labels": {"app": name, "app.kubernetes.io/part-of": "bench"}},
        "spec": {
            "nodeName": node_name(n),
            "containers": [{
                "name": "application", "image": "registry.example.com/team/application:1", "env": env.collect::<Vec<_>>(),
                "resources": {"requests": {"cpu": "10m", "memory": "16Mi"}},
                "livenessProbe": {"httpGet": {"path": "/healthz", "port": 8080}},
            }],
        },
    })
}

fn running(n: usize, p: usize) -> Value {
    let since = Timestamp::now().to_string();
    let condition = |type_: &str| json!({"type": type_, "status": "True", "lastTransitionTime": since});
    let conditions = ["Initialized", "Ready", "ContainersReady", "PodScheduled"].map(condition);
    json!({
        "phase": "Running", "podIP": format!("10.{n}.0.{p}"), "startTime": since, "conditions": conditions,
        "containerStatuses": [{
            "name": "application", "ready": true, "restartCount": 0, "image": "registry.example.com/team/application:1",
            "imageID": "", "state": {"running": {"startedAt": since}},
        }],
    })
}
