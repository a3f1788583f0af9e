//! `Cluster`: a hosted Kubernetes control plane.

use crate::common::{Arg, Images, Placement, Resources, SecretRef, conditions_schema, keys, resources_schema};
use crate::etcd_cluster::Storage;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use kube_derive::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;
use std::collections::BTreeMap;

/// A hosted Kubernetes control plane. `spec: {version: 1.36.3}` is complete; everything else has a default.
#[derive(CustomResource, Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "berth.dev",
    version = "v1alpha1",
    kind = "Cluster",
    namespaced,
    status = "ClusterStatus",
    derive = "PartialEq",
    derive = "Default",
    category = "berth",
    crates(
        kube_core = "kube_core",
        k8s_openapi = "k8s_openapi",
        schemars = "schemars",
        serde = "serde",
        serde_json = "serde_json"
    ),
    printcolumn(name = "Version", type_ = "string", json_path = ".status.version"),
    printcolumn(name = "Phase", type_ = "string", json_path = ".status.phase"),
    printcolumn(name = "Available", type_ = "string", json_path = ".status.conditions[?(@.type=='Available')].status"),
    printcolumn(name = "Ready", type_ = "string", json_path = ".status.conditions[?(@.type=='Ready')].status"),
    printcolumn(name = "Endpoint", type_ = "string", json_path = ".status.endpoints[0].host"),
    printcolumn(
        name = "Since",
        type_ = "date",
        json_path = ".status.conditions[?(@.type=='Ready')].lastTransitionTime"
    ),
    printcolumn(name = "Age", type_ = "date", json_path = ".metadata.creationTimestamp"),
    printcolumn(
        name = "Control-Plane-Namespace",
        type_ = "string",
        json_path = ".status.controlPlaneNamespace.name",
        priority = 1
    ),
    printcolumn(
        name = "Status",
        type_ = "string",
        json_path = ".status.conditions[?(@.type=='Ready')].message",
        priority = 1
    )
)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ClusterSpec {
    /// Kubernetes version, such as `1.36.3`. Another patch version of the same minor version rolls the control plane,
    /// kube-apiserver first. Another minor version is not supported yet; a condition refuses it.
    #[schemars(length(max = 20), regex(pattern = r"^\d+\.\d+\.\d+$"))]
    pub version: String,
    /// Replicas of each control-plane component, 1 to 5. Default 1. A component may override it.
    #[serde(default = "one")]
    #[schemars(range(min = 1, max = 5))]
    pub replicas: i32,
    /// The tenant's own networks. They cannot be changed later, and must not overlap each other or the meta cluster's.
    #[serde(default)]
    pub network: Network,
    /// How the tenant's API is reached.
    #[serde(default)]
    pub endpoint: Endpoint,
    /// The tenant's etcd.
    #[serde(default)]
    pub etcd: Etcd,
    /// kube-apiserver.
    #[serde(default)]
    pub api_server: ApiServer,
    /// kube-controller-manager.
    #[serde(default)]
    pub controller_manager: Component,
    /// kube-scheduler.
    #[serde(default)]
    pub scheduler: Component,
    /// Where images come from.
    #[serde(default, skip_serializing_if = "Images::is_default")]
    pub images: Images,
    /// What happens on deletion.
    #[serde(default)]
    pub deletion: Deletion,
    /// Pauses every change by Berth to this control plane and its etcd, including drift repair and certificate renewal, but not
    /// deletion. Default false.
    #[serde(default)]
    pub paused: bool,
}

fn one() -> i32 {
    1
}

