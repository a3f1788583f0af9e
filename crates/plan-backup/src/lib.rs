//! The planners of backups: of one ([`backup`]), of those that come by a schedule ([`schedule`]), and of what puts one back ([`restore`]).

pub mod backup;
mod jobs;
mod objects;
mod requeue;
pub mod restore;
pub mod schedule;
mod status;
mod store;
mod target;

pub use store::StoreObject;
pub use target::Target;

#[cfg(test)]
mod tests;
