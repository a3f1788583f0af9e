//! The two controllers. Each has the same five steps: observe, validate, plan, apply, status.

pub mod cluster;
pub mod etcd_cluster;
mod news;
mod pass;
mod passes;
#[cfg(test)]
mod tests;

pub use pass::PassError;
