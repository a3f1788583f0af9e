//! A stream of lines that the operator opens to each replica of a program: both know each other by certificates that each publishes in a Lease, in a
//! namespace where only they may write Leases. Keys are made when a program starts, and never leave its memory.

mod accept;
mod identity;
mod names;
mod opening;
mod publish;

pub use accept::{Lines, serve};
pub use identity::Identity;
pub use names::Names;
pub use publish::{Replica, publish};
