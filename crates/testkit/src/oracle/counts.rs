//! How often each object was made and deleted. An end state can be right by way of a delete too many.

use std::collections::BTreeMap;

use crate::apiserver::AuditEvent;
use crate::fault::{Call, Verb};

/// How often by `create ns/resource/name` or `delete ns/resource/name`.
pub type Counts = BTreeMap<String, usize>;

/// Creates and deletes that succeeded, from the server's audit log; filter the events by user first.
/// A create by apply is a `patch` in the audit log, with 201.
pub fn audit_counts<'a>(events: impl IntoIterator<Item = &'a AuditEvent>) -> Counts {
    let mut counts = Counts::new();
    for event in events.into_iter().filter(|e| e.is_write()) {
        let what = match &*event.verb {
            "delete" | "deletecollection" => "delete",
            "create" => "create",
            "patch" if event.code == 201 => "create",
            _ => continue,
        };
        let resource =
            if event.group.is_empty() { event.resource.clone() } else { format!("{}.{}", event.resource, event.group) };
        let parts = [&event.namespace, &resource, &event.name].into_iter().filter(|p| !p.is_empty());
        *counts.entry(format!("{what} {}", parts.cloned().collect::<Vec<_>>().join("/"))).or_default() += 1;
    }
    counts
}

/// Likewise from the log of a plan, lost replies included.
pub fn call_counts<'a>(calls: impl IntoIterator<Item = &'a Call>) -> Counts {
    let mut counts = Counts::new();
    for call in calls.into_iter().filter(|c| c.committed()) {
        let what = match call.verb {
            Verb::Delete | Verb::DeleteCollection => "delete",
            Verb::Create => "create",
            Verb::Apply if call.code == Some(201) => "create",
            _ => continue,
        };
        *counts.entry(format!("{what} {}", call.object())).or_default() += 1;
    }
    counts
}

/// With texts replaced that differ from run to run, and the digest of the content in a ConfigMap's name, `x-config-0123456789ab`.
pub fn renamed(counts: &Counts, renames: &[(&str, &str)]) -> Counts {
    let mut all = Counts::new();
    for (key, count) in counts {
        let key = renames.iter().fold(key.clone(), |key, (from, to)| key.replace(from, to));
        let key = match digest_in(&key) {
            Some(at) if key.contains("configmaps/") => format!("{}<digest>", &key[..at]),
            _ => key,
        };
        *all.entry(key).or_default() += count;
    }
    all
}

/// Where the digest of the content begins in the name of a ConfigMap that ends with one: `x-config-0123456789ab`.
pub(super) fn digest_in(name: &str) -> Option<usize> {
    let (before, digest) = name.rsplit_once("-config-")?;
    let is_digest = digest.len() == 12 && digest.bytes().all(|b| b.is_ascii_hexdigit());
    is_digest.then_some(before.len() + "-config-".len())
}

/// Every delete names the incarnation that it means.
///
/// # Panics
/// If one does not, or a whole collection was deleted.
pub fn assert_deletes_carry_uid(calls: &[Call]) {
    let blind = calls.iter().filter(|c| match c.verb {
        Verb::Delete => c.uid.is_none(),
        Verb::DeleteCollection => true,
        _ => false,
    });
    let blind: Vec<_> = blind.map(ToString::to_string).collect();
    assert!(blind.is_empty(), "deletes without a UID precondition:\n{}", blind.join("\n"));
}
