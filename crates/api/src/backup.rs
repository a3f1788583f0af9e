//! `EtcdBackup`: a snapshot of an etcd in an object store or on a volume, proven by restoring it.

use crate::cel;
use crate::common::conditions_schema;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use kube_derive::CustomResource;
use schemars::{JsonSchema, Schema};
use serde::{Deserialize, Serialize};
use serde_json::json;
use serde_with::skip_serializing_none;

pub use berth_contract::backup::*;

/// One backup of a `Cluster`'s etcd, or of an `EtcdCluster`, in its namespace: a snapshot in an object store, or on a volume, that was read
/// back, restored and compared. It is taken once; for another one, create another `EtcdBackup`.
#[skip_serializing_none]
#[derive(CustomResource, Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "berth.dev",
    version = "v1alpha1",
    kind = "EtcdBackup",
    namespaced,
    status = "EtcdBackupStatus",
    derive = "PartialEq",
    derive = "Default",
    shortname = "etcdb",
    category = "berth",
    crates(kube_core = "::kube_core"),
    printcolumn(name = "Phase", type_ = "string", json_path = ".status.phase"),
    printcolumn(name = "Revision", type_ = "integer", json_path = ".status.revision"),
    printcolumn(name = "Size", type_ = "integer", json_path = ".status.size"),
    printcolumn(name = "Verified", type_ = "date", json_path = ".status.verifiedAt"),
    printcolumn(
        name = "Status",
        type_ = "string",
        json_path = ".status.conditions[?(@.type=='Ready')].message",
        priority = 1
    ),
    printcolumn(name = "Age", type_ = "date", json_path = ".metadata.creationTimestamp")
)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[schemars(extend("x-kubernetes-validations" = json!([
    cel::one_of("", &cel::OF),
    cel::one_of("", &cel::KEPT),
    {"rule": "!has(self.claimRef) || has(self.etcdClusterRef)", "message": "claimRef: only backups of a stand-alone EtcdCluster go to a volume; set etcdClusterRef, or store instead of claimRef"},
    cel::immutable("clusterRef", "EtcdBackup"),
    cel::immutable("etcdClusterRef", "EtcdBackup"),
    {"rule": "(has(self.withoutQuorum) && self.withoutQuorum) == (has(oldSelf.withoutQuorum) && oldSelf.withoutQuorum)", "message": "withoutQuorum is immutable: create another EtcdBackup"},
    cel::immutable("members", "EtcdBackup"),
    {"rule": "!has(self.members) || (has(self.withoutQuorum) && self.withoutQuorum)", "message": "members goes with withoutQuorum: true"},
    cel::immutable("store", "EtcdBackup"),
    cel::immutable("secretRef", "EtcdBackup"),
    cel::immutable("claimRef", "EtcdBackup")
])))]
pub struct EtcdBackupSpec {
    /// The `Cluster` whose etcd it is, in this namespace.
    pub cluster_ref: Option<BackupRef>,
    /// The stand-alone `EtcdCluster`, in this namespace. It needs a client `backup` in its `spec.clients`.
    pub etcd_cluster_ref: Option<BackupRef>,
    /// Where it is kept.
    #[serde(flatten)]
    pub store: StoreRef,
    /// Whether it is also taken of members that have no quorum: of what they hold, which may lack what was acknowledged last. Members of an
    /// etcd that serves are preferred. Default false.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub without_quorum: bool,
    /// With `withoutQuorum`: members each of which has to answer, by name, such as `etcd-1`, since any of them may hold what was acknowledged
    /// last. The snapshot is of the furthest. Default: whoever answers.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 9), inner(length(min = 1, max = 63)), extend("x-kubernetes-list-type" = "atomic"))]
    pub members: Vec<String>,
    /// What happens to the snapshot in the store when the EtcdBackup is deleted. Retain leaves it there. Delete deletes it, if a newer
    /// backup of the same data was proven and is kept; the last one always stays. Default Retain.
    #[serde(default)]
    pub deletion_policy: DeletionPolicy,
}

impl EtcdBackup {
    /// `status.phase`.
    pub fn phase(&self) -> Option<&str> {
        self.status.as_ref()?.phase.as_deref()
    }

    /// Whether it is proven, or has failed.
    pub fn has_ended(&self) -> bool {
        matches!(self.phase(), Some(phase::VERIFIED | phase::FAILED))
    }

    /// `status.conditions`.
    pub fn conditions(&self) -> &[Condition] {
        self.status.as_ref().map_or(&[], |status| &status.conditions)
    }
}

/// What is backed up, by name, in the namespace of the object that refers to it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct BackupRef {
    /// Name.
    #[schemars(length(min = 1, max = 63), regex(pattern = r"^[a-z]([-a-z0-9]*[a-z0-9])?$"))]
    pub name: String,
}

/// Where backups are kept: one of the three is set.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct StoreRef {
    /// Where it is kept: the name of a store of the platform (chart value `backups.stores`).
    #[serde(default, rename = "store", skip_serializing_if = "String::is_empty")]
    #[schemars(length(min = 1, max = 63), regex(pattern = r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?$"))]
    pub name: String,
    /// Where it is kept, if the store is this team's own: a Secret of type `berth.dev/object-store` in this namespace. Its type says that Berth
    /// may read it. Its keys are `endpoint`, which the platform team has to allow (chart value `writers.backups.endpoints`), `bucket`,
    /// `accessKeyID`, `secretAccessKey`, with `https` also `ca.crt`, and, if they are wanted, `region`, `prefix`, `pathStyle`, `sessionToken`,
    /// `serverSideEncryption` and `kmsKeyID`.
    pub secret_ref: Option<StoreSecret>,
    /// Where it is kept, if that is a volume: a PersistentVolumeClaim in this namespace with the label `berth.dev/backup-store: "true"`, by which
    /// its owner says that Berth may mount it and write to it. Only with `etcdClusterRef`. It has to be a file system that a pod can write to.
    pub claim_ref: Option<StoreClaim>,
}

