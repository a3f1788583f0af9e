//! `EtcdBackupSchedule`: backups at times, and how many are kept.

use crate::backup::{BackupRef, ReadBackStatus, StoreClaim, StoreSecret};
use crate::cel;
use crate::common::conditions_schema;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use kube_derive::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;

/// Creates `EtcdBackup`s at times, and deletes those that are not to be kept, with their snapshots in the store. Nothing is deleted
/// before a newer backup is proven.
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
    crates(
        kube_core = "kube_core",
        k8s_openapi = "k8s_openapi",
        schemars = "schemars",
        serde = "serde",
        serde_json = "serde_json"
    ),
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
pub struct EtcdBackupScheduleSpec {
    /// The `Cluster` whose etcd it is, in this namespace.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cluster_ref: Option<BackupRef>,
    /// The stand-alone `EtcdCluster`, in this namespace. It needs a client `backup` in its `spec.clients`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub etcd_cluster_ref: Option<BackupRef>,
    /// Where backups are kept: the name of a store of the platform (chart value `backups.stores`).
    #[serde(default, skip_serializing_if = "String::is_empty")]
    #[schemars(length(min = 1, max = 63), regex(pattern = r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?$"))]
    pub store: String,
    /// Where backups are kept, if the store is this team's own: a Secret of type `berth.dev/object-store` in this namespace. Its type says that Berth
    /// may read it. Its keys are `endpoint`, which the platform team has to allow (chart value `writers.backups.endpoints`), `bucket`,
    /// `accessKeyID`, `secretAccessKey`, with `https` also `ca.crt`, and, if they are wanted, `region`, `prefix` and `pathStyle`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub secret_ref: Option<StoreSecret>,
    /// Where backups are kept, if that is a volume: a PersistentVolumeClaim in this namespace with the label `berth.dev/backup-store: "true"`, by
    /// which its owner says that Berth may mount it and write to it. Only with `etcdClusterRef`. It has to be a file system that a pod can write
    /// to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub claim_ref: Option<StoreClaim>,
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
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[schemars(extend("x-kubernetes-validations" = json!([
    {"rule": "self.last + self.hourly + self.daily + self.weekly > 0", "message": "keep: with nothing to keep no backup is of use: set last, hourly, daily or weekly"}
])))]
pub struct Keep {
    /// The last ones, whatever their age. Default 3; 0 for none.
    #[serde(default = "three")]
    #[schemars(range(min = 0, max = 1000))]
    pub last: u32,
    /// The newest of each of so many hours that have one. Default 0.
    #[serde(default)]
    #[schemars(range(min = 0, max = 1000))]
    pub hourly: u32,
    /// The newest of each of so many days that have one. Default 7, also where only another field is set; 0 for none.
    #[serde(default = "seven")]
    #[schemars(range(min = 0, max = 1000))]
    pub daily: u32,
    /// The newest of each of so many weeks, from Monday, that have one. Default 4, also where only another field is set; 0 for none.
    #[serde(default = "four")]
    #[schemars(range(min = 0, max = 1000))]
    pub weekly: u32,
}

fn three() -> u32 {
    3
}

fn seven() -> u32 {
    7
}

fn four() -> u32 {
    4
}

impl Default for Keep {
    fn default() -> Self {
        Self { last: three(), hourly: 0, daily: seven(), weekly: four() }
    }
}

/// How a schedule goes.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct EtcdBackupScheduleStatus {
    /// Generation of the spec that this status describes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    /// The time that the last backup was created for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_schedule_time: Option<Time>,
    /// When the snapshot of the newest proven backup was taken: what is younger is lost with the etcd.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_verified_time: Option<Time>,
    /// Name of that EtcdBackup.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_verified: Option<String>,
    /// Whose data is in it: UID of the `EtcdCluster` that it was first made for. One that was created anew under the same name has no backup
    /// yet.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_verified_identity: Option<String>,
    /// Which proven backups are kept, such as `2 last, 7 daily, 4 weekly`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub keeps: Option<String>,
    /// The backup that the Job of the next one reads back from the store, to see whether it is still what was proven.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next_read_back: Option<String>,
    /// When a backup was read back last.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_read_back_time: Option<Time>,
    /// What came of it when they were read back last: of backups that are there, at most 100.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub read_back: Vec<ReadBackStatus>,
    /// Ready, Degraded.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "conditions_schema")]
    pub conditions: Vec<Condition>,
}
