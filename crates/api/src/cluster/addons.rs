//! `spec.addons`: what Berth runs inside the tenant, on its nodes.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// What Berth runs on the tenant's nodes. What is not set here is as it was when the tenant was created: on in tenants that a version of
/// Berth with add-ons created, off in older ones.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Addons {
    /// CoreDNS, the tenant's DNS, in the version that kubeadm has for the tenant's minor version.
    #[serde(default, rename = "coreDNS")]
    pub core_dns: CoreDns,
    /// kube-proxy, in the version that all API servers run.
    #[serde(default)]
    pub kube_proxy: KubeProxy,
}

impl Addons {
    /// True if nothing is asked for.
    pub fn is_default(&self) -> bool {
        *self == Self::default()
    }
}

/// CoreDNS.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct CoreDns {
    /// Whether Berth keeps CoreDNS in the tenant; false deletes it. Default: true in tenants that a version of Berth with add-ons
    /// created, false in older ones.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub enabled: Option<bool>,
    /// Pods of CoreDNS, 1 to 20. Default 2.
    #[serde(default = "two")]
    #[schemars(range(min = 1, max = 20))]
    pub replicas: i32,
}

impl Default for CoreDns {
    fn default() -> Self {
        Self { enabled: None, replicas: two() }
    }
}

fn two() -> i32 {
    2
}

/// kube-proxy.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct KubeProxy {
    /// Whether Berth keeps kube-proxy in the tenant; false deletes it. Default: true in tenants that a version of Berth with add-ons
    /// created, false in older ones.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub enabled: Option<bool>,
    /// iptables or nftables. Default iptables. Rules of the former mode stay on a node until it restarts.
    #[serde(default)]
    pub mode: ProxyMode,
    /// Further fields of upstream's `KubeProxyConfiguration` (`kubeproxy.config.k8s.io/v1alpha1`). A condition refuses fields that Berth
    /// sets: `apiVersion`, `kind`, `mode`, `clusterCIDR`, `hostnameOverride` and `clientConnection.kubeconfig`. Default: none.
    #[serde(default, skip_serializing_if = "Map::is_empty")]
    #[schemars(schema_with = "config_schema")]
    pub config: Map<String, Value>,
}

fn config_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
    schemars::json_schema!({"type": "object", "x-kubernetes-preserve-unknown-fields": true})
}

/// How kube-proxy translates addresses of Services.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum ProxyMode {
    /// With iptables.
    #[default]
    Iptables,
    /// With nftables: Linux 5.13 or newer.
    Nftables,
}
