//! Shapes shared by several resources.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Kubernetes' resource requests and limits, as in a container.
pub type Resources = k8s_openapi::api::core::v1::ResourceRequirements;

/// One extra command-line flag.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Arg {
    /// Flag name without the leading dashes, such as `v` or `feature-gates`. Flags that Berth sets itself are
    /// refused; the condition names the field to use in their place.
    #[schemars(length(min = 1, max = 100), regex(pattern = r"^[a-z][a-z0-9-]*$"))]
    pub name: String,
    /// Value of the flag.
    #[serde(default)]
    #[schemars(length(max = 1024))]
    pub value: String,
}

/// A Secret, by name, in the same namespace as the object that refers to it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct SecretRef {
    /// Name of the Secret.
    #[schemars(length(min = 1, max = 253))]
    pub name: String,
}

/// How Berth's agent gets into the pods of a tenant.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum AgentDelivery {
    /// An init container copies it onto a volume of the pod. Works on every node.
    #[default]
    InitContainer,
    /// The agent's image is mounted as a volume. Needs kubelet 1.35 and a container runtime that has image volumes on every
    /// node that control planes may run on.
    ImageVolume,
}

impl AgentDelivery {
    /// Its name in the API.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::InitContainer => "InitContainer",
            Self::ImageVolume => "ImageVolume",
        }
    }

    /// The delivery of that name; anything else is the one that works everywhere.
    pub fn of(name: Option<&str>) -> Self {
        if name == Some(Self::ImageVolume.as_str()) { Self::ImageVolume } else { Self::InitContainer }
    }
}

/// Schema of `metav1.Condition` lists: a map keyed by `type`.
pub fn conditions_schema(generator: &mut schemars::SchemaGenerator) -> schemars::Schema {
    let mut schema = <Vec<k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition>>::json_schema(generator);
    schema.insert("x-kubernetes-list-type".into(), "map".into());
    schema.insert("x-kubernetes-list-map-keys".into(), serde_json::json!(["type"]));
    schema
}
