//! What a decision about members is made from, as it was observed.

use super::decide::{Fact, Journal, MembersView};
use crate::health::Health;
use crate::procedures::parity;
use crate::subject::Subject;
use crate::{newer, roll, services, stranded};
use berth_api::conditions::Reason;
use berth_api::etcd_bootstrap::{BootstrapState, Record};
use berth_api::{labels, names};
use berth_plan::observed::{EtcdProbe, MemberProbe, RaisedAlarm, deleting, label};
use berth_plan::workload::{has_lost_its_data, pod_problem, unscheduled_since};
use berth_render::Kind;
use std::collections::BTreeSet;

/// As many as there can be, whatever a record says.
const MOST: i32 = 5;

/// The view of a reconcile.
pub(crate) fn view_members<'a>(s: &Subject<'a>, health: &Health) -> MembersView<'a> {
    let probe = s.observed.etcd.as_ref();
    let target = s.record.operation.as_ref().and_then(|o| names::etcd::ordinal(s.name, &o.target));
    let most = s.addressed().max(s.etcd.spec.replicas).max(target.map_or(0, |ordinal| ordinal.saturating_add(1)));
    let names = (0..most.min(MOST)).map(|i| names::etcd::member(s.name, i));
    let alarms = || probe.into_iter().flat_map(|p| &p.alarms);
    MembersView {
        name: s.name,
        now: s.now,
        wanted: s.etcd.spec.replicas,
        is_formed: s.record.bootstrap.state == BootstrapState::Established && is_one_cluster(s, probe),
        can_join: s.can_join(),
        is_settled: roll::next(s, health) == (None, None) && health.deleting_volume.is_none(),
        has_alarm: alarms().any(|alarm| alarm.kind != RaisedAlarm::NOSPACE && parity::holds_up(s, alarm)),
        is_full: alarms().any(|alarm| alarm.kind == RaisedAlarm::NOSPACE),
        has_one_leader: leaders(probe).len() <= 1,
        journal: journal(&s.record),
        list: probe.and_then(|p| p.list.clone()),
        facts: names.map(|name| (name.clone(), fact(s, probe, &name))).collect(),
    }
}

/// Whether all who answer are of the same cluster, and of the recorded one.
fn is_one_cluster(s: &Subject<'_>, probe: Option<&EtcdProbe>) -> bool {
    let recorded = s.cluster_id();
    let answers = probe.into_iter().flat_map(|p| p.members.values()).flatten();
    let ids: BTreeSet<&str> = answers.map(|m| m.cluster_id.as_str()).chain(recorded).collect();
    ids.len() == 1
}

/// Whom those who answer name.
fn leaders(probe: Option<&EtcdProbe>) -> BTreeSet<&str> {
    let answers = probe.into_iter().flat_map(|p| p.members.values()).flatten();
    answers.map(|m| m.leader.as_str()).filter(|leader| *leader != "0").collect()
}

pub(crate) fn journal(record: &Record) -> Journal {
    Journal {
        serial: record.bootstrap.serial,
        replicas: record.replicas,
        members: record.bootstrap.members.clone(),
        operation: record.operation.clone(),
    }
}

/// The record with what a step writes.
pub(crate) fn take(record: &mut Record, journal: &Journal) {
    let Journal { serial, replicas, members, operation } = journal.clone();
    record.founders.get_or_insert(record.replicas);
    (record.bootstrap.serial, record.bootstrap.members) = (serial, members);
    (record.replicas, record.operation) = (replicas, operation);
}

fn fact(s: &Subject<'_>, probe: Option<&EtcdProbe>, name: &str) -> Fact {
    let recorded = s.cluster_id();
    let said = probe.and_then(|p| p.members.get(name)?.as_ref().ok());
    let listed = |said: &MemberProbe| {
        probe.and_then(|p| p.list.as_ref()).is_some_and(|l| l.iter().any(|listed| listed.id == said.member_id))
    };
    let well = said.is_some_and(|m| m.leader != "0" && recorded.is_none_or(|r| r == m.cluster_id) && listed(m));
    let pod = s.pod(name);
    let held = pod.is_some_and(has_lost_its_data);
    let claim = s.observed.get(&s.key(Kind::PersistentVolumeClaim, format!("data-{name}")));
    let claim = claim.filter(|claim| label(claim, labels::ETCD_CLUSTER) == Some(s.name));
    let is_stranded = said.is_none() && stranded::of(s, name).is_some_and(|stranded| stranded.is_proven);
    Fact {
        well,
        leads: said.is_some_and(|m| m.leader == m.member_id),
        id: newer::id(s, name),
        lag: said.and_then(|m| lag(probe?, m)),
        lost: (held && said.is_none()) || is_stranded || parity::is_odd(s, name),
        stranded: is_stranded,
        crashes: pod.and_then(pod_problem).is_some_and(|(reason, _)| reason == Reason::ContainerFailing)
            && said.is_none(),
        unplaced: pod.and_then(unscheduled_since).is_some(),
        pod: pod.is_some(),
        pod_ends: pod.is_some_and(deleting),
        claim: claim.map(deleting),
        peer_url: services::peer_url(s, name),
    }
}

/// How much of its leader's log it has not applied.
fn lag(probe: &EtcdProbe, member: &MemberProbe) -> Option<u64> {
    let leader = probe.members.values().flatten().find(|m| m.member_id == member.leader)?;
    Some(leader.progress.raft_index.saturating_sub(member.progress.applied_index))
}
