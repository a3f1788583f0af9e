//! Where binaries come from: publishers and other caches on loopback, and never a wrong program.

#![expect(clippy::unwrap_used, reason = "tests; clippy's own exception does not reach their helpers")]

mod base;
mod disk;
mod official;
mod publishers;
mod world;
