//! `spec.apiServer.admission`: configuration of kube-apiserver's admission plugins.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

/// Admission plugins of the API server.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Admission {
    /// Configuration of admission plugins, in the shape of `plugins` in upstream's `AdmissionConfiguration`
    /// (`apiserver.config.k8s.io/v1`). A plugin that is off by default, such as EventRateLimit, is turned on with it. What upstream's rules
    /// refuse is refused before anything runs, with its place. A change rolls the API servers. Default: none.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 8), extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["name"]))]
    pub configuration: Vec<PluginConfiguration>,
}

/// Configuration of one admission plugin.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct PluginConfiguration {
    /// The plugin: EventRateLimit, PodSecurity or ResourceQuota. Berth takes no configuration of others.
    #[schemars(
        length(max = 64),
        extend("x-kubernetes-validations" = json!([{
            "rule": "self in ['EventRateLimit', 'PodSecurity', 'ResourceQuota']",
            "message": "must be EventRateLimit, PodSecurity or ResourceQuota: Berth takes no configuration of other plugins",
        }]))
    )]
    pub name: String,
    /// Its configuration, with `apiVersion` and `kind`: `PodSecurityConfiguration` of `pod-security.admission.config.k8s.io/v1`,
    /// `Configuration` of `eventratelimit.admission.k8s.io/v1alpha1`, or `ResourceQuotaConfiguration` of `apiserver.config.k8s.io/v1`. At most
    /// 32 KiB. Defaults of PodSecurity count in every namespace without labels of its own: list `kube-system` in `exemptions.namespaces`, where
    /// kube-proxy and most network plugins run.
    #[schemars(schema_with = "configuration_schema")]
    pub configuration: Map<String, Value>,
}

impl Admission {
    /// True if nothing is asked for.
    pub fn is_default(&self) -> bool {
        *self == Self::default()
    }
}

/// Not typed: a schema with fields prunes all others without a word.
fn configuration_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
    schemars::json_schema!({"type": "object", "x-kubernetes-preserve-unknown-fields": true})
}
