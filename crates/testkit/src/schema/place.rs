//! Puts a value into a spec, and makes what it has to be in.

use serde_json::{Map, Value, json};

use super::Samples;

/// Sets what is at `path`, whose schema is inside of `schema`; None takes it away. Lists and maps on the way get one good entry.
pub fn put(spec: &mut Value, schema: &Value, path: &str, value: Option<Value>, samples: &dyn Samples) {
    set(spec, schema, &steps(path), "", value, samples);
}

#[derive(Clone, Debug, PartialEq)]
enum Step {
    Name(String),
    Item,
    Entry,
    Key,
}

fn steps(path: &str) -> Vec<Step> {
    let mut all = Vec::new();
    for part in path.split('.') {
        let end = part.find(['[', '{']).unwrap_or(part.len());
        all.push(Step::Name(part[..end].to_owned()));
        let mut rest = &part[end..];
        while !rest.is_empty() {
            let (step, length) = match rest {
                r if r.starts_with("[]") => (Step::Item, 2),
                r if r.starts_with("{}") => (Step::Entry, 2),
                r if r.starts_with("{key}") => (Step::Key, 5),
                other => panic!("{path}: {other}"),
            };
            all.push(step);
            rest = &rest[length..];
        }
    }
    all
}

/// The name of the one entry of a map.
const ENTRY: &str = "sweep";

fn set(at: &mut Value, schema: &Value, steps: &[Step], path: &str, value: Option<Value>, samples: &dyn Samples) {
    let Some((step, rest)) = steps.split_first() else {
        *at = value.unwrap_or(Value::Null);
        return;
    };
    match step {
        Step::Name(name) => {
            if !at.is_object() {
                // What it cannot be without is beside the value.
                *at = Some(example(schema, path, 1, samples)).filter(Value::is_object).unwrap_or_else(|| json!({}));
            }
            let path = if path.is_empty() { name.clone() } else { format!("{path}.{name}") };
            let map = at.as_object_mut().expect("an object");
            if rest.is_empty() && value.is_none() {
                map.remove(name);
                return;
            }
            let child = map.entry(name.clone()).or_insert(Value::Null);
            set(child, &schema["properties"][name], rest, &path, value, samples);
        }
        Step::Item => {
            let path = format!("{path}[]");
            let items = &schema["items"];
            let mut item = example(items, &path, 1, samples);
            set(&mut item, items, rest, &path, value, samples);
            *at = json!([item]);
        }
        Step::Entry => {
            let path = format!("{path}{{}}");
            let entries = &schema["additionalProperties"];
            let mut entry = example(entries, &path, 1, samples);
            set(&mut entry, entries, rest, &path, value, samples);
            *at = json!({key(&path, 1, samples): entry});
        }
        Step::Key => {
            let entry = example(&schema["additionalProperties"], &format!("{path}{{}}"), 1, samples);
            let name = value.as_ref().and_then(Value::as_str).unwrap_or_default().to_owned();
            *at = Value::Object(Map::from_iter([(name, entry)]));
        }
    }
}

/// A good key of the map whose values are at `path`.
pub(super) fn key(path: &str, n: usize, samples: &dyn Samples) -> String {
    let path = format!("{}{{key}}", path.strip_suffix("{}").unwrap_or(path));
    let numbered = || if n == 1 { ENTRY.to_owned() } else { format!("{ENTRY}-{n}") };
    samples.nth(&path, n).and_then(|k| k.as_str().map(str::to_owned)).unwrap_or_else(numbered)
}

/// A good value: the sample, or the shortest that the schema lets pass.
pub(super) fn example(schema: &Value, path: &str, n: usize, samples: &dyn Samples) -> Value {
    if let Some(sample) = samples.nth(path, n) {
        return sample;
    }
    if let Some(first) = schema["enum"].as_array().and_then(|e| e.first()) {
        return first.clone();
    }
    match schema["type"].as_str() {
        Some("object") => {
            let mut object = Map::new();
            for name in schema["required"].as_array().into_iter().flatten().filter_map(Value::as_str) {
                let path = format!("{path}.{name}");
                object.insert(name.to_owned(), example(&schema["properties"][name], &path, n, samples));
            }
            Value::Object(object)
        }
        Some("array") => json!([]),
        Some("integer") => json!(number(&schema["minimum"]).unwrap_or(1)),
        Some("boolean") => json!(true),
        _ if schema["x-kubernetes-int-or-string"] == true => json!(1),
        _ => {
            let length = number(&schema["minLength"]).and_then(|n| usize::try_from(n).ok()).unwrap_or(0).max(1);
            json!("a".repeat(length))
        }
    }
}

/// A bound: generated CRDs have them as floats.
pub(super) fn number(value: &Value) -> Option<i64> {
    #[allow(clippy::cast_possible_truncation, reason = "bounds are far below 2^53")]
    value.as_i64().or_else(|| value.as_f64().map(|f| f as i64))
}
