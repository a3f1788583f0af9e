//! `Cluster`: a hosted Kubernetes control plane.

mod addons;
mod admission;
mod audit;
mod endpoint;
mod issuers;
mod kubelet;
mod network;
mod registration;
mod status;
mod upgrade;
mod vpc;

use crate::autoscaling::Autoscaling;
use crate::common::{Arg, Images, Placement, Resources, resources_schema};
use crate::etcd_cluster::Storage;
use crate::etcd_recovery::Recovery;
use crate::etcd_tuning::{interval_schema, timing_rule};
use crate::helpers::Helpers;
use crate::hibernation::Hibernation;
use crate::proxy::Proxy;
use crate::version::Version;
use kube_derive::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;
use serde_with::skip_serializing_none;

pub use addons::{Addons, ApiProxy, CoreDns, DnsZone, KubeProxy, ProxyMode};
pub use admission::{Admission, PluginConfiguration};
pub use audit::{AUDIT_KUBECONFIG, AUDIT_SECRET, Audit, AuditBatch, AuditSecret, AuditWebhook};
pub use endpoint::{Endpoint, EndpointService, EndpointType};
pub use issuers::{FormerIssuer, FormerIssuers, KeptIssuer, default_issuer};
pub use kubelet::Kubelet;
pub use network::Network;
pub use registration::{ArgoCd, RegisteredSecret, Registration, RegistrationStatus};
pub use status::{
    AddonStatus, CanaryStatus, CertificatesStatus, ClusterStatus, ComponentStatus, NamespaceRef, NodesStatus,
    PublishedEndpoint, PublishedKubeconfig, RefusedNodePort, RevisionSummary, RolloutStatus, TurnState, TurnStatus,
    VersionRequest,
};
pub use upgrade::{Check, Day, OnFailure, Templates, Upgrade, Window};
pub use vpc::{Attachment, Route, Vpc};

