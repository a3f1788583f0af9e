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
    /// How long all components must run a new release before it counts as one to go back to: `0s` to `24h`. Nothing waits for it. Default
    /// `60s`.
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
