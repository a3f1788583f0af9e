//! Label selectors.

use super::Labels;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;

/// True if the labels satisfy every term. An empty selector is satisfied by all.
pub(super) fn matches(selector: &LabelSelector, labels: &Labels) -> bool {
    let equal = selector.match_labels.iter().flatten().all(|(k, v)| labels.get(k) == Some(v));
    equal
        && selector.match_expressions.iter().flatten().all(|e| {
            let value = labels.get(&e.key);
            let named = || value.is_some_and(|v| e.values.iter().flatten().any(|w| w == v));
            match e.operator.as_str() {
                "In" => named(),
                "NotIn" => !named(),
                "Exists" => value.is_some(),
                "DoesNotExist" => value.is_none(),
                other => panic!("operator {other}"),
            }
        })
}
