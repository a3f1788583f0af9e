//! Laying what a user sets over a configuration that a template rendered.

use serde_json::{Map, Value};

use crate::yaml;

/// The text with the user's fields merged in: objects field by field, everything else as a whole; null stands for nothing. A text into which
/// nothing is merged stays as it is, byte for byte, with its comments. Err: the text is no YAML object.
pub(crate) fn merged(text: &str, over: &Map<String, Value>) -> Result<String, String> {
    if over.is_empty() {
        return Ok(text.to_owned());
    }
    let documents = yaml::parse(text).map_err(|error| error.to_string())?;
    let [Value::Object(own)] = &documents[..] else { return Err("not one YAML object".to_owned()) };
    let mut all = own.clone();
    lay_over(&mut all, without_nulls(over));
    let mut out = String::new();
    print(&all, 0, &mut out);
    Ok(out)
}

/// What is set: a field with null is not. Lists stay as they are.
pub fn without_nulls(fields: &Map<String, Value>) -> Map<String, Value> {
    let kept = fields.iter().filter(|(_, value)| !value.is_null());
    let below = |value: &Value| value.as_object().map_or_else(|| value.clone(), |fields| without_nulls(fields).into());
    kept.map(|(name, value)| (name.clone(), below(value))).collect()
}

/// Lays fields over others: objects field by field, everything else as a whole, null too.
pub fn lay_over(own: &mut Map<String, Value>, over: Map<String, Value>) {
    for (name, value) in over {
        match (own.get_mut(&name), value) {
            (Some(Value::Object(own)), Value::Object(over)) => lay_over(own, over),
            (_, value) => drop(own.insert(name, value)),
        }
    }
}

/// Block style for objects, JSON for all else: kubelet reads YAML 1.1, in which a plain `on` is no string.
fn print(fields: &Map<String, Value>, depth: usize, out: &mut String) {
    for (name, value) in fields {
        out.push_str(&"  ".repeat(depth));
        out.push_str(&key(name));
        match value {
            Value::Object(fields) if !fields.is_empty() => {
                out.push_str(":\n");
                print(fields, depth + 1, out);
            }
            value => {
                out.push_str(": ");
                out.push_str(&value.to_string());
                out.push('\n');
            }
        }
    }
}

/// Names of fields as they are, but for those that YAML 1.1 may take for something else.
fn key(name: &str) -> String {
    const WORDS: [&str; 9] = ["y", "n", "yes", "no", "on", "off", "true", "false", "null"];
    let is_plain = name.starts_with(|c: char| c.is_ascii_alphabetic())
        && name.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | '_' | '/'))
        && !WORDS.contains(&&*name.to_ascii_lowercase());
    if is_plain { name.to_owned() } else { Value::from(name).to_string() }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    const OWN: &str =
        "# Berth's\nkind: K\nauthentication:\n  webhook:\n    enabled: true\nclusterDNS: [\"10.96.0.10\"]\n";

    fn over(value: &Value) -> String {
        merged(OWN, value.as_object().unwrap()).unwrap()
    }

    #[test]
    fn objects_are_merged_and_all_else_is_replaced() {
        for (set, expected) in [
            (
                json!({}),
                json!({"kind": "K", "authentication": {"webhook": {"enabled": true}}, "clusterDNS": ["10.96.0.10"]}),
            ),
            (
                json!({"authentication": {"webhook": {"cacheTTL": "1m"}}, "clusterDNS": ["169.254.20.10"], "maxPods": 30, "none": null, "evictionHard": {"pid.available": null}}),
                json!({"kind": "K", "authentication": {"webhook": {"enabled": true, "cacheTTL": "1m"}}, "clusterDNS": ["169.254.20.10"], "maxPods": 30, "evictionHard": {}}),
            ),
            (
                json!({"evictionHard": {"memory.available": "5%", "on": "0x1", "a b": ": #"}, "featureGates": {}, "registerWithTaints": [{"key": "a"}]}),
                json!({"kind": "K", "authentication": {"webhook": {"enabled": true}}, "clusterDNS": ["10.96.0.10"],
                    "evictionHard": {"memory.available": "5%", "on": "0x1", "a b": ": #"}, "featureGates": {}, "registerWithTaints": [{"key": "a"}]}),
            ),
        ] {
            assert_eq!(yaml::parse(&over(&set)).unwrap(), [expected]);
        }
    }

    #[test]
    fn without_a_field_of_the_users_the_text_stays_and_with_one_it_reads_well() {
        assert_eq!(over(&json!({})), OWN);
        assert_eq!(
            over(&json!({"maxPods": 30, "evictionHard": {"memory.available": "5%", "on": "1"}})),
            "authentication:\n  webhook:\n    enabled: true\nclusterDNS: [\"10.96.0.10\"]\nevictionHard:\n  memory.available: \"5%\"\n  \"on\": \"1\"\nkind: \"K\"\nmaxPods: 30\n"
        );
        assert!(merged("[1]\n", json!({"a": 1}).as_object().unwrap()).is_err());
    }
}