/// The tenant's networks. They must not overlap each other; immutable.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[schemars(extend("x-kubernetes-validations" = json!([
    {"rule": "self == oldSelf", "message": "network is immutable: running Services and pods have addresses from it; create a new Cluster"},
    {"rule": "self.serviceCIDRs.all(c, isCIDR(c))", "message": "serviceCIDRs: each must be a network in CIDR form, such as 10.112.0.0/16"},
    {"rule": "self.podCIDRs.all(c, isCIDR(c))", "message": "podCIDRs: each must be a network in CIDR form, such as 10.160.0.0/16"},
    {"rule": "self.serviceCIDRs.all(s, !isCIDR(s) || self.podCIDRs.all(p, !isCIDR(p) || (!cidr(s).containsCIDR(p) && !cidr(p).containsCIDR(s))))", "message": "serviceCIDRs and podCIDRs overlap: choose networks that share no address"},
    {"rule": "self.serviceCIDRs.size() < 2 || !self.serviceCIDRs.all(c, isCIDR(c)) || cidr(self.serviceCIDRs[0]).ip().family() != cidr(self.serviceCIDRs[1]).ip().family()", "message": "serviceCIDRs: two networks must be one IPv4 and one IPv6 (dual stack)"},
    {"rule": "self.podCIDRs.size() < 2 || !self.podCIDRs.all(c, isCIDR(c)) || cidr(self.podCIDRs[0]).ip().family() != cidr(self.podCIDRs[1]).ip().family()", "message": "podCIDRs: two networks must be one IPv4 and one IPv6 (dual stack)"}
])))]
pub struct Network {
    /// Networks of the tenant's Services: one, or two for dual stack. Default `10.112.0.0/16`.
    #[serde(default = "service_cidrs", rename = "serviceCIDRs")]
    #[schemars(length(min = 1, max = 2), inner(length(max = 43)), extend("x-kubernetes-list-type" = "atomic"))]
    pub service_cidrs: Vec<String>,
    /// Networks of the tenant's pods: one, or two for dual stack. Default `10.160.0.0/16`.
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
}

