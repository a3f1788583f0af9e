//! Reads observed objects as their types.

use berth_plan::Observed;
use berth_render::ObjectKey;
use serde::de::DeserializeOwned;

/// An object, if it is there and can be read.
pub(crate) fn find<T: DeserializeOwned>(observed: &Observed, key: &ObjectKey) -> Option<T> {
    serde_json::from_value(observed.get(key)?.clone()).ok()
}
