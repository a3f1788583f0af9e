//! Tests that get along with each other: one operator in this process and one server for all, and a namespace for each. With them what
//! has no operator.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

#[path = "../common/mod.rs"]
mod common;

mod addons;
mod admission;
mod alerts;
mod audit;
mod coredns;
mod gateway;
mod issuers;
mod join;
mod kubelet;
mod minor;
mod refusals;
mod revisions;
mod route;
mod sizes;
mod users;
mod vpc;