/// A hosted Kubernetes control plane. `spec: {version: 1.36.3}` is complete; everything else has a default.
#[skip_serializing_none]
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
    crates(kube_core = "::kube_core"),
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
    printcolumn(name = "Next-State", type_ = "string", json_path = ".status.hibernation.next.state", priority = 1),
    printcolumn(name = "Next-State-At", type_ = "string", json_path = ".status.hibernation.next.at", priority = 1),
    printcolumn(
        name = "Status",
        type_ = "string",
        json_path = ".status.conditions[?(@.type=='Ready')].message",
        priority = 1
    )
)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[schemars(extend("x-kubernetes-validations" = json!([
    {"rule": "has(self.vpc) == has(oldSelf.vpc)", "message": "vpc cannot be added to a Cluster or removed from it: create a new Cluster"},
    {"rule": "!has(self.vpc) || !has(self.endpoint.advertiseAddress)", "message": "endpoint.advertiseAddress cannot be set with vpc: pods reach the API at its addresses in the VPC; remove it"},
    {"rule": "!has(self.vpc) || !has(self.addons) || !has(self.addons.apiProxy) || !has(self.addons.apiProxy.enabled) || !self.addons.apiProxy.enabled", "message": "addons.apiProxy cannot be enabled with vpc: pods reach the API at its addresses in the VPC; remove it"},
    {"rule": "!has(self.endpoint.advertiseAddress) || !isIP(self.endpoint.advertiseAddress) || !isCIDR(self.network.serviceCIDRs[0]) || ip(self.endpoint.advertiseAddress).family() == cidr(self.network.serviceCIDRs[0]).ip().family()", "message": "endpoint.advertiseAddress: must be of the family (IPv4 or IPv6) of the first network in network.serviceCIDRs: Service kubernetes has an address of that one"}
])))]
pub struct ClusterSpec {
    /// Kubernetes version, such as `1.36.3`. Another patch version of the same minor version rolls the control plane,
    /// kube-apiserver first. The next minor version is taken in two steps, see `upgrade`; until the second one begins, the version
    /// before it can be set again. Conditions refuse any other minor version.
    #[schemars(length(max = 20), regex(pattern = r"^\d+\.\d+\.\d+$"))]
    pub version: String,
    /// Replicas of each control-plane component, 1 to 5. Default 1. A component may override it.
    #[serde(default = "one")]
    #[schemars(range(min = 1, max = 5))]
    pub replicas: i32,
    /// The tenant's own networks. They cannot be changed later, and must not overlap each other or the meta cluster's. Loopback,
    /// link-local, multicast, unspecified and reserved networks are refused for a new tenant; one that an earlier version of Berth
    /// created with them keeps running.
    #[serde(default)]
    pub network: Network,
    /// How the tenant's API is reached.
    #[serde(default)]
    pub endpoint: Endpoint,
    /// A second interface of the API servers in the tenant's own network. Default: none.
    pub vpc: Option<Vpc>,
    /// By which kube-apiserver reaches the outside. `{}`: it needs none. Default: the chart's value `tenants.proxy` when the tenant took its
    /// version; this field takes the place of that as a whole. A change rolls the pods. Jobs of backups go by the chart's value alone.
    pub proxy: Option<Proxy>,
    /// The tenant's etcd.
    #[serde(default)]
    pub etcd: Etcd,
    /// kube-apiserver.
    #[serde(default)]
    pub api_server: ApiServer,
    /// kube-controller-manager.
    #[serde(default)]
    pub controller_manager: ComponentSpec,
    /// kube-scheduler.
    #[serde(default)]
    pub scheduler: ComponentSpec,
    /// What kubelets on the tenant's nodes are told.
    #[serde(default, skip_serializing_if = "Kubelet::is_default")]
    pub kubelet: Kubelet,
    /// What Berth runs on the tenant's nodes.
    #[serde(default, skip_serializing_if = "Addons::is_default")]
    pub addons: Addons,
    /// What Berth runs beside the components, in their pods and in Jobs.
    #[serde(default, skip_serializing_if = "Helpers::is_default")]
    pub helpers: Helpers,
    /// Where images come from.
    #[serde(default, skip_serializing_if = "Images::is_default")]
    pub images: Images,
    /// How changes of what runs are made, and taken back.
    #[serde(default, skip_serializing_if = "Upgrade::is_default")]
    pub upgrade: Upgrade,
    /// When the tenant has no pods, because nobody uses it.
    #[serde(default, skip_serializing_if = "Hibernation::is_default")]
    pub hibernation: Hibernation,
    /// Where the tenant is made known by itself, such as to Argo CD.
    #[serde(default, skip_serializing_if = "Registration::is_default")]
    pub registration: Registration,
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

/// The tenant's etcd. Changes of version, resources and placement restart one member at a time.
#[skip_serializing_none]
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[schemars(extend("x-kubernetes-validations" = [timing_rule()]))]
pub struct Etcd {
    /// etcd version, such as `3.6.16`. A newer patch version, or the next minor version, is given to one member after the other. Default:
    /// the one that goes with the Kubernetes minor version when the `Cluster` is created; and when a later one names a newer etcd, that.
    #[schemars(length(max = 20), regex(pattern = r"^\d+\.\d+\.\d+$"))]
    pub version: Option<String>,
    /// Members: 1, 3 or 5. Default 1. It may be raised and lowered: Berth adds and removes one member after the other, while the tenant's API
    /// serves.
    #[serde(default = "one")]
    #[schemars(extend("enum" = [1, 3, 5]))]
    pub replicas: i32,
    /// Volume of each member. Its size may be raised later, where the StorageClass allows that (`allowVolumeExpansion`); nothing else.
    #[serde(default)]
    pub storage: Storage,
    /// Largest size of the database, in bytes. Default 2 GiB; etcd's maintainers suggest 8 GiB at most. A full database refuses writes until
    /// Berth has made it smaller. The volume should be three times as large. A change restarts one member at a time.
    #[schemars(range(min = 16_777_216, max = 8_589_934_592_i64))]
    pub quota_backend_bytes: Option<i64>,
    /// How often etcd's leader says that it is there: an interval such as `250ms`. Members far from each other need about the time of a round
    /// trip between them. Default `100ms`. A change restarts one member at a time, and all get the same.
    #[serde(default)]
    #[schemars(schema_with = "interval_schema")]
    pub heartbeat_interval: Option<String>,
    /// How long a member hears nothing of the leader until it asks for an election: at least five times `heartbeatInterval`, and at most `50s`;
    /// etcd's maintainers suggest ten round trips. While there is no leader, nothing is written. Default `1s`. A change restarts one member at a
    /// time.
    #[serde(default)]
    #[schemars(schema_with = "interval_schema")]
    pub election_timeout: Option<String>,
    /// After how many writes a member writes a snapshot and forgets the entries before it: 1000 to 1000000. More take memory, and let a member
    /// that was away for longer catch up without the whole database. Default 10000. A change restarts one member at a time.
    #[schemars(range(min = 1_000, max = 1_000_000))]
    pub snapshot_count: Option<i64>,
    /// What happens when a majority of the members has lost its data for good. Manual: nothing, and a condition says the command that
    /// restores. Automatic: Berth restores what the members hold that are left, or else the newest verified backup; what was written since is
    /// lost. Default Manual.
    #[serde(default, skip_serializing_if = "Recovery::is_manual")]
    pub recovery: Recovery,
    /// How long data is kept that a member does not use any more, such as what was there before a restore: `0s` to `8760h`, such as `48h`. It
    /// stays on the member's volume, beside the data, and is deleted when the member starts after that time. Default `168h`.
    #[schemars(
        length(max = 16),
        regex(pattern = r"^([0-9]{1,6}h)?([0-9]{1,6}m)?([0-9]{1,6}s)?$"),
        extend("x-kubernetes-validations" = json!([{
            "rule": "self != '' && duration(self) <= duration('8760h')",
            "message": "must be a duration from 0s to 8760h, such as 48h",
        }]))
    )]
    pub keep_old_data: Option<String>,
    /// Resources of the etcd container. Default: requests of 50m CPU and 64Mi memory, and a memory
    /// limit of the quota of the database and 2Gi more. If no node takes a member with other resources, or another placement, for 30 seconds
    /// (of several members 5 minutes), what ran before runs again.
    #[serde(default)]
    #[schemars(schema_with = "resources_schema")]
    pub resources: Option<Resources>,
    /// Whether the requests of running members follow what they use. Down they go within `spec.upgrade.window`, if there is one. Default: they do not.
    #[serde(default, skip_serializing_if = "Autoscaling::is_default")]
    pub autoscaling: Autoscaling,
    /// Where the pods may run. Default: anywhere, replicas preferably on different nodes.
    #[serde(default, skip_serializing_if = "Placement::is_default")]
    pub placement: Placement,
}

