//! `AppInstallation`: an app in one tenant.

use super::drift::{CheckStatus, DriftStatus};
use super::release::{AppRelease, OnRemoval};
use crate::common::conditions_schema;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use kube_derive::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_with::skip_serializing_none;

/// One App in one `Cluster`, in that `Cluster`'s namespace. Berth makes and deletes it; change the App instead.
#[skip_serializing_none]
#[derive(CustomResource, Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "berth.dev",
    version = "v1alpha1",
    kind = "AppInstallation",
    namespaced,
    status = "AppInstallationStatus",
    derive = "PartialEq",
    derive = "Default",
    shortname = "appi",
    category = "berth",
    crates(kube_core = "::kube_core"),
    printcolumn(name = "App", type_ = "string", json_path = ".spec.app.name"),
    printcolumn(name = "Cluster", type_ = "string", json_path = ".spec.cluster.name"),
    printcolumn(name = "Phase", type_ = "string", json_path = ".status.phase"),
    printcolumn(name = "Revision", type_ = "integer", json_path = ".status.release.revision"),
    printcolumn(name = "Version", type_ = "string", json_path = ".status.release.version"),
    printcolumn(name = "Drift", type_ = "integer", json_path = ".status.drift.count"),
    printcolumn(
        name = "Status",
        type_ = "string",
        json_path = ".status.conditions[?(@.type=='Ready')].message",
        priority = 1
    ),
    printcolumn(name = "Age", type_ = "date", json_path = ".metadata.creationTimestamp")
)]
#[serde(rename_all = "camelCase")]
pub struct AppInstallationSpec {
    /// The App.
    pub app: InstalledApp,
    /// The `Cluster`, in this namespace.
    pub cluster: InstalledIn,
    /// What is to be there, as the App said it when the turn of this `Cluster` came.
    pub release: AppRelease,
    /// What was in the ConfigMaps that it names by then.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 8), extend("x-kubernetes-list-type" = "atomic"))]
    pub config_maps: Vec<ReadValues>,
    /// Which values were in the Secrets that it names by then: a Job begins with no others.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 8), extend("x-kubernetes-list-type" = "atomic"))]
    pub secrets: Vec<ReadSecret>,
    /// Digest of that, as it was written.
    #[schemars(length(max = 63))]
    pub digest: String,
}

/// Values in a key of a ConfigMap, as they were read.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ReadValues {
    /// Name of the ConfigMap.
    #[schemars(length(max = 253))]
    pub name: String,
    /// The key in it.
    #[schemars(length(max = 253))]
    pub key: String,
    /// The values, as JSON. It is a text, since an API server leaves nulls out of an object.
    #[schemars(length(max = 65536))]
    pub values: String,
}

/// A key of a Secret with values, as it was looked at.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ReadSecret {
    /// Name of the Secret.
    #[schemars(length(max = 253))]
    pub name: String,
    /// The key in it.
    #[schemars(length(max = 253))]
    pub key: String,
    /// Digest of the values, and of the Secret's UID, without which nobody can try what it is of.
    #[schemars(length(max = 64))]
    pub digest: String,
}

/// An App.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct InstalledApp {
    /// Its namespace.
    #[schemars(length(max = 63))]
    pub namespace: String,
    /// Its name.
    #[schemars(length(max = 63))]
    pub name: String,
    /// Its UID.
    #[schemars(length(max = 63))]
    pub uid: String,
}

/// A `Cluster`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct InstalledIn {
    /// Its name.
    #[schemars(length(max = 63))]
    pub name: String,
    /// Its UID: another one of that name is another tenant.
    #[schemars(length(max = 63))]
    pub uid: String,
}

/// What became of it.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct AppInstallationStatus {
    /// Generation of the spec that this status describes.
    pub observed_generation: Option<i64>,
    /// Waiting (for what the conditions say), Running, Deployed, Failed or Deleting, for people; use conditions in scripts.
    pub phase: Option<String>,
    /// Digest of what the last Job was asked for, with all that it was made from. Another one is a reason for another Job.
    pub asked: Option<String>,
    /// Digest of the registry's login and CA that the last Job was given. With others one that failed is tried again at once.
    pub fetched_with: Option<String>,
    /// The release, as it was when a Job last said so.
    pub release: Option<ReleaseStatus>,
    /// Tries that failed in a row.
    pub failures: Option<i64>,
    /// When the last of them failed.
    pub failed_at: Option<Time>,
    /// Why, in the words of Helm or of `berth-apps`.
    pub message: Option<String>,
    /// It failed since a release of that name is there which is not of this App.
    pub foreign: Option<bool>,
    /// What the App says of its removal (`spec.onRemoval`), as far as it is known: for the case that the App is gone first. None: Uninstall.
    pub on_removal: Option<OnRemoval>,
    /// UID of the Job whose result this is. It is deleted then.
    pub job: Option<String>,
    /// What was found when drift was looked for last.
    pub drift: Option<DriftStatus>,
    /// When drift is looked for next, if that is about to begin.
    pub check: Option<CheckStatus>,
    /// Ready, Degraded, Drifted.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "conditions_schema")]
    pub conditions: Vec<Condition>,
}

/// A release of Helm in a tenant.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ReleaseStatus {
    /// Its namespace.
    pub namespace: String,
    /// Its name.
    pub name: String,
    /// `status.asked` as it was then. Empty from when something else is asked for until that is deployed, and likewise where somebody uninstalled or
    /// upgraded the release by hand and `spec.release.drift.mode` is Repair: what is there is not known to be what was asked for.
    pub asked: String,
    /// Helm's revision.
    pub revision: i64,
    /// Name of the chart.
    pub chart: String,
    /// Version of the chart.
    pub version: String,
    /// Version of what it installs, as the chart says.
    pub app_version: Option<String>,
    /// SHA-256 of the chart's archive in hexadecimal.
    pub chart_digest: String,
    /// SHA-256 of all values in hexadecimal; of those of Secrets by the digests in `spec.secrets`.
    pub values_digest: String,
    /// SHA-256 of what Helm records of this revision, in hexadecimal: its manifest and its hooks. The next upgrade, repair or uninstallation goes by the revision
    /// that has it, since others may write Helm's record in the tenant. None: an earlier Berth deployed it, and the release is known by its labels.
    pub manifest_digest: Option<String>,
    /// Epoch of the tenant's etcd (`status.epoch` of its `EtcdCluster`) as it was deployed: after a restore Helm's record is an older one, and `manifestDigest`
    /// does not count.
    pub epoch: Option<i64>,
    /// Since when it is so.
    pub since: Option<Time>,
}

/// Values of [`AppInstallationStatus::phase`].
pub mod phase {
    /// Something is missing.
    pub const WAITING: &str = "Waiting";
    /// Its Job is there.
    pub const RUNNING: &str = "Running";
    /// It is as the spec says.
    pub const DEPLOYED: &str = "Deployed";
    /// The last try failed.
    pub const FAILED: &str = "Failed";
    /// It is being uninstalled.
    pub const DELETING: &str = "Deleting";
}
