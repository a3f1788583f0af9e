//! Does what is there already say everything that we would apply?

use berth_api::quantity;
use berth_render::{Kind, Object};
use serde_json::Value;

/// Where what is there differs from `object`, so that it has to be applied; none if it need not be. What somebody adds to a
/// policy allows more: it is drift even where it touches nothing that we set.
pub fn drift(live: &Value, object: &Object) -> Option<String> {
    let want = object.value();
    if !contains(live, want) {
        return first_difference(live, want, "");
    }
    let widened = object.key().kind == Kind::NetworkPolicy && !same(&live["spec"], &want["spec"]);
    widened.then(|| ".spec differs".to_owned())
}

/// True if every field of `want` has the same value in `live`. Fields that only `live` has are the API server's
/// defaults or other writers' business. Lists of named items (containers, volumes, ports) match by name, so that an
/// injected sidecar is no drift; all other lists must be equal item by item.
pub fn contains(live: &Value, want: &Value) -> bool {
    match (live, want) {
        (Value::Object(live), Value::Object(want)) => want.iter().all(|(k, w)| match live.get(k) {
            Some(l) if quantity::are_below(k) => same_quantities(l, w),
            Some(l) => contains(l, w),
            None => is_empty(w),
        }),
        (Value::Array(live), Value::Array(want)) => lists(live, want),
        (l, w) => l == w,
    }
}

/// True if both say the same, but for lists that are empty in one and left out in the other. An empty object is not nothing: as
/// a selector it selects everything.
fn same(a: &Value, b: &Value) -> bool {
    match (a, b) {
        (Value::Object(x), Value::Object(y)) => {
            let keys = x.keys().chain(y.keys());
            keys.into_iter().all(|k| same(x.get(k).unwrap_or(&Value::Null), y.get(k).unwrap_or(&Value::Null)))
        }
        (Value::Array(x), Value::Array(y)) => x.len() == y.len() && x.iter().zip(y).all(|(x, y)| same(x, y)),
        _ => a == b || (nothing(a) && nothing(b)),
    }
}

fn nothing(v: &Value) -> bool {
    v.is_null() || v.as_array().is_some_and(Vec::is_empty)
}

/// The API server writes quantities its own way: `1Gi` for `1024Mi`.
fn same_quantities(live: &Value, want: &Value) -> bool {
    match (live, want) {
        (Value::Object(live), Value::Object(want)) => {
            want.iter().all(|(k, w)| live.get(k).is_some_and(|l| l == w || quantity::same(l, w)))
        }
        (l, w) => contains(l, w),
    }
}

/// What the API server drops on the way in.
fn is_empty(v: &Value) -> bool {
    match v {
        Value::Null => true,
        Value::Array(a) => a.is_empty(),
        Value::Object(o) => o.values().all(is_empty),
        _ => false,
    }
}

fn lists(live: &[Value], want: &[Value]) -> bool {
    if live.len() == want.len() && live.iter().zip(want).all(|(l, w)| contains(l, w)) {
        return true;
    }
    let named = |v: &Value| v.get("name").and_then(Value::as_str).map(str::to_owned);
    live.len() > want.len()
        && want.iter().all(|w| match named(w) {
            Some(name) => live.iter().any(|l| named(l).as_deref() == Some(&name) && contains(l, w)),
            None => false,
        })
}

/// Where `live` first differs from `want`, for plans and logs.
fn first_difference(live: &Value, want: &Value, path: &str) -> Option<String> {
    match (live, want) {
        (Value::Object(l), Value::Object(w)) => w.iter().find_map(|(k, w)| {
            let path = format!("{path}.{k}");
            match l.get(k) {
                Some(l) if quantity::are_below(k) => (!same_quantities(l, w)).then(|| format!("{path} differs")),
                Some(l) => first_difference(l, w, &path),
                None if is_empty(w) => None,
                None => Some(format!("{path} is missing")),
            }
        }),
        (Value::Array(l), Value::Array(w)) if l.len() == w.len() => {
            l.iter().zip(w).enumerate().find_map(|(i, (l, w))| first_difference(l, w, &format!("{path}[{i}]")))
        }
        (l, w) if contains(l, w) => None,
        _ => Some(format!("{path} differs")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn quantities_are_numbers() {
        let want = json!({"resources": {"requests": {"memory": "1024Mi", "cpu": "1000m"}}});
        let live = |memory: &str| json!({"resources": {"requests": {"memory": memory, "cpu": "1", "x": "2"}}});
        assert!(contains(&live("1Gi"), &want) && first_difference(&live("1Gi"), &want, "").is_none());
        assert!(!contains(&live("1G"), &want));
        assert_eq!(first_difference(&live("1G"), &want, "").as_deref(), Some(".resources.requests differs"));
        assert!(!contains(&json!({"resources": {"requests": {"cpu": "1"}}}), &want));
    }

    #[test]
    fn the_same_is_the_same_both_ways() {
        let a = json!({"from": [{"podSelector": {}}], "ingress": []});
        assert!(same(&a, &json!({"from": [{"podSelector": {}}]})));
        assert!(!same(&a, &json!({"from": [{"podSelector": {}, "namespaceSelector": {}}]})), "selects more");
        assert!(!same(&a, &json!({"from": [{"podSelector": {}}], "egress": [{}]})));
        assert!(!same(&a, &json!({"from": [{"podSelector": {}}, {}]})));
    }

    #[test]
    fn defaults_and_sidecars_are_no_drift_but_edits_are() {
        let want = json!({"spec": {"replicas": 1, "containers": [{"name": "a", "args": ["x"]}], "empty": []}});
        let check = |live: Value, expect: bool| {
            assert_eq!(contains(&live, &want), expect, "{live}");
            assert_eq!(first_difference(&live, &want, "").is_none(), expect, "{live}");
        };
        check(
            json!({"spec": {"replicas": 1, "more": 2, "containers": [{"name": "a", "args": ["x"], "tty": false}]}}),
            true,
        );
        check(json!({"spec": {"replicas": 1, "containers": [{"name": "b"}, {"name": "a", "args": ["x"]}]}}), true);
        check(json!({"spec": {"replicas": 2, "containers": [{"name": "a", "args": ["x"]}]}}), false);
        check(json!({"spec": {"replicas": 1, "containers": [{"name": "a", "args": ["x", "y"]}]}}), false);
        check(json!({"spec": {"replicas": 1, "containers": []}}), false);
    }
}
