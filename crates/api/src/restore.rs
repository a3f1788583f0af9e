//! `EtcdRestore`: a backup goes back into the etcd that it is of.

use crate::backup::{BackupRef, StoreRef, described};
use crate::cel;
use crate::common::conditions_schema;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use kube_derive::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;
use serde_with::skip_serializing_none;

/// Puts a backup back into the etcd of a `Cluster`, or into an `EtcdCluster`, in its namespace. What was written since the backup is lost.
/// With `source.of` the backup of another etcd goes into a stand-alone `EtcdCluster`, to look into it. It is done once; for another one,
/// create another `EtcdRestore`.
#[skip_serializing_none]
#[derive(CustomResource, Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "berth.dev",
    version = "v1alpha1",
    kind = "EtcdRestore",
    namespaced,
    status = "EtcdRestoreStatus",
    derive = "PartialEq",
    derive = "Default",
    shortname = "etcdr",
    category = "berth",
    crates(kube_core = "::kube_core"),
    printcolumn(name = "Phase", type_ = "string", json_path = ".status.phase"),
    printcolumn(name = "Backup", type_ = "string", json_path = ".status.backup"),
    printcolumn(name = "Taken", type_ = "date", json_path = ".status.takenAt"),
    printcolumn(name = "Status", type_ = "string", json_path = ".status.conditions[?(@.type=='Ready')].message"),
    printcolumn(name = "Age", type_ = "date", json_path = ".metadata.creationTimestamp")
)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[schemars(extend("x-kubernetes-validations" = json!([
    cel::one_of("", &cel::OF),
    cel::immutable("clusterRef", "EtcdRestore"),
    cel::immutable("etcdClusterRef", "EtcdRestore"),
    {"rule": "self.source == oldSelf.source", "message": "source is immutable: create another EtcdRestore"},
    {"rule": "!has(self.source.of) || has(self.etcdClusterRef)", "message": "source.of: data of another etcd goes into a stand-alone EtcdCluster only; set etcdClusterRef"},
    {"rule": "!has(self.source.survivors) || !has(self.source.survivors.claimRef) || has(self.etcdClusterRef)", "message": "source.survivors.claimRef: only backups of a stand-alone EtcdCluster go to a volume; set etcdClusterRef, or store instead of claimRef"},
    {"rule": "!has(self.withoutMembers) || has(self.source.survivors)", "message": "withoutMembers goes with source.survivors"}
])))]
pub struct EtcdRestoreSpec {
    /// The `Cluster` whose etcd it is, in this namespace.
    pub cluster_ref: Option<BackupRef>,
    /// The stand-alone `EtcdCluster`, in this namespace.
    pub etcd_cluster_ref: Option<BackupRef>,
    /// Which backup.
    pub source: RestoreSource,
    /// etcd's cluster ID (`status.clusterId` of the `EtcdCluster`), as a sign that what its members hold may be lost. Required with
    /// `source.of`, and unless all that any member holds is kept, or every member's data is lost (`status.members[].state` of the
    /// `EtcdCluster`); it can be set later. Default: none.
    #[schemars(length(min = 1, max = 16), regex(pattern = r"^[0-9a-f]+$"))]
    pub confirm: Option<String>,
    /// Whether another backup is taken and verified first, in the same store, of the members that answer: `before-<name>`. Default true. Set
    /// it to false, also later, if they can give none.
    #[serde(default = "yes")]
    pub backup_first: bool,
    /// Members whose data is given up, by name, such as `etcd-1`: `source.survivors` does not wait for them. It can be set later. Default:
    /// none, so that each member whose data is not lost has to answer.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 9), inner(length(min = 1, max = 63)), extend("x-kubernetes-list-type" = "set"))]
    pub without_members: Vec<String>,
}

fn yes() -> bool {
    true
}

impl Default for EtcdRestoreSpec {
    fn default() -> Self {
        let (cluster_ref, etcd_cluster_ref, source) = (None, None, RestoreSource::default());
        Self { cluster_ref, etcd_cluster_ref, source, confirm: None, backup_first: true, without_members: vec![] }
    }
}

impl EtcdRestore {
    /// Whether it has restored something, or failed.
    pub fn has_ended(&self) -> bool {
        let phase = self.status.as_ref().and_then(|status| status.phase.as_deref());
        matches!(phase, Some(phase::RESTORED | phase::FAILED))
    }

    /// `status.conditions`.
    pub fn conditions(&self) -> &[Condition] {
        self.status.as_ref().map_or(&[], |status| &status.conditions)
    }
}

/// Which backup is restored.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[schemars(extend("x-kubernetes-validations" = json!([
    cel::one_of("source: ", &["backup", "latestBefore", "survivors", "key"]),
    {"rule": "!has(self.of) || !has(self.survivors)", "message": "source: of goes with backup, latestBefore and key"}
])))]
pub struct RestoreSource {
    /// Name of a verified `EtcdBackup` in this namespace.
    #[schemars(length(min = 1, max = 63), regex(pattern = r"^[a-z]([-a-z0-9]*[a-z0-9])?$"))]
    pub backup: Option<String>,
    /// The newest verified `EtcdBackup` of this etcd in this namespace whose snapshot was taken at this time or before.
    #[schemars(extend("maxLength" = 40))]
    pub latest_before: Option<Time>,
    /// What the members hold that are left of an etcd without a quorum. Each of them has to answer, unless `withoutMembers` names it. A backup
    /// of the furthest is taken and verified first: `survivors-<name>`.
    pub survivors: Option<Survivors>,
    /// A snapshot in a store that this namespace's backups were kept in, also if its `EtcdBackup` is gone.
    pub key: Option<StoredSnapshot>,
    /// The etcd that the backup is of, if it is another one than the `EtcdCluster` that it goes into. Default: the same.
    pub of: Option<BackupOf>,
}

