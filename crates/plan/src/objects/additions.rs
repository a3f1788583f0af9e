//! What somebody added to the spec of a workload: fields that Berth does not set, and that an API server notes for another writer
//! (`metadata.managedFields`). Berth takes them away (ADR 23), but for
//!
//! - those of a workload whose pods were last changed by a build that left them: a new operator restarts nobody;
//! - those of a writer that puts them back each time: that would restart the pods for ever;
//! - those without a writer, which admission adds to whatever Berth sends: they would be back at once.
//!
//! These are named.

use super::diff::{contains, has_pods_of};
use super::fields::{extra, merge, steps, take_unset};
use crate::model::{Action, Addition};
use crate::object_meta::{annotation, uid};
use crate::settings::MayChange;
use berth_api::labels;
use berth_render::{Kind, Object, ObjectKey};
use jiff::{SignedDuration, Timestamp};
use serde_json::{Map, Value, json};
use std::collections::{BTreeMap, BTreeSet};

/// So often within [`WINDOW`] what one writer adds to a workload is taken away.
const TIMES: usize = 5;
const WINDOW: SignedDuration = SignedDuration::from_mins(10);

/// Writers whose additions a workload remembers.
const MOST: usize = 8;

/// The field manager by which Berth applies a workload. None: no workload.
fn manager(object: &Object) -> Option<&'static str> {
    match object.key().kind {
        Kind::StatefulSet if object.labels().contains_key(labels::ETCD_CLUSTER) => Some(labels::MANAGER_ETCD),
        Kind::Deployment | Kind::StatefulSet => Some(labels::MANAGER_CLUSTER),
        _ => None,
    }
}

/// Times at which each writer added what was taken away, as the workload records them. There is a record once additions are taken
/// away at all.
type Record = BTreeMap<String, Vec<String>>;

fn record(live: &Value) -> Option<Record> {
    annotation(live, labels::ADDITIONS).map(|text| serde_json::from_str(text).unwrap_or_default())
}

fn recorded(object: Object, record: &Record) -> Object {
    object.with_annotation(labels::ADDITIONS, &json!(record).to_string())
}

/// What follows from additions.
#[derive(Debug)]
pub(super) struct Judged {
    /// The object, with what it records.
    pub(super) object: Object,
    /// Takes them away, and applies the object.
    pub(super) removal: Option<Action>,
    /// It is to be applied, whether it differs or not: an API server knows no more which fields are Berth's.
    pub(super) unowned: bool,
    /// What is left, and why.
    pub(super) notes: Vec<String>,
}

/// What one entry of `managedFields` has, and the object has not.
struct Entry {
    /// Its place in the list.
    index: usize,
    writer: String,
    /// When it wrote last.
    time: String,
    fields: Vec<String>,
    /// `f:spec` of what it has too much, and of the rest.
    taken: Map<String, Value>,
    rest: Map<String, Value>,
}

impl Entry {
    fn additions(&self) -> impl Iterator<Item = Addition> + '_ {
        self.fields.iter().map(|field| Addition { field: field.clone(), manager: self.writer.clone() })
    }
}

