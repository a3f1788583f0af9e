//! Whether a cluster can be used, by what cannot be left over from before a restart.

use std::{
    fs,
    os::unix::net::UnixStream,
    path::Path,
    thread,
    time::{Duration, Instant},
};

use anyhow::{Result, bail};
use k8s_openapi::{
    api::core::v1::{Node, PersistentVolume, ServiceAccount},
    jiff::Timestamp,
};
use kube::{Api, Client, api::ListParams};

use crate::{
    addons, api, dns,
    layout::{Layout, RunDir},
    node, pki,
    process::{self, Process},
    slot::Slot,
    state::State,
    supervisor,
};

/// Waits until containerd accepts connections.
pub(super) fn wait_for_socket(layout: &Layout, run: &RunDir, socket: &Path, deadline: Instant) -> Result<()> {
    while UnixStream::connect(socket).is_err() {
        fail_if_dead(layout, run)?;
        if Instant::now() > deadline {
            bail!("containerd did not answer in time; {}", logs_hint(layout));
        }
        thread::sleep(Duration::from_millis(50));
    }
    Ok(())
}

/// Waits until the API server is ready.
pub(super) fn wait_for_api(layout: &Layout, run: &RunDir, deadline: Instant) -> Result<()> {
    api::block_on(async {
        let client = api::client(&layout.kubeconfig(pki::ADMIN)).await?;
        loop {
            if api::is_ready(&client).await {
                return Ok(());
            }
            fail_if_dead(layout, run)?;
            if Instant::now() > deadline {
                bail!("the API server did not become ready in time; {}", logs_hint(layout));
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    })
}

/// What is still missing before pods can run, if anything.
pub(super) async fn is_usable(
    layout: &Layout,
    state: &State,
    client: &Client,
    since: Timestamp,
) -> Result<Option<String>> {
    let nodes = layout.nodes(state.nodes);
    for name in nodes.iter().map(node::Node::name) {
        let node = Api::<Node>::all(client.clone()).get_opt(&name).await?;
        if !node.is_some_and(|node| addons::node_is_ready(&node, since)) {
            return Ok(Some(format!("node {name}")));
        }
    }
    if Api::<ServiceAccount>::default_namespaced(client.clone()).get_opt("default").await?.is_none() {
        return Ok(Some("the service account of the namespace default".to_owned()));
    }
    let offered = Api::<PersistentVolume>::all(client.clone()).list_metadata(&ListParams::default()).await?;
    if offered.items.len() < usize::from(state.volumes) {
        return Ok(Some("the local volumes".to_owned()));
    }
    for node in &nodes {
        if !knows_dns(node, state.slot)? {
            return Ok(Some(format!(
                "cluster DNS (deployment coredns in kube-system), asked by way of {}",
                node.name()
            )));
        }
    }
    Ok(None)
}

/// Whether cluster DNS answers where a node's kube-proxy leads to it: the first node's for the host, a further one's for
/// itself.
fn knows_dns(node: &node::Node, slot: Slot) -> Result<bool> {
    let resolves = || dns::resolves(slot.dns_service(), "kubernetes.default.svc.cluster.local");
    if node.is_further() { process::in_netns(&node.netns(), || Ok(resolves())) } else { Ok(resolves()) }
}

/// Fails with the end of its log if a component has ended before the supervisor watches it.
fn fail_if_dead(layout: &Layout, run: &RunDir) -> Result<()> {
    if process::recorded(run, supervisor::NAME).is_some_and(Process::is_alive) {
        return Ok(());
    }
    for (name, process) in process::recorded_all(run) {
        if !process.is_alive() {
            let log = layout.log(&name);
            let text = fs::read_to_string(&log).unwrap_or_default();
            let lines: Vec<_> = text.lines().collect();
            let tail = lines[lines.len().saturating_sub(8)..].join("\n");
            bail!("{name} ended; the end of {}:\n{tail}", log.display());
        }
    }
    Ok(())
}

pub(super) fn logs_hint(layout: &Layout) -> String {
    format!("see `devcluster logs COMPONENT --name {}`, files in {}", layout.name, layout.dir.join("log").display())
}