impl ClusterSpec {
    /// The version that it asks for. None: the text is no version.
    pub fn asked_version(&self) -> Option<Version> {
        self.version.parse().ok()
    }
}

impl Default for Etcd {
    fn default() -> Self {
        Self {
            version: None,
            replicas: 1,
            storage: Storage::default(),
            quota_backend_bytes: None,
            heartbeat_interval: None,
            election_timeout: None,
            snapshot_count: None,
            recovery: Recovery::Manual,
            keep_old_data: None,
            resources: None,
            autoscaling: Autoscaling::default(),
            placement: Placement::default(),
        }
    }
}

/// kube-apiserver.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ApiServer {
    /// Pods, 1 to 10. Default: `spec.replicas`.
    #[schemars(range(min = 1, max = 10))]
    pub replicas: Option<i32>,
    /// Resources of the container. Default: small requests, and a limit of memory.
    #[serde(default)]
    #[schemars(schema_with = "resources_schema")]
    pub resources: Option<Resources>,
    /// Whether the requests of running pods follow what they use. Default: they do not.
    #[serde(default, skip_serializing_if = "Autoscaling::is_default")]
    pub autoscaling: Autoscaling,
    /// Where the pods may run. Default: anywhere, replicas preferably on different nodes.
    #[serde(default, skip_serializing_if = "Placement::is_default")]
    pub placement: Placement,
    /// Extra flags, in this order; a flag may be given more than once. Those that Berth sets are refused, and those that name a file or a
    /// socket: the pod has none of yours.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 64), extend("x-kubernetes-list-type" = "atomic"))]
    pub extra_args: Vec<Arg>,
    /// Structured authentication.
    #[serde(default)]
    pub authentication: Authentication,
    /// What is audited, and where events go beside the container's output.
    #[serde(default, skip_serializing_if = "Audit::is_default")]
    pub audit: Audit,
    /// Admission plugins.
    #[serde(default, skip_serializing_if = "Admission::is_default")]
    pub admission: Admission,
    /// Certificates that the API server trusts beside those of its image, where it is a client of others: issuers of
    /// `authentication.jwt` without a `certificateAuthority`, and webhooks by URL without a `caBundle`. PEM, nothing but certificates, at most
    /// 64 KiB. Connections to etcd, kubelets and aggregated APIs have CAs of their own. A change rolls the API servers. Default: none.
    #[serde(default, rename = "trustedCA")]
    #[schemars(schema_with = "certificates_schema")]
    pub trusted_ca: Option<String>,
    /// Issuers of service-account tokens. The first signs, all are accepted. One that signed and is not listed any more goes on being
    /// accepted (see `formerServiceAccountIssuers`). A new first one signs once all API servers accept it, so that such a change is two
    /// rollouts. With those that signed before there are at most 16. Default:
    /// `https://kubernetes.default.svc.<dnsDomain>`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 16), inner(length(min = 1, max = 512)), extend("x-kubernetes-list-type" = "atomic"))]
    pub service_account_issuers: Vec<String>,
    /// What becomes of issuers that signed tokens and are not in `serviceAccountIssuers` any more. Keep: they are accepted as long as tokens live:
    /// 90 days, or a year with the extra flag `service-account-extend-token-expiration`. After that they go with the next change of what runs.
    /// `status.formerServiceAccountIssuers` lists them. Drop: what they signed is refused as soon as this is rolled out, that of pods, too.
    /// Default Keep.
    #[serde(default, skip_serializing_if = "FormerIssuers::are_kept")]
    pub former_service_account_issuers: FormerIssuers,
}

