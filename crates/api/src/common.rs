//! Shapes shared by several resources.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;
use serde_with::skip_serializing_none;
use std::collections::BTreeMap;

/// Kubernetes' resource requests and limits, as in a container; [`resources_schema`] takes what a control plane can have of it.
pub type Resources = k8s_openapi::api::core::v1::ResourceRequirements;

/// Schema of [`Resources`]: without claims, which refer to parts of a pod that only Berth writes. Quantities stay below 2^63: the API
/// server stores a larger one as that, so that what is wanted would never be there.
pub fn resources_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
    let quantities = |field: &str, what: &str| {
        json!({
            "description": what, "type": "object", "maxProperties": 16,
            "additionalProperties": amount(),
            "x-kubernetes-validations": [keys(field)],
        })
    };
    schemars::json_schema!({
        "type": "object", "nullable": true,
        "x-kubernetes-validations": [at_most_its_limit("cpu"), at_most_its_limit("memory")],
        "properties": {
            "limits": quantities("limits", "Most that the container may use, by resource, such as `cpu: 500m`. Default: for memory what a tenant of 100 nodes does not reach, or the request if that is more; none with templates of an earlier Berth."),
            "requests": quantities("requests", "What the scheduler reserves, by resource. Default: the limit where there is one, otherwise small requests."),
        },
    })
}

/// A quantity, as [`resources_schema`] has them.
pub(crate) fn quantity_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
    let mut schema = amount();
    schema["nullable"] = true.into();
    schemars::Schema::try_from(schema).unwrap_or_default()
}

fn amount() -> serde_json::Value {
    json!({
        "x-kubernetes-int-or-string": true, "maxLength": 32, "minimum": 0, "maximum": 999_999_999_999_999_i64,
        "pattern": r"^([0-9]{1,15}|[0-9]{1,9}(\.[0-9]{1,3})?(m|k|M|G|Ki|Mi|Gi)?|[0-9]{1,5}(\.[0-9]{1,3})?(T|Ti)|[0-9]{1,3}(\.[0-9]{1,3})?(P|Pi))$",
    })
}

/// Rule that a request is at most its limit.
fn at_most_its_limit(name: &str) -> serde_json::Value {
    let (request, limit) = (format!("self.requests['{name}']"), format!("self.limits['{name}']"));
    let given =
        format!("has(self.requests) && has(self.limits) && '{name}' in self.requests && '{name}' in self.limits");
    let message = format!(
        "resources: requests.{name} is more than limits.{name}: set the limit to at least the request, or lower the request"
    );
    at_most(&given, &request, &limit, &message)
}

/// Rule that one quantity is at most another where both are `given`, and written in one way: CEL bounds the cost of no other comparison. The
/// operator judges the rest.
pub(crate) fn at_most(given: &str, less: &str, more: &str, message: &str) -> serde_json::Value {
    let both = |is: &str| format!("{} && {}", is.replace('_', less), is.replace('_', more));
    let numbers = format!("{} && {less} > {more}", both("type(_) == int"));
    let texts = format!(
        "{} && {} && quantity({less}).isGreaterThan(quantity({more}))",
        both("type(_) == string"),
        both("isQuantity(_)")
    );
    json!({"rule": format!("!({given}) || !(({numbers}) || ({texts}))"), "message": message})
}

/// One extra command-line flag.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Arg {
    /// Flag name without the leading dashes, such as `v` or `feature-gates`. Flags that Berth owns are
    /// refused; the condition names the field to use instead.
    #[schemars(length(min = 1, max = 100), regex(pattern = r"^[a-z][a-z0-9-]*$"))]
    pub name: String,
    /// Value of the flag.
    #[serde(default)]
    #[schemars(length(max = 1024))]
    pub value: String,
}

/// Where the pods of a component may run. The platform team decides what is allowed (chart values `writers`).
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Placement {
    /// Labels that the node must have. Default: none. A change rolls the pods.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(schema_with = "node_selector_schema")]
    pub node_selector: BTreeMap<String, String>,
    /// Taints that the pods accept. Default: none. A change rolls the pods.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 16), extend("x-kubernetes-list-type" = "atomic"))]
    pub tolerations: Vec<Toleration>,
    /// How the component's pods are spread over zones or nodes. Default: none; `antiAffinity` spreads replicas over nodes.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 8), extend("x-kubernetes-list-type" = "atomic", "x-kubernetes-validations" = json!([
        {"rule": "self.all(a, self.exists_one(b, a.topologyKey == b.topologyKey && a.whenUnsatisfiable == b.whenUnsatisfiable))", "message": "topologySpread: two entries have the same topologyKey and whenUnsatisfiable: remove one"}
    ])))]
    pub topology_spread: Vec<TopologySpread>,
    /// PriorityClass of the pods. Default: the meta cluster's default class. A change rolls the pods.
    #[schemars(length(min = 1, max = 253), regex(pattern = r"^[a-z0-9]([-a-z0-9.]*[a-z0-9])?$"))]
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

