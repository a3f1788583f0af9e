//! Pure rendering: templates and typed values become Kubernetes objects.
//!
//! This crate must never read a clock, draw a random number, or hold a client: the operator, the command line and the tests
//! call the same functions and must get the same bytes.

mod kinds;
pub mod values;

pub use kinds::{Kind, ObjectKey};
