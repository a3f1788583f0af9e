//! `spec.network`: what cannot be changed later, and where the tenant's nodes are.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;

/// The tenant's networks. Those of Services and pods must not overlap each other and are immutable.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[schemars(extend("x-kubernetes-validations" = json!([
    {"rule": "self.serviceCIDRs == oldSelf.serviceCIDRs && self.podCIDRs == oldSelf.podCIDRs && self.dnsDomain == oldSelf.dnsDomain", "message": "network is immutable, except nodeCIDRs: running Services and pods have addresses from it; create a new Cluster"},
    {"rule": "!has(self.nodeCIDRs) || self.nodeCIDRs.all(c, isCIDR(c) && cidr(c) == cidr(c).masked())", "message": "nodeCIDRs: each must be a network in CIDR form without host bits, such as 10.20.0.0/16"},
    {"rule": "self.serviceCIDRs.all(c, isCIDR(c))", "message": "serviceCIDRs: each must be a network in CIDR form, such as 10.112.0.0/16"},
    {"rule": "self.podCIDRs.all(c, isCIDR(c))", "message": "podCIDRs: each must be a network in CIDR form, such as 10.160.0.0/16"},
    {"rule": "self.serviceCIDRs.all(s, !isCIDR(s) || self.podCIDRs.all(p, !isCIDR(p) || (!cidr(s).containsCIDR(p) && !cidr(p).containsCIDR(s))))", "message": "serviceCIDRs and podCIDRs overlap: choose networks that share no address"},
    {"rule": "self.serviceCIDRs.size() < 2 || !self.serviceCIDRs.all(c, isCIDR(c)) || cidr(self.serviceCIDRs[0]).ip().family() != cidr(self.serviceCIDRs[1]).ip().family()", "message": "serviceCIDRs: two networks must be one IPv4 and one IPv6 (dual stack)"},
    {"rule": "self.podCIDRs.size() < 2 || !self.podCIDRs.all(c, isCIDR(c)) || cidr(self.podCIDRs[0]).ip().family() != cidr(self.podCIDRs[1]).ip().family()", "message": "podCIDRs: two networks must be one IPv4 and one IPv6 (dual stack)"},
    {"rule": "self.serviceCIDRs.all(c, !isCIDR(c) || (cidr(c).ip().family() == 4 ? cidr(c).prefixLength() >= 12 && cidr(c).prefixLength() <= 28 : cidr(c).prefixLength() >= 108 && cidr(c).prefixLength() <= 120))", "message": "serviceCIDRs: an IPv4 network must be from /12 to /28, an IPv6 network from /108 to /120"},
    {"rule": "self.podCIDRs.all(c, !isCIDR(c) || (cidr(c).ip().family() == 4 ? cidr(c).prefixLength() >= 8 && cidr(c).prefixLength() <= 24 : cidr(c).prefixLength() >= 48 && cidr(c).prefixLength() <= 64))", "message": "podCIDRs: an IPv4 network must be from /8 to /24, an IPv6 network from /48 to /64: each node gets a /24 or /64 of it"}
])))]
pub struct Network {
    /// Networks of the tenant's Services: one, or two for dual stack; IPv4 from /12 to /28, IPv6 from /108 to /120. Default
    /// `10.112.0.0/16`.
    #[serde(default = "service_cidrs", rename = "serviceCIDRs")]
    #[schemars(length(min = 1, max = 2), inner(length(max = 43)), extend("x-kubernetes-list-type" = "atomic"))]
    pub service_cidrs: Vec<String>,
    /// Networks of the tenant's pods: one, or two for dual stack; IPv4 from /8 to /24, IPv6 from /48 to /64, and of each family that
    /// `serviceCIDRs` has. Each node gets a /24 or /64 of each, so a /22 has room for four nodes. Default `10.160.0.0/16`.
    #[serde(default = "pod_cidrs", rename = "podCIDRs")]
    #[schemars(length(min = 1, max = 2), inner(length(max = 43)), extend("x-kubernetes-list-type" = "atomic"))]
    pub pod_cidrs: Vec<String>,
    /// DNS domain of the tenant's Services. Default `cluster.local`.
    #[serde(default = "dns_domain")]
    #[schemars(
        length(min = 1, max = 100),
        regex(pattern = r"^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?(\.[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?)*$")
    )]
    pub dns_domain: String,
    /// Private networks with the tenant's nodes, webhooks and OIDC issuers, which its API servers may dial. Other private networks (RFC
    /// 1918, 100.64.0.0/10, fc00::/7) are closed to them, unless the platform team opened them for all tenants. Each must lie in a network
    /// of the chart's value `writers.networks`. May change at any time. Default: none.
    #[serde(default, rename = "nodeCIDRs", skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 16), inner(length(max = 43)), extend("x-kubernetes-list-type" = "atomic"))]
    pub node_cidrs: Vec<String>,
}

impl Default for Network {
    fn default() -> Self {
        Self { service_cidrs: service_cidrs(), pod_cidrs: pod_cidrs(), dns_domain: dns_domain(), node_cidrs: vec![] }
    }
}

fn service_cidrs() -> Vec<String> {
    vec!["10.112.0.0/16".into()]
}
fn pod_cidrs() -> Vec<String> {
    vec!["10.160.0.0/16".into()]
}
fn dns_domain() -> String {
    "cluster.local".into()
}
