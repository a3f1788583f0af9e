//! How is the cluster? Every member is asked for itself, then one of them for all.

use crate::call::{Connection, Deadline};
use crate::error::CallError;
use crate::target::EtcdTarget;
use crate::wire::{ALARMS, Alarm, Alarms, Listed, MEMBERS, Members, STATUS, Status};
use berth_plan::observed::{EtcdProbe, ListedMember, MemberProbe, RaisedAlarm};
use futures::future::{join_all, select_ok};
use std::time::Duration;

/// Deadline of each of the two steps, unless another is asked for.
pub const DEADLINE: Duration = Duration::from_secs(2);

/// Asks each member for itself, and then for the cluster; each of the two within `limit`, however many members there are.
pub async fn probe(target: &EtcdTarget, limit: Duration) -> EtcdProbe {
    let mut probe = EtcdProbe::default();
    let mut open = vec![];
    let ask = async |member| Connection::asked::<Status>(member, target.credential.tls(), &STATUS, limit).await;
    let asked = join_all(target.members.iter().map(ask)).await;
    for (member, answer) in target.members.iter().zip(asked) {
        let result = match answer {
            Ok((connection, status)) => {
                let said = MemberProbe {
                    cluster_id: status.header.cluster_id.to_string(),
                    member_id: status.header.member_id.to_string(),
                    leader: status.leader.to_string(),
                    learner: status.learner,
                    progress: status.progress(),
                    errors: status.errors,
                    version: status.version,
                    storage_version: status.storage_version,
                };
                // A learner answers for nobody but itself.
                if said.leader != "0" && !said.learner {
                    open.push(Box::pin(all(connection, limit)));
                }
                Ok(said)
            }
            Err(why) => Err(format!("{}: {why}", member.address.ip())),
        };
        probe.members.insert(member.name.clone(), result);
    }
    if open.is_empty() {
        return probe;
    }
    // The first member that has a quorum answers for all; one that is cut off must not hold the others up.
    if let Ok(((members, alarms), _)) = select_ok(open).await {
        let name = |id: String| {
            let found = members.members.iter().find(|m| m.id.to_string() == id).map(|m| m.name.clone());
            found.filter(|n| !n.is_empty()).unwrap_or(id)
        };
        let raised = |a: &Alarm| {
            let id = a.member.to_string();
            RaisedAlarm { kind: a.alarm.clone(), member: name(id.clone()), id }
        };
        probe.alarms = alarms.alarms.iter().map(raised).collect();
        probe.alarms.sort();
        probe.list = Some(members.members.into_iter().map(listed).collect());
    }
    probe
}

fn listed(member: Listed) -> ListedMember {
    let Listed { id, name, peer_urls, learner } = member;
    ListedMember { name, id: id.to_string(), peer_urls, learner }
}

/// What needs a quorum: the list is read by consensus, and etcd sends even the question for alarms through its log, as a write.
async fn all(mut connection: Connection, limit: Duration) -> Result<(Members, Alarms), CallError> {
    let by = Deadline::new(limit);
    let members = connection.ask(&MEMBERS, by).await?;
    let alarms = connection.ask(&ALARMS, by).await?;
    Ok((members, alarms))
}
