//! Decides which call is next.

#[cfg(test)]
mod tests;

use berth_api::etcd_upkeep::{Upkeep, UpkeepReason};
use berth_plan::model::{EtcdCall, EtcdCallResult, Maintenance, MemberChange};
use berth_plan::observed::RaisedAlarm;
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

/// Clients that were cut off by a defragmentation catch up before the next one.
const BETWEEN: SignedDuration = SignedDuration::from_mins(1);
/// Somebody waits. etcd itself calls a member healthy once it has answered its peers for five seconds.
const SOON: SignedDuration = SignedDuration::from_secs(5);
/// A defragmentation that freed nothing is not tried again at once.
const REST: SignedDuration = SignedDuration::from_hours(1);
/// What is in use filled the database, and the revision has grown since: with NOSPACE etcd takes nothing but deletions. They may come one by
/// one, as leases end, so this much is between two compactions.
const COMPACT_AGAIN: SignedDuration = SignedDuration::from_secs(30);

/// A member, and the room in its database.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Room {
    pub(crate) name: String,
    pub(crate) id: String,
    pub(crate) leads: bool,
    /// Bytes.
    pub(crate) size: i64,
    /// Bytes of these.
    pub(crate) used: i64,
    /// Bytes that there may be.
    pub(crate) quota: i64,
    pub(crate) is_fragmented: bool,
}

impl Room {
    /// Most that it has after the upkeep, so that the alarm does not come back at once: 85 % of the quota.
    fn bound(&self) -> i64 {
        self.quota / 100 * 85
    }

    fn is_full(&self) -> bool {
        self.size >= self.bound()
    }

    /// Defragmenting helps once more, by what it says is in use.
    fn can_shrink(&self) -> bool {
        self.used < self.bound() && self.used < self.size / 10 * 9
    }
}

/// What a decision is made from.
#[derive(Clone, Debug)]
pub(crate) struct UpkeepView {
    pub(crate) now: Timestamp,
    /// All members that there should be answered, and are well, and nothing else goes on.
    pub(crate) is_well: bool,
    pub(crate) members: Vec<Room>,
    pub(crate) alarms: Vec<RaisedAlarm>,
    /// The newest revision.
    pub(crate) revision: i64,
    /// The value of the annotation.
    pub(crate) request: Option<String>,
    /// What the status says.
    pub(crate) last: Option<Upkeep>,
    /// What was told in this reconcile, to whom, and whether it was done.
    pub(crate) told: Vec<EtcdCallResult>,
}

/// What to do now.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) enum UpkeepStep {
    /// Nothing.
    #[default]
    Rest,
    /// Nothing for so long, in which the member catches up that was defragmented. None: all of them do.
    CatchUp(Option<String>, SignedDuration),
    /// What is in use fills this one, and the others as well. Once keys were deleted it goes on: after so long; None: nobody did yet.
    UsedUp(Room, Option<SignedDuration>),
    /// etcd is told.
    Call { via: String, call: EtcdCall },
}

/// The next step, and what the status is to say.
pub(crate) fn decide_upkeep(view: &UpkeepView) -> (Option<Upkeep>, UpkeepStep) {
    // Who differed was replaced: there is nobody any more of whom it is said.
    let is_gone = |a: &&RaisedAlarm| a.kind == RaisedAlarm::CORRUPT && view.members.iter().all(|m| m.id != a.id);
    if let Some(alarm) = view.alarms.iter().find(is_gone).filter(|_| view.is_well) {
        let call = EtcdCall::Maintain(Maintenance::Disarm { alarm: alarm.kind.clone(), id: alarm.id.clone() });
        return (view.last.clone(), UpkeepStep::Call { via: leader(view), call });
    }
    // Nobody knows which data is right: a person decides.
    let only_space = view.alarms.iter().all(|a| a.kind == RaisedAlarm::NOSPACE);
    if !only_space || !view.is_well {
        return (view.last.clone(), UpkeepStep::Rest);
    }
    let Some(reason) = wanted(view) else { return (view.last.clone(), UpkeepStep::Rest) };
    let mut upkeep = begun(view, reason);
    shown(&mut upkeep, view);
    view.told.iter().for_each(|told| take(&mut upkeep, told, view));
    if upkeep.finished.is_some() {
        return (Some(upkeep), UpkeepStep::Rest);
    }
    let step = next(view, &mut upkeep);
    (Some(upkeep), step)
}

