//! When to reconcile again without an event.

use super::room;
use super::subject::Subject;
use crate::planned::EtcdPlan;
use berth_plan::workload::{pod_running, pod_start, started_at};
use berth_render::Kind;
use jiff::SignedDuration;
use serde_json::Value;

/// Members that have just started are about to answer.
const FORMING: SignedDuration = SignedDuration::from_millis(250);
/// A member is coming or going: it is looked at twice before it gets its vote.
const CHANGING: SignedDuration = SignedDuration::from_secs(1);
/// Something is not as it should be, and members do not send events.
const UNWELL: SignedDuration = SignedDuration::from_secs(5);
/// Nothing can be made of the spec, or not everything is made yet.
pub(super) const SLOW: SignedDuration = SignedDuration::from_secs(10);
/// All is well: notices a lost quorum or an alarm.
const WELL: SignedDuration = SignedDuration::from_secs(30);
/// Nothing runs that could be asked, and that pods come is announced: notices the loss of what is not watched.
const QUIET: SignedDuration = SignedDuration::from_mins(1);
/// There is nobody to ask. What is watched announces itself.
const ASLEEP: SignedDuration = SignedDuration::from_mins(15);
/// A process that has not answered after this is not about to.
const STARTING: SignedDuration = SignedDuration::from_mins(1);

/// A recovery is about to begin.
const RECOVERING: SignedDuration = SignedDuration::from_secs(3);

/// The pace for what was seen.
pub(super) fn after(s: &Subject<'_>, out: &EtcdPlan) -> SignedDuration {
    let recovers = out.recovery.as_ref().is_some_and(|r| r.begun.is_none() && r.goes_on());
    [out.upkeep_after, recovers.then_some(RECOVERING)].into_iter().flatten().fold(pace(s, out), SignedDuration::min)
}

fn pace(s: &Subject<'_>, out: &EtcdPlan) -> SignedDuration {
    if s.sleeps() && s.children(Kind::Pod).next().is_none() && out.plan.first_problem().is_none() {
        return ASLEEP;
    }
    if out.health.all_ready() && out.plan.first_problem().is_none() {
        return WELL;
    }
    let running: Vec<_> = s.members().into_iter().filter_map(|m| s.pod(&m).filter(|p| pod_running(p))).collect();
    if let Some(operation) = &s.record.operation {
        // That clients and pods end is announced.
        let takes_long = s.is_restored() && running.is_empty() || s.now.duration_since(operation.since.0) >= STARTING;
        return if takes_long { UNWELL } else { CHANGING };
    }
    if room::may_give_way(s) {
        return SLOW;
    }
    // What ran does, and a node that comes announces nothing here.
    if out.health.all_ready() && room::refusal(s).is_some() {
        return QUIET;
    }
    // What kubelet does before a container runs is not announced, and is told of when it takes long.
    if running.is_empty() && s.members().iter().any(|m| s.pod(m).is_some_and(|p| pod_start(p).is_some())) {
        return SLOW;
    }
    if running.is_empty() {
        return if s.get(Kind::StatefulSet, s.name).is_some() { QUIET } else { SLOW };
    }
    let fresh = |pod: &&Value| started_at(pod).is_none_or(|at| s.now.duration_since(at) < STARTING);
    if !out.health.all_ready() && running.iter().any(fresh) { FORMING } else { UNWELL }
}
