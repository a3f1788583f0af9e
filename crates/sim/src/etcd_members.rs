//! etcd's members: what a call makes of them, by etcd's own rules (`--strict-reconfig-check`), and what a member that starts makes of itself.

use berth_plan::observed::{EtcdProbe, ListedMember};
use berth_plan::{EtcdAnswer, KvHash, Maintenance, MemberChange};

/// Carries out a call. The error is what etcd says. `new_id`: what a member gets that is added.
pub fn change(probe: &mut EtcdProbe, change: &MemberChange, new_id: &str) -> Result<(), String> {
    let up: Vec<String> = probe.members.values().flatten().map(|m| m.member_id.clone()).collect();
    let Some(list) = &mut probe.list else { return Err("etcdserver: no leader".to_owned()) };
    let next = apply(list, &up, change, new_id)?;
    if let Some(leader) = next {
        probe.members.values_mut().flatten().for_each(|m| m.leader.clone_from(&leader));
    }
    Ok(())
}

/// Looks after databases, as etcd does. The error is what etcd says.
pub fn maintain(probe: &mut EtcdProbe, via: &str, what: &Maintenance) -> Result<EtcdAnswer, String> {
    if probe.list.is_none() && *what != Maintenance::Defragment {
        return Err("etcdserver: no leader".to_owned());
    }
    match what {
        Maintenance::Defragment => {
            let member = probe.members.get_mut(via).and_then(|m| m.as_mut().ok()).ok_or("connection refused")?;
            member.progress.db_size = member.progress.db_size_in_use;
        }
        // Nothing says how much of it is in older revisions.
        Maintenance::Compact { .. } => {}
        Maintenance::Disarm { alarm, id } => probe.alarms.retain(|a| a.kind != *alarm || a.id != *id),
        Maintenance::Put if probe.alarms.is_empty() => {}
        Maintenance::Put => return Err("etcdserver: mvcc: database space exceeded".to_owned()),
        // All have the same data.
        Maintenance::CompareHashes { .. } => {
            let hash = |(name, said): (&String, &Result<_, String>)| KvHash {
                member: name.clone(),
                said: said.as_ref().map(|_| (7, 1)).map_err(Clone::clone),
            };
            return Ok(EtcdAnswer::Hashes(probe.members.iter().map(hash).collect()));
        }
    }
    Ok(EtcdAnswer::Done)
}

/// Likewise, of a list alone; `up`: IDs of those that run. Returns the ID of the one that leads from now on, if that changes.
pub fn apply(
    list: &mut Vec<ListedMember>,
    up: &[String],
    change: &MemberChange,
    new_id: &str,
) -> Result<Option<String>, String> {
    let serves = |list: &[ListedMember]| {
        let voters: Vec<_> = list.iter().filter(|m| !m.learner).collect();
        voters.iter().filter(|m| up.contains(&m.id)).count() * 2 > voters.len()
    };
    if !serves(list) {
        return Err("etcdserver: request timed out".to_owned());
    }
    let at = |list: &[ListedMember], id: &str| {
        list.iter().position(|m| m.id == id).ok_or_else(|| "etcdserver: member not found".to_owned())
    };
    match change {
        MemberChange::AddLearner { peer_url } => {
            if list.iter().any(|m| m.peer_urls.contains(peer_url)) {
                return Err("etcdserver: Peer URLs already exists".to_owned());
            }
            if list.iter().any(|m| m.learner) {
                return Err("etcdserver: too many learner members in cluster".to_owned());
            }
            list.push(ListedMember {
                name: String::new(),
                id: new_id.to_owned(),
                peer_urls: vec![peer_url.clone()],
                learner: true,
            });
        }
        MemberChange::Promote { id } => {
            let at = at(list, id)?;
            if !list[at].learner {
                return Err("etcdserver: can only promote a learner member".to_owned());
            }
            if list[at].name.is_empty() || !up.contains(id) {
                return Err("etcdserver: can only promote a learner member which is in sync with leader".to_owned());
            }
            list[at].learner = false;
        }
        MemberChange::Remove { id } => {
            let gone = list.remove(at(list, id)?);
            if !gone.learner && !serves(list) {
                list.push(gone);
                return Err("etcdserver: re-configuration failed due to not enough started members".to_owned());
            }
        }
        MemberChange::MoveLeader { id } => {
            let at = at(list, id)?;
            if list[at].learner {
                return Err("etcdserver: leader transferee is a learner".to_owned());
            }
            return Ok(Some(id.clone()));
        }
    }
    Ok(None)
}
