//! `App`: a Helm chart for the tenants that a selector finds. `AppInstallation`: that chart in one of them.

mod drift;
mod installation;
mod release;

use crate::cel;
use crate::common::conditions_schema;
use crate::selector::{ClusterSelector, NamedCluster};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kube_derive::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;
use serde_with::skip_serializing_none;

pub use drift::{AppDrift, CheckStatus, Drift, DriftIgnore, DriftMode, DriftStatus, DriftedObject};
pub use installation::{
    AppInstallation, AppInstallationSpec, AppInstallationStatus, InstalledApp, InstalledIn, ReadSecret, ReadValues,
    ReleaseStatus, phase,
};
pub use release::{AppChart, AppConfigMap, AppRelease, AppSecret, AppValues, OnFailure, OnRemoval};

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

impl AppSpec {
    /// The release as each tenant gets it: what is left out is filled in. `name`: that of the App.
    pub fn release_of(&self, name: &str) -> AppRelease {
        let mut release = self.release.clone();
        release.namespace.get_or_insert_with(|| "default".to_owned());
        release.release_name.get_or_insert_with(|| name.to_owned());
        release
    }
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
