//! Real etcds.
#![allow(clippy::unwrap_used, clippy::panic)]

#[path = "../common/mod.rs"]
mod common;

mod real_etcd;
mod upkeep;
