//! The agent as a process.
#![expect(clippy::unwrap_used, reason = "helpers of tests")]

mod guard;
mod net;
mod wait;
