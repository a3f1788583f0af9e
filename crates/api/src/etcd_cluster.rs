//! `EtcdCluster`: an etcd with its own PKI. It knows nothing of `Cluster`.

use crate::autoscaling::Autoscaling;
use crate::cluster::{DataPolicy, Window};
use crate::common::{AgentDelivery, Images, Placement, Resources, SecretRef, conditions_schema, resources_schema};
use crate::etcd_bootstrap::{Operation, OperationKind};
use crate::etcd_recovery::{Recovery, RecoveryStatus};
use crate::etcd_tuning::{interval_schema, timing_rule};
use crate::etcd_upkeep::{HashCheck, Upkeep};
use crate::helpers::{Amounts, Helpers};
use crate::hibernation::EtcdHibernation;
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use kube_derive::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::json;
use serde_with::skip_serializing_none;

/// An etcd cluster: members with volumes, its own peer CA and client CA, and a client certificate for each entry of `clients`.
#[skip_serializing_none]
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
    crates(kube_core = "::kube_core"),
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
#[schemars(extend("x-kubernetes-validations" = [timing_rule()]))]
pub struct EtcdClusterSpec {
    /// etcd version, such as `3.6.16`. A newer patch version, or the next minor version, is given to one member after the other, followers
    /// first, while a quorum serves. If a member does not come up with it, those that have it go back. An older version than the one that
    /// runs is refused.
    #[schemars(length(max = 20), regex(pattern = r"^\d+\.\d+\.\d+$"))]
    pub version: String,
    /// Number of members: 1, 3 or 5. Default 1. It may be raised and lowered: Berth adds and removes one member after the other, while a
    /// quorum serves.
    #[serde(default = "one")]
    #[schemars(extend("enum" = [1, 3, 5]))]
    pub replicas: i32,
    /// Volume of each member. Its size may be raised later, where the StorageClass allows that (`allowVolumeExpansion`); nothing else.
    #[serde(default)]
    pub storage: Storage,
    /// Resources of the etcd container. Default: requests of 50m CPU and 64Mi memory, and a memory
    /// limit of the quota of the database and 2Gi more. If no node takes a member with other resources, or another placement, for 30 seconds
    /// (of several members 5 minutes), what ran before runs again.
    #[serde(default)]
    #[schemars(schema_with = "resources_schema")]
    pub resources: Option<Resources>,
    /// Whether the requests of running members follow what they use. Default: they do not.
    #[serde(default, skip_serializing_if = "Autoscaling::is_default")]
    pub autoscaling: Autoscaling,
    /// When requests may become less by `autoscaling`. A `Cluster` sets its `spec.upgrade.window`. Default: at any time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub shrink_window: Option<Window>,
    /// Where the pods may run. Default: anywhere, replicas preferably on different nodes.
    #[serde(default, skip_serializing_if = "Placement::is_default")]
    pub placement: Placement,
    /// What Berth runs beside etcd, in the members' pods and in Jobs.
    #[serde(default, skip_serializing_if = "Helpers::is_default")]
    pub helpers: Helpers,
    /// Where images come from.
    #[serde(default, skip_serializing_if = "Images::is_default")]
    pub images: Images,
    /// Largest size of the database, in bytes. Default 2 GiB; etcd's maintainers suggest 8 GiB at most. A full
    /// database raises the alarm NOSPACE and refuses writes. The volume should be three times as large.
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
    /// Says that nothing uses this etcd any more, so that it can be restored: the `id` of the `status.operation` that waits for it. A
    /// `Cluster` sets it for its etcd; for a stand-alone one you do. Default: none.
    #[schemars(range(min = 0))]
    pub clients_stopped: Option<i64>,
    /// Whether all members are stopped while nobody uses this etcd. A `Cluster` sets it for its etcd.
    #[serde(default, skip_serializing_if = "EtcdHibernation::is_default")]
    pub hibernation: EtcdHibernation,
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
}

