//! The operator's configuration file, as far as plans depend on it.
//!
//! The operator is strict about it and says so when it starts. Here, what this version does not know is passed over.

use anyhow::Context as _;
use berth_plan::meta::{MetaRanges, network};
use berth_plan::settings::{Isolation, Writers};
use ipnet::IpNet;
use serde::Deserialize;
use serde_json::Value;

/// The file.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct OperatorConfig {
    meta: Meta,
    isolation: Policies,
    writers: Allowed,
}

/// Address ranges of the meta cluster, as far as they are given.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
struct Meta {
    #[serde(rename = "podCIDRs")]
    pods: Vec<String>,
    #[serde(rename = "serviceCIDRs")]
    services: Vec<String>,
    #[serde(rename = "nodeCIDRs")]
    nodes: Vec<String>,
    #[serde(rename = "apiServerIPs")]
    api_servers: Vec<String>,
}

/// What NetworkPolicies let through.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Policies {
    dns: Option<Vec<Value>>,
    monitoring: Vec<Value>,
    api_server_egress: Vec<Value>,
}

/// What writers of a `Cluster` may ask for.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
struct Allowed {
    service: AllowedService,
    placement: AllowedPlacement,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct AllowedService {
    annotations: Vec<String>,
    load_balancer_classes: Vec<String>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct AllowedPlacement {
    node_selectors: Vec<String>,
    tolerations: Vec<String>,
    priority_classes: Vec<String>,
}

impl OperatorConfig {
    /// Reads a text.
    pub(crate) fn parse(text: &str) -> anyhow::Result<Self> {
        serde_saphyr::from_str(text).context("the operator's configuration")
    }

    /// What writers of a `Cluster` may ask for.
    pub(crate) fn writers(&self) -> Writers {
        let Allowed { service, placement } = self.writers.clone();
        Writers {
            service_annotations: service.annotations,
            load_balancer_classes: service.load_balancer_classes,
            node_selectors: placement.node_selectors,
            tolerations: placement.tolerations,
            priority_classes: placement.priority_classes,
        }
    }

    /// What NetworkPolicies are made from.
    pub(crate) fn isolation(&self, meta: Result<MetaRanges, String>) -> Isolation {
        Isolation {
            meta,
            dns: self.isolation.dns.clone().unwrap_or_else(|| Isolation::default().dns),
            monitoring: self.isolation.monitoring.clone(),
            api_server_egress: self.isolation.api_server_egress.clone(),
        }
    }

    /// The meta cluster's addresses, as far as they are given.
    pub(crate) fn ranges(&self) -> MetaRanges {
        let nets = |all: &[String]| -> Vec<IpNet> { all.iter().filter_map(|n| network(n)).collect() };
        MetaRanges {
            pods: nets(&self.meta.pods),
            services: nets(&self.meta.services),
            nodes: nets(&self.meta.nodes),
            api_servers: nets(&self.meta.api_servers),
        }
    }
}

/// Everything may be asked for: for when nobody says what.
pub(crate) fn anything() -> Writers {
    let all = || vec!["*".to_owned()];
    Writers {
        service_annotations: all(),
        load_balancer_classes: all(),
        node_selectors: all(),
        tolerations: all(),
        priority_classes: all(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_charts_file_is_read_and_what_is_new_is_passed_over() {
        let text = r#"{"meta": {"podCIDRs": ["10.0.0.0/8"], "new": 1}, "writers": {"service": {"loadBalancerClasses": ["x"]}},
            "isolation": {"monitoring": [{"podSelector": {}}], "apiServerEgress": [], "dns": null}, "later": {}}"#;
        let config = OperatorConfig::parse(text).unwrap();
        assert_eq!(config.ranges().pods, [network("10.0.0.0/8").unwrap()]);
        assert_eq!(config.writers().load_balancer_classes, ["x"]);
        let isolation = config.isolation(Ok(MetaRanges::default()));
        assert_eq!((isolation.monitoring.len(), isolation.dns.len()), (1, 1));
        assert!(OperatorConfig::parse("[").is_err());
    }
}
