//! `App`: a Helm chart for the tenants that a selector finds. `AppInstallation`: that chart in one of them.

mod drift;

use crate::cel;
use crate::common::conditions_schema;
use crate::selector::{ClusterSelector, NamedCluster};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use kube_derive::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};
use serde_with::skip_serializing_none;

pub use drift::{AppDrift, CheckStatus, Drift, DriftIgnore, DriftMode, DriftStatus, DriftedObject};

/// Type of a Secret with values, or with the login or the CAs of a registry: by it its owner says that Berth may read it.
pub const APP_SECRET: &str = "berth.dev/app";

/// What there is instead of another namespace or name of the release.
const ANOTHER: &str = "App, as docs/apps.md says under Stop managing it, or rename it";

/// A Helm chart in `Cluster`s: in those of its namespace, or in the operator's namespace in all. Berth makes an `AppInstallation` for each, and
/// a Job beside that tenant's control plane installs, upgrades or uninstalls it. Where charts of Apps in teams' namespaces may come from is for
/// the platform team to say (chart value `writers.apps.sources`).
#[skip_serializing_none]
#[derive(CustomResource, Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "berth.dev",
    version = "v1alpha1",
    kind = "App",
    namespaced,
    status = "AppStatus",
    derive = "PartialEq",
    derive = "Default",
    category = "berth",
    crates(kube_core = "::kube_core"),
    printcolumn(name = "Clusters", type_ = "integer", json_path = ".status.selected"),
    printcolumn(name = "Deployed", type_ = "integer", json_path = ".status.deployed"),
    printcolumn(name = "Failed", type_ = "integer", json_path = ".status.failed"),
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
    cel::one_of("", &["clusterSelector", "clusterRefs"]),
    cel::immutable("namespace", ANOTHER),
    cel::immutable("releaseName", ANOTHER),
    {"rule": "!has(self.onFailure) || self.onFailure != 'Rollback' || (has(self.wait) && self.wait)", "message": "onFailure: Rollback goes with wait: true, since without it nothing that comes later counts as a failure"}
])))]
pub struct AppSpec {
    /// The `Cluster`s, by their labels. An empty selector is all of them. One that fits no more loses the app (`onRemoval`). If more than `maxConcurrent`
    /// would at once, that waits until the annotation `berth.dev/confirm-removal` of this App has what `Ready` says confirms it.
    pub cluster_selector: Option<ClusterSelector>,
    /// The `Cluster`s, by name.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(min = 1, max = 256), extend("x-kubernetes-list-type" = "atomic"))]
    pub cluster_refs: Vec<NamedCluster>,
    /// Apps of this namespace that come first: a `Cluster` gets this one, and each change of it, once it has those as they say. One that is not for
    /// that `Cluster` holds nobody up.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(min = 1, max = 16), extend("x-kubernetes-list-type" = "atomic"))]
    pub after: Vec<OtherApp>,
    /// Waves, in their order: a change gets to the `Cluster`s of one once all of those before it are through, which means that each of their
    /// `Cluster`s has it as the spec says, or sleeps, is paused or does not answer. One where it has failed and that does not answer is not through. A
    /// `Cluster` is in the first one that fits it. Those that
    /// fit none come last, as one more. A `Cluster` whose tenant is
    /// younger than the App (`status.since`), and does not have it yet, waits for no wave. Default: all at once.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(min = 1, max = 8), extend("x-kubernetes-list-type" = "atomic"))]
    pub waves: Vec<AppWave>,
    /// Whether the `Cluster`s have to have it: one in which it was never deployed, or failed, is not `Ready`, and condition `AppsReady` of that
    /// `Cluster` says why. Nothing else of the `Cluster` waits for it. Default false.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub required: bool,
    /// What becomes of the release in a `Cluster` that is not selected any more, and in all once this App is deleted. Uninstall: a Job uninstalls it. Keep: it
    /// stays as it is, and nobody looks after it; an App of the same name takes it up again, and any other with `adopt`. It counts at once, and as it
    /// is when the `Cluster` loses the App. Default Uninstall.
    #[serde(default, skip_serializing_if = "OnRemoval::is_uninstall")]
    pub on_removal: OnRemoval,
    /// What each of them gets.
    #[serde(flatten)]
    pub release: AppRelease,
    /// How many `Cluster`s get a change at once. Default 10.
    #[serde(default = "ten", skip_serializing_if = "is_ten")]
    #[schemars(range(min = 1, max = 200))]
    pub max_concurrent: i32,
    /// Once so many `Cluster`s have failed at the newest spec, no other one gets it, until the spec changes or one of them succeeds. One that sleeps or is
    /// paused does not count, nor one that has a release of that name which is somebody else's. Default 1.
    #[serde(default = "one", skip_serializing_if = "is_one")]
    #[schemars(range(min = 1, max = 10000))]
    pub max_failed: i32,
}