impl Default for EtcdClusterSpec {
    fn default() -> Self {
        Self {
            version: String::new(),
            replicas: one(),
            storage: Storage::default(),
            resources: None,
            autoscaling: Autoscaling::default(),
            shrink_window: None,
            placement: Placement::default(),
            helpers: Helpers::default(),
            images: Images::default(),
            quota_backend_bytes: None,
            heartbeat_interval: None,
            election_timeout: None,
            snapshot_count: None,
            clients: vec![],
            data_policy: retain(),
            paused: false,
            clients_stopped: None,
            hibernation: EtcdHibernation::default(),
            recovery: Recovery::Manual,
            keep_old_data: None,
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
#[skip_serializing_none]
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[schemars(extend("x-kubernetes-validations" = json!([{"rule": "has(self.className) == has(oldSelf.className) && (!has(self.className) || self.className == oldSelf.className)", "message": "storage.className is immutable: volumes of running members cannot be replaced; create a new cluster"}])))]
pub struct Storage {
    /// StorageClass. Default: the meta cluster's default class. Writers of a `Cluster` may name those that the platform team
    /// allows (chart value `writers.storage.classes`). Use fast disks: etcd needs at least 50 sequential fsyncs a second.
    #[schemars(length(min = 1, max = 253), regex(pattern = r"^[a-z0-9]([-a-z0-9.]*[a-z0-9])?$"))]
    pub class_name: Option<String>,
    /// Size: a Kubernetes quantity of at least `1Gi`, such as `10Gi`, `1.5Ti` or a number of bytes. Default `10Gi`. It may be raised if the
    /// StorageClass lets volumes grow: Berth has one member's volume grow after the other. Volumes do not shrink. Volumes of clusters that an
    /// earlier version of Berth created smaller stay as they are.
    #[serde(default = "ten_gi", deserialize_with = "quantity")]
    #[schemars(schema_with = "size_schema")]
    pub size: String,
}

impl Default for Storage {
    fn default() -> Self {
        Self { class_name: None, size: ten_gi() }
    }
}

/// The smallest volume that a new cluster may ask for: etcd preallocates its log in files of 64 MB and keeps several, beside the database
/// and its snapshots.
pub const LEAST_STORAGE: &str = "1Gi";

fn ten_gi() -> String {
    "10Gi".into()
}

/// As Kubernetes takes quantities: a text, or a number of bytes.
fn quantity<'de, D: Deserializer<'de>>(deserializer: D) -> Result<String, D::Error> {
    Quantity::deserialize(deserializer).map(|quantity| quantity.0)
}

/// Quantities stay below 2^63, as in [`resources_schema`]. That it is not too small is judged by the operator when it makes the volumes,
/// because a cluster with smaller ones can be restored from a backup.
fn size_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
    schemars::json_schema!({
        "x-kubernetes-int-or-string": true, "nullable": false, "maxLength": 20, "minimum": 0, "maximum": 999_999_999_999_999_i64,
        "pattern": r"^([0-9]{1,15}|[0-9]{1,9}(\.[0-9]{1,3})?(k|M|G|Ki|Mi|Gi)|[0-9]{1,5}(\.[0-9]{1,3})?(T|Ti)|[0-9]{1,3}(\.[0-9]{1,3})?(P|Pi))$",
    })
}

fn one() -> i32 {
    1
}

fn retain() -> DataPolicy {
    DataPolicy::Retain
}

/// Observed state of an etcd cluster.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct EtcdClusterStatus {
    /// Generation of the spec that this status is for; -1 before the operator has seen the object.
    pub observed_generation: Option<i64>,
    /// For people: Pending, Forming, Ready, Updating, Degraded, Unavailable, Asleep, Paused, Deleting. Code reads conditions.
    pub phase: Option<String>,
    /// Lowest version that a member reports.
    pub version: Option<String>,
    /// etcd's cluster ID in hexadecimal, once formed. Berth never forms a cluster twice.
    pub cluster_id: Option<String>,
    /// How often the data was created anew or restored from a backup.
    pub epoch: Option<i64>,
    /// UID in etcd's cluster token and in the markers on the volumes: that of the first EtcdCluster with this data. It stays when
    /// the EtcdCluster is restored from a backup with another UID.
    pub identity: Option<String>,
    /// Members that answer, such as `3/3`.
    pub ready_members: Option<String>,
    /// The members.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["name"]))]
    pub members: Vec<EtcdMember>,
    /// The change of members or of the version, or the restore, that is under way, if any. What decides is the record in the ConfigMap `<name>-bootstrap`.
    pub operation: Option<Operation>,
    /// What Berth does to keep the databases small, or did last.
    pub upkeep: Option<Upkeep>,
    /// What Berth does by itself, or did last, about a quorum that was lost for good. Only with `spec.recovery: Automatic`.
    pub recovery: Option<RecoveryStatus>,
    /// The last comparison of the members' data. It is made once a day, before a change of the version, and after each change of members.
    pub hashes: Option<HashCheck>,
    /// When a comparison of the members' data was tried last and did not get an answer of every member in time. It is tried again after ten
    /// minutes. None: the last one came to an end.
    pub hashes_failed_at: Option<Time>,
    /// Nodes that do not exist any more and that have members' volumes. Five minutes after `since` the member is replaced.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["member"]))]
    pub absent_nodes: Vec<AbsentNode>,
    /// Where clients connect: one stable address per member.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["name"]))]
    pub endpoints: Vec<EtcdEndpoint>,
    /// Issued client certificates.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["name"]))]
    pub clients: Vec<EtcdClientStatus>,
    /// Template set and agent image that the members are pinned to.
    pub templates: Option<PinnedTemplates>,
    /// Certificates.
    pub certificates: Option<crate::cluster::CertificatesStatus>,
    /// Ready, Available, Progressing, Degraded, PKIReady, MembersReady.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "conditions_schema")]
    pub conditions: Vec<Condition>,
}

impl EtcdClusterStatus {
    /// The sleep that is under way, from its first step until all members serve again.
    pub fn sleep(&self) -> Option<&Operation> {
        self.operation.as_ref().filter(|operation| operation.kind == OperationKind::Sleep)
    }
}

/// Templates and agent of the running members; a new operator version does not change them.
#[skip_serializing_none]
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
    /// The chart's `helpers.resources`. None: it was not set.
    #[serde(default)]
    pub helper_resources: Option<Amounts>,
}

