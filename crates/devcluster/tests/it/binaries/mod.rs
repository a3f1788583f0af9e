//! Where binaries come from: publishers and other caches on loopback, and never a wrong program.

mod base;
mod disk;
mod official;
mod publishers;
mod world;