/// Describes fields of a [`StoreRef`] as the object does that has them.
pub(crate) fn described(fields: [(&'static str, &'static str); 3]) -> impl FnMut(&mut Schema) {
    move |schema| {
        for (field, text) in fields {
            if let Some(property) = schema.pointer_mut(&format!("/properties/{field}")) {
                property["description"] = text.into();
            }
        }
    }
}

/// Type of a Secret with a team's own store: by it its owner says that Berth may read it.
pub const STORE_SECRET: &str = "berth.dev/object-store";

/// A Secret of type `berth.dev/object-store`, in the namespace of the object that refers to it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct StoreSecret {
    /// Name of the Secret.
    #[schemars(length(min = 1, max = 253), regex(pattern = r"^[a-z0-9]([-a-z0-9.]*[a-z0-9])?$"))]
    pub name: String,
}

/// A PersistentVolumeClaim with the label `berth.dev/backup-store: "true"`, in the namespace of the object that refers to it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct StoreClaim {
    /// Name of the claim.
    #[schemars(length(min = 1, max = 253), regex(pattern = r"^[a-z0-9]([-a-z0-9.]*[a-z0-9])?$"))]
    pub name: String,
}

/// What happens to the snapshot in the store.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum DeletionPolicy {
    /// It stays.
    #[default]
    Retain,
    /// It is deleted, if a newer one was proven.
    Delete,
}

/// What became of a backup.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct EtcdBackupStatus {
    /// Generation of the spec that this status describes.
    pub observed_generation: Option<i64>,
    /// Waiting (for what the conditions say), Queued, Running, Verified, Failed (also if it was proven and is damaged by now) or Deleting, for
    /// people; use conditions in scripts.
    pub phase: Option<String>,
    /// Key of the snapshot in the bucket, or its path on the volume. The manifest is beside it, with `.json` instead of `.db`.
    pub key: Option<String>,
    /// SHA-256 of the snapshot in hexadecimal.
    pub sha256: Option<String>,
    /// Size of the snapshot in bytes.
    pub size: Option<i64>,
    /// etcd's revision.
    pub revision: Option<i64>,
    /// Keys at that revision.
    pub keys: Option<i64>,
    /// etcd's cluster ID in hexadecimal.
    pub cluster_id: Option<String>,
    /// UID of the `EtcdCluster` that the data was first made for.
    pub identity: Option<String>,
    /// Epoch of the data.
    pub epoch: Option<i64>,
    /// etcd's version.
    pub etcd_version: Option<String>,
    /// Kubernetes version of the tenant.
    pub kubernetes_version: Option<String>,
    /// SHA-256 of the tenant's EncryptionConfiguration, without which its Secrets in the snapshot cannot be read.
    pub encryption_key: Option<String>,
    /// When the snapshot was taken, by the clock of the Job's node, which may be wrong. Which of several backups is the newest is told by
    /// `epoch` and `revision`.
    pub taken_at: Option<Time>,
    /// When it was proven: read back from the store, restored, and compared with the etcd that it is of.
    pub verified_at: Option<Time>,
    /// The older backup of its schedule that its Job read back, and what came of it.
    pub read_back: Option<ReadBackStatus>,
    /// What was found since: what the store gives back is another snapshot. It is not restored, none is deleted for it, and Berth deletes
    /// neither it nor its snapshot.
    pub damaged: Option<Damage>,
    /// While it is being deleted: the store keeps the snapshot (object lock, retention), and refuses its deletion.
    pub kept: Option<KeptStatus>,
    /// Ready, Degraded, Verified, Damaged.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "conditions_schema")]
    pub conditions: Vec<Condition>,
}

/// A backup that was read back from the store, some time after it was proven.
#[skip_serializing_none]
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ReadBackStatus {
    /// Name of its `EtcdBackup`.
    pub name: String,
    /// When this was recorded.
    pub at: Time,
    /// Why it failed. None: the store gives back what was proven.
    pub message: Option<String>,
    /// How often in a row it failed. Only in the status of a schedule.
    pub failures: Option<i64>,
}

/// A snapshot that the store keeps, whoever deletes it.
#[skip_serializing_none]
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct KeptStatus {
    /// When its deletion was refused.
    pub since: Time,
    /// Until when the store keeps it; then Berth deletes it. None: the store does not say. If that is not known, or more than 100 days away, the
    /// `EtcdBackup` goes after an hour, and the snapshot stays.
    pub until: Option<Time>,
    /// What the store says.
    pub message: String,
}

/// What was found of a backup that had been proven.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Damage {
    /// When.
    pub at: Time,
    /// What read it, such as `EtcdRestore back-to-monday`.
    pub by: String,
    /// What is wrong.
    pub message: String,
}

/// Values of [`EtcdBackupStatus::phase`].
pub mod phase {
    /// Something is missing.
    pub const WAITING: &str = "Waiting";
    /// Others are first.
    pub const QUEUED: &str = "Queued";
    /// Its Job is there.
    pub const RUNNING: &str = "Running";
    /// It is proven. The end.
    pub const VERIFIED: &str = "Verified";
    /// It failed, or was found damaged later. The end.
    pub const FAILED: &str = "Failed";
    /// It is being deleted.
    pub const DELETING: &str = "Deleting";
}
