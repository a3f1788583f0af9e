//! `EtcdBackupSchedule`: backups at times, and how many are kept.

use crate::backup::{BackupRef, ReadBackStatus, StoreRef, described};
use crate::cel;
use crate::common::conditions_schema;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use kube_derive::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;
use serde_with::skip_serializing_none;

/// Creates `EtcdBackup`s at times, and deletes those that are not to be kept, with their snapshots in the store. Nothing is deleted
/// before a newer backup is proven.
#[skip_serializing_none]
#[derive(CustomResource, Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "berth.dev",
    version = "v1alpha1",
    kind = "EtcdBackupSchedule",
    namespaced,
    status = "EtcdBackupScheduleStatus",
    derive = "PartialEq",
    derive = "Default",
    shortname = "etcdbs",
    category = "berth",
    crates(kube_core = "::kube_core"),
    printcolumn(name = "Schedule", type_ = "string", json_path = ".spec.schedule"),
    printcolumn(name = "Keeps", type_ = "string", json_path = ".status.keeps"),
    printcolumn(name = "Suspend", type_ = "boolean", json_path = ".spec.suspend"),
    printcolumn(name = "Last proven", type_ = "date", json_path = ".status.lastVerifiedTime"),
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
#[schemars(extend("x-kubernetes-validations" = json!([
    cel::one_of("", &cel::OF),
    cel::one_of("", &cel::KEPT),
    {"rule": "!has(self.claimRef) || has(self.etcdClusterRef)", "message": "claimRef: only backups of a stand-alone EtcdCluster go to a volume; set etcdClusterRef, or store instead of claimRef"}
])))]
#[schemars(transform = described([
    ("store", "Where backups are kept: the name of a store of the platform (chart value `backups.stores`)."),
    ("secretRef", "Where backups are kept, if the store is this team's own: a Secret of type `berth.dev/object-store` in this namespace. Its type says that Berth\nmay read it. Its keys are `endpoint`, which the platform team has to allow (chart value `writers.backups.endpoints`), `bucket`,\n`accessKeyID`, `secretAccessKey`, with `https` also `ca.crt`, and, if they are wanted, `region`, `prefix`, `pathStyle`, `sessionToken`,\n`serverSideEncryption` and `kmsKeyID`."),
    ("claimRef", "Where backups are kept, if that is a volume: a PersistentVolumeClaim in this namespace with the label `berth.dev/backup-store: \"true\"`, by\nwhich its owner says that Berth may mount it and write to it. Only with `etcdClusterRef`. It has to be a file system that a pod can write\nto."),
]))]
pub struct EtcdBackupScheduleSpec {
    /// The `Cluster` whose etcd it is, in this namespace.
    pub cluster_ref: Option<BackupRef>,
    /// The stand-alone `EtcdCluster`, in this namespace. It needs a client `backup` in its `spec.clients`.
    pub etcd_cluster_ref: Option<BackupRef>,
    /// The store.
    #[serde(flatten)]
    pub store: StoreRef,
    /// When, in cron's five fields (minute, hour, day of the month, month, day of the week), such as `0 3 * * *`. Backups of many
    /// schedules are spread over the first minutes.
    #[schemars(length(min = 9, max = 100))]
    pub schedule: String,
    /// Time zone of the schedule and of days and weeks in `keep`, such as `Europe/Berlin`. Default UTC.
    #[serde(default = "utc")]
    #[schemars(length(min = 1, max = 60))]
    pub time_zone: String,
    /// Which proven backups are kept. A field that is left out has its own default, also where others are set: `{last: 2}` keeps seven daily
    /// and four weekly ones, too. Set 0 for none of a kind.
    #[serde(default)]
    pub keep: Keep,
    /// True: no more are created, and none is deleted. Default false.
    #[serde(default)]
    pub suspend: bool,
}

fn utc() -> String {
    "UTC".into()
}

/// Which proven backups are kept: those that one of these asks for. The newest always is. Each field has its own default.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default, deny_unknown_fields)]
#[schemars(extend("x-kubernetes-validations" = json!([
    {"rule": "self.last + self.hourly + self.daily + self.weekly > 0", "message": "keep: with nothing to keep no backup is of use: set last, hourly, daily or weekly"}
])))]
pub struct Keep {
    /// The last ones, whatever their age. Default 3; 0 for none.
    #[schemars(range(min = 0, max = 1000))]
    pub last: u32,
    /// The newest of each of so many hours that have one. Default 0.
    #[schemars(range(min = 0, max = 1000))]
    pub hourly: u32,
    /// The newest of each of so many days that have one. Default 7, also where only another field is set; 0 for none.
    #[schemars(range(min = 0, max = 1000))]
    pub daily: u32,
    /// The newest of each of so many weeks, from Monday, that have one. Default 4, also where only another field is set; 0 for none.
    #[schemars(range(min = 0, max = 1000))]
    pub weekly: u32,
}

impl Default for Keep {
    fn default() -> Self {
        Self { last: 3, hourly: 0, daily: 7, weekly: 4 }
    }
}

/// How a schedule goes.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct EtcdBackupScheduleStatus {
    /// Generation of the spec that this status describes.
    pub observed_generation: Option<i64>,
    /// The time that the last backup was created for.
    pub last_schedule_time: Option<Time>,
    /// When the snapshot of the newest proven backup was taken: what is younger is lost with the etcd.
    pub last_verified_time: Option<Time>,
    /// Name of that EtcdBackup.
    pub last_verified: Option<String>,
    /// Whose data is in it: UID of the `EtcdCluster` that it was first made for. One that was created anew under the same name has no backup
    /// yet.
    pub last_verified_identity: Option<String>,
    /// Which proven backups are kept, such as `2 last, 7 daily, 4 weekly`.
    pub keeps: Option<String>,
    /// The backup that the Job of the next one reads back from the store, to see whether it is still what was proven.
    pub next_read_back: Option<String>,
    /// When a backup was read back last.
    pub last_read_back_time: Option<Time>,
    /// What came of it when they were read back last: of backups that are there, at most 100.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub read_back: Vec<ReadBackStatus>,
    /// Ready, Degraded.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "conditions_schema")]
    pub conditions: Vec<Condition>,
}
