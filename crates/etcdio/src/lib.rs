//! The only crate that talks to etcd. It asks: who are the members, how far are they, is there a leader, is there a quorum, is an alarm
//! raised? And it changes members and looks after their databases: one call at a time, as a plan says.
//!
//! It speaks JSON over TLS on the client port, through etcd's own gRPC gateway, with a short-lived certificate that the
//! operator signs itself. Nothing here resolves names: members are reached at the addresses of their Services and checked
//! against the names in their certificates. Every call has a deadline, and no answer is remembered between calls.

mod call;
mod change;
mod credential;
mod error;
mod maintain;
mod probe;
mod target;
mod wire;

use berth_plan::{EtcdAnswer, EtcdCall, Maintenance};

pub use change::{CHANGE_DEADLINE, change};
pub use credential::Credential;
pub use error::{CallError, TargetError};
pub use maintain::{HASH_DEADLINE, MAINTENANCE_DEADLINE, hashes, maintain};
pub use probe::{DEADLINE, probe};
pub use target::{EtcdTarget, Member};

/// Any call, with its deadline. An error says nothing about whether it was done.
pub async fn call(target: &EtcdTarget, via: &str, call: &EtcdCall) -> Result<EtcdAnswer, CallError> {
    match call {
        EtcdCall::Change(change) => self::change(target, via, change, CHANGE_DEADLINE).await?,
        EtcdCall::Maintain(Maintenance::CompareHashes { revision }) => {
            return Ok(EtcdAnswer::Hashes(hashes(target, *revision, HASH_DEADLINE).await));
        }
        EtcdCall::Maintain(what) => maintain(target, via, what, MAINTENANCE_DEADLINE).await?,
    }
    Ok(EtcdAnswer::Done)
}