/// Judges a workload; any other object is as it was. `live`: what is there, if anything is.
pub(super) fn judge(live: Option<&Value>, object: Object, may: &MayChange) -> Judged {
    let as_it_was = |object| Judged { object, removal: None, unowned: false, notes: vec![] };
    let Some(ours) = manager(&object) else { return as_it_was(object) };
    let Some(live) = live else { return as_it_was(recorded(object, &Record::default())) };
    // What Berth itself set and no longer sets is no addition: an apply takes it away.
    let changed = annotation(live, labels::APPLIED_DIGEST) != annotation(object.value(), labels::APPLIED_DIGEST);
    // It costs no restart of its own when the pods are replaced anyway.
    let rolls = if changed {
        !contains(&live["spec"]["template"], &object.value()["spec"]["template"])
    } else {
        !has_pods_of(live, &object, may)
    };
    let before = record(live);
    let (strict, before) = (rolls || before.is_some(), before.filter(|_| !rolls).unwrap_or_default());
    let Some(managed) = live["metadata"]["managedFields"].as_array() else {
        return as_it_was(if strict { recorded(object, &before) } else { object });
    };
    let own =
        managed.iter().position(|e| e["manager"] == ours && e["operation"] == "Apply" && e["subresource"].is_null());
    let Some(own) = own.filter(|_| strict) else {
        let notes = if strict { vec![] } else { left(live, &object, &entries(managed, own, &object), Why::Older) };
        let object = if strict { recorded(object, &before) } else { object };
        return Judged { object, removal: None, unowned: strict, notes };
    };
    let (former, others): (Vec<_>, Vec<_>) =
        entries(managed, Some(own), &object).into_iter().partition(|entry| changed && entry.index == own);
    let (again, new): (Vec<_>, Vec<_>) = others.into_iter().partition(|entry| is_back(&before, entry));
    let mut after = before;
    for entry in &new {
        let times = after.entry(entry.writer.clone()).or_default();
        times.push(entry.time.clone());
        times.drain(..times.len().saturating_sub(TIMES));
    }
    forget(&mut after);
    let mut notes = left(live, &object, &again, Why::Again);
    let all: BTreeSet<&String> = again.iter().chain(&new).chain(&former).flat_map(|e| &e.fields).collect();
    notes.extend(by_admission(live, &object, &all, may));
    let object = recorded(object, &after);
    let additions: Vec<_> = new.iter().flat_map(Entry::additions).collect();
    let removal = (!additions.is_empty()).then(|| Action::RemoveAdditions {
        uid: uid(live).to_owned(),
        resource_version: live["metadata"]["resourceVersion"].as_str().unwrap_or_default().to_owned(),
        managed_fields: taken_over(live, own, new),
        object: object.clone(),
        additions,
    });
    Judged { object, removal, unowned: false, notes }
}

/// Of each writer what `object` does not have.
fn entries(managed: &[Value], own: Option<usize>, object: &Object) -> Vec<Entry> {
    let of = |(index, entry): (usize, &Value)| {
        // What controllers report is no one's wish.
        let mut rest = entry["fieldsV1"]["f:spec"].as_object().filter(|_| entry["subresource"].is_null())?.clone();
        let (mut fields, text) = (vec![], |of: &Value| of.as_str().unwrap_or("unknown").to_owned());
        let taken = take_unset(&mut rest, &object.value()["spec"], "spec", &mut fields);
        // An API server leaves it out where it is false, and so it stays Berth's.
        fields.retain(|field| own != Some(index) || field != "spec.paused");
        let (writer, time) = (text(&entry["manager"]), text(&entry["time"]));
        (!fields.is_empty()).then_some(Entry { index, writer, time, fields, taken, rest })
    };
    managed.iter().enumerate().filter_map(of).collect()
}

/// Whether what this writer adds was taken away too often.
fn is_back(before: &Record, entry: &Entry) -> bool {
    let times = before.get(&entry.writer).map_or(&[][..], Vec::as_slice);
    let Some(first) = times.len().checked_sub(TIMES).and_then(|n| times.get(n)) else { return false };
    match (first.parse::<Timestamp>(), entry.time.parse::<Timestamp>()) {
        (Ok(first), Ok(now)) => now.duration_since(first) < WINDOW,
        _ => true,
    }
}

/// Only those that wrote last are remembered.
fn forget(record: &mut Record) {
    while record.len() > MOST {
        let oldest = record.iter().min_by_key(|(_, times)| times.last()).map(|(writer, _)| writer.clone());
        oldest.and_then(|writer| record.remove(&writer));
    }
}

