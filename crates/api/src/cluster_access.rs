//! `ClusterAccess`: who may do what in which tenants, and until when.

use crate::cel;
use crate::common::conditions_schema;
use crate::selector::{ClusterSelector, NamedCluster};
use crate::until::{TIME, Until};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kube_derive::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;
use serde_with::skip_serializing_none;

/// Gives users and groups a role in `Cluster`s: in those of its namespace, or in the operator's namespace in all. It ends when it says, or when
/// it is deleted, and then the rights are taken back. The platform team decides what may be given in teams' namespaces (chart value
/// `writers.access`).
#[skip_serializing_none]
#[derive(CustomResource, Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "berth.dev",
    version = "v1alpha1",
    kind = "ClusterAccess",
    plural = "clusteraccesses",
    namespaced,
    status = "ClusterAccessStatus",
    derive = "PartialEq",
    derive = "Default",
    shortname = "cla",
    category = "berth",
    crates(kube_core = "::kube_core"),
    printcolumn(name = "Role", type_ = "string", json_path = ".spec.role"),
    printcolumn(name = "Until", type_ = "string", json_path = ".spec.expiresAt"),
    printcolumn(name = "Clusters", type_ = "integer", json_path = ".status.selected"),
    printcolumn(name = "Granted", type_ = "integer", json_path = ".status.granted"),
    printcolumn(name = "Ready", type_ = "string", json_path = ".status.conditions[?(@.type=='Ready')].status"),
    printcolumn(
        name = "Status",
        type_ = "string",
        json_path = ".status.conditions[?(@.type=='Ready')].message",
        priority = 1
    ),
    printcolumn(name = "By", type_ = "string", json_path = ".status.grantedBy", priority = 1),
    printcolumn(name = "Age", type_ = "date", json_path = ".metadata.creationTimestamp")
)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[schemars(extend("x-kubernetes-validations" = json!([
    cel::one_of("", &["clusterSelector", "clusterRefs"]),
    {"rule": "self.role != 'ClusterAdmin' || !has(self.namespaces)", "message": "namespaces: ClusterAdmin is for the whole tenant: leave namespaces out, or set role: Admin"}
])))]
pub struct ClusterAccessSpec {
    /// The `Cluster`s, by their labels. An empty selector is all of them.
    pub cluster_selector: Option<ClusterSelector>,
    /// The `Cluster`s, by name.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(min = 1, max = 256), extend("x-kubernetes-list-type" = "atomic"))]
    pub cluster_refs: Vec<NamedCluster>,
    /// Who gets the role.
    #[schemars(length(min = 1, max = 100), extend("x-kubernetes-list-type" = "atomic"))]
    pub subjects: Vec<AccessSubject>,
    /// What they may do. Viewer: read everything but Secrets. Editor: change workloads and their configuration, Secrets too. Admin: also roles and
    /// their bindings, up to what an Admin may. These three know no kinds of CustomResourceDefinitions. ClusterAdmin: everything in the tenant. Any other name: the rules of the ClusterRole
    /// of that name in the meta cluster, which has the label `berth.dev/role: "true"`.
    #[schemars(
        length(min = 1, max = 63),
        regex(pattern = r"^(Viewer|Editor|Admin|ClusterAdmin|[a-z0-9]([-a-z0-9.]*[a-z0-9])?)$")
    )]
    pub role: String,
    /// Namespaces of the tenant in which it counts. Default: all, and what is in none. One that is not there yet gets it within a minute after
    /// it was made.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(
        length(min = 1, max = 32),
        inner(length(min = 1, max = 63), regex(pattern = r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?$")),
        extend("x-kubernetes-list-type" = "set")
    )]
    pub namespaces: Vec<String>,
    /// When it ends, in UTC, such as `2026-12-01T18:00:00Z`: by the clock of the meta cluster's API server, within a minute. Default: never.
    /// An earlier time may be set by whoever may change the object.
    #[serde(default)]
    #[schemars(schema_with = "time_schema")]
    pub expires_at: Option<Until>,
    /// Why, for those who read it.
    #[schemars(length(min = 1, max = 500))]
    pub reason: Option<String>,
    /// Whose names `subjects` are. Access: those of the platform's login (`berth-access`); in the tenant they have the prefix `access:`, which is
    /// left out here. Tenant: as the tenant's own authentication gives them. Default Access.
    #[serde(default, skip_serializing_if = "Issuer::is_access")]
    pub issuer: Issuer,
    /// Who gives it: the user name of whoever writes this object. An admission policy compares it. `kubectl berth access grant` fills it in.
    #[schemars(length(min = 1, max = 256))]
    pub granted_by: Option<String>,
}

