//! What is rendered, against fixtures and real binaries.
#![expect(clippy::panic, reason = "tests; clippy's own exception does not reach their helpers")]

mod digests;
mod fixtures;
mod flags;
mod formats;
mod limits;
mod snapshots;
