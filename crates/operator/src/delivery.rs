//! How the agent gets into the pods of new tenants: by what the nodes of the meta cluster can do.

use berth_api::common::AgentDelivery;
use berth_kubeio::Io;
use clap::ValueEnum;
use serde_json::Value;
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
    pub async fn decide(self, io: &Io) -> AgentDelivery {
        let (delivery, why) = match self {
            Self::InitContainer => (AgentDelivery::InitContainer, "as configured".to_owned()),
            Self::ImageVolume => (AgentDelivery::ImageVolume, "as configured".to_owned()),
            Self::Auto => match tokio::time::timeout(DEADLINE, unfit(io)).await {
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
async fn unfit(io: &Io) -> anyhow::Result<Option<String>> {
    let mut any = false;
    let mut next = String::new();
    loop {
        let page = io.raw(&format!("/api/v1/nodes?limit={PAGE}&continue={next}")).await?;
        for node in page["items"].as_array().into_iter().flatten() {
            any = true;
            let info = NodeInfo::of(node);
            if !info.has_image_volumes() {
                let name = node["metadata"]["name"].as_str().unwrap_or_default();
                return Ok(Some(format!("node {name}: kubelet {}, {}", info.kubelet, info.runtime)));
            }
        }
        match page["metadata"]["continue"].as_str().filter(|c| !c.is_empty()) {
            Some(token) => token.clone_into(&mut next),
            None if any => return Ok(None),
            None => return Ok(Some("there are no nodes yet".into())),
        }
    }
}

/// Versions that a node reports.
#[derive(Clone, Copy, Debug)]
struct NodeInfo<'a> {
    kubelet: &'a str,
    runtime: &'a str,
    system: &'a str,
}

impl<'a> NodeInfo<'a> {
    fn of(node: &'a Value) -> Self {
        let field = |name: &str| node["status"]["nodeInfo"][name].as_str().unwrap_or_default();
        Self {
            kubelet: field("kubeletVersion"),
            runtime: field("containerRuntimeVersion"),
            system: field("operatingSystem"),
        }
    }

    /// On by default from kubelet 1.35. containerd has them from 2.1, CRI-O without `noexec` from 1.35. Of other runtimes we do not
    /// know.
    fn has_image_volumes(self) -> bool {
        let runtime = match self.runtime.split_once("://") {
            Some(("containerd", version)) => at_least(version, (2, 1)),
            Some(("cri-o", version)) => at_least(version, (1, 35)),
            _ => false,
        };
        runtime && at_least(self.kubelet, (1, 35)) && self.system == "linux"
    }
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
            let info = serde_json::json!({
                "kubeletVersion": kubelet, "containerRuntimeVersion": runtime, "operatingSystem": "linux",
            });
            NodeInfo::of(&serde_json::json!({"status": {"nodeInfo": info}})).has_image_volumes()
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
