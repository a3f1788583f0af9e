//! Status and finalizers of Berth's own resources.

use crate::calls::Io;
use crate::error::IoError;
use berth_render::{Kind, ObjectKey};
use kube::Resource;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

/// One of Berth's own resources: enough to write its status and finalizers.
#[derive(Clone, Debug)]
pub struct ResourceRef {
    /// Which object.
    pub key: ObjectKey,
    /// Its UID.
    pub uid: String,
    /// Its resourceVersion when it was read.
    pub resource_version: Option<String>,
}

impl ResourceRef {
    /// Reads metadata.
    pub fn of<K: Resource>(kind: Kind, object: &K) -> Self {
        let meta = object.meta();
        Self {
            key: ObjectKey::namespaced(
                kind,
                meta.namespace.clone().unwrap_or_default(),
                meta.name.clone().unwrap_or_default(),
            ),
            uid: meta.uid.clone().unwrap_or_default(),
            resource_version: meta.resource_version.clone(),
        }
    }
}

/// Writes the status, if it differs from what was read and if that is still the status of this object: for the subresource the API
/// server takes all metadata from what is stored, so a UID alone would not keep it from a namesake that came after. What else was changed
/// meanwhile does not matter: a status says which generation it is of, and deadlines and turns are in it, so that who keeps changing an
/// annotation would stop them.
pub async fn write_status<S: Serialize + DeserializeOwned + PartialEq>(
    io: &Io,
    resource: &ResourceRef,
    old: Option<&S>,
    new: &S,
) -> Result<bool, IoError> {
    if old == Some(new) {
        return Ok(false);
    }
    let to_value = |s: &S| serde_json::to_value(s).unwrap_or_default();
    let mut status = to_value(new);
    if let Some(old) = old.map(to_value) {
        remove_what_is_gone(&old, &mut status);
    }
    let patch =
        json!({"metadata": {"uid": resource.uid, "resourceVersion": resource.resource_version}, "status": status});
    let is_same = |live: &Value| live["metadata"]["uid"] == *resource.uid && is_still(live, old);
    io.merge_unless_changed(&resource.key, "/status", "fieldManager=berth-status", patch, is_same).await.map(|_| true)
}

/// Whether an object has the status that was read.
fn is_still<S: DeserializeOwned + PartialEq>(live: &Value, old: Option<&S>) -> bool {
    let status = live["status"].clone();
    match old {
        None => status.is_null(),
        Some(old) => {
            let status = if status.is_null() { json!({}) } else { status };
            serde_json::from_value::<S>(status).is_ok_and(|status| status == *old)
        }
    }
}

/// A merge patch removes nothing by leaving it out, however deep it is.
fn remove_what_is_gone(old: &Value, new: &mut Value) {
    let (Value::Object(old), Value::Object(new)) = (old, new) else { return };
    for (key, old) in old {
        match new.get_mut(key) {
            Some(new) => remove_what_is_gone(old, new),
            None => drop(new.insert(key.clone(), Value::Null)),
        }
    }
}

/// Sets the finalizers, if nobody changed the object since it was read.
pub async fn patch_finalizers(io: &Io, resource: &ResourceRef, finalizers: &[String]) -> Result<Value, IoError> {
    let patch = json!({
        "metadata": {"uid": resource.uid, "resourceVersion": resource.resource_version, "finalizers": finalizers}
    });
    io.merge(&resource.key, "", "fieldManager=berth", &patch).await
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_gone_is_removed_however_deep_it_is() {
        let old = json!({"a": 1, "b": {"c": 1, "d": {"e": 1, "f": 2}}, "list": [{"g": 1}], "h": {"i": 1}});
        let mut new = json!({"b": {"d": {"e": 3}}, "list": [{}], "h": "text"});
        remove_what_is_gone(&old, &mut new);
        let wanted = json!({"a": null, "b": {"c": null, "d": {"e": 3, "f": null}}, "list": [{}], "h": "text"});
        assert_eq!(new, wanted);
    }
}
