//! What stands in the way of the next minor: before it begins, and as `UpgradeReady` while nobody asks for it.
//!
//! All findings at once. What could not be looked at stands in the way, too.

mod apis;
mod findings;
mod flags;
mod request;
mod verdict;

pub(crate) use findings::{findings, say};
pub use request::{LookRequest, answers_request, look_request};
pub(crate) use verdict::verdict;
