//! What a decision about members is made from, as it was observed.

use super::decide::{Fact, MembersView};
use crate::health::Health;
use crate::procedures::parity;
use crate::subject::Subject;
use crate::{newer, roll, services, stranded, volumes};
use berth_api::conditions::Reason;
use berth_api::etcd_bootstrap::BootstrapState;
use berth_api::names;
use berth_plan::object_meta::deleting;
use berth_plan::observed::{MemberProbe, RaisedAlarm};
use berth_plan::workload::{has_lost_its_data, pod_problem, unscheduled_since};
use std::collections::BTreeSet;

/// As many as there can be, whatever a record says.
const MOST: i32 = 5;

/// The view of a reconcile.
pub(crate) fn view_members<'a>(s: &'a Subject<'_>, health: &Health) -> MembersView<'a> {
    let target = s.record.operation.as_ref().and_then(|o| names::etcd::ordinal(s.name, &o.target));
    let most = s.addressed().max(s.etcd.spec.replicas).max(target.map_or(0, |ordinal| ordinal.saturating_add(1)));
    let names = (0..most.min(MOST)).map(|i| names::etcd::member(s.name, i));
    MembersView {
        name: s.name,
        now: s.now,
        wanted: s.etcd.spec.replicas,
        is_formed: s.record.bootstrap.state == BootstrapState::Established && is_one_cluster(s),
        can_join: s.can_join(),
        is_settled: roll::next(s, health) == (None, None) && health.deleting_volume.is_none(),
        has_alarm: s.alarms().iter().any(|alarm| alarm.kind != RaisedAlarm::NOSPACE && parity::holds_up(s, alarm)),
        is_full: s.alarms().iter().any(|alarm| alarm.kind == RaisedAlarm::NOSPACE),
        has_one_leader: leaders(s).len() <= 1,
        record: &s.record,
        list: s.listed().cloned(),
        facts: names.map(|name| (name.clone(), fact(s, &name))).collect(),
    }
}

/// Whether all who answer are of the same cluster, and of the recorded one.
fn is_one_cluster(s: &Subject<'_>) -> bool {
    let ids: BTreeSet<&str> = s.answers().map(|m| m.cluster_id.as_str()).chain(s.cluster_id()).collect();
    ids.len() == 1
}

/// Whom those who answer name.
fn leaders<'a>(s: &Subject<'a>) -> BTreeSet<&'a str> {
    s.answers().map(|m| m.leader.as_str()).filter(|leader| *leader != "0").collect()
}

fn fact(s: &Subject<'_>, name: &str) -> Fact {
    let recorded = s.cluster_id();
    let said = s.said(name);
    let listed = |said: &MemberProbe| s.listed().is_some_and(|l| l.iter().any(|listed| listed.id == said.member_id));
    let well = said.is_some_and(|m| m.leader != "0" && recorded.is_none_or(|r| r == m.cluster_id) && listed(m));
    let pod = s.pod(name);
    let held = pod.is_some_and(has_lost_its_data);
    let is_stranded = said.is_none() && stranded::of(s, name).is_some_and(|stranded| stranded.is_proven);
    Fact {
        well,
        leads: said.is_some_and(|m| m.leader == m.member_id),
        id: newer::id(s, name),
        lag: said.and_then(|m| lag(s, m)),
        lost: (held && said.is_none()) || is_stranded || parity::is_odd(s, name),
        stranded: is_stranded,
        crashes: pod.and_then(pod_problem).is_some_and(|(reason, _)| reason == Reason::ContainerFailing)
            && said.is_none(),
        unplaced: pod.and_then(unscheduled_since).is_some(),
        pod: pod.is_some(),
        pod_ends: pod.is_some_and(deleting),
        claim: volumes::claim(s, name).map(|(_, claim)| deleting(claim)),
        peer_url: services::peer_url(s, name),
    }
}

/// How much of its leader's log it has not applied.
fn lag(s: &Subject<'_>, member: &MemberProbe) -> Option<u64> {
    let leader = s.answers().find(|m| m.member_id == member.leader)?;
    Some(leader.progress.raft_index.saturating_sub(member.progress.applied_index))
}
