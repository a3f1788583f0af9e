//! A patch of the object that a person was shown, and of no other.

use crate::access::Access;
use anyhow::anyhow;
use berth_api::labels;
use berth_kubeio::ErrorKind;
use berth_render::{Kind, ObjectKey};
use serde_json::Value;

/// Who writes.
const MANAGER: &str = "fieldManager=kubectl-berth";

/// Patches an object if it still is as it was read: the same UID, spec and annotations that ask for something. A status that the operator
/// wrote meanwhile is no reason to refuse.
///
/// # Errors
///
/// If somebody changed it meanwhile, or the API server refuses the patch.
pub(crate) async fn patch(access: &Access, read: &Value, patch: &Value) -> anyhow::Result<()> {
    let key = &ObjectKey::of(Kind::Cluster, read);
    let mut patch = patch.clone();
    patch["metadata"]["uid"] = read["metadata"]["uid"].clone();
    patch["metadata"]["resourceVersion"] = read["metadata"]["resourceVersion"].clone();
    let written = access.io.merge_unless_changed(key, "", MANAGER, patch, |now| same(read, now)).await;
    written.map(drop).map_err(|error| match error.kind {
        ErrorKind::Conflict => {
            anyhow!("{key} was changed meanwhile, so nothing was written. Run this again: {}", error.message)
        }
        _ => access.explain(error),
    })
}

/// Whether nobody asked for anything else since.
fn same(read: &Value, now: &Value) -> bool {
    let asks = |object: &Value| {
        let meta = &object["metadata"];
        let annotations =
            [labels::ROLL, labels::ADOPT, labels::HIBERNATE].map(|name| meta["annotations"][name].clone());
        (meta["uid"].clone(), meta["generation"].clone(), meta["deletionTimestamp"].clone(), annotations)
    };
    asks(read) == asks(now)
}

/// The merge patch that turns `old` into `new`: what `new` leaves out is removed.
pub(crate) fn merge_patch(old: &Value, new: &Value) -> Value {
    match (old, new) {
        (Value::Object(old), Value::Object(new)) => {
            let gone = old.keys().filter(|k| !new.contains_key(*k)).map(|k| (k.clone(), Value::Null));
            let kept =
                new.iter().map(|(k, v)| (k.clone(), old.get(k).map_or_else(|| v.clone(), |o| merge_patch(o, v))));
            Value::Object(gone.chain(kept).collect())
        }
        _ => new.clone(),
    }
}

#[cfg(test)]
mod tests {
    use super::same;
    use serde_json::{Value, json};

    #[test]
    fn a_status_is_no_change_and_all_that_asks_for_something_is() {
        let read = json!({
            "metadata": {"uid": "a", "generation": 2, "resourceVersion": "7", "annotations": {"berth.dev/roll": "2"}},
        });
        let with = |pointer: &str, value: Value| {
            let mut now = read.clone();
            *now.pointer_mut(pointer).expect("a field") = value;
            now
        };
        let mut written = with("/metadata/resourceVersion", json!("9"));
        written["status"] = json!({"phase": "Degraded"});
        assert!(same(&read, &written));
        for (pointer, value) in [
            ("/metadata/uid", json!("b")),
            ("/metadata/generation", json!(3)),
            ("/metadata/annotations", json!({"berth.dev/roll": "2-2"})),
            ("/metadata/annotations", json!({"berth.dev/roll": "2", "berth.dev/adopt": "x"})),
        ] {
            assert!(!same(&read, &with(pointer, value)), "{pointer}");
        }
        let mut deleted = read.clone();
        deleted["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
        assert!(!same(&read, &deleted));
    }
}
