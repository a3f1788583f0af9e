//! The command as a process, alone, as a plugin, and against API servers.

#![allow(clippy::unwrap_used, clippy::panic, reason = "helpers of tests fail by panicking")]

#[path = "../../../operator/tests/common/mod.rs"]
mod common;

mod api_server;
mod at_rest;
mod command;
mod images;
mod plugin;
mod render;
mod tenant;
