//! What is wrong with a configuration of kubelet.

use berth_api::text::printable;
use std::fmt;

/// The field of the spec.
pub(super) const FIELD: &str = "spec.kubelet.config";

/// What is told of a fault: its path, and why.
pub(super) type Not<'n> = &'n mut dyn FnMut(&str, String);

/// What kubelet would refuse, or Berth sets.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault {
    /// Such as `evictionHard.memory.available`, within the configuration; empty: all of it.
    path: String,
    /// What is wrong and what to set: a sentence without its end, and nothing of what the user wrote but names.
    why: String,
}

impl Fault {
    /// Names in a path may be the user's: they stay short and on one line.
    pub(super) fn new(path: impl AsRef<str>, why: impl Into<String>) -> Self {
        let path = printable(path.as_ref()).chars().take(160).collect();
        Self { path, why: why.into() }
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let dot = if self.path.is_empty() { "" } else { "." };
        write!(f, "{FIELD}{dot}{}: {}", self.path, self.why)
    }
}
