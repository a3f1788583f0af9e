//! What looks after an etcd's databases: one call to one member.

use crate::call::{Connection, tell};
use crate::error::CallError;
use crate::target::{EtcdTarget, Member};
use crate::wire::{Call, Hash};
use berth_plan::{KvHash, Maintenance};
use futures::future::join_all;
use std::time::Duration;

/// Deadline of a call. A defragmentation goes on in etcd after that.
pub const MAINTENANCE_DEADLINE: Duration = Duration::from_secs(30);

/// Deadline of a comparison of hashes: what else a reconcile does has to fit into its own, or nobody would note that it came to nothing.
pub const HASH_DEADLINE: Duration = Duration::from_secs(20);

/// What etcd says to a compaction that was done already.
const COMPACTED: &str = "required revision has been compacted";

/// Tells the member of that name. An error says nothing about whether it was done: the answer may be what was lost.
pub async fn maintain(target: &EtcdTarget, via: &str, what: &Maintenance, limit: Duration) -> Result<(), CallError> {
    match tell(target, via, &Call::for_upkeep(what)?, limit).await {
        Err(CallError::Http { message, .. }) if message.contains(COMPACTED) => Ok(()),
        answer => answer,
    }
}

/// Asks every member for the hash of its data at that revision, all at once.
pub async fn hashes(target: &EtcdTarget, revision: i64, limit: Duration) -> Vec<KvHash> {
    let call = Call::for_hash(revision);
    let ask = async |member: &Member| -> Result<(u32, i64), CallError> {
        let (_, hash): (_, Hash) = Connection::asked(member, target.credential.tls(), &call, limit).await?;
        Ok(hash.compared())
    };
    let asked = target
        .members
        .iter()
        .map(async |member| KvHash { member: member.name.clone(), said: ask(member).await.map_err(|e| e.to_string()) });
    join_all(asked).await
}