fn under_way(view: &UpkeepView) -> Option<&Upkeep> {
    view.last.as_ref().filter(|last| last.finished.is_none() && last.reason != UpkeepReason::Other)
}

/// Why anything is to be done. What is most urgent comes first.
fn wanted(view: &UpkeepView) -> Option<UpkeepReason> {
    use UpkeepReason::{Fragmented, NoSpace, Requested};
    let running = under_way(view).map(|u| u.reason);
    if running == Some(NoSpace) || !view.alarms.is_empty() {
        return Some(NoSpace);
    }
    let handled = view.last.as_ref().and_then(|last| last.request.as_ref());
    if running == Some(Requested) || (view.request.is_some() && view.request.as_ref() != handled) {
        return Some(Requested);
    }
    let rested = view.last.as_ref().and_then(|last| last.finished.as_ref());
    let rested = rested.is_none_or(|at| view.now.duration_since(at.0) >= REST);
    // A single member serves nobody meanwhile.
    let is_due = rested && view.members.len() > 1 && view.members.iter().any(|m| m.is_fragmented);
    (running == Some(Fragmented) || is_due).then_some(Fragmented)
}

/// The one that is under way, or a new one.
fn begun(view: &UpkeepView, reason: UpkeepReason) -> Upkeep {
    let running = under_way(view);
    if let Some(upkeep) = running.filter(|u| u.reason == reason) {
        return upkeep.clone();
    }
    let last = view.last.as_ref();
    let asked = view.request.clone().filter(|_| reason == UpkeepReason::Requested);
    Upkeep {
        reason,
        since: Time(view.now),
        // It may still be at it.
        member: running.and_then(|u| u.member.clone()),
        done: vec![],
        compacted_revision: None,
        compacted_at: None,
        at: running.and_then(|u| u.at.clone()),
        finished: None,
        request: asked.or_else(|| last.and_then(|l| l.request.clone())),
    }
}

/// The answer was lost, or came too late, but it shows: there is next to nothing to give back.
fn shown(upkeep: &mut Upkeep, view: &UpkeepView) {
    let is_done = |m: &Room| Some(&m.name) == upkeep.member.as_ref() && m.used >= m.size / 10 * 9;
    if view.members.iter().any(is_done) && upkeep.reason == UpkeepReason::Requested {
        upkeep.done.extend(upkeep.member.take());
    }
}

/// Takes in a call and its answer.
fn take(upkeep: &mut Upkeep, told: &EtcdCallResult, view: &UpkeepView) {
    upkeep.at = Some(Time(view.now));
    match &told.call {
        EtcdCall::Maintain(Maintenance::Defragment) => {
            upkeep.member = Some(told.via.clone()).filter(|_| !told.done);
            if told.done && !upkeep.done.contains(&told.via) {
                upkeep.done.push(told.via.clone());
            }
        }
        EtcdCall::Maintain(Maintenance::Compact { revision }) if told.done => {
            upkeep.compacted_revision = Some(*revision);
            upkeep.compacted_at = Some(Time(view.now));
            upkeep.done.clear();
        }
        EtcdCall::Maintain(Maintenance::Put) if told.done => upkeep.finished = Some(Time(view.now)),
        _ => {}
    }
}

