//! The brain: what was observed and what is asked for become a plan. No client, no clock, no randomness.
//!
//! Both controllers, the command line and the tests call the same functions: [`cluster::plan`] and [`etcd::plan`].

pub mod cluster;
pub mod config;
pub mod diff;
pub(crate) mod disown;
mod ensure;
pub mod etcd;
pub(crate) mod failure;
mod leaving;
#[cfg(test)]
mod messages;
pub mod meta;
mod meta_cluster;
pub mod model;
pub mod nodes;
pub mod observed;
pub(crate) mod quantity;
pub mod secrets;
pub mod settings;
#[cfg(test)]
#[path = "../../sim/src/lib.rs"]
#[allow(
    dead_code,
    unused_imports,
    unreachable_pub,
    reason = "a crate of its own, which unit tests cannot use: to it their types are others"
)]
mod sim;
#[cfg(test)]
pub(crate) mod testing;
mod unread;
pub mod workload;

#[cfg(test)]
extern crate self as berth_plan;

pub use failure::Failure;
pub use meta_cluster::MetaCluster;
pub use model::{Action, Plan, SecretEntry, SecretPlan, Stage, StageId, State};
pub use observed::{Observed, SecretFacts};
pub use settings::Settings;