/// `managedFields` with all of it in Berth's own entry: what is not in the next apply, an API server then takes away.
fn taken_over(live: &Value, own: usize, additions: Vec<Entry>) -> Value {
    let mut managed = live["metadata"]["managedFields"].clone();
    let mut all = Map::new();
    let host_network = additions.iter().flat_map(|e| &e.fields).any(|field| field == "spec.template.spec.hostNetwork");
    for entry in additions.into_iter().filter(|entry| entry.index != own) {
        let fields = &mut managed[entry.index]["fieldsV1"];
        match (entry.rest.is_empty(), fields.as_object_mut()) {
            (true, Some(fields)) => drop(fields.remove("f:spec")),
            _ => fields["f:spec"] = entry.rest.into(),
        }
        merge(&mut all, entry.taken);
    }
    if host_network {
        merge(&mut all, host_ports(live));
    }
    if let Some(fields) = managed[own]["fieldsV1"].as_object_mut() {
        merge(fields, Map::from_iter([("f:spec".to_owned(), all.into())]));
    }
    if let Some(managed) = managed.as_array_mut() {
        managed.retain(|entry| entry["fieldsV1"].as_object().is_none_or(|fields| !fields.is_empty()));
    }
    managed
}

/// With `hostNetwork` an API server sets a `hostPort` for each port, for nobody.
fn host_ports(live: &Value) -> Map<String, Value> {
    let mut all = Map::new();
    let pods = &live["spec"]["template"]["spec"];
    for list in ["containers", "initContainers"] {
        for container in pods[list].as_array().into_iter().flatten() {
            for port in container["ports"].as_array().into_iter().flatten().filter(|p| !p["hostPort"].is_null()) {
                let key = |of: &Value, fields: &[&str]| {
                    let keys: BTreeMap<_, _> = fields.iter().map(|field| (*field, &of[*field])).collect();
                    format!("k:{}", json!(keys))
                };
                let (container, port) = (key(container, &["name"]), key(port, &["containerPort", "protocol"]));
                let one = json!({"f:template": {"f:spec": {(format!("f:{list}")): {(container): {"f:ports": {(port): {"f:hostPort": {}}}}}}}});
                merge(&mut all, one.as_object().cloned().unwrap_or_default());
            }
        }
    }
    all
}

#[derive(Clone, Copy)]
enum Why {
    Older,
    Again,
}

/// What is left where it is.
fn left(live: &Value, object: &Object, entries: &[Entry], why: Why) -> Vec<String> {
    // Who wrote the whole object wrote defaults, too, and which of it was added is not to be seen.
    let parts = |e: &&Entry| live["metadata"]["managedFields"][e.index]["fieldsV1"]["f:spec"]["f:selector"].is_null();
    let all = entries.iter().filter(|e| matches!(why, Why::Again) || parts(e));
    let fields = all.flat_map(Entry::additions).map(|addition| addition.describe());
    let Some(fields) = listed(fields.collect()) else { return vec![] };
    let key = object.key();
    vec![match why {
        Why::Older => format!(
            "{key} has {fields}, which Berth does not set. An earlier build of Berth left it; this one removes it with the next change of the pods, so that no pod restarts for it alone"
        ),
        Why::Again => format!(
            "{key} has {fields}, which Berth does not set. Berth removed it {TIMES} times within {} minutes, and it came back. Stop what writes it; Berth removes it with the next change of the pods",
            WINDOW.as_mins()
        ),
    }]
}

/// What nobody wrote, no API server adds by itself, and the platform has not declared as its own.
fn by_admission(live: &Value, object: &Object, known: &BTreeSet<&String>, may: &MayChange) -> Option<String> {
    let mut found = vec![];
    extra(&live["spec"]["template"], &object.value()["spec"]["template"], "spec.template", &mut found);
    found.retain(|field| !known.contains(field) && !may.has(object.key().kind, &steps(field)));
    let fields = listed(found)?;
    Some(format!(
        "{} has {fields}, which Berth does not set. {}, and remove the field",
        object.key(),
        exempt(object.key())
    ))
}

/// What helps against a webhook or policy.
pub(crate) fn exempt(key: &ObjectKey) -> String {
    let namespace = key.namespace.as_deref().unwrap_or_default();
    format!("A mutating webhook or policy added it. If it does harm, exempt namespace {namespace} from that")
}

fn listed(mut all: Vec<String>) -> Option<String> {
    all.sort_unstable();
    all.dedup();
    let more = all.len().saturating_sub(Addition::NAMED);
    all.truncate(Addition::NAMED);
    let more = if more > 0 { format!(" and {more} more") } else { String::new() };
    (!all.is_empty()).then(|| format!("{}{more}", all.join(", ")))
}
