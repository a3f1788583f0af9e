//! One rendered object.

use std::{collections::BTreeMap, fmt::Write as _};

use serde::{Serialize, Serializer};
use serde_json::Value;
use sha2::{Digest, Sha256};

use crate::{Kind, ObjectKey};

/// A Kubernetes object of a kind from the closed table, as JSON.
#[derive(Clone, Debug, PartialEq)]
pub struct Object {
    key: ObjectKey,
    value: Value,
}

impl Object {
    /// Takes a manifest. The error says what it lacks: a kind from the table, a name, or a namespace where the kind has one.
    pub fn new(value: Value) -> Result<Self, String> {
        let text = |pointer: &str| value.pointer(pointer).and_then(Value::as_str).filter(|text| !text.is_empty());
        let (Some(api_version), Some(kind)) = (text("/apiVersion"), text("/kind")) else {
            return Err("apiVersion or kind is missing".to_owned());
        };
        let Some(kind) = Kind::from_api_version(api_version, kind) else {
            return Err(format!("{api_version} {kind} is not a kind that Berth handles"));
        };
        let Some(name) = text("/metadata/name") else {
            return Err(format!("{kind} has no metadata.name"));
        };
        let key = match (kind.namespaced(), text("/metadata/namespace")) {
            (true, Some(namespace)) => ObjectKey::namespaced(kind, namespace, name),
            (false, None) => ObjectKey::cluster(kind, name),
            (true, None) => return Err(format!("{kind} {name} has no metadata.namespace")),
            (false, Some(_)) => return Err(format!("{kind} {name} is cluster-scoped but has metadata.namespace")),
        };
        Ok(Self { key, value })
    }

    /// Which object it is.
    pub fn key(&self) -> &ObjectKey {
        &self.key
    }

    /// The manifest.
    pub fn value(&self) -> &Value {
        &self.value
    }

    /// The manifest, owned.
    pub fn into_value(self) -> Value {
        self.value
    }

    /// A part of the manifest by JSON pointer, such as `/spec/replicas`.
    pub fn get(&self, pointer: &str) -> Option<&Value> {
        self.value.pointer(pointer)
    }

    /// The labels.
    pub fn labels(&self) -> BTreeMap<&str, &str> {
        strings(self.get("/metadata/labels"))
    }

    /// The annotations.
    pub fn annotations(&self) -> BTreeMap<&str, &str> {
        strings(self.get("/metadata/annotations"))
    }

    /// The object under another name.
    pub(crate) fn renamed(self, name: &str) -> Result<Self, String> {
        Self::new(self.with("/metadata/name", name.into()).value)
    }

    /// The object with an annotation set.
    #[must_use]
    pub fn with_annotation(mut self, key: &str, value: &str) -> Self {
        self.value["metadata"]["annotations"][key] = value.into();
        self
    }

    /// The object with another value there, by JSON pointer; unchanged if there is nothing.
    #[must_use]
    pub fn with(mut self, pointer: &str, value: Value) -> Self {
        if let Some(there) = self.value.pointer_mut(pointer) {
            *there = value;
        }
        self
    }

    /// The object with a field of what is there, by JSON pointer.
    #[must_use]
    pub fn with_field(mut self, pointer: &str, field: &str, value: Value) -> Self {
        if let Some(there) = self.value.pointer_mut(pointer).and_then(Value::as_object_mut) {
            there.insert(field.to_owned(), value);
        }
        self
    }

    /// The object without that field of what is there, by JSON pointer.
    #[must_use]
    pub fn without(mut self, pointer: &str, field: &str) -> Self {
        self.value.pointer_mut(pointer).and_then(Value::as_object_mut).and_then(|there| there.remove(field));
        self
    }

    /// The object with the UID of the one that is there: applied after that one was deleted, it is a conflict and not a new object.
    #[must_use]
    pub fn with_uid(mut self, uid: &str) -> Self {
        self.value["metadata"]["uid"] = uid.into();
        self
    }

    /// The object with the resourceVersion of the one that was observed: applied after somebody else wrote, it is a conflict.
    #[must_use]
    pub fn with_resource_version(mut self, version: &str) -> Self {
        self.value["metadata"]["resourceVersion"] = version.into();
        self
    }

    /// SHA-256 of the manifest as canonical JSON (sorted keys, no spaces), in hex.
    pub fn digest(&self) -> String {
        digest(&self.value)
    }
}

impl Serialize for Object {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.value.serialize(serializer)
    }
}

/// The entries of a JSON map of strings, as of labels; empty for anything else.
pub(crate) fn strings(value: Option<&Value>) -> BTreeMap<&str, &str> {
    let map = value.and_then(Value::as_object);
    map.into_iter().flatten().filter_map(|(key, value)| Some((key.as_str(), value.as_str()?))).collect()
}

/// SHA-256 of canonical JSON, in hex.
pub(crate) fn digest(value: &Value) -> String {
    let mut text = String::new();
    canonical(value, &mut text);
    format!("{:x}", Sha256::digest(text.as_bytes()))
}

/// Sorts keys itself: whether serde_json's maps are sorted depends on the features of the whole build.
fn canonical(value: &Value, out: &mut String) {
    match value {
        Value::Object(map) => {
            let sorted: BTreeMap<&String, &Value> = map.iter().collect();
            out.push('{');
            for (index, (key, value)) in sorted.into_iter().enumerate() {
                if index > 0 {
                    out.push(',');
                }
                let _ = write!(out, "{}:", Value::from(key.as_str()));
                canonical(value, out);
            }
            out.push('}');
        }
        Value::Array(items) => {
            out.push('[');
            for (index, item) in items.iter().enumerate() {
                if index > 0 {
                    out.push(',');
                }
                canonical(item, out);
            }
            out.push(']');
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {
            let _ = write!(out, "{value}");
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn refuses_what_is_not_in_the_table() {
        let job = json!({"apiVersion": "batch/v1", "kind": "CronJob", "metadata": {"name": "a", "namespace": "b"}});
        assert_eq!(Object::new(job).unwrap_err(), "batch/v1 CronJob is not a kind that Berth handles");
        let secret = json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "a"}});
        assert_eq!(Object::new(secret).unwrap_err(), "Secret a has no metadata.namespace");
    }

    #[test]
    fn digest_ignores_the_order_of_keys() {
        let text = |text: &str| digest(&serde_json::from_str(text).unwrap());
        assert_eq!(text(r#"{"a":1,"b":{"c":"é","d":[1,2]}}"#), text(r#"{ "b": {"d":[1,2],"c":"\u00e9"}, "a":1}"#));
        assert_ne!(text(r#"{"a":[1,2]}"#), text(r#"{"a":[2,1]}"#));
    }
}
