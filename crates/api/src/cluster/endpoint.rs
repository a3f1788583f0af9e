//! `spec.endpoint`: how the tenant's API is reached.

use crate::common::keys;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;
use std::collections::BTreeMap;

/// How the API is published.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum EndpointType {
    /// Reachable inside the meta cluster only.
    #[default]
    ClusterIP,
    /// On a port of every node of the meta cluster; `host` is required.
    NodePort,
    /// Through the meta cluster's load balancer.
    LoadBalancer,
    /// Through the platform's gateway, which has one address for all tenants and finds each by its name.
    Gateway,
}

/// How the tenant's API is reached.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[schemars(extend("x-kubernetes-validations" = json!([
    {"rule": "!has(self.host) || isIP(self.host) || self.host.matches('^[a-zA-Z0-9]([-a-zA-Z0-9]{0,61}[a-zA-Z0-9])?([.][a-zA-Z0-9]([-a-zA-Z0-9]{0,61}[a-zA-Z0-9])?)*$')", "message": "endpoint.host: must be an IP address, or a DNS name whose parts between dots have 1 to 63 letters, digits and '-'"},
    {"rule": "!has(self.certSANs) || self.certSANs.all(n, isIP(n) || n.matches('^([*][.])?[a-zA-Z0-9]([-a-zA-Z0-9]{0,61}[a-zA-Z0-9])?([.][a-zA-Z0-9]([-a-zA-Z0-9]{0,61}[a-zA-Z0-9])?)*$'))", "message": "endpoint.certSANs: each must be an IP address, or a DNS name whose parts between dots have 1 to 63 letters, digits and '-'"},
    {"rule": "self.type != 'NodePort' || has(self.host)", "message": "endpoint.host is required with type NodePort: set the name or address at which nodes of the meta cluster are reached"},
    {"rule": "self.type != 'Gateway' || !has(self.host) || !isIP(self.host)", "message": "endpoint.host must be a DNS name with type Gateway, since the gateway finds tenants by name: set a name, or remove it"},
    {"rule": "self.type == 'NodePort' || !has(self.nodePort)", "message": "endpoint.nodePort needs type NodePort: remove it, or set the type"},
    {"rule": "self.type == 'LoadBalancer' || !has(self.service) || (!has(self.service.loadBalancerClass) && !has(self.service.loadBalancerSourceRanges))", "message": "endpoint.service.loadBalancerClass and loadBalancerSourceRanges need type LoadBalancer: remove them, or set the type"},
    {"rule": "self.type != 'LoadBalancer' || oldSelf.type != 'LoadBalancer' || (has(self.service) && has(self.service.loadBalancerClass) ? self.service.loadBalancerClass : '') == (has(oldSelf.service) && has(oldSelf.service.loadBalancerClass) ? oldSelf.service.loadBalancerClass : '')", "message": "endpoint.service.loadBalancerClass cannot change while the type is LoadBalancer: set the type to ClusterIP first"},
    {"rule": "self.type == 'Gateway' || !has(self.gateway)", "message": "endpoint.gateway needs type Gateway: remove it, or set the type"},
    {"rule": "!has(self.advertiseAddress) || (isIP(self.advertiseAddress) && ip(self.advertiseAddress).isGlobalUnicast())", "message": "endpoint.advertiseAddress: must be an IP address at which nodes reach the API: no name, no port, and no loopback, unspecified, link-local, multicast or broadcast address"}
])))]
pub struct Endpoint {
    /// ClusterIP, NodePort, LoadBalancer or Gateway. Default ClusterIP. A new IP address of the API, other than the Service's own, restarts the
    /// API servers one by one. Gateway needs a gateway of the platform (chart value `gateway`): the API then has the name
    /// `<control-plane namespace>.<gateway.domain>` and the gateway's port, and clients have to send that name in TLS, as kubectl and kubelet do.
    /// Pods on nodes do not, see `addons.apiProxy`. With `spec.vpc` people come through the gateway, and nodes reach the API's addresses
    /// there, as with the other types.
    #[serde(default, rename = "type")]
    pub type_: EndpointType,
    /// Name or address for the kubeconfig; always in the serving certificate. Default: the Service's address with ClusterIP, the load
    /// balancer's with LoadBalancer, the tenant's name at the gateway with Gateway; required with NodePort. With NodePort and LoadBalancer, a new
    /// IP address restarts the API servers one by one; a new name does not. With Gateway it is a DNS name that the platform team allows (chart
    /// value `writers.hosts`), not below the gateway's domain, with a DNS record that leads to the gateway; the tenant's own name keeps
    /// working. Each name is one tenant's: who asks for it first has it until the field is changed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 253), regex(pattern = r"^[a-zA-Z0-9]([-a-zA-Z0-9.:]*[a-zA-Z0-9])?$"))]
    pub host: Option<String>,
    /// IP address at which pods on the tenant's nodes reach the API, with the port of `status.endpoints`. The tenant's Service `kubernetes`
    /// leads to it, which cannot lead to a name. It must be of the family of the first network in `network.serviceCIDRs`, and not among
    /// the meta cluster's own addresses, except those of its nodes. It is always in the serving certificate. To set or change it restarts
    /// nothing; to remove it may restart the API servers one by one. Default: of the right family `host` if that is an IP address, or the load balancer's; otherwise the Service's own, which only
    /// machines of the meta cluster reach: then `PodsReachAPI` says so. With type Gateway it has to lead to the API without the gateway, which
    /// finds no tenant by address. With `addons.apiProxy` it is none of the API's, but an address that nothing else has, which each node gets on
    /// its `lo`: by default 240.0.0.1 or, of IPv6, 100::1. With `spec.vpc` the API's addresses there are used.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 2, max = 45))]
    pub advertise_address: Option<String>,
    /// Port of the API. Default 6443. With NodePort, nodes have another, see `nodePort`; with Gateway clients use the gateway's. The API has one port, so after a
    /// change older kubeconfigs, including those of nodes, stop working.
    #[serde(default = "api_port")]
    #[schemars(range(min = 1, max = 65535))]
    pub port: i32,
    /// Port of every node of the meta cluster, with type NodePort. The platform team decides which may be asked for (chart value
    /// `writers.service.nodePorts`). Default: the meta cluster allocates one, which a Service that is made again gets back; one that is there
    /// stays if this field is removed. One that another Service has is asked for again every ten minutes. After a change older kubeconfigs,
    /// including those of nodes, stop working.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 65535))]
    pub node_port: Option<i32>,
    /// Additional names and addresses in the serving certificate. One that you remove stays in it until the next scheduled renewal, as
    /// do earlier addresses of the API, so that older kubeconfigs keep working.
    #[serde(default, skip_serializing_if = "Vec::is_empty", rename = "certSANs")]
    #[schemars(length(max = 32), inner(length(min = 1, max = 253), regex(pattern = r"^(\*\.)?[a-zA-Z0-9]([-a-zA-Z0-9.:]*[a-zA-Z0-9])?$")), extend("x-kubernetes-list-type" = "set"))]
    pub cert_sans: Vec<String>,
    /// The Service in front of the API servers.
    #[serde(default, skip_serializing_if = "EndpointService::is_default")]
    pub service: EndpointService,
    /// Who may come through the platform's gateway, and how many, with type Gateway. A change restarts nothing. Only Berth's own gateway holds it:
    /// where the platform has `GatewayAPI` among `gateway.engines`, `RouteAccepted` says what follows.
    #[serde(default, skip_serializing_if = "EndpointGateway::is_default")]
    pub gateway: EndpointGateway,
}

