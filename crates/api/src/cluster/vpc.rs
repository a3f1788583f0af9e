//! `spec.vpc`: a second interface of the API servers, in the tenant's own network.

use crate::common::keys;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;
use std::collections::BTreeMap;

/// A second interface of the API servers, in the tenant's own network (its VPC), where the tenant's nodes are. It is part of a `Cluster`
/// from its creation on, or never.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[schemars(extend("x-kubernetes-validations" = json!([
    {"rule": "!has(self.addresses) || self.addresses.all(a, isCIDR(a) && cidr(a).ip().family() == 4)", "message": "vpc.addresses: each must be an IPv4 address with the prefix length of its subnet, such as 172.20.0.2/24"},
    {"rule": "!has(self.addresses) || self.addresses.all(a, !isCIDR(a) || cidr(a).prefixLength() > 30 || !(cidr(a) == cidr(a).masked()))", "message": "vpc.addresses: each must be an address in the subnet, not the address of the subnet itself"},
    {"rule": "!has(self.addresses) || !self.addresses.all(a, isCIDR(a)) || self.addresses.all(a, cidr(a).masked() == cidr(self.addresses[0]).masked())", "message": "vpc.addresses: all must be of one subnet, with the same prefix length"},
    {"rule": "has(self.addresses) == has(oldSelf.addresses)", "message": "vpc.addresses cannot be added or removed: create a new Cluster"},
    {"rule": "!has(self.addresses) || !has(oldSelf.addresses) || !isCIDR(self.addresses[0]) || cidr(self.addresses[0]).masked() == cidr(oldSelf.addresses[0]).masked()", "message": "vpc.addresses: the subnet cannot change: nodes know the API by its addresses there; create a new Cluster"},
    {"rule": "!has(self.addresses) || !has(oldSelf.addresses) || has(self.host) || has(oldSelf.host) || has(self.virtualIP) || self.addresses[0] == oldSelf.addresses[0]", "message": "vpc.addresses: the first address cannot change while there is neither vpc.host nor vpc.virtualIP: nodes know the API by it"},
    {"rule": "has(self.addresses) || has(self.host)", "message": "vpc.host is required without vpc.addresses: nodes know the API by it"},
    {"rule": "has(self.virtualIP) ? has(oldSelf.virtualIP) && self.virtualIP == oldSelf.virtualIP : !has(oldSelf.virtualIP)", "message": "vpc.virtualIP is immutable: nodes know the API by it; create a new Cluster"},
    {"rule": "!has(self.virtualIP) || has(self.addresses)", "message": "vpc.virtualIP needs vpc.addresses: it is another address of their subnet"},
    {"rule": "!has(self.virtualIP) || (isIP(self.virtualIP) && ip(self.virtualIP).family() == 4)", "message": "vpc.virtualIP must be an IPv4 address without a prefix length, such as 172.20.0.10"},
    {"rule": "!has(self.virtualIP) || !isIP(self.virtualIP) || !has(self.addresses) || !isCIDR(self.addresses[0]) || cidr(self.addresses[0]).containsIP(self.virtualIP)", "message": "vpc.virtualIP must be in the subnet of vpc.addresses"},
    {"rule": "!has(self.virtualIP) || !isIP(self.virtualIP) || !has(self.addresses) || !self.addresses.exists(a, isCIDR(a) && cidr(a).ip() == ip(self.virtualIP))", "message": "vpc.virtualIP must not be one of vpc.addresses: it moves between the API servers, beside the address of each"}
])))]
pub struct Vpc {
    /// The network that the API servers' pods are attached to. It cannot be changed later.
    pub attachment: Attachment,
    /// IPv4 addresses of API servers in the VPC, with the prefix length of the subnet, such as `172.20.0.2/24`. The n-th address belongs to
    /// the n-th API server. At least as many as there are API servers; each further one is a spare, which is used only while another one
    /// changes or is lost. Without a spare, an update leaves one API server fewer until the new pod is ready. An address may be replaced or
    /// added, which restarts the API server that it belongs to; it cannot move to another place in the list. Several addresses need
    /// `virtualIP` or `host`. Default: the provider chooses an address for each pod; `host` is required then.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(min = 1, max = 16), inner(length(min = 9, max = 18)), extend("x-kubernetes-list-type" = "set"))]
    pub addresses: Vec<String>,
    /// An IPv4 address of the subnet of `addresses`, not one of them, at which one of the API servers that serve answers: when it is lost,
    /// another one takes the address over, within seconds. Nodes reach the API there unless there is a `host`, and so do the tenant's pods.
    /// It is in the serving certificate. It cannot be changed, added or removed later. Default: none.
    #[serde(default, rename = "virtualIP", skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 7, max = 15))]
    pub virtual_ip: Option<String>,
    /// Name or address at which nodes reach the API in the VPC, on port 6443: of the provider's load balancer in front of the API servers, or
    /// a DNS name of all of them. It is in the serving certificate. Default: `virtualIP`, or else the only address.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(
        length(min = 1, max = 253),
        regex(
            pattern = r"^[a-zA-Z0-9]([-a-zA-Z0-9]{0,61}[a-zA-Z0-9])?([.][a-zA-Z0-9]([-a-zA-Z0-9]{0,61}[a-zA-Z0-9])?)*$"
        )
    )]
    pub host: Option<String>,
    /// Networks that API servers reach by routers of the VPC, such as the range of the tenant's pods, or `0.0.0.0/0`. With any,
    /// kube-apiserver dials the pods of aggregated APIs itself (`--enable-aggregator-routing`). Default: none, only the subnet is reached.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 32))]
    pub routes: Vec<Route>,
    /// Annotations of the API servers' pods for network providers that read keys of their own. In values, `$(IP)` is the pod's address,
    /// `$(ADDRESS)` that with its prefix length, and `$(SLOT)` its place in `addresses`, from 0 on. Each key with its value must be allowed by
    /// `writers.vpc` in the values of Berth's chart.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(schema_with = "annotations_schema")]
    pub pod_annotations: BTreeMap<String, String>,
    /// Labels of the API servers' pods, likewise.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(schema_with = "labels_schema")]
    pub pod_labels: BTreeMap<String, String>,
}

