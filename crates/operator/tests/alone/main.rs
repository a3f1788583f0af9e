//! Tests with an operator of their own, in this process. It works on every `Cluster` that it sees, so they take turns at a server, see
//! `common::alone_at_a_server`, or have one of their own.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

#[path = "../common/mod.rs"]
mod common;
#[path = "../../../etcdio/tests/common/mod.rs"]
mod real;

mod apps;
mod backup;
mod etcd_life;
mod etcd_versions;
mod faults;
mod fleet;
mod idle;
mod leads;
mod preflight;
mod proxy;
mod rules;
mod sweep;
mod upkeep;
mod users;
