//! Which `Cluster`s something is for: by their labels, or by name.

use crate::common::keys;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;
use serde_with::skip_serializing_none;
use std::collections::BTreeMap;

/// Which `Cluster`s, by their labels. All parts have to fit.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ClusterSelector {
    /// Labels, each with its value.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(schema_with = "match_labels_schema")]
    pub match_labels: BTreeMap<String, String>,
    /// More that labels have to fit.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 16), extend("x-kubernetes-list-type" = "atomic"))]
    pub match_expressions: Vec<LabelExpression>,
}

/// What a label has to fit.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[schemars(extend("x-kubernetes-validations" = json!([
    {"rule": "(self.operator in ['In', 'NotIn']) == has(self.values)", "message": "values: In and NotIn need values, Exists and DoesNotExist have none"}
])))]
pub struct LabelExpression {
    /// The label.
    #[schemars(length(min = 1, max = 317))]
    pub key: String,
    /// How it has to fit.
    pub operator: LabelOperator,
    /// Values for In and NotIn.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(min = 1, max = 64), inner(length(max = 63)), extend("x-kubernetes-list-type" = "atomic"))]
    pub values: Vec<String>,
}

/// How a label has to fit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum LabelOperator {
    /// It has one of the values.
    In,
    /// It is not there, or has another value.
    NotIn,
    /// It is there.
    Exists,
    /// It is not there.
    DoesNotExist,
}

/// A `Cluster`.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct NamedCluster {
    /// Its name.
    #[schemars(length(min = 1, max = 40), regex(pattern = r"^[a-z]([-a-z0-9]*[a-z0-9])?$"))]
    pub name: String,
    /// Its namespace. Only in the operator's namespace another one than that of this object. Default: that of this object.
    #[schemars(length(min = 1, max = 63), regex(pattern = r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?$"))]
    pub namespace: Option<String>,
}

impl ClusterSelector {
    /// Whether these labels fit. An empty selector fits all.
    pub fn fits(&self, labels: &BTreeMap<String, String>) -> bool {
        let has = |(key, value): (&String, &String)| labels.get(key) == Some(value);
        self.match_labels.iter().all(has) && self.match_expressions.iter().all(|expression| expression.fits(labels))
    }
}

impl LabelExpression {
    fn fits(&self, labels: &BTreeMap<String, String>) -> bool {
        let value = labels.get(&self.key);
        let is_listed = value.is_some_and(|value| self.values.contains(value));
        match self.operator {
            LabelOperator::In => is_listed,
            LabelOperator::NotIn => !is_listed,
            LabelOperator::Exists => value.is_some(),
            LabelOperator::DoesNotExist => value.is_none(),
        }
    }
}

fn match_labels_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
    schemars::json_schema!({
        "type": "object", "maxProperties": 16, "additionalProperties": {"type": "string", "maxLength": 63},
        "x-kubernetes-validations": [keys("matchLabels")],
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_fit_a_selector_as_in_kubernetes() {
        let labels = BTreeMap::from([("env".to_owned(), "prod".to_owned())]);
        let fits =
            |selector: serde_json::Value| serde_json::from_value::<ClusterSelector>(selector).unwrap().fits(&labels);
        let by = |operator: &str, key: &str, values: &[&str]| {
            let mut expression = json!({"key": key, "operator": operator});
            if !values.is_empty() {
                expression["values"] = json!(values);
            }
            fits(json!({"matchExpressions": [expression]}))
        };
        assert!(fits(json!({})) && fits(json!({"matchLabels": {"env": "prod"}})));
        assert!(!fits(json!({"matchLabels": {"env": "test"}})) && !fits(json!({"matchLabels": {"team": "a"}})));
        assert!(by("In", "env", &["prod", "test"]) && !by("In", "env", &["test"]) && !by("In", "team", &["a"]));
        assert!(by("NotIn", "env", &["test"]) && by("NotIn", "team", &["a"]) && !by("NotIn", "env", &["prod"]));
        assert!(by("Exists", "env", &[]) && !by("Exists", "team", &[]));
        assert!(by("DoesNotExist", "team", &[]) && !by("DoesNotExist", "env", &[]));
    }
}
