//! A patch of the object that a person was shown, and of no other.

use crate::access::Access;
use anyhow::anyhow;
use berth_api::labels;
use berth_kubeio::ErrorKind;
use berth_render::ObjectKey;
use serde_json::Value;

/// Who writes.
const MANAGER: &str = "fieldManager=kubectl-berth";

/// How often an object is read again whose status was written meanwhile. An operator at work writes one each second.
const TRIES: usize = 8;

/// Patches an object if it still is as it was read: the same UID, spec and annotations that ask for something. A status that the operator
/// wrote meanwhile is no reason to refuse.
///
/// # Errors
///
/// If somebody changed it meanwhile, or the API server refuses the patch.
pub(crate) async fn patch(access: &Access, key: &ObjectKey, read: &Value, patch: &Value) -> anyhow::Result<()> {
    let mut patch = patch.clone();
    patch["metadata"]["uid"] = read["metadata"]["uid"].clone();
    let mut version = read["metadata"]["resourceVersion"].clone();
    for _ in 0..TRIES {
        patch["metadata"]["resourceVersion"] = version;
        let error = match access.io.merge(key, "", MANAGER, &patch).await {
            Ok(_) => return Ok(()),
            Err(error) if error.kind == ErrorKind::Conflict => error,
            Err(error) => return Err(access.explain(error)),
        };
        let now = access.io.get(key).await.map_err(|e| access.explain(e))?;
        match now.filter(|now| same(read, now)) {
            // Another UID of the same version does not come to be the same by reading it again.
            Some(now) => version = now["metadata"]["resourceVersion"].clone(),
            None => {
                return Err(anyhow!(
                    "{key} was changed meanwhile, so nothing was written. Run this again: {}",
                    error.message
                ));
            }
        }
    }
    Err(anyhow!("{key} is written all the time, so nothing was written. Run this again"))
}

/// Whether nobody asked for anything else since.
fn same(read: &Value, now: &Value) -> bool {
    let asks = |object: &Value| {
        let meta = &object["metadata"];
        let annotations = [labels::ROLL, labels::ADOPT].map(|name| meta["annotations"][name].clone());
        (meta["uid"].clone(), meta["generation"].clone(), meta["deletionTimestamp"].clone(), annotations)
    };
    asks(read) == asks(now)
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
