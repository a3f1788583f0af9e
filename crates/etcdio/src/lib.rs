//! The only crate that talks to etcd. Today it asks: who are the members, is there a leader, is there a quorum, is an alarm
//! raised?
//!
//! It speaks JSON over TLS on the client port, through etcd's own gRPC gateway, with a short-lived certificate that the
//! operator signs itself. Nothing here resolves names: members are reached at the addresses of their Services and checked
//! against the names in their certificates. Every call has a deadline, and no answer is remembered between calls.

mod call;
mod credential;
mod error;
mod probe;
mod target;
mod wire;

pub use credential::Credential;
pub use error::{CallError, TargetError};
pub use probe::{DEADLINE, probe};
pub use target::{EtcdTarget, Member};