impl Default for Endpoint {
    fn default() -> Self {
        Self {
            type_: EndpointType::ClusterIP,
            host: None,
            advertise_address: None,
            port: api_port(),
            node_port: None,
            cert_sans: vec![],
            service: EndpointService::default(),
            gateway: EndpointGateway::default(),
        }
    }
}

fn api_port() -> i32 {
    6443
}

/// The Service of the API servers. The platform team decides which annotations and classes are allowed (chart values `writers`).
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[schemars(extend("x-kubernetes-validations" = json!([
    {"rule": "!has(self.loadBalancerSourceRanges) || self.loadBalancerSourceRanges.all(c, isCIDR(c))", "message": "loadBalancerSourceRanges: each must be a network in CIDR form, such as 203.0.113.0/24"}
])))]
pub struct EndpointService {
    /// Annotations of the Service, for load balancers that read them. Default: none.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(schema_with = "annotations_schema")]
    pub annotations: BTreeMap<String, String>,
    /// Load balancer class, with type LoadBalancer. Default: the meta cluster's default load balancer. It is immutable while the type
    /// is LoadBalancer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(
        length(min = 1, max = 253),
        regex(pattern = r"^([a-z0-9]([-a-z0-9.]*[a-z0-9])?/)?([A-Za-z0-9][-A-Za-z0-9_.]{0,61})?[A-Za-z0-9]$")
    )]
    pub load_balancer_class: Option<String>,
    /// Client ranges, in CIDR notation, that may connect through the load balancer. Default: everybody. Load balancers that do not
    /// support this ignore it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 64), inner(length(max = 43)), extend("x-kubernetes-list-type" = "set"))]
    pub load_balancer_source_ranges: Vec<String>,
}

/// Who may come through the platform's gateway. It does not hold for who reaches the API without the gateway: pods of the meta cluster, and
/// nodes in a VPC.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[schemars(extend("x-kubernetes-validations" = json!([
    {"rule": "!has(self.sourceRanges) || self.sourceRanges.all(c, isCIDR(c))", "message": "endpoint.gateway.sourceRanges: each must be a network in CIDR form, such as 203.0.113.0/24"}
])))]
pub struct EndpointGateway {
    /// Networks, in CIDR notation, from which clients may come; the tenant's nodes are clients, too. Connections from elsewhere are reset, also
    /// those that are open when this changes. Default: from everywhere. The gateway has to see clients' addresses, see docs/gateway.md.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 64), inner(length(max = 43)), extend("x-kubernetes-list-type" = "set"))]
    pub source_ranges: Option<Vec<String>>,
    /// Connections that are open at once through one replica of the gateway; a node has some, and each client one or more. Those above are reset;
    /// after a change those that are open stay. Default, and at most: what the platform allows each tenant (chart value `gateway.maxConnections`).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 1_000_000))]
    pub max_connections: Option<i32>,
}

impl EndpointGateway {
    /// True if nothing is asked for.
    pub fn is_default(&self) -> bool {
        *self == Self::default()
    }
}

fn annotations_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
    schemars::json_schema!({
        "type": "object", "maxProperties": 32,
        "additionalProperties": {"type": "string", "maxLength": 4096},
        "x-kubernetes-validations": [keys("annotations")],
    })
}

impl EndpointService {
    /// True if nothing is asked for.
    pub fn is_default(&self) -> bool {
        *self == Self::default()
    }
}
