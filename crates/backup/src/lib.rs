//! The parts of `berth-backup`: one file a concern.

pub mod check;
pub mod delete;
mod direct;
pub mod etcd;
mod giver;
pub mod install;
pub mod keep;
pub mod place;
pub mod problem;
pub mod proxies;
pub mod read;
pub mod restore;
mod s3;
pub mod store;
pub mod take;
mod volume;

pub use problem::Problem;
