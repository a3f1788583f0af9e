//! Bad surroundings: the meta cluster's API server, its rights, its objects and its clock are not as they should be.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test that cannot go on says why")]

#[path = "../common/mod.rs"]
mod common;

mod creation;
mod poison;

/// Whether everything is wanted, and not the sample of `make test`.
pub(crate) fn full() -> bool {
    std::env::var("BERTH_SWEEP").as_deref() == Ok("full")
}
