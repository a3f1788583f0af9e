//! `EtcdCluster`: an etcd with its own PKI. It knows nothing of `Cluster`.

use crate::cluster::DataPolicy;
use crate::common::{AgentDelivery, Images, Placement, Resources, SecretRef, conditions_schema, resources_schema};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kube_derive::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;

/// An etcd cluster: members with volumes, its own peer CA and client CA, and a client certificate for each entry of `clients`.
#[derive(CustomResource, Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "berth.dev",
    version = "v1alpha1",
    kind = "EtcdCluster",
    namespaced,
    status = "EtcdClusterStatus",
    derive = "PartialEq",
    derive = "Default",
    shortname = "etcdc",
    category = "berth",
    crates(
        kube_core = "kube_core",
        k8s_openapi = "k8s_openapi",
        schemars = "schemars",
        serde = "serde",
        serde_json = "serde_json"
    ),
    printcolumn(name = "Version", type_ = "string", json_path = ".status.version"),
    printcolumn(name = "Members", type_ = "string", json_path = ".status.readyMembers"),
    printcolumn(name = "Available", type_ = "string", json_path = ".status.conditions[?(@.type=='Available')].status"),
    printcolumn(name = "Ready", type_ = "string", json_path = ".status.conditions[?(@.type=='Ready')].status"),
    printcolumn(
        name = "Status",
        type_ = "string",
        json_path = ".status.conditions[?(@.type=='Ready')].message",
        priority = 1
    ),
    printcolumn(name = "Age", type_ = "date", json_path = ".metadata.creationTimestamp")
)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct EtcdClusterSpec {
    /// etcd version, such as `3.6.16`. It cannot be changed yet once the cluster is formed; a condition refuses it.
    #[schemars(length(max = 20), regex(pattern = r"^\d+\.\d+\.\d+$"))]
    pub version: String,
    /// Number of members: 1, 3 or 5. Default 1. Cannot be changed yet once the cluster is formed.
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
    /// Where images come from.
    #[serde(default, skip_serializing_if = "Images::is_default")]
    pub images: Images,
    /// Largest size of the database, in bytes. Default 2 GiB; etcd's maintainers suggest 8 GiB at most. A full
    /// database raises the alarm NOSPACE and refuses writes. The volume should be three times as large.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 16_777_216, max = 8_589_934_592_i64))]
    pub quota_backend_bytes: Option<i64>,
    /// Clients of this etcd: Berth issues a client certificate for each, in the Secret that `status.clients` names.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 16), extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["name"]))]
    pub clients: Vec<EtcdClient>,
    /// What happens to the data when the EtcdCluster is deleted. Retain keeps volumes, CAs and the bootstrap ConfigMap, so that an
    /// EtcdCluster of the same name finds its data again; Delete deletes them. Default Retain.
    #[serde(default = "retain")]
    pub data_policy: DataPolicy,
    /// Pauses every change by Berth, including drift repair and certificate renewal, but not deletion. Default false.
    #[serde(default)]
    pub paused: bool,
}

impl Default for EtcdClusterSpec {
    fn default() -> Self {
        Self {
            version: String::new(),
            replicas: one(),
            storage: Storage::default(),
            resources: None,
            placement: Placement::default(),
            images: Images::default(),
            quota_backend_bytes: None,
            clients: vec![],
            data_policy: retain(),
            paused: false,
        }
    }
}

/// Who uses an etcd.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct EtcdClient {
    /// Name; its Secret is `<etcd cluster>-client-<name>`, with the keys `tls.crt`, `tls.key` and `ca.crt`. The name `ca` is
    /// reserved for the client CA.
    #[schemars(length(min = 1, max = 40), regex(pattern = r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?$"), extend("x-kubernetes-validations" = json!([{"rule": "self != 'ca'", "message": "clients: the name ca is reserved for the client CA; choose another"}])))]
    pub name: String,
}

