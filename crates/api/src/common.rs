//! Shapes shared by several resources.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

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

/// Where the pods of a component may run. Writers of a `Cluster` may ask for what the platform team allows (chart values `writers`).
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Placement {
    /// Labels that the node must have. Default: none. A change rolls the pods.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(extend("maxProperties" = 16))]
    pub node_selector: BTreeMap<String, String>,
    /// Taints that the pods accept. Default: none. A change rolls the pods.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 16), extend("x-kubernetes-list-type" = "atomic"))]
    pub tolerations: Vec<Toleration>,
    /// How the component's pods are spread over zones or nodes. Default: none, replicas keep to nodes of their own as
    /// `antiAffinity` says.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 8), extend("x-kubernetes-list-type" = "atomic"))]
    pub topology_spread: Vec<TopologySpread>,
    /// PriorityClass of the pods. Default: the meta cluster's default class. A change rolls the pods.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 253))]
    pub priority_class_name: Option<String>,
    /// How strictly replicas avoid sharing a node. Default Preferred.
    #[serde(default)]
    pub anti_affinity: AntiAffinity,
}

impl Placement {
    /// True if nothing is asked for.
    pub fn is_default(&self) -> bool {
        *self == Self::default()
    }
}

/// A taint that pods accept, as a pod spells it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Toleration {
    /// Key of the taint. Default: every taint, with operator Exists.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 316))]
    pub key: Option<String>,
    /// Equal compares the value, Exists does not. Default Equal.
    #[serde(default)]
    pub operator: TolerationOperator,
    /// Value of the taint, with operator Equal. Default: empty.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 63))]
    pub value: Option<String>,
    /// Which effect of the taint is accepted. Default: all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub effect: Option<TaintEffect>,
    /// Seconds that a running pod stays once the taint is there, with effect NoExecute. Default: for ever.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub toleration_seconds: Option<i64>,
}

/// How a toleration compares.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum TolerationOperator {
    /// Key and value are the same.
    #[default]
    Equal,
    /// The key is there.
    Exists,
}

/// What a taint does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum TaintEffect {
    /// New pods stay away.
    NoSchedule,
    /// New pods stay away if they can.
    PreferNoSchedule,
    /// Running pods leave, too.
    NoExecute,
}

/// A spread constraint over the component's own pods.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct TopologySpread {
    /// Label of nodes whose values are the places, such as `topology.kubernetes.io/zone`.
    #[schemars(length(min = 1, max = 316))]
    pub topology_key: String,
    /// By how many pods places may differ. Default 1.
    #[serde(default = "one")]
    #[schemars(range(min = 1, max = 10))]
    pub max_skew: i32,
    /// What happens to a pod that would break this. Default ScheduleAnyway.
    #[serde(default)]
    pub when_unsatisfiable: WhenUnsatisfiable,
}

fn one() -> i32 {
    1
}

/// What happens to a pod that no place suits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum WhenUnsatisfiable {
    /// It is placed where it breaks the constraint least.
    #[default]
    ScheduleAnyway,
    /// It stays Pending.
    DoNotSchedule,
}

/// How strictly the replicas of one component avoid sharing a node.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum AntiAffinity {
    /// Two replicas never share a node: a pod without a node of its own stays Pending.
    Required,
    /// The scheduler tries.
    #[default]
    Preferred,
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
