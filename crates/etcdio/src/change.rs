//! What changes an etcd's members: one call to one member.

use crate::call::tell;
use crate::error::CallError;
use crate::target::EtcdTarget;
use crate::wire::Call;
use berth_plan::MemberChange;
use std::time::Duration;

/// Deadline of a change, as of every write: whatever passed the fence is given up before another operator can have the lease. etcd itself
/// gives up after seven seconds (two elections and five more); the members are asked anew in any case.
pub const CHANGE_DEADLINE: Duration = Duration::from_secs(5);

/// Tells the member of that name. An error says nothing about whether it was done: the answer may be what was lost.
pub async fn change(target: &EtcdTarget, via: &str, change: &MemberChange, limit: Duration) -> Result<(), CallError> {
    tell(target, via, &Call::of(change)?, limit).await
}