/// A snapshot in a store.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[schemars(extend("x-kubernetes-validations" = json!([
    cel::one_of("key: ", &cel::KEPT)
])))]
#[schemars(transform = described([
    ("store", "The name of a store of the platform."),
    ("secretRef", "The Secret of type `berth.dev/object-store` of a store of this team's own."),
    ("claimRef", "The PersistentVolumeClaim of a volume with backups of stand-alone `EtcdCluster`s. It has the label `berth.dev/backup-store: \"true\"`."),
]))]
pub struct StoredSnapshot {
    /// The store.
    #[serde(flatten)]
    pub store: StoreRef,
    /// Key of the snapshot in the bucket, or its path on the volume, `<prefix>/<namespace>/<name>/<identity>/<time>-<revision>-<random>.db`. The namespace has to be this one. The
    /// manifest is beside it.
    #[schemars(length(min = 4, max = 1024), regex(pattern = r"^[-A-Za-z0-9._/]+[.]db$"))]
    pub key: String,
}

/// What a backup is of, in the namespace of the `EtcdRestore`. It need not exist any more.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[schemars(extend("x-kubernetes-validations" = json!([
    cel::one_of("of: ", &cel::OF)
])))]
pub struct BackupOf {
    /// A `Cluster`.
    pub cluster_ref: Option<BackupRef>,
    /// A stand-alone `EtcdCluster`.
    pub etcd_cluster_ref: Option<BackupRef>,
}

/// Members that are left.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[schemars(extend("x-kubernetes-validations" = json!([
    cel::one_of("survivors: ", &cel::KEPT)
])))]
#[schemars(transform = described([
    ("store", "Where the backup of them is kept: the name of a store of the platform."),
    ("secretRef", "Where the backup of them is kept, if that is a store of this team's own: a Secret of type `berth.dev/object-store`."),
    ("claimRef", "Where the backup of them is kept, if that is a volume: a PersistentVolumeClaim with the label `berth.dev/backup-store: \"true\"`. Only with\n`etcdClusterRef`."),
]))]
pub struct Survivors {
    /// The store.
    #[serde(flatten)]
    pub store: StoreRef,
}

/// What became of a restore.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct EtcdRestoreStatus {
    /// Generation of the spec that this status describes.
    pub observed_generation: Option<i64>,
    /// Waiting (for what the conditions say), Checking, Checked, Stopping, Restoring, Starting, Restored, Failed or Deleting, for people; use
    /// conditions in scripts.
    pub phase: Option<String>,
    /// The `EtcdBackup`.
    pub backup: Option<String>,
    /// When its snapshot was taken: what was written later is lost.
    pub taken_at: Option<Time>,
    /// When the backup was found fit: until then nothing is touched.
    pub checked_at: Option<Time>,
    /// What the manifest says that is beside `spec.source.key`.
    pub snapshot: Option<FoundSnapshot>,
    /// Epoch of etcd's data that begins with it.
    pub epoch: Option<i64>,
    /// When etcd served what was restored.
    pub restored_at: Option<Time>,
    /// What etcd held before stays until then at least on the volumes of the members that had it, as `epoch-<number>` beside the data. It is
    /// deleted when they start after that (`keepOldData`).
    pub old_data_until: Option<Time>,
    /// Ready, Degraded.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "conditions_schema")]
    pub conditions: Vec<Condition>,
}

/// What a manifest says of its snapshot.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct FoundSnapshot {
    /// SHA-256 of the snapshot in hexadecimal.
    pub sha256: String,
    /// UID of the `EtcdCluster` that the data was first made for.
    pub identity: String,
    /// Epoch of the data.
    pub epoch: i64,
    /// etcd's version.
    pub etcd_version: String,
    /// Kubernetes version of the tenant.
    pub kubernetes_version: Option<String>,
    /// SHA-256 of the tenant's EncryptionConfiguration.
    pub encryption_key: Option<String>,
}

/// What an `EtcdRestore` asks of an `EtcdCluster`, as JSON in its annotation `berth.dev/etcd-restore`. It stays there until the restore is
/// done or given up.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RestoreRequest {
    /// Namespace of the `EtcdRestore`.
    pub namespace: String,
    /// Its name.
    pub name: String,
    /// Its UID.
    pub uid: String,
    /// The epoch that is on the volume of the first member by now.
    pub restored: Option<i64>,
    /// Berth created it by itself, and nobody confirmed it: an etcd that answers again is not stopped for it.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub unconfirmed: bool,
    /// The epoch of data of another etcd: the new epoch is a later one than this, so that revisions stay those of their epoch.
    pub after: Option<i64>,
}

/// Values of [`EtcdRestoreStatus::phase`].
pub mod phase {
    /// Something is missing.
    pub const WAITING: &str = "Waiting";
    /// A Job finds out whether the backup can be restored.
    pub const CHECKING: &str = "Checking";
    /// It can be, and nothing has stopped yet.
    pub const CHECKED: &str = "Checked";
    /// Clients and etcd stop.
    pub const STOPPING: &str = "Stopping";
    /// A Job puts it onto the volume.
    pub const RESTORING: &str = "Restoring";
    /// etcd starts with it.
    pub const STARTING: &str = "Starting";
    /// etcd serves it. The end.
    pub const RESTORED: &str = "Restored";
    /// It failed. The end.
    pub const FAILED: &str = "Failed";
    /// It is being deleted.
    pub const DELETING: &str = "Deleting";
}
