//! Configuration of its own: a ConfigMap that a component reads as its configuration has the digest of its texts in its name.
//!
//! Pods name the one that they were made with, so those that run never see another: a new pod proves it before an old one goes, and the way
//! back leads to the old texts. One that pods are to follow says so, and keeps its name.

use std::collections::BTreeMap;

use serde_json::Value;

use super::rolls_pods;
use crate::{Kind, Object, object::digest};

/// The names of those, by what templates call them.
pub(super) fn names<'a>(objects: impl Iterator<Item = &'a Object>) -> BTreeMap<String, String> {
    let own = objects.filter(|object| object.key().kind == Kind::ConfigMap && rolls_pods(object));
    let named = |object: &Object| {
        let name = object.key().name.clone();
        let sum = digest(&object.get("/data").cloned().unwrap_or_default());
        let with_digest = format!("{name}-config-{}", sum.get(..12).unwrap_or(&sum));
        (name, with_digest)
    };
    own.map(named).collect()
}

/// Lets the pods of a workload mount them by these names.
pub(super) fn mount(workload: &mut Value, names: &BTreeMap<String, String>) {
    let volumes = workload.pointer_mut("/spec/template/spec/volumes").and_then(Value::as_array_mut);
    for volume in volumes.into_iter().flatten() {
        rename(volume, names);
        let sources = volume.pointer_mut("/projected/sources").and_then(Value::as_array_mut);
        sources.into_iter().flatten().for_each(|source| rename(source, names));
    }
}

fn rename(source: &mut Value, names: &BTreeMap<String, String>) {
    let Some(called) = source.pointer_mut("/configMap/name") else { return };
    if let Some(name) = called.as_str().and_then(|called| names.get(called)) {
        *called = name.clone().into();
    }
}
