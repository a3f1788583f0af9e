//! Does nothing. Cargo gives dependencies the features that tests need where it builds an example, and else those that programs need.
//! Whoever asks for this one beside programs has both in the same build, and each dependency is compiled once: see `UNIFIED` in xtask.

fn main() {}
