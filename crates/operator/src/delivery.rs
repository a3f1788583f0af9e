//! How the agent gets into the pods of new tenants: by what the nodes of the meta cluster can do.

use anyhow::Context as _;
use berth_api::common::AgentDelivery;
use clap::ValueEnum;
use k8s_openapi::api::core::v1::{Node, NodeSystemInfo};
use kube::api::{Api, ListParams};
use kube::{Client, ResourceExt as _};
use std::time::Duration;

/// What the operator is told.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
#[value(rename_all = "PascalCase")]
pub enum Delivery {
    /// As an image volume if all nodes can do it.
    #[default]
    Auto,
    /// Always by an init container.
    InitContainer,
    /// Always as an image volume.
    ImageVolume,
}

/// Nodes in one answer: a node's object has tens of KiB.
const PAGE: u32 = 50;
const DEADLINE: Duration = Duration::from_secs(30);

impl Delivery {
    /// What new tenants get. It is asked once: nodes that join later are not seen.
    pub async fn decide(self, client: &Client) -> AgentDelivery {
        let (delivery, why) = match self {
            Self::InitContainer => (AgentDelivery::InitContainer, "as configured".to_owned()),
            Self::ImageVolume => (AgentDelivery::ImageVolume, "as configured".to_owned()),
            Self::Auto => match tokio::time::timeout(DEADLINE, unfit(client)).await {
                Ok(Ok(None)) => (AgentDelivery::ImageVolume, "all nodes have image volumes".to_owned()),
                Ok(Ok(Some(why))) => (AgentDelivery::InitContainer, why),
                Ok(Err(error)) => (AgentDelivery::InitContainer, format!("{error:#}")),
                Err(_) => (AgentDelivery::InitContainer, "the API server did not list the nodes in time".to_owned()),
            },
        };
        tracing::info!(delivery = delivery.as_str(), why, "the agent of new tenants");
        delivery
    }
}

/// Why image volumes cannot be used, if so.
async fn unfit(client: &Client) -> anyhow::Result<Option<String>> {
    let nodes: Api<Node> = Api::all(client.clone());
    let mut page = ListParams::default().limit(PAGE);
    let mut any = false;
    loop {
        let list = nodes.list(&page).await.context("cannot list the nodes")?;
        for node in &list.items {
            any = true;
            let info = node.status.as_ref().and_then(|s| s.node_info.as_ref());
            if !info.is_some_and(has_image_volumes) {
                let name = node.name_any();
                let what = info.map(|i| format!("kubelet {}, {}", i.kubelet_version, i.container_runtime_version));
                return Ok(Some(format!("node {name}: {}", what.unwrap_or_else(|| "reports no versions".into()))));
            }
        }
        match list.metadata.continue_.filter(|c| !c.is_empty()) {
            Some(token) => page = page.continue_token(&token),
            None if any => return Ok(None),
            None => return Ok(Some("there are no nodes yet".into())),
        }
    }
}

/// On by default from kubelet 1.35. containerd has them from 2.1, CRI-O without `noexec` from 1.35. Of other runtimes we do not know.
fn has_image_volumes(info: &NodeSystemInfo) -> bool {
    let runtime = info.container_runtime_version.split_once("://");
    let fits = match runtime {
        Some(("containerd", version)) => at_least(version, (2, 1)),
        Some(("cri-o", version)) => at_least(version, (1, 35)),
        _ => false,
    };
    fits && at_least(&info.kubelet_version, (1, 35)) && info.operating_system == "linux"
}

fn at_least(version: &str, minor: (u64, u64)) -> bool {
    let mut parts = version.trim_start_matches('v').split('.').map(str::parse::<u64>);
    match (parts.next(), parts.next()) {
        (Some(Ok(major)), Some(Ok(found))) => (major, found) >= minor,
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_node_has_image_volumes_from_the_versions_that_have_them_on() {
        let has = |kubelet: &str, runtime: &str| {
            has_image_volumes(&NodeSystemInfo {
                kubelet_version: kubelet.into(),
                container_runtime_version: runtime.into(),
                operating_system: "linux".into(),
                ..NodeSystemInfo::default()
            })
        };
        assert!(has("v1.36.3", "containerd://2.1.0"));
        assert!(has("v1.35.0-gke.100", "containerd://2.4.2"));
        assert!(has("v1.35.2+k3s1", "cri-o://1.35.0"));
        assert!(!has("v1.34.9", "containerd://2.4.2"));
        assert!(!has("v1.36.3", "containerd://2.0.9"));
        assert!(!has("v1.36.3", "containerd://1.7.30"));
        assert!(!has("v1.36.3", "cri-o://1.34.2"));
        assert!(!has("v1.36.3", "docker://29.0.0"));
        assert!(!has("", ""));
    }
}