/// Some of the `Cluster`s that an App is for.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct AppWave {
    /// Its name, for messages.
    #[schemars(length(min = 1, max = 40), regex(pattern = r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?$"))]
    pub name: Option<String>,
    /// Their labels. An empty selector fits all.
    pub cluster_selector: ClusterSelector,
}

/// An App of the same namespace.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct OtherApp {
    /// Its name.
    #[schemars(length(min = 1, max = 40), regex(pattern = r"^[a-z]([-a-z0-9]*[a-z0-9])?$"))]
    pub name: String,
}

/// A chart, and how it is installed.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct AppRelease {
    /// The chart.
    pub chart: AppChart,
    /// Values of the chart, at most 64 KiB. They count more than all others. They are no secret.
    #[serde(default, skip_serializing_if = "Map::is_empty")]
    #[schemars(schema_with = "values_schema")]
    pub values: Map<String, Value>,
    /// Values that differ between tenants: text with `{{ … }}` that is rendered for each `Cluster` and has to be YAML then, such as
    /// `k8sServiceHost: {{ cluster.endpoint.host }}`. They count more than those of `valuesFrom`, and less than `values`, where `{{ … }}` stays as
    /// it is. What it may use is in the page on apps.
    #[schemars(length(min = 1, max = 8192))]
    pub values_template: Option<String>,
    /// More values: passwords from Secrets, and others from ConfigMaps. Later ones count more.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 8), extend("x-kubernetes-list-type" = "atomic"))]
    pub values_from: Vec<AppValues>,
    /// Namespace of the release in the tenant. It is created if it is not there, and stays. It cannot be changed. Default `default`.
    #[schemars(length(min = 1, max = 63), regex(pattern = r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?$"))]
    pub namespace: Option<String>,
    /// Name of the release. It cannot be changed. Default: the name of the App.
    #[schemars(length(min = 1, max = 53), regex(pattern = r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?$"))]
    pub release_name: Option<String>,
    /// Whether it counts as deployed only once all that it installs is ready. Not for what nodes need before they are ready, such as a network
    /// plugin. Default false.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub wait: bool,
    /// How long Helm may take for one step, in seconds: each hook, and with `wait` until all is ready. One call of Helm may take three such steps and a minute, and
    /// twice that with `onFailure: Rollback`; then it is ended. Default 300.
    #[serde(default = "five_minutes", skip_serializing_if = "is_five_minutes")]
    #[schemars(range(min = 10, max = 1200))]
    pub timeout_seconds: i64,
    /// What becomes of a change that fails. Keep: it stays as it is, for people to look at, and is tried again. Rollback: Helm sets it back. Default Keep.
    #[serde(default, skip_serializing_if = "OnFailure::is_keep")]
    pub on_failure: OnFailure,
    /// Whether a release of that name, and objects that the chart has, are taken over if somebody else made them. Once it was deployed the release goes with this
    /// App. Also whether a release goes on from what is there if that is not what Berth deployed: set it back to false afterwards. Default false.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub adopt: bool,
    /// Whether anybody looks for what others change or delete in the tenant of what Helm left there, and what becomes of it.
    #[serde(default, skip_serializing_if = "AppDrift::is_default")]
    pub drift: AppDrift,
}

