//! Planning: a plan is made from what was observed and what the spec asks for. No client, no clock, no randomness.
//!
//! Both controllers, the command line and the tests call the same functions: [`cluster::plan`] and [`etcd::plan`].
//!
//! The two controllers have files of the same names: `mod` (the plan, stage by stage), `subject` (what all stages know), `validate`,
//! `record` (what runs), `pki`, `probe` (what is asked before a plan is made), `status`, `deletion`, `requeue`, `unread`; and a file
//! or folder for each stage. What they share: `ending` (what a deletion waits for), [`meta_cluster`] (its addresses and nodes),
//! [`objects`] (create, apply, drift), [`secrets`], [`settings`], and [`workload`] (rollouts, images, pods).

pub mod asked;
pub mod backup;
pub mod backup_jobs;
pub mod cluster;
pub mod digest;
pub(crate) mod ending;
pub mod etcd;
pub mod etcd_home;
mod failure;
pub mod fleet;
#[cfg(test)]
mod messages;
pub mod meta_cluster;
pub mod model;
pub mod object_meta;
pub mod objects;
pub mod observed;
mod requeue;
pub mod restore;
pub mod schedule;
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
pub mod times;
mod unread;
mod verdicts;
pub mod workload;

#[cfg(test)]
extern crate self as berth_plan;

pub use failure::Failure;
pub use meta_cluster::MetaCluster;
pub use model::{
    Action, Addition, EtcdAnswer, EtcdCall, EtcdCallResult, KvHash, Maintenance, MemberChange, Plan, SecretEntry,
    SecretPlan, Stage, StageId, State,
};
pub use observed::Observed;
pub use secrets::SecretFacts;
pub use settings::Settings;
