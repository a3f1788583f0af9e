//! A field that somebody added to what Berth applies.

use serde::Serialize;

/// A field that Berth does not set.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Addition {
    /// Its path, such as `spec.template.spec.containers[etcd].env[GODEBUG]`.
    pub field: String,
    /// Who wrote it: the field manager, such as `kubectl-edit`.
    pub manager: String,
}

impl Addition {
    /// More of them are counted in a text, not named.
    pub(crate) const NAMED: usize = 8;

    /// Several of them, for people.
    pub fn list(all: &[Self]) -> String {
        let more = all.len().saturating_sub(Self::NAMED);
        let named: Vec<_> = all.iter().take(Self::NAMED).map(Self::describe).collect();
        if more > 0 { format!("{} and {more} more", named.join(", ")) } else { named.join(", ") }
    }

    pub(crate) fn describe(&self) -> String {
        format!("{} (by {})", self.field, self.manager)
    }
}
