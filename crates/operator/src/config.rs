//! The configuration file: what is too much for flags. The chart makes it from its values.

use anyhow::Context as _;
use berth_plan::meta::{MetaRanges, network};
use berth_plan::settings::{Isolation, Writers};
use ipnet::IpNet;
use serde::Deserialize;
use serde_json::Value;
use std::path::Path;

/// The file.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default, deny_unknown_fields)]
pub struct Config {
    /// The meta cluster's addresses, as far as they are given.
    pub meta: Meta,
    /// What NetworkPolicies let through.
    pub isolation: Policies,
    /// What writers of a `Cluster` may ask for.
    pub writers: Allowed,
}

/// Address ranges of the meta cluster. An empty list is filled from what the meta cluster says of itself.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Meta {
    /// Of pods. Default: `podCIDRs` of all nodes.
    #[serde(rename = "podCIDRs")]
    pub pods: Vec<String>,
    /// Of Services. Default: all `ServiceCIDR` objects.
    #[serde(rename = "serviceCIDRs")]
    pub services: Vec<String>,
    /// Of nodes. Default: the addresses of all nodes.
    #[serde(rename = "nodeCIDRs")]
    pub nodes: Vec<String>,
    /// Of API servers. Default: the endpoints of Service `default/kubernetes`.
    #[serde(rename = "apiServerIPs")]
    pub api_servers: Vec<String>,
}

/// Peers and rules in the shape of `networking.k8s.io/v1`.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default, deny_unknown_fields)]
pub struct Policies {
    /// Where the meta cluster's DNS is. Default: `k8s-app: kube-dns` in `kube-system`.
    pub dns: Option<Vec<Value>>,
    /// Who may read metrics of etcd, kube-controller-manager and kube-scheduler. Default: nobody.
    pub monitoring: Vec<Value>,
    /// What tenants' API servers may reach in addition.
    pub api_server_egress: Vec<Value>,
}

/// Names; `*` at the end of one stands for any rest. Default: nothing.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Allowed {
    /// For the Service of the API.
    pub service: AllowedService,
    /// For pods.
    pub placement: AllowedPlacement,
    /// For images.
    pub images: AllowedImages,
}

/// For the Service of the API.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default, deny_unknown_fields)]
pub struct AllowedService {
    /// Keys.
    pub annotations: Vec<String>,
    /// Names.
    pub load_balancer_classes: Vec<String>,
}

/// For pods.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default, deny_unknown_fields)]
pub struct AllowedPlacement {
    /// `key` or `key=value`.
    pub node_selectors: Vec<String>,
    /// Keys of taints.
    pub tolerations: Vec<String>,
    /// Names.
    pub priority_classes: Vec<String>,
}

/// For images.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default, deny_unknown_fields)]
pub struct AllowedImages {
    /// Registries, with their paths.
    pub registries: Vec<String>,
    /// Names of Secrets.
    pub pull_secrets: Vec<String>,
}

impl Config {
    /// Reads the file.
    pub fn read(path: &Path) -> anyhow::Result<Self> {
        let text = std::fs::read_to_string(path).with_context(|| format!("configuration {}", path.display()))?;
        let config: Self =
            serde_saphyr::from_str(&text).with_context(|| format!("configuration {}", path.display()))?;
        config.meta.given().with_context(|| format!("configuration {}", path.display()))?;
        Ok(config)
    }

    /// What writers of a `Cluster` may ask for.
    pub fn writers(&self) -> Writers {
        let Allowed { service, placement, images } = self.writers.clone();
        Writers {
            service_annotations: service.annotations,
            load_balancer_classes: service.load_balancer_classes,
            node_selectors: placement.node_selectors,
            tolerations: placement.tolerations,
            priority_classes: placement.priority_classes,
            image_registries: images.registries,
            pull_secrets: images.pull_secrets,
        }
    }

    /// What NetworkPolicies are made from, before the meta cluster was asked.
    pub fn isolation(&self) -> Isolation {
        let default = Isolation::default();
        Isolation {
            meta: Err("they were not asked for yet".into()),
            dns: self.isolation.dns.clone().unwrap_or(default.dns),
            monitoring: self.isolation.monitoring.clone(),
            api_server_egress: self.isolation.api_server_egress.clone(),
        }
    }
}

impl Meta {
    /// What the file gives.
    pub fn given(&self) -> anyhow::Result<MetaRanges> {
        let parse = |field: &str, all: &[String]| -> anyhow::Result<Vec<IpNet>> {
            let one = |text: &String| {
                network(text)
                    .with_context(|| format!("meta.{field}: {text} is neither a network in CIDR form nor an address"))
            };
            all.iter().map(one).collect()
        };
        Ok(MetaRanges {
            pods: parse("podCIDRs", &self.pods)?,
            services: parse("serviceCIDRs", &self.services)?,
            nodes: parse("nodeCIDRs", &self.nodes)?,
            api_servers: parse("apiServerIPs", &self.api_servers)?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_read_and_a_wrong_one_says_where() {
        let read = |text: &str| {
            let file = tempfile::NamedTempFile::new().unwrap();
            std::fs::write(file.path(), text).unwrap();
            Config::read(file.path()).map_err(|e| format!("{e:#}"))
        };
        let config = read("meta: {podCIDRs: [10.0.0.0/8]}\nisolation: {monitoring: [{podSelector: {}}]}").unwrap();
        assert_eq!(config.meta.given().unwrap().pods, [network("10.0.0.0/8").unwrap()]);
        assert_eq!(config.isolation().monitoring.len(), 1);
        assert_eq!(config.isolation().dns.len(), 1);
        assert!(read("meta: {podCIDRs: [ten]}").unwrap_err().contains("meta.podCIDRs: ten is neither"));
        assert!(read("meta: {podcidrs: []}").unwrap_err().contains("podcidrs"));
    }
}