fn next(view: &UpkeepView, upkeep: &mut Upkeep) -> UpkeepStep {
    let between = if upkeep.reason == UpkeepReason::Fragmented { BETWEEN } else { SOON };
    let since = upkeep.at.as_ref().map_or(between, |at| view.now.duration_since(at.0));
    if let Some(left) = between.checked_sub(since).filter(SignedDuration::is_positive) {
        return UpkeepStep::CatchUp(upkeep.done.last().cloned(), left);
    }
    match upkeep.reason {
        UpkeepReason::NoSpace => no_space(view, upkeep),
        UpkeepReason::Requested => {
            let left = view.members.iter().filter(|m| !upkeep.done.contains(&m.name)).collect::<Vec<_>>();
            defragment(view, upkeep, &left).unwrap_or_else(|| finish(view, upkeep))
        }
        UpkeepReason::Fragmented | UpkeepReason::Other => {
            let left = |m: &&Room| m.is_fragmented && !upkeep.done.contains(&m.name);
            let left = view.members.iter().filter(left).collect::<Vec<_>>();
            defragment(view, upkeep, &left).unwrap_or_else(|| finish(view, upkeep))
        }
    }
}

fn finish(view: &UpkeepView, upkeep: &mut Upkeep) -> UpkeepStep {
    upkeep.member = None;
    upkeep.finished = Some(Time(view.now));
    UpkeepStep::Rest
}

/// The one that was begun with; or else a follower, the last one first; or else the leader, once another one leads.
fn defragment(view: &UpkeepView, upkeep: &mut Upkeep, left: &[&Room]) -> Option<UpkeepStep> {
    let begun = left.iter().find(|m| Some(&m.name) == upkeep.member.as_ref());
    let follower = left.iter().rev().find(|m| !m.leads);
    let chosen = begun.or(follower).or(left.first())?;
    let other = view.members.iter().find(|m| m.name != chosen.name).filter(|_| chosen.leads);
    let call = if let Some(other) = other {
        EtcdCall::Change(MemberChange::MoveLeader { id: other.id.clone() })
    } else {
        upkeep.member = Some(chosen.name.clone());
        EtcdCall::Maintain(Maintenance::Defragment)
    };
    Some(UpkeepStep::Call { via: chosen.name.clone(), call })
}

fn leader(view: &UpkeepView) -> String {
    view.members.iter().find(|m| m.leads).map(|m| m.name.clone()).unwrap_or_default()
}

/// Compact, defragment each, disarm, see whether a write is taken.
fn no_space(view: &UpkeepView, upkeep: &mut Upkeep) -> UpkeepStep {
    let leader = leader(view);
    let tell = |what| UpkeepStep::Call { via: leader.clone(), call: EtcdCall::Maintain(what) };
    let compact = || tell(Maintenance::Compact { revision: view.revision });
    let Some(compacted) = upkeep.compacted_at.clone() else { return compact() };
    // Each of them once after a compaction, whatever it says is in use: etcd counts that anew only with the next write, and there is none.
    let is_done = |m: &&Room| upkeep.done.contains(&m.name);
    let full = view.members.iter().filter(|m| m.is_full()).collect::<Vec<_>>();
    // All have the same data: where that fills one, to defragment the others serves nobody.
    let used_up = full.iter().find(|m| is_done(m) && !m.can_shrink()).copied();
    let left = |m: &&Room| !is_done(m) || (m.is_full() && m.can_shrink());
    let left = view.members.iter().filter(left).collect::<Vec<_>>();
    match used_up {
        Some(room) if upkeep.compacted_revision == Some(view.revision) => {
            return UpkeepStep::UsedUp(room.clone(), None);
        }
        Some(room) => {
            let after = COMPACT_AGAIN - view.now.duration_since(compacted.0);
            return if after.is_positive() { UpkeepStep::UsedUp(room.clone(), Some(after)) } else { compact() };
        }
        None => {}
    }
    if let Some(step) = defragment(view, upkeep, &left) {
        return step;
    }
    upkeep.member = None;
    match view.alarms.first() {
        Some(alarm) => tell(Maintenance::Disarm { alarm: alarm.kind.clone(), id: alarm.id.clone() }),
        None => tell(Maintenance::Put),
    }
}
