//! The harness itself: servers, faults, sweeps and the world.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

mod apiserver;
mod fault;
mod sweep;
mod watches;
mod world;
