//! What a deletion waits for, for people.

use crate::object_meta::deleting;
use berth_render::ObjectKey;
use jiff::{SignedDuration, Timestamp};
use serde_json::Value;

/// Kubelet may be this late.
const LATE: SignedDuration = SignedDuration::from_secs(10);

/// A pod that ends, and what keeps it, as far as that is known.
pub fn pod(key: &ObjectKey, pod: &Value, now: Timestamp) -> String {
    let finalizers = pod["metadata"]["finalizers"].as_array().into_iter().flatten();
    let finalizers: Vec<&str> = finalizers.filter_map(Value::as_str).collect();
    if deleting(pod) && !finalizers.is_empty() {
        return kept(key, &finalizers);
    }
    // That is when its grace is over, and not when the deletion was asked for.
    let due = pod["metadata"]["deletionTimestamp"].as_str().and_then(|at| at.parse::<Timestamp>().ok());
    match due {
        Some(due) if now.duration_since(due) >= LATE => {
            let (namespace, name) = (key.namespace.as_deref().unwrap_or_default(), &key.name);
            format!("{key} (it should have ended by {due}; see kubectl -n {namespace} describe pod {name})")
        }
        _ => key.to_string(),
    }
}

/// What is being deleted, and the finalizers that keep it.
pub fn kept(key: &ObjectKey, finalizers: &[impl AsRef<str>]) -> String {
    let names: Vec<&str> = finalizers.iter().map(AsRef::as_ref).collect();
    match &*names {
        [] => key.to_string(),
        names => format!("{key} (kept by its metadata.finalizers: {})", names.join(", ")),
    }
}

/// Why a namespace that ends is not gone, in the words of its controller.
pub fn namespace(namespace: &Value) -> Option<&str> {
    let conditions = namespace.pointer("/status/conditions").and_then(Value::as_array)?;
    let of = |type_: &str| conditions.iter().find(|c| c["type"] == type_ && c["status"] == "True");
    let failed =
        ["NamespaceDeletionContentFailure", "NamespaceDeletionDiscoveryFailure", "NamespaceFinalizersRemaining"];
    let told = failed.into_iter().chain(["NamespaceContentRemaining"]).find_map(of)?;
    told["message"].as_str().filter(|message| !message.is_empty())
}

/// The first, and how many follow.
pub fn first(names: &[String]) -> String {
    match names {
        [] => String::new(),
        [one] => one.clone(),
        [first, rest @ ..] => format!("{first} and {} more", rest.len()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use berth_render::Kind;
    use serde_json::json;

    #[test]
    fn a_pod_says_what_keeps_it() {
        let key = ObjectKey::namespaced(Kind::Pod, "n", "p");
        let now: Timestamp = "2026-01-01T00:01:00Z".parse().unwrap();
        let of = |metadata: Value| pod(&key, &json!({"metadata": metadata}), now);
        assert_eq!(of(json!({})), "Pod n/p");
        assert_eq!(of(json!({"deletionTimestamp": "2026-01-01T00:00:55Z"})), "Pod n/p");
        assert_eq!(
            of(json!({"deletionTimestamp": "2026-01-01T00:00:30Z"})),
            "Pod n/p (it should have ended by 2026-01-01T00:00:30Z; see kubectl -n n describe pod p)"
        );
        assert_eq!(
            of(json!({"deletionTimestamp": "2026-01-01T00:00:55Z", "finalizers": ["example.com/a", "b"]})),
            "Pod n/p (kept by its metadata.finalizers: example.com/a, b)"
        );
    }

    #[test]
    fn a_namespace_says_what_is_left() {
        let of = |conditions: Value| namespace(&json!({"status": {"conditions": conditions}})).map(str::to_owned);
        let left =
            json!({"type": "NamespaceContentRemaining", "status": "True", "message": "pods. has 1 resource instances"});
        assert_eq!(of(json!([left])).as_deref(), Some("pods. has 1 resource instances"));
        let held =
            json!({"type": "NamespaceFinalizersRemaining", "status": "True", "message": "a in 1 resource instances"});
        assert_eq!(of(json!([left, held])).as_deref(), Some("a in 1 resource instances"));
        assert_eq!(of(json!([{"type": "NamespaceContentRemaining", "status": "False", "message": "none"}])), None);
    }
}
