//! `spec.vpc`: a second interface of the API servers, in the tenant's own network.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;

/// A second interface of the API servers, in the tenant's own network (its VPC), where the tenant's nodes are. It is part of a `Cluster`
/// from its creation on, or never.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[schemars(extend("x-kubernetes-validations" = json!([
    {"rule": "self.addresses.all(a, isCIDR(a) && cidr(a).ip().family() == 4)", "message": "vpc.addresses: each must be an IPv4 address with the prefix length of its subnet, such as 172.20.0.2/24"},
    {"rule": "self.addresses.all(a, !isCIDR(a) || cidr(a).prefixLength() > 30 || !(cidr(a) == cidr(a).masked()))", "message": "vpc.addresses: each must be an address in the subnet, not the address of the subnet itself"},
    {"rule": "!self.addresses.all(a, isCIDR(a)) || self.addresses.all(a, cidr(a).masked() == cidr(self.addresses[0]).masked())", "message": "vpc.addresses: all must be of one subnet, with the same prefix length"},
    {"rule": "!isCIDR(self.addresses[0]) || cidr(self.addresses[0]).masked() == cidr(oldSelf.addresses[0]).masked()", "message": "vpc.addresses: the subnet cannot change: nodes know the API by its addresses there; create a new Cluster"},
    {"rule": "has(self.host) || has(oldSelf.host) || self.addresses[0] == oldSelf.addresses[0]", "message": "vpc.addresses: the first address cannot change while there is no vpc.host: nodes know the API by it"}
])))]
pub struct Vpc {
    /// The network that the API servers' pods are attached to. It cannot be changed later.
    pub attachment: Attachment,
    /// IPv4 addresses of API servers in the VPC, with the prefix length of the subnet, such as `172.20.0.2/24`. The n-th address belongs to
    /// the n-th API server. At least as many as there are API servers; each further one is a spare, which is used only while another one
    /// changes or is lost. Without a spare, an update leaves one API server fewer until the new pod is ready. An address may be replaced or
    /// added, which restarts the API server that it belongs to; it cannot move to another place in the list.
    #[schemars(length(min = 1, max = 16), inner(length(min = 9, max = 18)), extend("x-kubernetes-list-type" = "set"))]
    pub addresses: Vec<String>,
    /// Name or address at which nodes reach the API in the VPC, on port 6443: of the provider's load balancer in front of `addresses`, or a
    /// DNS name of all of them. It is in the serving certificate. Default: the first address, so that nodes lose the API while that API server
    /// is away.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(
        length(min = 1, max = 253),
        regex(
            pattern = r"^[a-zA-Z0-9]([-a-zA-Z0-9]{0,61}[a-zA-Z0-9])?([.][a-zA-Z0-9]([-a-zA-Z0-9]{0,61}[a-zA-Z0-9])?)*$"
        )
    )]
    pub host: Option<String>,
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
    /// the `Cluster`.
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

fn interface() -> String {
    "net1".into()
}
