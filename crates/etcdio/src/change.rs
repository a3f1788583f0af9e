//! What changes an etcd's members: one call to one member.

use crate::call::{Connection, Deadline};
use crate::error::CallError;
use crate::target::EtcdTarget;
use crate::wire::{Call, Done};
use berth_plan::MemberChange;
use std::time::Duration;

/// Deadline of a change, as of every write: whatever passed the fence is given up before another operator can have the lease. etcd itself
/// gives up after seven seconds (two elections and five more); the members are asked anew in any case.
pub const CHANGE_DEADLINE: Duration = Duration::from_secs(5);

/// Tells the member of that name. An error says nothing about whether it was done: the answer may be what was lost.
pub async fn change(target: &EtcdTarget, via: &str, change: &MemberChange, limit: Duration) -> Result<(), CallError> {
    let call = Call::of(change)?;
    let member = target.members.iter().find(|m| m.name == via).ok_or_else(|| CallError::NoMember(via.to_owned()))?;
    let by = Deadline::new(limit);
    let mut connection = Connection::open(member, target.credential.tls(), by).await?;
    let Done {} = connection.ask(&call, by).await?;
    Ok(())
}
