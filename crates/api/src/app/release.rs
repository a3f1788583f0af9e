//! What of a chart is to be in a tenant: the part of an `App` that its installations have, too.

use super::drift::AppDrift;
use crate::cel;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};
use serde_with::skip_serializing_none;

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
