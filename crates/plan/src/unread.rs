//! Fields of a spec that are set, and that the pinned templates do not read: they take effect with newer templates only.

use berth_render::TemplateSet;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

/// A field of a spec with everything inside of it, and the values that it feeds, as (folder of templates, value). No values: it takes
/// effect without templates, whatever the set.
pub type Row = (String, Vec<(&'static str, &'static str)>);

/// A row.
pub fn row(field: &str, values: &[(&'static str, &'static str)]) -> Row {
    (field.to_owned(), values.to_vec())
}

/// The fields that are set, and feed a value that the set does not read.
pub fn fields<'a, S: Serialize + DeserializeOwned>(all: &'a [Row], spec: &S, set: &TemplateSet) -> Vec<&'a str> {
    let read = |(folder, value): &(&str, &str)| set.reads(folder, value);
    let unread: Vec<_> = all.iter().filter(|(_, values)| !values.iter().all(read)).map(|(field, _)| &**field).collect();
    // The usual case.
    if unread.is_empty() {
        return unread;
    }
    let default = serde_json::from_value::<S>(json!({"version": ""})).ok();
    let (spec, default) = (serde_json::to_value(spec).ok(), serde_json::to_value(default).ok());
    let at =
        |spec: &Option<Value>, field: &str| spec.as_ref()?.pointer(&format!("/{}", field.replace('.', "/"))).cloned();
    unread.into_iter().filter(|field| at(&spec, field) != at(&default, field)).collect()
}

/// The condition's message.
pub fn message(fields: &[&str], way_out: &str) -> String {
    let names: Vec<_> = fields.iter().map(|field| format!("spec.{field}")).collect();
    let (is, it) = if names.len() == 1 { ("is", "it") } else { ("are", "them") };
    format!("{} {is} not applied: the pinned templates do not use {it}. {way_out}", names.join(", "))
}
