//! What a node says of itself that decides which pods it takes.

use berth_api::common::{TaintEffect, Toleration, TolerationOperator};
use berth_api::quantity;
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};

/// Taints with these keys say how a node is just now: cordoned, not ready, short of memory.
const PASSING: [&str; 2] = ["node.kubernetes.io/", "node.cloudprovider.kubernetes.io/"];

/// A node of the meta cluster.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Node {
    /// Its name.
    pub name: String,
    labels: BTreeMap<String, String>,
    taints: Vec<Taint>,
    /// What it has for pods, by resource, in units of 10⁻⁹.
    has: BTreeMap<String, i128>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Taint {
    key: String,
    value: String,
    effect: String,
}

impl Node {
    /// From its object.
    pub fn of(node: &Value) -> Self {
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let taint = |taint: &Value| Taint {
            key: text(&taint["key"]),
            value: text(&taint["value"]),
            effect: text(&taint["effect"]),
        };
        let labels = node["metadata"]["labels"].as_object().into_iter().flatten();
        let allocatable = node["status"]["allocatable"].as_object().into_iter().flatten();
        Self {
            name: text(&node["metadata"]["name"]),
            labels: labels.map(|(key, value)| (key.clone(), text(value))).collect(),
            taints: node["spec"]["taints"].as_array().into_iter().flatten().map(taint).collect(),
            has: allocatable
                .filter_map(|(name, amount)| Some((name.clone(), quantity::nanos(amount.as_str()?)?)))
                .collect(),
        }
    }

    /// Whether it has these labels.
    pub(super) fn is_labelled(&self, selector: &BTreeMap<String, String>) -> bool {
        selector.iter().all(|(key, value)| self.labels.get(key) == Some(value))
    }

    /// The first taint that keeps a pod away for good.
    pub(super) fn keeps_away(&self, tolerations: &[Toleration]) -> Option<String> {
        let lasts = |taint: &&Taint| {
            matches!(&*taint.effect, "NoSchedule" | "NoExecute")
                && !PASSING.iter().any(|key| taint.key.starts_with(key))
        };
        let taint =
            self.taints.iter().filter(lasts).find(|taint| !tolerations.iter().any(|t| taint.is_tolerated(t)))?;
        let value = if taint.value.is_empty() { String::new() } else { format!("={}", taint.value) };
        Some(format!("{}{value}:{}", taint.key, taint.effect))
    }

    /// How much of a resource it has for pods, in units of 10⁻⁹.
    pub(super) fn has(&self, resource: &str) -> i128 {
        self.has.get(resource).copied().unwrap_or_default()
    }

    /// Whether it says what it has: one that has just joined does not.
    pub(super) fn is_known(&self) -> bool {
        !self.has.is_empty()
    }

    /// Whether a volume with that `spec.nodeAffinity` can be used there.
    pub(super) fn reaches(&self, affinity: &Value) -> bool {
        let Some(terms) = affinity["required"]["nodeSelectorTerms"].as_array() else { return true };
        let is_met = |term: &Value, list: &str, of: &dyn Fn(&str) -> Option<String>| {
            term[list].as_array().into_iter().flatten().all(|rule| meets(rule, of))
        };
        let label = |key: &str| self.labels.get(key).cloned();
        let field = |key: &str| (key == "metadata.name").then(|| self.name.clone());
        terms.iter().any(|term| is_met(term, "matchExpressions", &label) && is_met(term, "matchFields", &field))
    }
}

impl Taint {
    fn is_tolerated(&self, by: &Toleration) -> bool {
        let effect = by.effect.map(|effect| match effect {
            TaintEffect::NoSchedule => "NoSchedule",
            TaintEffect::PreferNoSchedule => "PreferNoSchedule",
            TaintEffect::NoExecute => "NoExecute",
        });
        let key = by.key.as_deref().unwrap_or_default();
        let value = match by.operator {
            TolerationOperator::Exists => true,
            TolerationOperator::Equal => by.value.as_deref().unwrap_or_default() == self.value,
        };
        effect.is_none_or(|effect| effect == self.effect) && (key.is_empty() || key == self.key) && value
    }
}

/// Whether a rule of a node selector is met. One that nobody knows is: what is not understood refuses nothing.
fn meets(rule: &Value, of: &dyn Fn(&str) -> Option<String>) -> bool {
    let has = rule["key"].as_str().and_then(of);
    let values: BTreeSet<&str> = rule["values"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
    let is_listed = || has.as_deref().is_some_and(|has| values.contains(has));
    match rule["operator"].as_str() {
        Some("In") => is_listed(),
        Some("NotIn") => !is_listed(),
        Some("Exists") => has.is_some(),
        Some("DoesNotExist") => has.is_none(),
        _ => true,
    }
}
