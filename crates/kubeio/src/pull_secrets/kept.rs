//! What the platform's pull Secrets held when they were read last, for the tenants that have copies of them.

use berth_render::ObjectKey;
use parking_lot::RwLock;
use std::collections::BTreeMap;

/// Data of a Secret.
type Data = BTreeMap<String, Vec<u8>>;

/// Type and data of those that are there. Never printed.
#[derive(Default)]
pub(crate) struct PullSecrets(RwLock<BTreeMap<ObjectKey, (String, Data)>>);

impl PullSecrets {
    /// Keeps what one holds.
    pub(super) fn keep(&self, key: ObjectKey, type_: String, data: Data) {
        self.0.write().insert(key, (type_, data));
    }

    /// All of them, with type and data.
    pub(crate) fn all(&self) -> Vec<(ObjectKey, String, Data)> {
        self.0.read().iter().map(|(key, (type_, data))| (key.clone(), type_.clone(), data.clone())).collect()
    }
}
