//! Rules of the API server on fields (`x-kubernetes-validations`) that several kinds have.

use serde_json::{Value, json};

/// A field without a default stays as it is, and is neither set nor taken away later. `kind`: what is created instead.
pub(crate) fn immutable(field: &str, kind: &str) -> Value {
    // A reserved word of CEL, which Kubernetes has written so.
    let of = if field == "namespace" { "__namespace__" } else { field };
    let same = format!("has(self.{of}) == has(oldSelf.{of}) && (!has(self.{of}) || self.{of} == oldSelf.{of})");
    json!({"rule": same, "message": format!("{field} is immutable: create another {kind}")})
}

/// One of these fields is set. `within`: what the message begins with, such as `key: `.
pub(crate) fn one_of(within: &str, fields: &[&str]) -> Value {
    let set: Vec<_> = fields.iter().map(|field| format!("has(self.{field})")).collect();
    let rule = match set.as_slice() {
        [one, other] => format!("{one} != {other}"),
        all => format!("[{}].filter(set, set).size() == 1", all.join(", ")),
    };
    let (last, first) = fields.split_last().unwrap_or((&"", &[]));
    json!({"rule": rule, "message": format!("{within}set one of {} and {last}", first.join(", "))})
}

/// Whose etcd it is.
pub(crate) const OF: [&str; 2] = ["clusterRef", "etcdClusterRef"];

/// Where a backup is kept.
pub(crate) const KEPT: [&str; 3] = ["store", "secretRef", "claimRef"];