/// PEM. A private key never gets into the object; what else is in it, the operator judges.
fn certificates_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
    schemars::json_schema!({
        "type": "string", "maxLength": 65536,
        "x-kubernetes-validations": [{
            "rule": "self.contains('-----BEGIN CERTIFICATE-----') && !self.contains('PRIVATE KEY')",
            "message": "must be certificates in PEM, without a private key",
        }],
    })
}

/// Structured authentication of the API server.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Authentication {
    /// JWT authenticators in upstream's shape (`apiserver.config.k8s.io/v1` `AuthenticationConfiguration.jwt`).
    /// What upstream's rules refuse is refused before anything runs, with its place: unknown fields, a URL that does not begin with https, an
    /// issuer that is listed twice or is one of `serviceAccountIssuers`, an expression that does not compile. Constants in expressions, such as
    /// of `duration()`, are judged by the API server alone: the rollout then stops at the first new pod, and the old pods keep serving.
    /// Behind them come those of the chart's value `authentication.jwt`, as it was when the tenant took its version: one of the same issuer is left
    /// out there. With these there are at most 64.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 64), schema_with = "jwt_schema")]
    pub jwt: Vec<serde_json::Value>,
}

/// Not typed: a schema with fields prunes all others without a word, and the values of objects that are there.
pub(crate) fn jwt_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
    schemars::json_schema!({
        "type": "array", "maxItems": 64, "x-kubernetes-list-type": "atomic",
        "items": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}
    })
}

/// kube-controller-manager or kube-scheduler.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ComponentSpec {
    /// Pods, 1 to 10. Default: `spec.replicas`.
    #[schemars(range(min = 1, max = 10))]
    pub replicas: Option<i32>,
    /// Resources of the container. Default: small requests, and a limit of memory.
    #[serde(default)]
    #[schemars(schema_with = "resources_schema")]
    pub resources: Option<Resources>,
    /// Whether the requests of running pods follow what they use. Default: they do not.
    #[serde(default, skip_serializing_if = "Autoscaling::is_default")]
    pub autoscaling: Autoscaling,
    /// Where the pods may run. Default: anywhere, replicas preferably on different nodes.
    #[serde(default, skip_serializing_if = "Placement::is_default")]
    pub placement: Placement,
    /// Extra flags, in this order; a flag may be given more than once. Those that Berth sets are refused, and those that name a file or a
    /// socket: the pod has none of yours.
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
