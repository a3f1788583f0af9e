//! How the minor version of a tenant changes.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;

/// How the minor version changes: in two steps. First the new version runs and emulates the old minor version, and the old version can be
/// set again; then it stops emulating.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Upgrade {
    /// How long the first step lasts after all components run the new version: `0s` to `168h`, such as `90m`. Default `10m`.
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
}

impl Upgrade {
    /// Whether nothing is set.
    pub fn is_default(&self) -> bool {
        *self == Self::default()
    }
}

impl Default for Upgrade {
    fn default() -> Self {
        Self { finalize_after: ten_minutes() }
    }
}

fn ten_minutes() -> String {
    "10m".into()
}
