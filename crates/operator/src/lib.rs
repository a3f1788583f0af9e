//! The operator: watches, and a driver a controller that observes, plans, carries out and reports.
//!
//! Decisions are in `berth-plan`, effects in `berth-kubeio` and `berth-etcdio`; here is only what ties them to a clock, to
//! events of the meta cluster, and to a lease.

#![cfg_attr(test, allow(clippy::disallowed_methods, reason = "API servers in memory"))]

mod access;
pub mod args;
pub mod backoff;
mod calls;
pub mod clock;
pub mod context;
pub mod controllers;
pub mod delivery;
mod denied;
pub mod events;
pub mod fleet;
mod fleet_tasks;
pub mod heard;
pub mod http;
pub mod leader;
mod link;
pub mod looks;
pub mod memory;
pub mod meta;
pub mod metrics;
mod panics;
mod pull_secrets;
pub mod run;
pub mod sizes;
mod sweep;
mod turns;
pub mod users;
mod visits;
mod volumes;
mod waking;

pub use context::Context;
pub use run::run;
