//! Differences for people.

use std::collections::BTreeSet;

use serde_json::Value;

use super::{Counts, Dump};

/// One place in which two states differ.
#[derive(Clone, Debug, PartialEq)]
pub struct Change {
    /// The object, as in a [`Dump`].
    pub object: String,
    /// JSON pointer into it; empty for all of it.
    pub path: String,
    /// What was expected; null if it is not there.
    pub before: Value,
    /// What is; null if it is not there.
    pub after: Value,
}

/// Every place in which two states differ.
pub fn changes(expected: &Dump, actual: &Dump) -> Vec<Change> {
    let keys: BTreeSet<_> = expected.keys().chain(actual.keys()).collect();
    let mut all = Vec::new();
    for key in keys {
        let side = |dump: &Dump| dump.get(key).cloned().unwrap_or(Value::Null);
        compare(key, "", &side(expected), &side(actual), &mut all);
    }
    all
}

/// What differs between an expected and an actual state, one line each; empty if they are equal.
pub fn diff(expected: &Dump, actual: &Dump) -> String {
    changes(expected, actual).iter().map(line).collect::<Vec<_>>().join("\n")
}

fn line(Change { object, path, before, after }: &Change) -> String {
    match (&**path, before, after) {
        ("", _, Value::Null) => format!("{object}: missing"),
        ("", Value::Null, _) => format!("{object}: not expected"),
        _ => format!("{object} {path}: {} -> {}", short(before), short(after)),
    }
}

/// Likewise for counts.
pub fn diff_counts(expected: &Counts, actual: &Counts) -> String {
    let keys: BTreeSet<_> = expected.keys().chain(actual.keys()).collect();
    let count = |counts: &Counts, key: &String| counts.get(key).copied().unwrap_or(0);
    let changed = keys.into_iter().map(|k| (k, count(expected, k), count(actual, k))).filter(|(_, a, b)| a != b);
    changed.map(|(key, a, b)| format!("{key}: {a} times expected, {b} times done")).collect::<Vec<_>>().join("\n")
}

fn compare(key: &str, path: &str, expected: &Value, actual: &Value, all: &mut Vec<Change>) {
    match (expected, actual) {
        (Value::Object(a), Value::Object(b)) => {
            for field in a.keys().chain(b.keys()).collect::<BTreeSet<_>>() {
                let (a, b) = (a.get(field).unwrap_or(&Value::Null), b.get(field).unwrap_or(&Value::Null));
                compare(key, &format!("{path}/{field}"), a, b, all);
            }
        }
        (Value::Array(a), Value::Array(b)) if a.len() == b.len() => {
            for (at, (a, b)) in a.iter().zip(b).enumerate() {
                compare(key, &format!("{path}/{at}"), a, b, all);
            }
        }
        (a, b) if a != b => {
            let (object, path) = (key.to_owned(), path.to_owned());
            all.push(Change { object, path, before: a.clone(), after: b.clone() });
        }
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