/// Which chart, and where it is.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[schemars(extend("x-kubernetes-validations" = json!([
    cel::one_of("chart: ", &["oci", "repository"]),
    {"rule": "has(self.repository) == has(self.name)", "message": "chart: repository and name go together"},
    {"rule": "has(self.version) || has(self.digest)", "message": "chart: set version or digest"},
    {"rule": "!has(self.repository) || has(self.version)", "message": "chart: with repository, set version"},
    {"rule": "!has(self.plainHTTP) || !self.plainHTTP || has(self.oci)", "message": "chart: plainHTTP goes with oci"}
])))]
pub struct AppChart {
    /// The chart in an OCI registry, without its version, such as `oci://registry.example.com/charts/metrics-server`.
    #[schemars(
        length(min = 7, max = 255),
        regex(pattern = r"^oci://[a-zA-Z0-9][-a-zA-Z0-9.:]*(/[a-z0-9][-a-z0-9._]*)+$")
    )]
    pub oci: Option<String>,
    /// URL of a chart repository, such as `https://charts.example.com/stable`.
    #[schemars(
        length(min = 8, max = 255),
        regex(pattern = r"^https?://[a-zA-Z0-9][-a-zA-Z0-9.:]*(/[-a-zA-Z0-9_~][-a-zA-Z0-9._~]*)*/?$")
    )]
    pub repository: Option<String>,
    /// Name of the chart in the repository.
    #[schemars(length(min = 1, max = 128), regex(pattern = r"^[a-zA-Z0-9][-a-zA-Z0-9._]*$"))]
    pub name: Option<String>,
    /// Its version, as `1.2.3`. A tag that moves in the registry is not noticed.
    #[schemars(
        length(min = 1, max = 128),
        regex(pattern = r"^v?[0-9]+\.[0-9]+\.[0-9]+(-[0-9A-Za-z.-]+)?(\+[0-9A-Za-z.-]+)?$")
    )]
    pub version: Option<String>,
    /// Its digest. With `oci` that of the manifest, with `repository` that of the archive. Another chart is refused. Default: any.
    #[schemars(length(min = 71, max = 71), regex(pattern = r"^sha256:[0-9a-f]{64}$"))]
    pub digest: Option<String>,
    /// The login of the registry: a Secret of type `berth.dev/app` in this namespace, in whose key `.dockerconfigjson` is what `docker login` writes.
    pub pull_secret_ref: Option<AppSecret>,
    /// Who signs the certificate of the registry: a Secret of type `berth.dev/app` in this namespace with the key `ca.crt`. Default: the public
    /// CAs that Mozilla trusts, as of this version of Berth.
    pub ca_secret_ref: Option<AppSecret>,
    /// Whether the registry speaks HTTP, which everybody on the way can change. Default false.
    #[serde(default, rename = "plainHTTP", skip_serializing_if = "std::ops::Not::not")]
    pub plain_http: bool,
}

/// A Secret of type `berth.dev/app`, in the App's namespace.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct AppSecret {
    /// Name of the Secret.
    #[schemars(length(min = 1, max = 253), regex(pattern = r"^[a-z0-9]([-a-z0-9.]*[a-z0-9])?$"))]
    pub name: String,
}

/// Values in a Secret or a ConfigMap.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[schemars(extend("x-kubernetes-validations" = json!([cel::one_of("valuesFrom: ", &["secretRef", "configMapRef"])])))]
pub struct AppValues {
    /// The Secret, of type `berth.dev/app`, in the App's namespace. A change of the key is a change of the App. While it cannot be used, nothing that is
    /// there changes.
    pub secret_ref: Option<AppSecret>,
    /// The ConfigMap, with the label `berth.dev/app-values: "true"`, in the App's namespace. A change of it is a change of the App. While it
    /// cannot be used, nothing that is there changes.
    pub config_map_ref: Option<AppConfigMap>,
    /// The key in it, whose content is YAML. Default `values.yaml`.
    #[serde(default = "values_yaml", skip_serializing_if = "is_values_yaml")]
    #[schemars(length(min = 1, max = 253), regex(pattern = r"^[-._a-zA-Z0-9]+$"))]
    pub key: String,
}

/// A ConfigMap with the label `berth.dev/app-values: "true"`, in the App's namespace.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct AppConfigMap {
    /// Name of the ConfigMap.
    #[schemars(length(min = 1, max = 253), regex(pattern = r"^[a-z0-9]([-a-z0-9.]*[a-z0-9])?$"))]
    pub name: String,
    /// Whether there are no values where the ConfigMap, or the key in it, does not exist: then that it is deleted is a change, too. Default false:
    /// it is an error, and nothing that is there changes.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub optional: bool,
}

/// What becomes of a change that fails.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum OnFailure {
    /// It stays.
    #[default]
    Keep,
    /// Helm sets it back.
    Rollback,
}

impl OnFailure {
    /// Whether it is the default, which is not written.
    pub fn is_keep(&self) -> bool {
        *self == Self::Keep
    }
}

/// What becomes of a release that is not to be there any more.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum OnRemoval {
    /// It is uninstalled.
    #[default]
    Uninstall,
    /// It stays.
    Keep,
}

impl OnRemoval {
    /// Whether it is the default, which is not written.
    pub fn is_uninstall(&self) -> bool {
        *self == Self::Uninstall
    }
}