/// Volume of an etcd member.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[schemars(extend("x-kubernetes-validations" = json!([{"rule": "self == oldSelf", "message": "storage is immutable: volumes of running members cannot be replaced; create a new cluster"}])))]
pub struct Storage {
    /// StorageClass. Default: the meta cluster's default class. Writers of a `Cluster` may name those that the platform team
    /// allows (chart value `writers.storage.classes`). Use fast disks: etcd needs at least 50 sequential fsyncs a second.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 253), regex(pattern = r"^[a-z0-9]([-a-z0-9.]*[a-z0-9])?$"))]
    pub class_name: Option<String>,
    /// Size: a whole number with Mi, Gi, Ti, M, G or T. Default `10Gi`.
    #[serde(default = "ten_gi")]
    #[schemars(length(min = 1, max = 20), regex(pattern = r"^([1-9][0-9]{0,8}(Mi|Gi|M|G)|[1-9][0-9]{0,4}(Ti|T))$"))]
    pub size: String,
}

impl Default for Storage {
    fn default() -> Self {
        Self { class_name: None, size: ten_gi() }
    }
}

fn ten_gi() -> String {
    "10Gi".into()
}

fn one() -> i32 {
    1
}

fn retain() -> DataPolicy {
    DataPolicy::Retain
}

/// Observed state of an etcd cluster.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct EtcdClusterStatus {
    /// Generation of the spec that this status is for; -1 before the operator has seen the object.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    /// For people: Pending, Forming, Ready, Updating, Degraded, Unavailable, Paused, Deleting. Code reads conditions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub phase: Option<String>,
    /// Lowest version that a member reports.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
    /// etcd's cluster ID in hexadecimal, once formed. Berth never forms a cluster twice.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cluster_id: Option<String>,
    /// How often the data was created anew or restored from a backup.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub epoch: Option<i64>,
    /// UID in etcd's cluster token and in the markers on the volumes: that of the first EtcdCluster with this data. It stays when
    /// the EtcdCluster is restored from a backup with another UID.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub identity: Option<String>,
    /// Members that answer, such as `3/3`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ready_members: Option<String>,
    /// The members.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["name"]))]
    pub members: Vec<EtcdMember>,
    /// Where clients connect: one stable address per member.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["name"]))]
    pub endpoints: Vec<EtcdEndpoint>,
    /// Issued client certificates.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["name"]))]
    pub clients: Vec<EtcdClientStatus>,
    /// Template set and agent image that the members are pinned to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub templates: Option<PinnedTemplates>,
    /// Certificates.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub certificates: Option<crate::cluster::CertificatesStatus>,
    /// Ready, Available, Progressing, Degraded, PKIReady, MembersReady.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "conditions_schema")]
    pub conditions: Vec<Condition>,
}

/// Templates and agent of the running members; a new operator version does not change them.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PinnedTemplates {
    /// Digest of the template set.
    pub digest: String,
    /// Image of Berth's agent in the pods.
    pub agent_image: String,
    /// How the agent gets into the pods. Default InitContainer.
    #[serde(default)]
    pub agent_delivery: AgentDelivery,
}

/// One member.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct EtcdMember {
    /// Name, which is its pod's.
    pub name: String,
    /// etcd's member ID in hexadecimal, once known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub id: Option<String>,
    /// True if it answered and is no learner.
    pub ready: bool,
    /// Why it is not ready.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
}

/// Address of a member.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct EtcdEndpoint {
    /// Name of the member.
    pub name: String,
    /// URL with a name that is in the serving certificate.
    pub url: String,
    /// Host of the URL.
    pub host: String,
    /// Stable address of that host; put it into `hostAliases` to do without DNS.
    pub address: String,
}

/// A client's certificate.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct EtcdClientStatus {
    /// Name, as in `spec.clients`.
    pub name: String,
    /// Its Secret, in this namespace.
    pub secret_ref: SecretRef,
}
