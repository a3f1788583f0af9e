//! What containers get that run beside a component: the agent's, and those of Jobs.

use crate::common::{Resources, keys, resources_schema};
use crate::quantity;
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_with::skip_serializing_none;
use std::collections::BTreeMap;

/// Containers of Berth's beside the components.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Helpers {
    /// Resources of each container that is not a component itself: `install-agent`, `berth-approve`, `vpc`, and `install` of Jobs. They are laid
    /// over Berth's own, entry by entry: requests of 5m to 10m CPU and 8Mi to 16Mi memory, and memory limits of 64Mi where there are any. A
    /// request that is not set is Berth's, or the limit if that is less. A limit of `ephemeral-storage` of these alone bounds the whole pod;
    /// `install` has it only beside one of `jobs`. Default: the chart's value `helpers.resources` when the tenant took its version. A change
    /// rolls the pods.
    #[serde(default)]
    #[schemars(schema_with = "resources_schema")]
    pub resources: Option<Resources>,
    /// Jobs of backups and restores.
    #[serde(default, skip_serializing_if = "HelperJobs::is_default")]
    pub jobs: HelperJobs,
}

/// Jobs of backups and restores.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct HelperJobs {
    /// Resources of the container that takes, proves or restores a backup, laid over Berth's own: requests of 50m CPU and 128Mi memory, and a
    /// memory limit of 4Gi. A restored etcd loads all keys into memory: give it what etcd's members need. Default: the chart's value
    /// `helpers.jobs.resources`; nothing of `helpers.resources` counts for it. It counts for the next Job.
    #[serde(default)]
    #[schemars(schema_with = "resources_schema")]
    pub resources: Option<Resources>,
}

impl Helpers {
    /// True if nothing is asked for.
    pub fn is_default(&self) -> bool {
        *self == Self::default()
    }

    /// Each part that has resources, by its field below the spec.
    pub fn parts(&self) -> [(&'static str, Option<&Resources>); 2] {
        [("helpers", self.resources.as_ref()), ("helpers.jobs", self.jobs.resources.as_ref())]
    }

    /// The first part with a request that is more than its limit: its field below the spec, and why.
    pub fn beyond_limit(&self) -> Option<(&'static str, String)> {
        self.parts().into_iter().find_map(|(field, asked)| Some((field, quantity::beyond_limit(asked?)?)))
    }
}

impl HelperJobs {
    /// True if nothing is asked for.
    pub fn is_default(&self) -> bool {
        *self == Self::default()
    }
}

/// Requests and limits as a record has them.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
pub struct Amounts {
    /// Limits, by resource.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(schema_with = "limits_schema")]
    pub limits: BTreeMap<String, String>,
    /// Requests, by resource.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(schema_with = "requests_schema")]
    pub requests: BTreeMap<String, String>,
}

/// Most that a record has of each, and how long an amount is: more is refused in the operator's configuration.
pub const MOST: usize = 16;
/// See [`MOST`].
pub const LONGEST: usize = 32;

fn limits_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
    schema("limits")
}

fn requests_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
    schema("requests")
}

fn schema(field: &str) -> schemars::Schema {
    schemars::json_schema!({
        "type": "object", "maxProperties": MOST, "additionalProperties": {"type": "string", "maxLength": LONGEST},
        "x-kubernetes-validations": [keys(field)],
    })
}

impl Amounts {
    /// None: there is nothing in it.
    pub fn given(self) -> Option<Self> {
        (self != Self::default()).then_some(self)
    }

    /// For an annotation.
    pub fn to_json(&self) -> String {
        serde_json::to_string(self).unwrap_or_default()
    }
}

impl From<&Resources> for Amounts {
    fn from(resources: &Resources) -> Self {
        let all = |all: &Option<BTreeMap<String, Quantity>>| {
            all.iter().flatten().map(|(name, amount)| (name.clone(), amount.0.clone())).collect()
        };
        Self { limits: all(&resources.limits), requests: all(&resources.requests) }
    }
}

impl From<&Amounts> for Resources {
    fn from(amounts: &Amounts) -> Self {
        let all = |all: &BTreeMap<String, String>| {
            let all = all.iter().map(|(name, amount)| (name.clone(), Quantity(amount.clone())));
            Some(all.collect::<BTreeMap<_, _>>()).filter(|all| !all.is_empty())
        };
        Self { limits: all(&amounts.limits), requests: all(&amounts.requests), claims: None }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn amounts_become_resources_and_are_recorded_in_these_words() {
        let text = r#"{"limits":{"cpu":"100m"},"requests":{"cpu":"50m","memory":"16Mi"}}"#;
        let amounts: Amounts = serde_json::from_str(text).unwrap();
        assert_eq!(amounts.to_json(), text);
        let resources = serde_json::to_value(Resources::from(&amounts)).unwrap();
        assert_eq!(resources, json!({"limits": {"cpu": "100m"}, "requests": {"cpu": "50m", "memory": "16Mi"}}));
        assert_eq!(Amounts::from(&Resources::from(&amounts)), amounts);
        assert_eq!(serde_json::to_value(Resources::from(&Amounts::default())).unwrap(), json!({}));
        assert_eq!((Amounts::default().given(), amounts.clone().given()), (None, Some(amounts)));
    }

    #[test]
    fn the_part_with_a_request_beyond_its_limit_is_named() {
        let of = |value| serde_json::from_value::<Helpers>(value).unwrap().beyond_limit().map(|(field, _)| field);
        let bad = json!({"limits": {"cpu": "1"}, "requests": {"cpu": "2"}});
        assert_eq!(of(json!({})), None);
        assert_eq!(of(json!({"resources": bad})), Some("helpers"));
        assert_eq!(of(json!({"jobs": {"resources": bad}})), Some("helpers.jobs"));
    }
}