/// Where images come from. The platform team decides what is allowed (chart values `writers`).
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[schemars(extend("x-kubernetes-validations" = json!([{
    "rule": "!has(self.layout) || self.layout == 'Flat' || has(self.registry)",
    "message": "images: layout says where registry has its images: set registry, or remove layout"
}])))]
pub struct Images {
    /// Registry, with a path if there is one, such as `mirror.example.com/k8s`. It holds upstream's images under upstream's names and
    /// tags, and Berth's agent under the last part of its name. What is root in a pod (`spec.vpc`), and Jobs of backups and restores, come from
    /// the operator's configuration all the same. Default: the operator's configuration. A change rolls the pods.
    #[schemars(
        length(min = 1, max = 200),
        regex(pattern = r"^[a-z0-9]([-a-z0-9.]*[a-z0-9])?(:[0-9]{1,5})?(/[a-z0-9]+([._-]+[a-z0-9]+)*)*$")
    )]
    pub registry: Option<String>,
    /// Where `registry` has upstream's images. Flat: each under the last part of its name. Upstream: each under its whole path in upstream's
    /// registry, as a cache has them that pulls through, such as `coredns/coredns`. The agent is under the last part of its name in both. It
    /// needs `registry`. Default Flat.
    #[serde(default, skip_serializing_if = "Layout::is_flat")]
    pub layout: Layout,
    /// Single images from elsewhere, by the name of their component: `kube-apiserver`, `kube-controller-manager`, `kube-scheduler`, `etcd`,
    /// `coredns` or `kube-proxy`, such as `coredns: mirror.example.com/k8s/coredns`. Without a tag Berth adds that of the version, and it holds for
    /// each version. A tag has to be of the version, such as `v1.36.3-acme.1` of 1.36.3, and is changed in one edit with it. A tag of `coredns`,
    /// `kube-proxy`, and `etcd` where no version of it is set, may be of the version that runs, or of the one that `spec.version` brings: what runs
    /// stays until then. A digest needs such a tag. Berth's agent, what is root in a pod and Jobs of backups and restores come from the platform
    /// all the same. Default: none. A change rolls the pods.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(schema_with = "overrides_schema")]
    pub overrides: BTreeMap<String, String>,
    /// Secrets of type `kubernetes.io/dockerconfigjson` for pulling, by name, in the namespace that the pods run in. In that of a control plane
    /// Berth keeps copies of those that the chart value `tenants.pullSecrets` names; others somebody has to create there. `Degraded` names one
    /// that is missing. This list takes the place of the chart's, so name those here, too, that are still needed. Default: those of the chart,
    /// and for a stand-alone `EtcdCluster` none. A change rolls the pods.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(
        length(max = 8),
        inner(length(min = 1, max = 253), regex(pattern = r"^[a-z0-9]([-a-z0-9.]*[a-z0-9])?$")),
        extend("x-kubernetes-list-type" = "set")
    )]
    pub pull_secrets: Vec<String>,
}

impl Images {
    /// True if nothing is asked for.
    pub fn is_default(&self) -> bool {
        *self == Self::default()
    }
}

/// Where a registry has upstream's images.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum Layout {
    /// Each under the last part of its name.
    #[default]
    Flat,
    /// Each under its whole path in upstream's registry, as a cache has them that pulls through.
    Upstream,
}

impl Layout {
    /// Whether it is the default.
    pub fn is_flat(&self) -> bool {
        *self == Self::Flat
    }
}

/// Components whose image a spec may name.
pub const OVERRIDABLE: [&str; 6] =
    ["kube-apiserver", "kube-controller-manager", "kube-scheduler", "etcd", "coredns", "kube-proxy"];

/// A registry and a name in it, with a tag or without, and a digest only beside a tag.
fn overrides_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
    let names = OVERRIDABLE.map(|name| format!("'{name}'")).join(", ");
    schemars::json_schema!({
        "type": "object", "maxProperties": OVERRIDABLE.len(),
        "additionalProperties": {
            "type": "string", "minLength": 1, "maxLength": 400,
            "pattern": r"^[a-z0-9]([-a-z0-9.]*[a-z0-9])?(:[0-9]{1,5})?(/[a-z0-9]+([._-]+[a-z0-9]+)*)+(:[A-Za-z0-9_][A-Za-z0-9_.-]{0,127}(@sha256:[a-f0-9]{64})?)?$",
        },
        "x-kubernetes-validations": [{
            "rule": format!("self.all(name, name in [{names}])"),
            "message": format!("overrides: by name of a component: {}. The agent and images of Jobs are the platform's", OVERRIDABLE.join(", ")),
        }],
    })
}

