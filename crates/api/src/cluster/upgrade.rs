//! How a tenant changes: its minor version in two steps, and any release with a way back.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;

/// How changes of what runs (`version`, `replicas`, `apiServer`, `controllerManager`, `scheduler`, `images`) are made. One that does not
/// come up is taken back. A minor version changes in two steps: first the new version runs and emulates the old minor version, and the old
/// version can be set again; then it stops emulating.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Upgrade {
    /// How long the first step lasts after all components run the new version: `0s` to `168h`, such as `90m`. A pause begins it anew.
    /// Default `10m`.
    #[serde(default = "ten_minutes")]
    #[schemars(
        length(max = 16),
        regex(pattern = r"^([0-9]{1,6}h)?([0-9]{1,6}m)?([0-9]{1,6}s)?$"),
        extend("x-kubernetes-validations" = json!([{
            "rule": "self != '' && duration(self) <= duration('168h')",
            "message": "must be a duration from 0s to 168h, such as 10m or 24h",
        }]))
    )]
    pub finalize_after: String,
    /// How long a new release may make no progress: no further pod of it becomes ready. `30s` to `24h`. After that `onFailure` says what
    /// happens. Default `5m`.
    #[serde(default = "five_minutes")]
    #[schemars(
        length(max = 16),
        regex(pattern = r"^([0-9]{1,6}h)?([0-9]{1,6}m)?([0-9]{1,6}s)?$"),
        extend("x-kubernetes-validations" = json!([{
            "rule": "self != '' && duration(self) >= duration('30s') && duration(self) <= duration('24h')",
            "message": "must be a duration from 30s to 24h, such as 5m",
        }]))
    )]
    pub progress_deadline: String,
    /// What happens then. Rollback: the components run the last release that succeeded again, if the old pods are well; the spec stays as it
    /// is, and `Ready` says so. Hold: what runs stays, and `Ready` says so. Default Rollback.
    #[serde(default)]
    pub on_failure: OnFailure,
    /// How long the first new API server of a release must serve, alone among the old ones, before the second starts: `0s` to `24h`. If it
    /// restarts or is not ready meanwhile, `onFailure` says what happens. And how long all components must run the release before it counts as
    /// one to go back to. A creation does not wait for it. Default `60s`.
    #[serde(default = "a_minute")]
    #[schemars(
        length(max = 16),
        regex(pattern = r"^([0-9]{1,6}h)?([0-9]{1,6}m)?([0-9]{1,6}s)?$"),
        extend("x-kubernetes-validations" = json!([{
            "rule": "self != '' && duration(self) <= duration('24h')",
            "message": "must be a duration from 0s to 24h, such as 60s",
        }]))
    )]
    pub soak: String,
    /// When newer templates, which a new version of Berth brings for the Kubernetes version that runs, are taken up. WithVersion: when `version`
    /// changes. Newest: by themselves, as a change of their own that waits for `window` and its turn, and is taken back as any other. Default
    /// WithVersion.
    #[serde(default)]
    pub templates: Templates,
    /// When changes may begin that replace pods. Default: at any time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub window: Option<Window>,
    /// Checks of what stands in the way of the next minor version that do not count for this `Cluster`. Default: all count. Each
    /// `ClusterRevision` records which did not.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 7), extend("x-kubernetes-list-type" = "set"))]
    pub skip_checks: Vec<Check>,
}

/// What is looked at before the next minor version.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
pub enum Check {
    /// Each API server answers, is well, and is of the minor version that it is to be.
    #[serde(rename = "APIServers")]
    ApiServers,
    /// No client uses an API that the next minor version does not have.
    #[serde(rename = "RemovedAPIs")]
    RemovedApis,
    /// Every `APIService` in the tenant is available.
    #[serde(rename = "APIServices")]
    ApiServices,
    /// A `ClusterRole` can be created in the tenant, in a dry run: each new API server writes its own.
    Admission,
    /// No kubelet is too old or too new, and the next minor version's takes `spec.kubelet.config`.
    Kubelets,
    /// etcd is well, and of a minor version that goes with the next one.
    Etcd,
    /// `feature-gates` and `runtime-config` in `extraArgs` name nothing that leaves no way back.
    Flags,
}

impl std::fmt::Display for Check {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::ApiServers => "APIServers",
            Self::RemovedApis => "RemovedAPIs",
            Self::ApiServices => "APIServices",
            Self::Admission => "Admission",
            Self::Kubelets => "Kubelets",
            Self::Etcd => "Etcd",
            Self::Flags => "Flags",
        })
    }
}

/// When changes may begin that replace pods: what this `Cluster` asks of `version`, `replicas`, its components and `images`, and the second
/// step of a new minor version. What has begun ends. Repair, renewal and the way back wait for no window, nor does a change that the
/// annotation `berth.dev/roll` names.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Window {
    /// Days of the week on which it begins. Default: every day.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 7), extend("x-kubernetes-list-type" = "set"))]
    pub days: Vec<Day>,
    /// When it begins, such as `22:30`. Where clocks skip that time, it begins so much later; where it comes twice, the first time.
    #[schemars(length(max = 5), regex(pattern = r"^([01][0-9]|2[0-3]):[0-5][0-9]$"))]
    pub start: String,
    /// How long it lasts: `30m` to `24h`.
    #[schemars(
        length(max = 16),
        regex(pattern = r"^([0-9]{1,6}h)?([0-9]{1,6}m)?([0-9]{1,6}s)?$"),
        extend("x-kubernetes-validations" = json!([{
            "rule": "self != '' && duration(self) >= duration('30m') && duration(self) <= duration('24h')",
            "message": "must be a duration from 30m to 24h, such as 4h",
        }]))
    )]
    pub duration: String,
    /// Time zone, such as `Europe/Berlin`. Default `UTC`.
    #[serde(default = "utc")]
    #[schemars(length(min = 1, max = 64))]
    pub time_zone: String,
}

/// A day of the week.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
#[allow(missing_docs, reason = "they say it themselves")]
pub enum Day {
    Monday,
    Tuesday,
    Wednesday,
    Thursday,
    Friday,
    Saturday,
    Sunday,
}

fn utc() -> String {
    "UTC".into()
}

/// What happens to a release that does not come up.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum OnFailure {
    /// The last release that succeeded runs again.
    #[default]
    Rollback,
    /// What runs stays.
    Hold,
}

/// When newer templates are taken up.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum Templates {
    /// With another version.
    #[default]
    WithVersion,
    /// As soon as the operator has them.
    Newest,
}

impl Upgrade {
    /// Whether nothing is set.
    pub fn is_default(&self) -> bool {
        *self == Self::default()
    }
}

impl Default for Upgrade {
    fn default() -> Self {
        Self {
            finalize_after: ten_minutes(),
            progress_deadline: five_minutes(),
            on_failure: OnFailure::default(),
            soak: a_minute(),
            templates: Templates::default(),
            window: None,
            skip_checks: vec![],
        }
    }
}

fn ten_minutes() -> String {
    "10m".into()
}

fn five_minutes() -> String {
    "5m".into()
}

fn a_minute() -> String {
    "60s".into()
}