/// How names begin in tenants that are Kubernetes' and Berth's own, and those of the platform's login, to which Berth adds that by itself.
pub const RESERVED: [&str; 4] = ["system:", "berth:", "kubeadm:", "access:"];

/// A user or a group.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[schemars(extend("x-kubernetes-validations" = json!([
    {"rule": "!self.name.matches('^(system|berth|kubeadm):')", "message": "subjects: names that begin with system:, berth: or kubeadm: are Kubernetes' and Berth's own: name a user or a group of yours"},
    {"rule": "!self.name.startsWith('access:')", "message": "subjects: leave out access: before the name, and issuer too: Berth adds it to names of the platform's login"}
])))]
pub struct AccessSubject {
    /// User or Group.
    pub kind: SubjectKind,
    /// Its name, as the login or the tenant's authentication has it, such as `alice@example.com` or `developers`.
    #[schemars(length(min = 1, max = 256), regex(pattern = r"^[^\x00-\x1f\x7f]+$"))]
    pub name: String,
}

/// Whether a name is of one person or of many.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum SubjectKind {
    /// One.
    User,
    /// Many.
    Group,
}

impl SubjectKind {
    /// As RBAC spells it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::User => "User",
            Self::Group => "Group",
        }
    }
}

/// Whose names subjects are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum Issuer {
    /// Those of the platform's login.
    #[default]
    Access,
    /// The tenant's own.
    Tenant,
}

impl Issuer {
    /// Whether it is the default, which is not written.
    pub fn is_access(&self) -> bool {
        *self == Self::Access
    }
}

/// How far the rights are given, and taken back.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ClusterAccessStatus {
    /// Generation of the spec that this status describes.
    pub observed_generation: Option<i64>,
    /// Who gave it, as the spec says.
    pub granted_by: Option<String>,
    /// `Cluster`s that are meant.
    pub selected: Option<i64>,
    /// Those where the rights are given.
    pub granted: Option<i64>,
    /// Those where that waits, such as for a tenant that sleeps.
    pub waiting: Option<i64>,
    /// Those where it failed.
    pub failed: Option<i64>,
    /// Those where rights that ended are not taken back yet.
    pub not_revoked: Option<i64>,
    /// Of those that are not as asked for at most 16, the worst first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 16))]
    pub clusters: Vec<AccessInCluster>,
    /// Ready, Degraded.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "conditions_schema")]
    pub conditions: Vec<Condition>,
}

/// How it is in one `Cluster`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct AccessInCluster {
    /// Namespace of the `Cluster`.
    pub namespace: String,
    /// Its name.
    pub name: String,
    /// Waiting, Failed or `NotRevoked`.
    pub state: AccessState,
    /// What it waits for, or what went wrong.
    pub message: String,
}

/// How far rights are in a `Cluster`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
pub enum AccessState {
    /// They ended, and are there still.
    NotRevoked,
    /// They could not be given.
    Failed,
    /// They are to be given.
    Waiting,
    /// They are given.
    Granted,
}

impl AccessState {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::NotRevoked, Self::Failed, Self::Waiting, Self::Granted];

    /// As statuses spell it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::NotRevoked => "NotRevoked",
            Self::Failed => "Failed",
            Self::Waiting => "Waiting",
            Self::Granted => "Granted",
        }
    }
}

// What was let in before stays as it is: the API server judges a field only when it changes.
fn time_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
    schemars::json_schema!({"type": "string", "format": "date-time", "pattern": TIME, "maxLength": 40, "nullable": true})
}
