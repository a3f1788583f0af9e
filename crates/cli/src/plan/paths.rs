//! Where two objects differ.

use berth_plan::objects::diff::contains;
use serde_json::{Value, json};

/// More than these tell a person nothing.
const MOST: usize = 8;
/// Longer values are not shown.
const SHORT: usize = 60;

/// Paths of `want` that `live` does not say, with both values where they are short.
pub(super) fn differences(live: &Value, want: &Value) -> Vec<String> {
    let mut all = vec![];
    walk(live, want, "", &mut all);
    // The digest of the rest says nothing beside the rest.
    let digest = |p: &String| p.contains(berth_api::labels::APPLIED_DIGEST);
    if all.iter().any(|p| !digest(p)) {
        all.retain(|p| !digest(p));
    }
    if all.len() > MOST {
        let more = all.len() - MOST;
        all.truncate(MOST);
        all.push(format!("and {more} more"));
    }
    all
}

/// True if a field of `want` is not so in `live`. Together with its name, since how values compare depends on it.
pub(super) fn differs(live: Option<&Value>, want: &Value, name: &str) -> bool {
    let live = live.map_or_else(|| json!({}), |l| json!({(name): l}));
    !contains(&live, &json!({(name): want}))
}

fn walk(live: &Value, want: &Value, path: &str, all: &mut Vec<String>) {
    match (live, want) {
        (Value::Object(live), Value::Object(want)) => {
            for (name, want) in want.iter().filter(|(name, want)| differs(live.get(*name), want, name)) {
                let path = format!("{path}.{name}");
                match live.get(name) {
                    None => {
                        all.push(format!("{path}: added{}", shown(want).map(|v| format!(", {v}")).unwrap_or_default()));
                    }
                    Some(live) => step(live, want, &path, all),
                }
            }
        }
        (Value::Array(live), Value::Array(want)) if live.len() == want.len() => {
            for (i, (live, want)) in live.iter().zip(want).enumerate().filter(|(_, (l, w))| !contains(l, w)) {
                step(live, want, &format!("{path}[{i}]"), all);
            }
        }
        _ => all.push(leaf(live, want, path)),
    }
}

/// Into a part that differs; it is named itself if no part of it does.
fn step(live: &Value, want: &Value, path: &str, all: &mut Vec<String>) {
    let before = all.len();
    walk(live, want, path, all);
    if all.len() == before {
        all.push(leaf(live, want, path));
    }
}

fn leaf(live: &Value, want: &Value, path: &str) -> String {
    match (shown(live), shown(want)) {
        (Some(live), Some(want)) => format!("{path}: {live} → {want}"),
        _ => format!("{path} differs"),
    }
}

fn shown(value: &Value) -> Option<String> {
    let text = match value {
        Value::String(text) => text.clone(),
        Value::Bool(_) | Value::Number(_) => value.to_string(),
        _ => return None,
    };
    (text.chars().count() <= SHORT && !text.contains('\n')).then_some(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_with_values_and_no_noise() {
        let live = json!({
            "metadata": {"annotations": {"berth.dev/applied-digest": "a"}},
            "spec": {"replicas": 1, "extra": true, "list": [{"a": 1, "b": "x"}], "args": ["a"], "m": {"resources": {"requests": {"memory": "1Gi"}}}},
        });
        let want = json!({
            "metadata": {"annotations": {"berth.dev/applied-digest": "b"}},
            "spec": {"replicas": 2, "new": "n", "list": [{"a": 1, "b": "y"}], "args": ["a", "b"], "m": {"resources": {"requests": {"memory": "1024Mi"}}}},
        });
        let mut found = differences(&live, &want);
        found.sort();
        let expected = [".spec.args differs", ".spec.list[0].b: x → y", ".spec.new: added, n", ".spec.replicas: 1 → 2"];
        assert_eq!(found, expected);
        assert!(differences(&live, &live).is_empty());
    }

    #[test]
    fn quantities_that_differ_are_found_and_long_lists_are_cut() {
        let of = |m: &str| json!({"resources": {"requests": {"memory": m}}});
        assert_eq!(differences(&of("1Gi"), &of("2Gi")), [".resources.requests.memory: 1Gi → 2Gi"]);
        let many = |n: i32| Value::Object((0..12).map(|i| (format!("k{i}"), json!(n))).collect());
        assert_eq!(differences(&many(1), &many(2)).last().unwrap(), "and 4 more");
    }
}
