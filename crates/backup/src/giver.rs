//! Who gives a snapshot, and what it has to hold.

use crate::etcd::MemberStatus;

/// How far behind the leader a member may be and still count as synced, in entries of the log.
const BEHIND: u64 = 1_000;

/// Who is to give the snapshot: a follower that has what the leader has, since the leader has enough to do; or else the leader. Where there
/// is none, and that is allowed, whoever has most.
pub(crate) fn giver(members: &[MemberStatus], without_quorum: bool) -> Option<&MemberStatus> {
    let serves = members.iter().any(|m| m.has_leader);
    let voters = || members.iter().filter(|m| !m.learner && (m.has_leader || (without_quorum && !serves)));
    let most = voters().map(|m| m.applied).max()?;
    let synced = voters().filter(|m| !m.leads && m.applied.saturating_add(BEHIND) >= most);
    synced.max_by_key(|m| m.applied).or_else(|| voters().find(|m| m.leads))
}

/// Who gives it where a follower does not get to what the leader has.
pub(crate) fn leader(members: &[MemberStatus]) -> Option<&MemberStatus> {
    members.iter().find(|m| m.leads && !m.learner)
}

/// What was acknowledged until these were asked has no higher revision. 0: none of them serves, and nobody knows.
pub(crate) fn acknowledged(members: &[MemberStatus]) -> i64 {
    members.iter().filter(|m| m.has_leader).map(|m| m.revision).max().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(url: &str, leads: bool, learner: bool, applied: u64) -> MemberStatus {
        let text = |s: &str| s.to_owned();
        MemberStatus {
            url: text(url),
            cluster_id: text("1"),
            version: text("3.6.0"),
            revision: 1,
            leads,
            has_leader: true,
            learner,
            applied,
        }
    }

    #[test]
    fn without_a_quorum_whoever_has_most_gives_if_that_is_allowed() {
        let name = |all: &[MemberStatus], allowed| giver(all, allowed).map(|m| m.url.clone()).unwrap_or_default();
        let left = |url, applied| MemberStatus { has_leader: false, ..of(url, false, false, applied) };
        let learner = MemberStatus { learner: true, ..left("learner", 9_000) };
        let all = [left("behind", 4_999), left("ahead", 5_000), learner];
        assert_eq!((name(&all, false), name(&all, true)), (String::new(), "ahead".into()));
        let served = [left("apart", 9_000), of("follower", false, false, 5_000), of("leader", true, false, 5_000)];
        assert_eq!(name(&served, true), "follower", "who is apart from those that serve does not count");
    }

    #[test]
    fn a_synced_follower_gives_and_the_leader_only_where_there_is_none() {
        let name = |all: &[MemberStatus]| giver(all, false).map(|m| m.url.clone()).unwrap_or_default();
        let leader = of("leader", true, false, 5_000);
        assert_eq!(name(std::slice::from_ref(&leader)), "leader");
        assert_eq!(name(&[leader.clone(), of("far", false, false, 3_999)]), "leader");
        assert_eq!(name(&[leader.clone(), of("near", false, false, 4_000)]), "near");
        assert_eq!(name(&[leader, of("learner", false, true, 5_000)]), "leader");
        assert_eq!(name(&[]), "");
    }

    #[test]
    fn what_any_that_serves_has_is_in_a_snapshot_that_is_whole() {
        let at = |revision, member: MemberStatus| MemberStatus { revision, ..member };
        let apart = MemberStatus { has_leader: false, ..at(99, of("apart", false, false, 9_000)) };
        let all = [at(7, of("near", false, false, 4_990)), at(9, of("leader", true, false, 5_000)), apart.clone()];
        assert_eq!((acknowledged(&all), leader(&all).map(|m| &*m.url)), (9, Some("leader")));
        assert_eq!((acknowledged(&[apart]), leader(&all[..1])), (0, None));
    }
}