/// How far an App is.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct AppStatus {
    /// Generation of the spec that this status describes.
    pub observed_generation: Option<i64>,
    /// `Cluster`s that are meant.
    pub selected: Option<i64>,
    /// Those that have it as the spec says.
    pub deployed: Option<i64>,
    /// Those that are getting it.
    pub running: Option<i64>,
    /// Those that wait for something of their own, such as a tenant that sleeps.
    pub waiting: Option<i64>,
    /// Those where it failed.
    pub failed: Option<i64>,
    /// Those whose turn has not come.
    pub queued: Option<i64>,
    /// Those that it is being uninstalled from.
    pub deleting: Option<i64>,
    /// Which wave it is at, from 1: the first that is not through. The last are the `Cluster`s that fit none of `spec.waves`. None: there are no
    /// waves, or all are through.
    pub wave: Option<i64>,
    /// Of those that are not selected any more so many may lose it, as a person has confirmed (annotation `berth.dev/confirm-removal`).
    pub confirmed: Option<i64>,
    /// Those where something is not as Helm left it, and was not set back (`spec.drift`).
    pub drifted: Option<i64>,
    /// Digest of the values in the ConfigMaps of `spec.valuesFrom`, as they were when all of them could be used last. None: it names no ConfigMap, or
    /// they never could.
    pub values_digest: Option<String>,
    /// Likewise, of the values in its Secrets. Each has the Secret's UID in it, without which nobody can try what it is of.
    pub secrets_digest: Option<String>,
    /// Of those that are not as the spec says at most 16, the worst first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 16))]
    pub clusters: Vec<AppInCluster>,
    /// Ready, Degraded.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "conditions_schema")]
    pub conditions: Vec<Condition>,
}

/// How it is in one `Cluster`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct AppInCluster {
    /// Namespace of the `Cluster`.
    pub namespace: String,
    /// Its name.
    pub name: String,
    /// Failed, Waiting, Running, Deleting or Queued.
    pub state: AppState,
    /// What went wrong, or what it waits for.
    pub message: String,
}

/// How far an app is in a `Cluster`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
pub enum AppState {
    /// The last try failed.
    Failed,
    /// Something of the tenant's own is awaited.
    Waiting,
    /// It is being uninstalled.
    Deleting,
    /// It is being installed or upgraded.
    Running,
    /// Its turn has not come.
    Queued,
    /// It is as the spec says.
    Deployed,
}

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

impl AppSpec {
    /// The release as each tenant gets it: what is left out is filled in. `name`: that of the App.
    pub fn release_of(&self, name: &str) -> AppRelease {
        let mut release = self.release.clone();
        release.namespace.get_or_insert_with(|| "default".to_owned());
        release.release_name.get_or_insert_with(|| name.to_owned());
        release
    }
}

impl AppRelease {
    /// Where its chart comes from, as `writers.apps.sources` spells it.
    pub fn source(&self) -> String {
        let AppChart { oci, repository, name, .. } = &self.chart;
        match (oci, repository) {
            (Some(oci), _) => oci.clone(),
            (None, Some(repository)) => {
                format!("{}/{}", repository.trim_end_matches('/'), name.as_deref().unwrap_or_default())
            }
            (None, None) => String::new(),
        }
    }

    /// Secrets that it is made from.
    pub fn secrets(&self) -> Vec<&AppSecret> {
        let chart = [&self.chart.pull_secret_ref, &self.chart.ca_secret_ref];
        let mut all: Vec<_> =
            chart.into_iter().flatten().chain(self.values_from.iter().filter_map(|v| v.secret_ref.as_ref())).collect();
        all.sort_unstable();
        all.dedup();
        all
    }

    /// ConfigMaps that its values are in, each with the key: in the order of the spec.
    pub fn config_maps(&self) -> impl Iterator<Item = (&AppConfigMap, &str)> {
        self.values_from.iter().filter_map(|from| Some((from.config_map_ref.as_ref()?, &*from.key)))
    }

    /// Secrets that its values are in, each with its place in the list and the key.
    pub fn value_secrets(&self) -> impl Iterator<Item = (usize, &AppSecret, &str)> {
        let all = self.values_from.iter().enumerate();
        all.filter_map(|(at, from)| Some((at, from.secret_ref.as_ref()?, &*from.key)))
    }
}

fn values_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
    schemars::json_schema!({"type": "object", "x-kubernetes-preserve-unknown-fields": true})
}

fn values_yaml() -> String {
    "values.yaml".to_owned()
}

fn is_values_yaml(key: &str) -> bool {
    key == "values.yaml"
}

fn five_minutes() -> i64 {
    300
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde asks for it")]
fn is_five_minutes(seconds: &i64) -> bool {
    *seconds == five_minutes()
}

fn ten() -> i32 {
    10
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde asks for it")]
fn is_ten(number: &i32) -> bool {
    *number == ten()
}

fn one() -> i32 {
    1
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde asks for it")]
fn is_one(number: &i32) -> bool {
    *number == one()
}
