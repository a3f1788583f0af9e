//! The final pass over what templates rendered: what is the same for every object is added here, once, and typed.
//!
//! A change to what this pass adds would roll every tenant. It is therefore part of [`crate::FORMAT`]: a new rule applies to new
//! formats only, and the snapshots of the pinned ones show that.

mod configuration;
mod pods;
mod resources;

pub use resources::lay_over;

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};

use crate::{
    Object, ObjectKey, RenderError,
    object::strings,
    values::{Meta, Workload},
};

/// On a ConfigMap in a template: pods follow its changes by themselves (or read it only when they start anyway), so it has no checksum.
const ROLLS_PODS: &str = "berth.dev/rolls-pods";

/// A document and the template that it came from.
pub(crate) struct Document {
    pub(crate) template: String,
    pub(crate) value: Value,
}

/// Turns the documents of one component, from templates of that format, into objects in apply order.
pub(crate) fn finish(
    documents: Vec<Document>,
    meta: &Meta,
    workload: Option<&Workload>,
    format: u32,
) -> Result<Vec<Object>, RenderError> {
    let mut objects: BTreeMap<ObjectKey, (String, Object)> = BTreeMap::new();
    for Document { template, mut value } in documents {
        drop_nulls(&mut value);
        add_meta(&mut value, meta);
        let fault = |reason: String| RenderError::Object { template: template.clone(), reason };
        let object = Object::new(value).map_err(fault)?;
        if !object.key().kind.applied() {
            return Err(fault(format!("{} is of a kind that Berth never applies", object.key())));
        }
        let key = object.key().clone();
        if objects.insert(key.clone(), (template.clone(), object)).is_some() {
            return Err(fault(format!("{key} is rendered twice")));
        }
    }
    let Some(workload) = workload else {
        return Ok(objects.into_values().map(|(_, object)| object).collect());
    };
    let own =
        if format < 3 { BTreeMap::new() } else { configuration::names(objects.values().map(|(_, object)| object)) };
    let sums = sums(objects.values().map(|(_, object)| object).filter(|object| !own.contains_key(&object.key().name)));
    let checksums = sums.into_iter().chain(workload.checksums.clone()).collect();
    let mut out = Vec::with_capacity(objects.len());
    for (template, object) in objects.into_values() {
        if object.key().kind.has_pods() {
            let fault = |reason: String| RenderError::Object { template: template.clone(), reason };
            let mut value = object.into_value();
            pods::finish_workload(&mut value, meta, workload, &checksums, format).map_err(fault)?;
            configuration::mount(&mut value, &own);
            out.push(Object::new(value).map_err(fault)?);
        } else if let Some(name) = own.get(&object.key().name).filter(|_| object.key().kind == crate::Kind::ConfigMap) {
            let fault = |reason: String| RenderError::Object { template: template.clone(), reason };
            out.push(object.renamed(name).map_err(fault)?);
        } else {
            out.push(object);
        }
    }
    Ok(out)
}

/// Turns the documents of a set of objects inside a tenant into objects in apply order. Templates name namespaces themselves. Pods carry
/// digests of the set's ConfigMaps: a change of one restarts them.
pub(crate) fn finish_inside(
    documents: Vec<Document>,
    labels: &BTreeMap<String, String>,
) -> Result<Vec<Object>, RenderError> {
    let mut objects = Vec::with_capacity(documents.len());
    for Document { template, mut value } in documents {
        drop_nulls(&mut value);
        if let Some(metadata) = map(&mut value, "metadata") {
            merge_strings(metadata, "labels", labels);
        }
        objects.push(Object::new(value).map_err(|reason| RenderError::Object { template, reason })?);
    }
    objects.sort_by(|a, b| a.key().cmp(b.key()));
    let sums = sums(objects.iter());
    objects.into_iter().map(|object| with_sums(object, &sums)).collect()
}

fn with_sums(object: Object, sums: &BTreeMap<String, String>) -> Result<Object, RenderError> {
    if object.get("/spec/template").is_none() {
        return Ok(object);
    }
    let key = object.key().clone();
    let mut value = object.into_value();
    if let Some(metadata) = value.pointer_mut("/spec/template").and_then(|template| map(template, "metadata")) {
        merge_strings(metadata, "annotations", &pods::annotations(sums));
    }
    Object::new(value).map_err(|reason| RenderError::Object { template: key.to_string(), reason })
}

/// Digests that pods carry, one per ConfigMap that was rendered with them.
fn sums<'a>(objects: impl Iterator<Item = &'a Object>) -> BTreeMap<String, String> {
    let rendered = objects.filter(|object| object.key().kind == crate::Kind::ConfigMap);
    let rolling = rendered.filter(|object| rolls_pods(object));
    let sum = |object: &Object| {
        let data = object.get("/data").cloned().unwrap_or_default();
        (object.key().name.clone(), crate::object::digest(&data))
    };
    rolling.map(sum).collect()
}

fn rolls_pods(object: &Object) -> bool {
    object.annotations().get(ROLLS_PODS) != Some(&"false")
}

fn add_meta(value: &mut Value, meta: &Meta) {
    let kind = value["kind"].as_str().unwrap_or_default();
    let api_version = value["apiVersion"].as_str().unwrap_or_default();
    let namespaced = crate::Kind::from_api_version(api_version, kind).is_some_and(crate::Kind::namespaced);
    let Some(metadata) = map(value, "metadata") else { return };
    if namespaced {
        metadata.insert("namespace".to_owned(), meta.namespace.clone().into());
    }
    merge_strings(metadata, "labels", &meta.labels);
}

/// Adds entries to a map of strings below `parent`; entries that are there stay.
fn merge_strings(parent: &mut Map<String, Value>, key: &str, entries: &BTreeMap<String, String>) {
    if entries.is_empty() {
        return;
    }
    let target = parent.entry(key).or_insert_with(|| json!({}));
    if let Some(target) = target.as_object_mut() {
        for (key, value) in entries {
            target.entry(key).or_insert_with(|| value.clone().into());
        }
    }
}

/// A map below `parent`, made if it is missing.
fn map<'a>(parent: &'a mut Value, key: &str) -> Option<&'a mut Map<String, Value>> {
    parent.as_object_mut()?.entry(key).or_insert_with(|| json!({})).as_object_mut()
}

/// Server-side apply treats null as a value: leave out what is not set.
fn drop_nulls(value: &mut Value) {
    match value {
        Value::Object(map) => {
            map.retain(|_, value| !value.is_null());
            map.values_mut().for_each(drop_nulls);
        }
        Value::Array(items) => items.iter_mut().for_each(drop_nulls),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

/// The labels by which a workload finds its pods.
fn selector(workload: &Value) -> BTreeMap<String, String> {
    let labels = strings(workload.pointer("/spec/selector/matchLabels"));
    labels.into_iter().map(|(key, value)| (key.to_owned(), value.to_owned())).collect()
}
