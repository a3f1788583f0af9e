//! Drift: what is in a tenant by now against what Helm last left there.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_with::skip_serializing_none;

/// Whether anybody looks for drift, and what becomes of it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct AppDrift {
    /// Report: what was changed or deleted since Helm left it is said in the status. Repair: it is set back, too, and what is missing is created
    /// again. Ignore: nobody looks. Default Report.
    #[serde(default, skip_serializing_if = "DriftMode::is_report")]
    pub mode: DriftMode,
    /// How often to look, in seconds. Tenants are looked at one after another over this time. Default 21600, which is six hours.
    #[serde(default = "six_hours", skip_serializing_if = "are_six_hours")]
    #[schemars(range(min = 600, max = 604_800))]
    pub interval_seconds: i64,
    /// What others may change.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 32), extend("x-kubernetes-list-type" = "atomic"))]
    pub ignore: Vec<DriftIgnore>,
}

impl Default for AppDrift {
    fn default() -> Self {
        Self { mode: DriftMode::default(), interval_seconds: six_hours(), ignore: vec![] }
    }
}

impl AppDrift {
    /// Whether it is the default, which is not written.
    pub fn is_default(&self) -> bool {
        *self == Self::default()
    }
}

/// What becomes of drift.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum DriftMode {
    /// It is said.
    #[default]
    Report,
    /// It is set back.
    Repair,
    /// Nobody looks.
    Ignore,
}

impl DriftMode {
    /// Whether it is the default, which is not written.
    #[expect(clippy::trivially_copy_pass_by_ref, reason = "serde asks for it")]
    fn is_report(&self) -> bool {
        *self == Self::Report
    }
}

/// Objects that others may change, or fields of theirs.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct DriftIgnore {
    /// Kind of the objects, such as `Deployment`.
    #[schemars(length(min = 1, max = 63), regex(pattern = r"^[A-Z][a-zA-Z0-9]*$"))]
    pub kind: String,
    /// Name of the object. Default: each of that kind.
    #[schemars(length(min = 1, max = 253))]
    pub name: Option<String>,
    /// Its namespace. Default: each.
    #[schemars(length(min = 1, max = 63))]
    pub namespace: Option<String>,
    /// Fields, as JSON pointers such as `/spec/replicas` or `/metadata/annotations/example.com~1hash`; with all that is in them. An entry of a list
    /// is named by its place in the chart's list, from 0. Default: the whole object, which may also be missing.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(
        length(max = 16),
        inner(length(min = 2, max = 256), regex(pattern = r"^(/([^~/]|~0|~1)+)+$")),
        extend("x-kubernetes-list-type" = "atomic")
    )]
    pub paths: Vec<String>,
}

/// What was found when drift was looked for last.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct DriftStatus {
    /// When that was.
    pub checked_at: Option<Time>,
    /// Objects that are not as Helm left them, without those that were set back.
    pub count: Option<i64>,
    /// Of these, and of those that were set back, at most 16.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 16))]
    pub objects: Vec<DriftedObject>,
    /// Why that failed, if it did. What else is here is of the time before.
    pub message: Option<String>,
    /// Digest of `spec.release.drift` and of the annotation `berth.dev/check` of the App as they were then. Others are a reason to look again.
    pub request: Option<String>,
}

/// An object that is not as Helm left it, or was not.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct DriftedObject {
    /// Its kind; `Release` is Helm's release itself.
    pub kind: String,
    /// Its namespace. None: it has none.
    pub namespace: Option<String>,
    /// Its name.
    pub name: String,
    /// What it is.
    pub what: Drift,
    /// Fields that have another value, at most 3.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 3))]
    pub paths: Vec<String>,
    /// What more there is to say.
    pub message: Option<String>,
    /// Whether it was set back.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub mended: bool,
    /// How often in a row the same was set back. After three times it is left.
    pub repairs: Option<i64>,
}

/// How an object is not as Helm left it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum Drift {
    /// It is not there.
    #[default]
    Missing,
    /// Fields have other values.
    Changed,
    /// Another release of Helm has it. It is not set back.
    Taken,
    /// The API server does not say what a dry run would change. It is not set back.
    Refused,
    /// Of a release: its last revision is not what was deployed. It is deployed again where the mode is Repair.
    Replaced,
}

/// A look for drift that is to come.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct CheckStatus {
    /// As in `drift.request`.
    pub request: String,
    /// When it begins.
    pub at: Time,
}

fn six_hours() -> i64 {
    21_600
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde asks for it")]
fn are_six_hours(seconds: &i64) -> bool {
    *seconds == six_hours()
}
