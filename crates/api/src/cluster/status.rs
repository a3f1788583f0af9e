//! The status of a `Cluster`.

use super::issuers::FormerIssuer;
use super::registration::RegistrationStatus;
use crate::common::{SecretRef, conditions_schema};
use crate::hibernation::HibernationStatus;
use crate::revision::{RevisionCause, RevisionOutcome};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_with::skip_serializing_none;

/// Observed state of a tenant.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ClusterStatus {
    /// Generation of the spec that this status is for; -1 before the operator has seen the object.
    pub observed_generation: Option<i64>,
    /// For people: Pending, Provisioning, Ready, Updating, Degraded, Unavailable, Asleep, Blocked, Paused, Deleting. Code reads conditions.
    pub phase: Option<String>,
    /// Since when there is the tenant, by its CA: a `Cluster` that takes it over, as after a restore of the meta cluster, says the same. Absent until it
    /// has a CA.
    pub since: Option<Time>,
    /// Kubernetes version that the API reports; never a copy of the spec.
    pub version: Option<String>,
    /// The minor version that the API servers emulate, such as `1.35`: after the first step of a change of the minor version. Absent
    /// otherwise.
    pub emulated_version: Option<String>,
    /// Where the API is reached. Where only a Gateway of the platform's own leads to it, `admin` is there while `RouteAccepted` has a Gateway that does.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["name"]))]
    pub endpoints: Vec<PublishedEndpoint>,
    /// That `spec.endpoint.nodePort` is not to be had, and the API is at another port of nodes until it is. Absent otherwise.
    pub refused_node_port: Option<RefusedNodePort>,
    /// Kubeconfigs in this namespace.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["name"]))]
    pub kubeconfigs: Vec<PublishedKubeconfig>,
    /// Where the control plane runs.
    pub control_plane_namespace: Option<NamespaceRef>,
    /// Value of the annotation `berth.dev/adopt` with which this `Cluster` takes over the existing control-plane namespace. Set only
    /// while Berth waits for the annotation.
    pub adopt: Option<String>,
    /// The components.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["name"]))]
    pub components: Vec<ComponentStatus>,
    /// Certificates.
    pub certificates: Option<CertificatesStatus>,
    /// The tenant's nodes, when they were last read: at each change that Berth makes or sees, and every quarter of an hour. Absent
    /// until the API answers for the first time.
    pub nodes: Option<NodesStatus>,
    /// The add-ons that Berth keeps in the tenant. One that was turned off is listed until all of it is deleted.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["name"]))]
    pub addons: Vec<AddonStatus>,
    /// What makes the tenant known elsewhere (`spec.registration`). It is listed until it is taken back.
    pub registration: Option<RegistrationStatus>,
    /// Whether it sleeps. Absent until it is asked to for the first time.
    pub hibernation: Option<HibernationStatus>,
    /// The release that is rolled out. Absent while none is.
    pub rollout: Option<RolloutStatus>,
    /// The last change of the version, as the order of the fleet sees it. Absent if there was none.
    pub turn: Option<TurnStatus>,
    /// Versions that were asked for within 90 days, 16 at most, also those that were set back since: whoever waits for this tenant waits no
    /// longer because a request is made anew.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["to"]))]
    pub requests: Vec<VersionRequest>,
    /// Issuers of service-account tokens that are accepted though `spec.apiServer.serviceAccountIssuers` does not list them: they signed
    /// before, or sign until all API servers accept the new first one.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["issuer"]))]
    pub former_service_account_issuers: Vec<FormerIssuer>,
    /// The last releases, the newest first; `kubectl berth history` shows them. Each is a `ClusterRevision` in the control-plane namespace.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["revision"]))]
    pub history: Vec<RevisionSummary>,
    /// Ready, Available, Progressing, Degraded, PKIReady, EtcdAvailable, ControlPlaneAvailable, PodsReachAPI; with add-ons AddonsReady; with Apps that are required AppsReady; with `spec.vpc` VPCReady; with a Gateway of the platform's own RouteAccepted; with `spec.registration` Registered; UpgradeReady while there is a next minor version; UpdateAvailable, Reconciling and
    /// Stalled while they are True.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "conditions_schema")]
    pub conditions: Vec<Condition>,
}

/// An address of the API.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PublishedEndpoint {
    /// `admin` (for people and tools); with `spec.vpc` also `nodes` (where nodes reach the API in the VPC).
    pub name: String,
    /// Name or address.
    pub host: String,
    /// Port.
    pub port: i32,
}

/// A port of nodes that was asked for in vain.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct RefusedNodePort {
    /// The port.
    pub port: i32,
    /// Why, in the API server's words.
    #[serde(default)]
    pub why: String,
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
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ComponentStatus {
    /// Name, such as `kube-apiserver`.
    pub name: String,
    /// Version of its image that all of its pods run.
    pub version: Option<String>,
    /// Pods that are ready and up to date.
    pub ready: i32,
    /// Desired pods.
    pub desired: i32,
}