/// A network behind a router of the VPC.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[schemars(extend("x-kubernetes-validations" = json!([
    {"rule": "isCIDR(self.dst) && cidr(self.dst).ip().family() == 4 && cidr(self.dst) == cidr(self.dst).masked()", "message": "vpc.routes: dst must be an IPv4 network in CIDR notation, such as 10.160.0.0/16"},
    {"rule": "isIP(self.via) && ip(self.via).family() == 4", "message": "vpc.routes: via must be the IPv4 address of a router, such as 172.20.0.1"}
])))]
pub struct Route {
    /// The network in CIDR notation; `0.0.0.0/0` is all that has no other way. It may overlap neither the tenant's Services nor, unless it is
    /// `0.0.0.0/0`, a network of the meta cluster.
    #[schemars(length(min = 9, max = 18))]
    pub dst: String,
    /// The router's address, in the subnet of `addresses`.
    #[schemars(length(min = 7, max = 15))]
    pub via: String,
}

/// A network of the meta cluster, as a NetworkAttachmentDefinition.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[schemars(extend("x-kubernetes-validations" = json!([
    {"rule": "self == oldSelf", "message": "vpc.attachment is immutable: nodes know the API by its addresses there; create a new Cluster"},
    {"rule": "!(self.interface in ['eth0', 'lo'])", "message": "vpc.attachment.interface: eth0 and lo are the pod's own: choose another name, such as net1"}
])))]
pub struct Attachment {
    /// Name of the NetworkAttachmentDefinition.
    #[schemars(length(min = 1, max = 63), regex(pattern = r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?$"))]
    pub name: String,
    /// Its namespace. Default: that of the `Cluster`. In another one it must have the annotation `berth.dev/allow-from` with the namespace of
    /// the `Cluster`. Pods are attached by a copy of it in the control-plane namespace.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 63), regex(pattern = r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?$"))]
    pub namespace: Option<String>,
    /// Name of the interface in the pods, at most 15 characters. Default `net1`.
    #[serde(default = "interface")]
    #[schemars(length(min = 1, max = 15), regex(pattern = r"^[a-z][a-z0-9]*$"))]
    pub interface: String,
}

impl Default for Attachment {
    fn default() -> Self {
        Self { name: String::new(), namespace: None, interface: interface() }
    }
}

fn annotations_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
    schemars::json_schema!({
        "type": "object", "maxProperties": 16,
        "additionalProperties": {"type": "string", "maxLength": 4096},
        "x-kubernetes-validations": [keys("vpc.podAnnotations")],
    })
}

fn labels_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
    schemars::json_schema!({
        "type": "object", "maxProperties": 16,
        "additionalProperties": {"type": "string", "maxLength": 253},
        "x-kubernetes-validations": [keys("vpc.podLabels")],
    })
}

fn interface() -> String {
    "net1".into()
}
