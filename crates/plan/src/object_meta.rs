//! Metadata of an object as it was read.

use serde_json::Value;

/// `metadata.uid`.
pub fn uid(object: &Value) -> &str {
    object.pointer("/metadata/uid").and_then(Value::as_str).unwrap_or_default()
}

/// UID and resourceVersion, by which a write names what it was planned for.
pub fn version_of(object: &Value) -> (String, String) {
    let version = object.pointer("/metadata/resourceVersion").and_then(Value::as_str).unwrap_or_default();
    (uid(object).to_owned(), version.to_owned())
}

/// `metadata.labels[name]`.
pub fn label<'a>(object: &'a Value, name: &str) -> Option<&'a str> {
    object.pointer("/metadata/labels")?.get(name)?.as_str()
}

/// `metadata.annotations[name]`.
pub fn annotation<'a>(object: &'a Value, name: &str) -> Option<&'a str> {
    object.pointer("/metadata/annotations")?.get(name)?.as_str()
}

/// True if it is being deleted.
pub fn deleting(object: &Value) -> bool {
    object.pointer("/metadata/deletionTimestamp").is_some_and(|v| !v.is_null())
}
