//! `Cluster`: a hosted Kubernetes control plane.

mod addons;
mod endpoint;
mod network;
mod status;
mod upgrade;
mod vpc;

use crate::common::{Arg, Images, Placement, Resources, resources_schema};
use crate::etcd_cluster::Storage;
use crate::etcd_recovery::Recovery;
use kube_derive::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;

pub use addons::{Addons, CoreDns, KubeProxy, ProxyMode};
pub use endpoint::{Endpoint, EndpointService, EndpointType};
pub use network::Network;
pub use status::{
    AddonStatus, CanaryStatus, CertificatesStatus, ClusterStatus, ComponentStatus, NamespaceRef, NodesStatus,
    PublishedEndpoint, PublishedKubeconfig, RevisionSummary, RolloutStatus, TurnState, TurnStatus, VersionRequest,
};
pub use upgrade::{Check, Day, OnFailure, Templates, Upgrade, Window};
pub use vpc::{Attachment, Route, Vpc};

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
#[schemars(extend("x-kubernetes-validations" = json!([
    {"rule": "has(self.vpc) == has(oldSelf.vpc)", "message": "vpc cannot be added to a Cluster or removed from it: create a new Cluster"}
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
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub vpc: Option<Vpc>,
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
    /// What Berth runs on the tenant's nodes.
    #[serde(default, skip_serializing_if = "Addons::is_default")]
    pub addons: Addons,
    /// Where images come from.
    #[serde(default, skip_serializing_if = "Images::is_default")]
    pub images: Images,
    /// How changes of what runs are made, and taken back.
    #[serde(default, skip_serializing_if = "Upgrade::is_default")]
    pub upgrade: Upgrade,
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
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Etcd {
    /// etcd version, such as `3.6.16`. A newer patch version, or the next minor version, is given to one member after the other. Default:
    /// the one that goes with the Kubernetes minor version when the `Cluster` is created; and when a later one names a newer etcd, that.
    #[serde(default, skip_serializing_if = "Option::is_none")]
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
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 16_777_216, max = 8_589_934_592_i64))]
    pub quota_backend_bytes: Option<i64>,
    /// What happens when a majority of the members has lost its data for good. Manual: nothing, and a condition says the command that
    /// restores. Automatic: Berth restores what the members hold that are left, or else the newest verified backup; what was written since is
    /// lost. Default Manual.
    #[serde(default, skip_serializing_if = "Recovery::is_manual")]
    pub recovery: Recovery,
    /// How long data is kept that a member does not use any more, such as what was there before a restore: `0s` to `8760h`, such as `48h`. It
    /// stays on the member's volume, beside the data, and is deleted when the member starts after that time. Default `168h`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
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
    /// limit of the quota of the database and 2Gi more.
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
            quota_backend_bytes: None,
            recovery: Recovery::Manual,
            keep_old_data: None,
            resources: None,
            placement: Placement::default(),
        }
    }
}

/// kube-apiserver.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ApiServer {
    /// Pods, 1 to 10. Default: `spec.replicas`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 10))]
    pub replicas: Option<i32>,
    /// Resources of the container. Default: small requests, and a limit of memory.
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
pub struct ComponentSpec {
    /// Pods, 1 to 10. Default: `spec.replicas`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 10))]
    pub replicas: Option<i32>,
    /// Resources of the container. Default: small requests, and a limit of memory.
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
