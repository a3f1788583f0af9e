//! Rules of the planner against the real binaries.
#![allow(clippy::panic, clippy::unwrap_used, reason = "tests fail by panicking")]

mod admission;
mod audit;
mod etcd_timing;
mod jwt;
mod kubelet;
mod server;
