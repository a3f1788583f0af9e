//! What looks after an etcd's databases: one call to one member.

use crate::call::{Connection, Deadline};
use crate::error::CallError;
use crate::target::EtcdTarget;
use crate::wire::{Call, Done};
use berth_plan::Maintenance;
use std::time::Duration;

/// Deadline of a call. A defragmentation goes on in etcd after that.
pub const MAINTENANCE_DEADLINE: Duration = Duration::from_secs(30);

/// What etcd says to a compaction that was done already.
const COMPACTED: &str = "required revision has been compacted";

/// Tells the member of that name. An error says nothing about whether it was done: the answer may be what was lost.
pub async fn maintain(target: &EtcdTarget, via: &str, what: &Maintenance, limit: Duration) -> Result<(), CallError> {
    let call = Call::for_upkeep(what)?;
    let member = target.members.iter().find(|m| m.name == via).ok_or_else(|| CallError::NoMember(via.to_owned()))?;
    let by = Deadline::new(limit);
    let mut connection = Connection::open(member, target.credential.tls(), by).await?;
    match connection.ask::<Done>(&call, by).await {
        Err(CallError::Http { message, .. }) if message.contains(COMPACTED) => Ok(()),
        answer => answer.map(|Done {}| ()),
    }
}