/// A node that does not exist, with a member's volume.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct AbsentNode {
    /// Name of the member.
    pub member: String,
    /// The hostname that its volume names.
    pub node: String,
    /// When it was first seen that the node does not exist. If it comes back, the time starts anew.
    pub since: Time,
}

/// One member.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct EtcdMember {
    /// Name, which is its pod's.
    pub name: String,
    /// etcd's member ID in hexadecimal, once known.
    pub id: Option<String>,
    /// True if it answered and is no learner.
    pub ready: bool,
    /// Whether what it holds can be read: Answers; Away if it does not answer, and its data is not known to be lost; DataLost if its volume was
    /// found empty, or is gone. None: an earlier Berth wrote this.
    pub state: Option<MemberState>,
    /// Bytes of its database, roughly: it changes with every write, and the status only when it has changed by a fifth.
    pub db_size: Option<i64>,
    /// Bytes of these that are in use, roughly; a defragmentation gives the rest back.
    pub db_size_in_use: Option<i64>,
    /// Bytes that its database may have. A full database raises the alarm NOSPACE and refuses writes.
    pub quota_backend_bytes: Option<i64>,
    /// Why it is not ready.
    pub message: Option<String>,
}

/// Whether what a member holds can be read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum MemberState {
    /// It answers.
    Answers,
    /// It does not answer, and its data is not known to be lost.
    #[default]
    Away,
    /// Its volume was found empty, or is gone.
    DataLost,
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_size_is_a_text_or_a_number_of_bytes() {
        let of = |size: serde_json::Value| serde_json::from_value::<Storage>(json!({"size": size})).map(|s| s.size);
        assert_eq!(of(json!("1.5Gi")).unwrap(), "1.5Gi");
        assert_eq!(of(json!(10_737_418_240_i64)).unwrap(), "10737418240");
        assert!(of(json!([])).is_err());
        assert_eq!(serde_json::from_value::<Storage>(json!({})).unwrap().size, "10Gi");
    }
}
