//! `spec.addons`: what Berth runs inside the tenant, on its nodes.

use crate::common::{Resources, resources_schema};
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
    /// `berth-api-proxy`, by which pods reach an API that is found by its name: behind the platform's gateway, or with a name in
    /// `endpoint.host`.
    #[serde(default, skip_serializing_if = "ApiProxy::is_default")]
    pub api_proxy: ApiProxy,
}

impl Addons {
    /// True if nothing is asked for.
    pub fn is_default(&self) -> bool {
        *self == Self::default()
    }
}

/// CoreDNS.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct CoreDns {
    /// Whether Berth keeps CoreDNS in the tenant; false deletes it. Default: true in tenants that a version of Berth with add-ons
    /// created, false in older ones.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub enabled: Option<bool>,
    /// Pods of CoreDNS, 1 to 20. Default: 2 when Berth creates the Deployment, and afterwards as many as an autoscaler or a person in the
    /// tenant sets: Berth does not own the field then. A number that is set here is kept against both.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 20))]
    pub replicas: Option<i32>,
    /// Resources of the container. Default: requests of 100m CPU and 70Mi memory, and a limit of 170Mi memory. A change restarts the pods,
    /// one after the other.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "resources_schema")]
    pub resources: Option<Resources>,
    /// Zones that other DNS servers answer, each with all names below it; CoreDNS asks those in place of the node's. It takes a change up
    /// within two minutes, without a restart. For anything else of a Corefile there is ConfigMap `coredns-custom` in the tenant. Default: none.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 32), extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["name"]))]
    pub zones: Vec<DnsZone>,
}

/// A zone that other DNS servers answer.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct DnsZone {
    /// Its name, such as `corp.example`, or `2.0.192.in-addr.arpa` for addresses. Neither the tenant's own zone (`spec.network.dnsDomain`), nor
    /// one within or above it, nor one with names of addresses of its Services (`spec.network.serviceCIDRs`).
    #[schemars(
        length(min = 1, max = 253),
        regex(pattern = r"^([a-z0-9_]([a-z0-9_-]{0,61}[a-z0-9_])?)(\.[a-z0-9_]([a-z0-9_-]{0,61}[a-z0-9_])?)*$")
    )]
    pub name: String,
    /// DNS servers: IP addresses, with a port if it is not 53, such as `192.0.2.53`, `192.0.2.53:5353` or `[2001:db8::53]:5353`.
    #[schemars(
        length(min = 1, max = 15),
        inner(length(min = 2, max = 64), regex(pattern = r"^[0-9a-fA-F.:\[\]]+$")),
        extend("x-kubernetes-list-type" = "atomic")
    )]
    pub servers: Vec<String>,
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

/// `berth-api-proxy`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ApiProxy {
    /// Whether Berth keeps `berth-api-proxy` on each of the tenant's nodes; false deletes it. The tenant's Service `kubernetes` then leads to
    /// `endpoint.advertiseAddress`, which is 240.0.0.1 by default (100::1 where `network.serviceCIDRs` begin with an IPv6 network), and which
    /// this program has on the node's `lo`: from there it leads to the API by its name. Not with `spec.vpc`. Default: false.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub enabled: Option<bool>,
}

impl ApiProxy {
    /// True if nothing is asked for.
    pub fn is_default(&self) -> bool {
        *self == Self::default()
    }

    /// Whether it is to run.
    pub fn is_on(&self) -> bool {
        self.enabled == Some(true)
    }
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