impl Default for Network {
    fn default() -> Self {
        Self { service_cidrs: service_cidrs(), pod_cidrs: pod_cidrs(), dns_domain: dns_domain() }
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
}

/// How the tenant's API is reached.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[schemars(extend("x-kubernetes-validations" = json!([
    {"rule": "!has(self.host) || isIP(self.host) || self.host.matches('^[a-zA-Z0-9]([-a-zA-Z0-9]{0,61}[a-zA-Z0-9])?([.][a-zA-Z0-9]([-a-zA-Z0-9]{0,61}[a-zA-Z0-9])?)*$')", "message": "endpoint.host: must be an IP address, or a DNS name whose parts between dots have 1 to 63 letters, digits and '-'"},
    {"rule": "!has(self.certSANs) || self.certSANs.all(n, isIP(n) || n.matches('^([*][.])?[a-zA-Z0-9]([-a-zA-Z0-9]{0,61}[a-zA-Z0-9])?([.][a-zA-Z0-9]([-a-zA-Z0-9]{0,61}[a-zA-Z0-9])?)*$'))", "message": "endpoint.certSANs: each must be an IP address, or a DNS name whose parts between dots have 1 to 63 letters, digits and '-'"},
    {"rule": "self.type != 'NodePort' || has(self.host)", "message": "endpoint.host is required with type NodePort: set the name or address at which nodes of the meta cluster are reached"},
    {"rule": "self.type == 'LoadBalancer' || !has(self.service) || (!has(self.service.loadBalancerClass) && !has(self.service.loadBalancerSourceRanges))", "message": "endpoint.service.loadBalancerClass and loadBalancerSourceRanges need type LoadBalancer: remove them, or set the type"},
    {"rule": "self.type != 'LoadBalancer' || oldSelf.type != 'LoadBalancer' || (has(self.service) && has(self.service.loadBalancerClass) ? self.service.loadBalancerClass : '') == (has(oldSelf.service) && has(oldSelf.service.loadBalancerClass) ? oldSelf.service.loadBalancerClass : '')", "message": "endpoint.service.loadBalancerClass cannot change while the type is LoadBalancer: set the type to ClusterIP first"}
])))]
pub struct Endpoint {
    /// ClusterIP, NodePort or LoadBalancer. Default ClusterIP. A new IP address of the API restarts the API servers one by one.
    #[serde(default, rename = "type")]
    pub type_: EndpointType,
    /// Name or address for the kubeconfig; always in the serving certificate. Default: the Service's address with ClusterIP, the load
    /// balancer's with LoadBalancer; required with NodePort. With NodePort and LoadBalancer, a new IP address restarts the API servers one by
    /// one; a new name does not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 253), regex(pattern = r"^[a-zA-Z0-9]([-a-zA-Z0-9.:]*[a-zA-Z0-9])?$"))]
    pub host: Option<String>,
    /// Port of the API. Default 6443. With NodePort, the meta cluster allocates the nodes' port. The API has one port, so after a
    /// change older kubeconfigs, including those of nodes, stop working.
    #[serde(default = "api_port")]
    #[schemars(range(min = 1, max = 65535))]
    pub port: i32,
    /// Additional names and addresses in the serving certificate. One that you remove stays in it until the next scheduled renewal, as
    /// do earlier addresses of the API, so that older kubeconfigs keep working.
    #[serde(default, skip_serializing_if = "Vec::is_empty", rename = "certSANs")]
    #[schemars(length(max = 32), inner(length(min = 1, max = 253), regex(pattern = r"^(\*\.)?[a-zA-Z0-9]([-a-zA-Z0-9.:]*[a-zA-Z0-9])?$")), extend("x-kubernetes-list-type" = "set"))]
    pub cert_sans: Vec<String>,
    /// The Service in front of the API servers.
    #[serde(default, skip_serializing_if = "EndpointService::is_default")]
    pub service: EndpointService,
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

impl Default for Endpoint {
    fn default() -> Self {
        Self {
            type_: EndpointType::ClusterIP,
            host: None,
            port: api_port(),
            cert_sans: vec![],
            service: EndpointService::default(),
        }
    }
}

fn api_port() -> i32 {
    6443
}

/// The tenant's etcd. Version, replicas and storage cannot be changed yet after creation. Changes of resources and placement restart
/// one member at a time.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Etcd {
    /// etcd version, such as `3.6.16`. Default: the newest that the Kubernetes minor version supports.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 20), regex(pattern = r"^\d+\.\d+\.\d+$"))]
    pub version: Option<String>,
    /// Members: 1, 3 or 5. Default 1.
    #[serde(default = "one")]
    #[schemars(extend("enum" = [1, 3, 5]))]
    pub replicas: i32,
    /// Volume of each member. It cannot be changed later.
    #[serde(default)]
    pub storage: Storage,
    /// Resources of the etcd container. Default: requests of 50m CPU and 64Mi memory, no limits.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "resources_schema")]
    pub resources: Option<Resources>,
    /// Where the pods may run. Default: anywhere, replicas preferably on different nodes.
    #[serde(default, skip_serializing_if = "Placement::is_default")]
    pub placement: Placement,
}

impl Default for Etcd {
    fn default() -> Self {
        Self {
            version: None,
            replicas: 1,
            storage: Storage::default(),
            resources: None,
            placement: Placement::default(),
        }
    }
}

/// kube-apiserver.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ApiServer {
    /// Pods. Default: `spec.replicas`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 10))]
    pub replicas: Option<i32>,
    /// Resources of the container. Default: small requests, no limits.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "resources_schema")]
    pub resources: Option<Resources>,
    /// Where the pods may run. Default: anywhere, replicas preferably on different nodes.
    #[serde(default, skip_serializing_if = "Placement::is_default")]
    pub placement: Placement,
    /// Extra flags, in this order; a flag may be given more than once.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 64), extend("x-kubernetes-list-type" = "atomic"))]
    pub extra_args: Vec<Arg>,
    /// Structured authentication.
    #[serde(default)]
    pub authentication: Authentication,
    /// Issuers of service-account tokens. The first signs, all are accepted. Default:
    /// `https://kubernetes.default.svc.<dnsDomain>`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 8), inner(length(min = 1, max = 512)), extend("x-kubernetes-list-type" = "atomic"))]
    pub service_account_issuers: Vec<String>,
}

