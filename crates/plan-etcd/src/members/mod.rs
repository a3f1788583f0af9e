//! Stage 4: the members: what starts them, and how they are.

mod judge;
mod objects;

use judge::judge;
pub(crate) use objects::are_applied;
use objects::objects;

use crate::health::{Health, proxied};
use crate::planned::EtcdPlan;
use crate::procedures::membership::{self, MemberStep};
use crate::procedures::upgrade::{self, UpgradeStep};
use crate::procedures::upkeep::{self, UpkeepStep};
use crate::procedures::{parity, recovery, restore, sleep};
use crate::steps::Steps;
use crate::subject::{Subject, is_ours, told};
use crate::{newer, roll};
use berth_api::conditions::Reason;
use berth_api::etcd_bootstrap::BootstrapState;
use berth_api::names;
use berth_plan::model::{Action, EtcdCall, Stage, StageId, State};
use berth_plan::objects::ensure;
use berth_plan::{run_level, workload};
use berth_render::{Kind, ObjectKey};

/// The stage.
pub(super) fn stage(s: &Subject<'_>, out: &mut EtcdPlan, steps: &Steps) -> Stage {
    let mut stage = Stage::new(StageId::Etcd, State::Ready);
    let is_known = write(s, &out.health, &mut stage);
    let mut others = out.plan.stages.iter().filter(|other| other.id != StageId::Spec);
    let is_whole = stage.state.is_done() && others.all(|other| other.state.is_done());
    let is_well = is_known && stage.actions.is_empty() && is_well(s, &out.health, steps);
    let (kept, upkeep) = upkeep::decide_upkeep(&upkeep::view_upkeep(s, is_well));
    out.upkeep = kept;
    out.upkeep_after = match &upkeep {
        UpkeepStep::CatchUp(_, after) => Some(*after),
        UpkeepStep::UsedUp(_, after) => *after,
        UpkeepStep::Rest | UpkeepStep::Call { .. } => None,
    };
    let recovering =
        recovery::recovery_state(s, &steps.recovery).filter(|_| !matches!(stage.state, State::Blocked { .. }));
    stage.actions.extend(recovery::recovery_action(s, &steps.recovery));
    let judged = recovering
        .or_else(|| restore::restore_state(&stage.state, &steps.restore))
        .or_else(|| sleep::sleep_state(s, &stage.state, &steps.sleep))
        .or_else(|| judge(s, &out.health, &stage.state, steps, &upkeep))
        .or_else(|| sleep::held_state(&stage.state, &steps.sleep));
    out.sleep = sleep::said(&steps.sleep);
    if let Some(state) = judged {
        stage.state = state;
    }
    // Where nobody knows what the template is to be, it may be somebody else's.
    if is_known && stage.actions.is_empty() {
        act(s, &out.health, &mut stage, steps, is_whole);
    }
    if is_whole && stage.actions.is_empty() {
        let compare = || parity::due(s, is_well).zip(out.health.leader(s));
        let call = match upkeep {
            UpkeepStep::Call { via, call } => Some((call, via)),
            _ => compare().map(|(what, via)| (EtcdCall::Maintain(what), via)),
        };
        stage.actions.extend(call.map(|(call, via)| told(s, via, call)));
    }
    if let (true, None, Some(set)) = (stage.state.is_done(), &s.record.operation, s.get(Kind::StatefulSet, s.name)) {
        stage.notes.extend(workload::injected(set, s.children(Kind::Pod)));
        stage.notes.extend(s.children(Kind::Pod).find_map(|(_, pod)| proxied(pod)));
    }
    stage
}

/// Writes what the members are made from. Returns whether that is known.
fn write(s: &Subject<'_>, health: &Health, stage: &mut Stage) -> bool {
    let (set, map) = (s.key(Kind::StatefulSet, s.name), s.key(Kind::ConfigMap, names::etcd::bootstrap(s.name)));
    let objects = match objects(s, health) {
        Ok(objects) => objects,
        Err(state) => {
            // Still ours, so that nothing takes them for orphans.
            stage.owns.extend([s.key(Kind::PodDisruptionBudget, s.name), map, set]);
            stage.state = state;
            return false;
        }
    };
    for object in objects {
        if *object.key() == set && !s.run_level().runs_etcd() {
            stage.owns.push(set.clone());
            if let Some(live) = s.get(Kind::StatefulSet, s.name) {
                run_level::stop(stage, &set, live);
            }
        } else if *object.key() == set
            && s.wakes()
            && let Some(live) = s.get(Kind::StatefulSet, s.name)
        {
            stage.owns.push(set.clone());
            run_level::start(stage, &set, live, s.record.replicas);
        } else {
            ensure(stage, s.observed, object, |o| is_ours(o, s.name));
        }
    }
    if s.record.bootstrap.serial > 0 {
        on_its_version(s, stage, &map);
    }
    true
}

/// Whether members are well and nothing is to be done to them, so that their databases can be looked after.
fn is_well(s: &Subject<'_>, health: &Health, steps: &Steps) -> bool {
    roll::next(s, health) == (None, None)
        && steps.members == MemberStep::Rest
        && steps.upgrade == UpgradeStep::Rest
        && health.complete
        && s.record.bootstrap.state == BootstrapState::Established
        && s.record.operation.is_none()
        && s.acts()
}

/// What is done to a member next, one thing at a time.
fn act(s: &Subject<'_>, health: &Health, stage: &mut Stage, steps: &Steps, is_whole: bool) {
    let restart = || newer::restart(s).filter(|_| health.deleting_volume.is_none());
    let members = || membership::members_action(s, &steps.members).filter(|_| is_whole);
    let next = upgrade::upgrade_action(s, &steps.upgrade).filter(|_| is_whole).or_else(restart).or_else(members);
    if next.is_some() || s.is_upgraded() {
        return stage.actions.extend(next);
    }
    if s.record.operation.is_some() {
        return stage.actions.extend(roll::stuck(s, health));
    }
    // Not only while all is well: another template may be what helps. `roll` sees to it that no quorum is lost.
    let (roll, next) = roll::next(s, health);
    let held = next.is_none();
    stage.actions.extend(next);
    match (&mut stage.state, roll) {
        (state, Some(roll)) if state.is_done() => *state = roll,
        (State::Waiting { on, .. }, Some(State::Waiting { reason: Reason::RollingOut, on: roll })) if held => {
            *on = format!("{on}; and for {roll}");
        }
        _ => {}
    }
}

/// The ConfigMap with the record is written only if nobody else has written it since: what is on record happens, and a write that is late
/// does not take it back.
fn on_its_version(s: &Subject<'_>, stage: &mut Stage, map: &ObjectKey) {
    let version = s.get(Kind::ConfigMap, &map.name).and_then(|live| live["metadata"]["resourceVersion"].as_str());
    for action in &mut stage.actions {
        if let (Action::Apply(object), Some(version)) = (action, version)
            && object.key() == map
        {
            *object = object.clone().with_resource_version(version);
        }
    }
}