/// An add-on, when it was last read: at each change that Berth makes or sees, and every quarter of an hour.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct AddonStatus {
    /// `coredns` or `kube-proxy`.
    pub name: String,
    /// The version that was written into the tenant last.
    pub version: Option<String>,
    /// Pods that serve. Absent until its Deployment or DaemonSet was read, and while the tenant has no node that is ready.
    pub ready: Option<i32>,
    /// Desired pods: of kube-proxy, one for each node. Absent where `ready` is.
    pub wanted: Option<i32>,
    /// Why not all of them serve, or what of a change does not come up. Absent while all is well, and while the tenant has no node that is
    /// ready.
    pub message: Option<String>,
    /// Since when none of its pods serves, though the tenant has a node that is ready. After five minutes the `Cluster` is not `Ready`.
    #[schemars(with = "Option<Time>")]
    pub down_since: Option<Time>,
}

/// The tenant's nodes.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct NodesStatus {
    /// How many there are.
    pub total: i32,
    /// How many are ready, cordoned ones included.
    pub ready: i32,
    /// Version of the oldest kubelet, without `v`. Kubelets may be up to three minor versions older than the API.
    pub oldest_kubelet: Option<String>,
}

/// Certificates.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct CertificatesStatus {
    /// When the first certificate expires.
    #[schemars(with = "Option<Time>")]
    pub next_expiry: Option<Time>,
}

/// A release that is rolled out.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct RolloutStatus {
    /// Number of its `ClusterRevision`.
    pub revision: i64,
    /// Version of the last release that succeeded.
    pub from: Option<String>,
    /// Version that is rolled out.
    pub to: String,
    /// The workload whose pods are replaced, such as `kube-apiserver`; `waiting`: none is, and something else is waited for; `soak`: all run it,
    /// for `spec.upgrade.soak`.
    pub step: String,
    /// The most of its pods that were up to date and ready at once.
    #[serde(default)]
    pub ready: i32,
    /// Since when the step makes no progress. Absent while `spec.paused` is true.
    #[schemars(with = "Option<Time>")]
    pub since: Option<Time>,
    /// The first new API server, while it serves alone among the old ones for `spec.upgrade.soak`.
    pub canary: Option<CanaryStatus>,
}

/// The first new API server of a release.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct CanaryStatus {
    /// Its pod.
    pub pod: String,
    /// Its UID: another pod may get its name.
    pub uid: Option<String>,
    /// Since when that is ready.
    #[schemars(with = "Option<Time>")]
    pub since: Option<Time>,
}

/// A release, in short.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct RevisionSummary {
    /// Number of its `ClusterRevision`.
    pub revision: i64,
    /// `spec.version`.
    pub version: String,
    /// What changed.
    pub cause: RevisionCause,
    /// The annotation `kubernetes.io/change-cause` of the `Cluster` when it was recorded.
    pub change_cause: Option<String>,
    /// How it came out. Absent while it is rolled out.
    pub outcome: Option<RevisionOutcome>,
    /// When it was recorded.
    #[schemars(with = "Option<Time>")]
    pub started: Option<Time>,
}

/// A change of the version, for the order in which the tenants of a fleet change theirs.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct TurnStatus {
    /// The version that it leads to. Where the templates alone change, `+` and the first digits of their digest follow.
    #[schemars(length(max = 32))]
    pub to: String,
    /// How far it is.
    pub state: TurnState,
    /// Since when.
    #[schemars(with = "Option<Time>")]
    pub since: Option<Time>,
    /// When that ends by itself: when a step that is due later begins.
    #[schemars(with = "Option<Time>")]
    pub until: Option<Time>,
    /// It came back from that version (`RolledBack`, `Held`), or does not come through the second step of it, by a change of nothing but the
    /// version. It was well before, and has not been well with it since.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub came_back: bool,
}

/// A version that was asked for.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct VersionRequest {
    /// The version, as in `turn.to`.
    #[schemars(length(max = 32))]
    pub to: String,
    /// When it was asked for first.
    #[schemars(with = "Option<Time>")]
    pub since: Option<Time>,
    /// When a change to it last began or ended. Absent: none has begun.
    #[schemars(with = "Option<Time>")]
    pub last: Option<Time>,
}

/// How far a change of the version is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
pub enum TurnState {
    /// It waits for its turn.
    #[default]
    Waiting,
    /// It waits for the window of its `Cluster`.
    Window,
    /// Something in the tenant, or in its `Cluster`, stands in its way, such as `spec.paused`, also when it has begun.
    Blocked,
    /// It is under way.
    Running,
    /// The first step of a new minor version is through; it waits for `spec.upgrade.finalizeAfter`.
    Emulating,
    /// It is through.
    Succeeded,
    /// It did not come up: `RolledBack` or `Held`; or it makes no progress in the second step of a new minor version.
    Failed,
}

impl std::fmt::Display for TurnState {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        std::fmt::Debug::fmt(self, f)
    }
}