/// Structured authentication of the API server.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Authentication {
    /// JWT authenticators in upstream's shape (`apiserver.config.k8s.io/v1` `AuthenticationConfiguration.jwt`).
    /// The API server does not start with an invalid one: the rollout then stops at the first new pod, and the old pods keep serving.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 64), schema_with = "jwt_schema")]
    pub jwt: Vec<serde_json::Value>,
}

fn jwt_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
    schemars::json_schema!({
        "type": "array", "maxItems": 64, "x-kubernetes-list-type": "atomic",
        "items": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}
    })
}

/// kube-controller-manager or kube-scheduler.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Component {
    /// Pods. Default: `spec.replicas`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 10))]
    pub replicas: Option<i32>,
    /// Resources of the container. Default: small requests, no limits.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "resources_schema")]
    pub resources: Option<Resources>,
    /// Where the pods may run. Default: anywhere, replicas preferably on different nodes.
    #[serde(default, skip_serializing_if = "Placement::is_default")]
    pub placement: Placement,
    /// Extra flags, in this order; a flag may be given more than once.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 64), extend("x-kubernetes-list-type" = "atomic"))]
    pub extra_args: Vec<Arg>,
}

/// What happens to the tenant's data.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum DataPolicy {
    /// Everything is deleted.
    #[default]
    Delete,
    /// The control-plane namespace stays, with etcd's volumes, the CAs and the service-account keys.
    Retain,
}

/// What happens on deletion.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Deletion {
    /// While true, the `Cluster` cannot be deleted. Default true.
    #[serde(default = "yes")]
    pub protected: bool,
    /// Delete: everything is deleted. Retain: the control-plane namespace stays, with etcd's volumes, CAs and keys. Default Delete.
    #[serde(default)]
    pub data_policy: DataPolicy,
}

impl Default for Deletion {
    fn default() -> Self {
        Self { protected: true, data_policy: DataPolicy::Delete }
    }
}

fn yes() -> bool {
    true
}

/// Observed state of a tenant.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ClusterStatus {
    /// Generation of the spec that this status is for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    /// For people: Pending, Provisioning, Ready, Updating, Degraded, Unavailable, Blocked, Paused, Deleting. Code reads conditions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub phase: Option<String>,
    /// Kubernetes version that the API reports; never a copy of the spec.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
    /// Where the API is reached.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["name"]))]
    pub endpoints: Vec<PublishedEndpoint>,
    /// Kubeconfigs in this namespace.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["name"]))]
    pub kubeconfigs: Vec<PublishedKubeconfig>,
    /// Where the control plane runs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub control_plane_namespace: Option<NamespaceRef>,
    /// Value of the annotation `berth.dev/adopt` with which this `Cluster` takes over the existing control-plane namespace. Set only
    /// while Berth waits for the annotation.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub adopt: Option<String>,
    /// The components.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["name"]))]
    pub components: Vec<ComponentStatus>,
    /// Certificates.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub certificates: Option<CertificatesStatus>,
    /// Ready, Available, Progressing, Degraded, PKIReady, EtcdAvailable, ControlPlaneAvailable.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "conditions_schema")]
    pub conditions: Vec<Condition>,
}

/// An address of the API.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PublishedEndpoint {
    /// `admin` (for people and tools).
    pub name: String,
    /// Name or address.
    pub host: String,
    /// Port.
    pub port: i32,
}

/// A published kubeconfig.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PublishedKubeconfig {
    /// `admin`.
    pub name: String,
    /// The Secret, in the `Cluster`'s namespace, key `value`.
    pub secret_ref: SecretRef,
}

/// A namespace and its UID.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct NamespaceRef {
    /// Name.
    pub name: String,
    /// UID.
    pub uid: String,
}

/// One component.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ComponentStatus {
    /// Name, such as `kube-apiserver`.
    pub name: String,
    /// Version of its image that all of its pods run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
    /// Pods that are ready and up to date.
    pub ready: i32,
    /// Desired pods.
    pub desired: i32,
}

/// Certificates.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct CertificatesStatus {
    /// When the first certificate expires.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<Time>")]
    pub next_expiry: Option<Time>,
}
