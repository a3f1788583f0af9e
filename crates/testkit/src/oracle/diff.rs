//! Differences for people.

use std::collections::BTreeSet;

use serde_json::Value;

use super::{Counts, Dump};

/// What differs between an expected and an actual state, one line each; empty if they are equal.
pub fn diff(expected: &Dump, actual: &Dump) -> String {
    let keys: BTreeSet<_> = expected.keys().chain(actual.keys()).collect();
    let mut lines = Vec::new();
    for key in keys {
        match (expected.get(key), actual.get(key)) {
            (Some(_), None) => lines.push(format!("{key}: missing")),
            (None, Some(_)) => lines.push(format!("{key}: not expected")),
            (Some(a), Some(b)) => compare(key, "", a, b, &mut lines),
            (None, None) => {}
        }
    }
    lines.join("\n")
}

/// Likewise for counts.
pub fn diff_counts(expected: &Counts, actual: &Counts) -> String {
    let keys: BTreeSet<_> = expected.keys().chain(actual.keys()).collect();
    let count = |counts: &Counts, key: &String| counts.get(key).copied().unwrap_or(0);
    let changed = keys.into_iter().map(|k| (k, count(expected, k), count(actual, k))).filter(|(_, a, b)| a != b);
    changed.map(|(key, a, b)| format!("{key}: {a} times expected, {b} times done")).collect::<Vec<_>>().join("\n")
}

fn compare(key: &str, path: &str, expected: &Value, actual: &Value, lines: &mut Vec<String>) {
    match (expected, actual) {
        (Value::Object(a), Value::Object(b)) => {
            for field in a.keys().chain(b.keys()).collect::<BTreeSet<_>>() {
                let (a, b) = (a.get(field).unwrap_or(&Value::Null), b.get(field).unwrap_or(&Value::Null));
                compare(key, &format!("{path}/{field}"), a, b, lines);
            }
        }
        (Value::Array(a), Value::Array(b)) if a.len() == b.len() => {
            for (at, (a, b)) in a.iter().zip(b).enumerate() {
                compare(key, &format!("{path}/{at}"), a, b, lines);
            }
        }
        (a, b) if a != b => lines.push(format!("{key} {path}: {} -> {}", short(a), short(b))),
        _ => {}
    }
}

fn short(value: &Value) -> String {
    match value {
        Value::Null => "(absent)".to_owned(),
        value => {
            let text = value.to_string();
            if text.chars().count() <= 160 { text } else { text.chars().take(157).chain("...".chars()).collect() }
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn differences_name_the_place() {
        let a = Dump::from([("x".into(), json!({"a": [1, 2], "b": 1})), ("y".into(), json!({}))]);
        let b = Dump::from([("x".into(), json!({"a": [1, 3]})), ("z".into(), json!({}))]);
        assert_eq!(diff(&a, &b), "x /a/1: 2 -> 3\nx /b: 1 -> (absent)\ny: missing\nz: not expected");
        assert_eq!(diff(&a, &a), "");
        let (one, two) = (Counts::from([("create x".into(), 1)]), Counts::from([("create x".into(), 2)]));
        assert_eq!(diff_counts(&one, &two), "create x: 1 times expected, 2 times done");
    }
}
