//! Requests that follow usage, without a restart.

use crate::common::{at_most, quantity_schema};
use crate::quantity;
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;
use serde_with::skip_serializing_none;

/// Whether the container's requests follow what it uses.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[schemars(extend("x-kubernetes-validations" = json!([ordered("cpu"), ordered("memory")])))]
pub struct Autoscaling {
    /// InPlace: the requests of running pods follow usage, as `metrics.k8s.io` of the meta cluster tells it each minute: up after a minute above,
    /// down after six hours below, in steps of 1.5. No pod restarts, and limits stay as they are. A component's next version begins with the
    /// requests that its pods have come to, as long as `resources` is the same; until then, and in etcd, a new pod begins with `resources`. Off:
    /// requests are what the pod was made with. Default Off. A change rolls nothing.
    #[serde(default)]
    pub mode: Mode,
    /// The least that is requested. Default: a quarter of the request in `resources`.
    #[serde(default, skip_serializing_if = "Bound::is_empty")]
    pub min: Bound,
    /// The most that is requested, and never more than the container's limit. Default: that limit; where there is none, four times the request
    /// in `resources`, no more than writers may ask for (chart value `writers.limits`), and no less than `min`.
    #[serde(default, skip_serializing_if = "Bound::is_empty")]
    pub max: Bound,
}

/// Whether requests follow usage.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum Mode {
    /// They are what the pod was made with.
    #[default]
    Off,
    /// They are changed while the pod runs.
    InPlace,
}

/// An amount of each resource.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Bound {
    /// CPUs, such as `100m`.
    #[serde(default)]
    #[schemars(schema_with = "quantity_schema")]
    pub cpu: Option<Quantity>,
    /// Memory, such as `256Mi`.
    #[serde(default)]
    #[schemars(schema_with = "quantity_schema")]
    pub memory: Option<Quantity>,
}

impl Autoscaling {
    /// True if nothing is asked for.
    pub fn is_default(&self) -> bool {
        *self == Self::default()
    }

    /// The first amount of `min` that is more than that of `max`, by its field below `autoscaling`.
    pub fn beyond_max(&self) -> Option<String> {
        RESOURCES.into_iter().find_map(|name| {
            let (min, max) = (self.min.of(name)?, self.max.of(name)?);
            quantity::is_less(max, min)
                .then(|| format!("min.{name} is {min}, and max.{name} is {max}. Lower min, or raise max"))
        })
    }
}

/// What can be requested more or less of while a pod runs.
pub const RESOURCES: [&str; 2] = ["cpu", "memory"];

impl Bound {
    /// True if there is none.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// That of a resource: `cpu` or `memory`.
    pub fn of(&self, resource: &str) -> Option<&str> {
        let of = if resource == "cpu" { &self.cpu } else { &self.memory };
        of.as_ref().map(|amount| &*amount.0)
    }
}

fn ordered(name: &str) -> serde_json::Value {
    let given = ["min", "max"].map(|part| format!("has(self.{part}) && has(self.{part}.{name})")).join(" && ");
    let message = format!("autoscaling: min.{name} is more than max.{name}: lower min, or raise max");
    at_most(&given, &format!("self.min.{name}"), &format!("self.max.{name}"), &message)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn min_is_at_most_max_by_resource() {
        let of = |value| serde_json::from_value::<Autoscaling>(value).unwrap().beyond_max();
        assert_eq!(of(json!({"mode": "InPlace"})), None);
        assert_eq!(of(json!({"min": {"cpu": "1"}, "max": {"cpu": "1000m", "memory": "1Gi"}})), None);
        let said = of(json!({"min": {"cpu": 1, "memory": "2Gi"}, "max": {"memory": "2000Mi"}}));
        assert_eq!(said.as_deref(), Some("min.memory is 2Gi, and max.memory is 2000Mi. Lower min, or raise max"));
    }

    #[test]
    fn what_is_not_set_is_not_written() {
        let set: Autoscaling = serde_json::from_value(json!({"mode": "InPlace", "max": {"cpu": 2}})).unwrap();
        assert_eq!(serde_json::to_value(&set).unwrap(), json!({"mode": "InPlace", "max": {"cpu": "2"}}));
        assert!(!set.is_default() && Autoscaling::default().is_default());
    }
}
