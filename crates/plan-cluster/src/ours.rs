//! Which objects are a `Cluster`'s, and how they are put into a stage.

use berth_api::conditions::Reason;
use berth_api::labels;
use berth_plan::model::{Stage, State};
use berth_plan::object_meta::{annotation, label};
use berth_plan::observed::Observed;
use berth_render::Object;
use serde_json::Value;
use std::collections::BTreeMap;

/// Labels that say which `Cluster` an object belongs to.
pub(super) fn owner_labels(namespace: &str, name: &str) -> BTreeMap<String, String> {
    BTreeMap::from([
        (labels::MANAGED_BY.to_owned(), labels::MANAGED_BY_VALUE.to_owned()),
        (labels::CLUSTER_NAME.to_owned(), name.to_owned()),
        (labels::CLUSTER_NAMESPACE.to_owned(), namespace.to_owned()),
    ])
}

/// True if Berth made it. The digest counts too, so that a label that was taken away is repaired and not a riddle.
pub fn is_ours(object: &Value) -> bool {
    label(object, labels::MANAGED_BY) == Some(labels::MANAGED_BY_VALUE)
        || annotation(object, labels::APPLIED_DIGEST).is_some()
}

/// Puts `object` into the stage: owned, and applied if it differs.
pub(crate) fn ensure(stage: &mut Stage, observed: &Observed, object: Object) {
    berth_plan::objects::ensure(stage, observed, object, is_ours);
}

/// The same of a manifest that no template made.
pub(crate) fn ensure_manifest(stage: &mut Stage, observed: &Observed, manifest: Value) {
    match Object::new(manifest) {
        Ok(object) => ensure(stage, observed, object),
        Err(bug) => stage.state = State::blocked(Reason::Error, bug),
    }
}