/// A taint that pods accept, as a pod spells it.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[schemars(extend("x-kubernetes-validations" = json!([
    {"rule": "self.operator == 'Exists' || (has(self.key) && self.key != '')", "message": "tolerations: without a key, which means every taint, the operator must be Exists"},
    {"rule": "self.operator != 'Exists' || !has(self.value) || self.value == ''", "message": "tolerations: value is compared with operator Equal only: remove it, or set operator to Equal"},
    {"rule": "!has(self.tolerationSeconds) || (has(self.effect) && self.effect == 'NoExecute')", "message": "tolerations: tolerationSeconds needs effect NoExecute: remove it, or set the effect"}
])))]
pub struct Toleration {
    /// Key of the taint. Default: every taint, with operator Exists.
    #[serde(default, skip_serializing_if = "is_nothing")]
    #[schemars(
        length(max = 317),
        regex(pattern = r"^(([a-z0-9]([-a-z0-9.]*[a-z0-9])?/)?([A-Za-z0-9][-A-Za-z0-9_.]{0,61})?[A-Za-z0-9])?$")
    )]
    pub key: Option<String>,
    /// Equal compares the value, Exists does not. Default Equal.
    #[serde(default)]
    pub operator: TolerationOperator,
    /// Value of the taint, with operator Equal. Default: empty.
    #[serde(default, skip_serializing_if = "is_nothing")]
    #[schemars(length(max = 63), regex(pattern = r"^(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?$"))]
    pub value: Option<String>,
    /// Which effect of the taint is accepted. Default: all.
    pub effect: Option<TaintEffect>,
    /// Seconds that a running pod stays once the taint is there, with effect NoExecute. Default: for ever.
    pub toleration_seconds: Option<i64>,
}

/// As in a pod: an empty text is the same as none, and is left out. Sent, it would be a change that never gets there.
#[expect(clippy::ref_option, reason = "so serde calls it")]
fn is_nothing(text: &Option<String>) -> bool {
    text.as_deref().is_none_or(str::is_empty)
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

/// Which effect of the taint is accepted. Default: all.
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
    /// Node label whose values are the domains to spread over, such as `topology.kubernetes.io/zone`.
    #[schemars(
        length(min = 1, max = 317),
        regex(pattern = r"^([a-z0-9]([-a-z0-9.]*[a-z0-9])?/)?([A-Za-z0-9][-A-Za-z0-9_.]{0,61})?[A-Za-z0-9]$")
    )]
    pub topology_key: String,
    /// By how many pods domains may differ. Default 1.
    #[serde(default = "one")]
    #[schemars(range(min = 1, max = 10))]
    pub max_skew: i32,
    /// What happens to a pod that would violate this. Default ScheduleAnyway.
    #[serde(default)]
    pub when_unsatisfiable: WhenUnsatisfiable,
}

fn one() -> i32 {
    1
}

/// What happens to a pod that would violate the constraint.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum WhenUnsatisfiable {
    /// It is scheduled where it violates the constraint least.
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
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
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

fn node_selector_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
    schemars::json_schema!({
        "type": "object", "maxProperties": 16,
        "additionalProperties": {
            "type": "string", "maxLength": 63, "pattern": "^(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?$",
        },
        "x-kubernetes-validations": [keys("nodeSelector")],
    })
}

/// Rule for a map whose keys are those of labels or annotations.
pub(crate) fn keys(field: &str) -> serde_json::Value {
    json!({
        "rule": "self.all(k, k.size() <= 317 && k.matches('^([a-z0-9]([-a-z0-9.]*[a-z0-9])?/)?([A-Za-z0-9][-A-Za-z0-9_.]{0,61})?[A-Za-z0-9]$'))",
        "message": format!("{field}: each key must be a name of at most 63 letters, digits, '-', '_' and '.', with a DNS name and '/' before it if there is one, such as example.com/name"),
    })
}

/// Schema of `metav1.Condition` lists: a map keyed by `type`.
pub fn conditions_schema(generator: &mut schemars::SchemaGenerator) -> schemars::Schema {
    let mut schema = <Vec<k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition>>::json_schema(generator);
    schema.insert("x-kubernetes-list-type".into(), "map".into());
    schema.insert("x-kubernetes-list-map-keys".into(), serde_json::json!(["type"]));
    schema
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_empty_in_a_toleration_is_left_out_as_in_a_pod() {
        let given = json!({"key": "", "operator": "Exists", "value": "", "effect": "NoSchedule"});
        let toleration: Toleration = serde_json::from_value(given).unwrap();
        assert_eq!(json!(toleration), json!({"operator": "Exists", "effect": "NoSchedule"}));
        let whole = json!({"key": "a", "operator": "Equal", "value": "b"});
        assert_eq!(json!(serde_json::from_value::<Toleration>(whole.clone()).unwrap()), whole);
    }
}
