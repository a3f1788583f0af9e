//! Stage 4: the members: what starts them, and how they are.

mod judge;
mod objects;

use judge::judge;
pub(crate) use objects::are_applied;
use objects::objects;

use crate::planned::EtcdPlan;
use crate::procedures::membership::{self, MemberStep};
use crate::procedures::{parity, recovery, restore, upgrade, upkeep};
use crate::steps::Steps;
use crate::subject::{Subject, is_ours, told};
use crate::{newer, roll};
use berth_api::conditions::Reason;
use berth_api::etcd_bootstrap::Operation;
use berth_api::{labels, names};
use berth_plan::model::{Action, EtcdCall, Stage, StageId, State};
use berth_plan::objects::ensure;
use berth_plan::workload;
use berth_render::{Kind, ObjectKey};
use serde_json::Value;

/// The stage.
pub(super) fn stage(s: &Subject<'_>, out: &mut EtcdPlan, steps: &Steps) -> Stage {
    let step = &steps.members;
    let mut stage = Stage::new(StageId::Etcd, State::Ready);
    let mut is_known = true;
    match objects(s, &out.health) {
        Err(state) => {
            // Still ours, so that nothing takes them for orphans.
            stage.owns.extend([
                s.key(Kind::PodDisruptionBudget, s.name),
                s.key(Kind::ConfigMap, names::etcd::bootstrap(s.name)),
                s.key(Kind::StatefulSet, s.name),
            ]);
            stage.state = state;
            is_known = false;
        }
        Ok(objects) => {
            let stopped = s.record.operation.as_ref().is_some_and(Operation::stops_members);
            for object in objects {
                if stopped && object.key().kind == Kind::StatefulSet {
                    stop(s, &mut stage, object.key());
                } else {
                    ensure(&mut stage, s.observed, object, |o| is_ours(o, s.name));
                }
            }
        }
    }
    if s.record.bootstrap.serial > 0 {
        on_its_version(s, &mut stage);
    }
    let mut others = out.plan.stages.iter().filter(|other| other.id != StageId::Spec);
    let is_whole = stage.state.is_done() && others.all(|other| other.state.is_done());
    let is_settled = is_known && stage.actions.is_empty() && roll::next(s, &out.health) == (None, None);
    let is_settled = is_settled && *step == MemberStep::Rest && steps.upgrade == upgrade::UpgradeStep::Rest;
    let (kept, upkeep) = upkeep::decide_upkeep(&upkeep::view_upkeep(s, &out.health, is_settled));
    out.upkeep = kept;
    let recovering =
        recovery::recovery_state(s, &steps.recovery).filter(|_| !matches!(stage.state, State::Blocked { .. }));
    stage.actions.extend(recovery::recovery_action(s, &steps.recovery));
    let judged = recovering
        .or_else(|| restore::restore_state(&stage.state, &steps.restore))
        .or_else(|| judge(s, &out.health, &stage.state, steps, &upkeep));
    if let Some(state) = judged {
        stage.state = state;
    }
    if is_known && is_whole && stage.actions.is_empty() {
        stage.actions.extend(upgrade::upgrade_action(s, &steps.upgrade));
    }
    if is_known && stage.actions.is_empty() && out.health.deleting_volume.is_none() {
        stage.actions.extend(newer::restart(s));
    }
    if s.is_upgraded() {
        return stage;
    }
    if s.record.operation.is_some() {
        if is_known && stage.actions.is_empty() {
            stage.actions.extend(
                membership::members_action(s, step.clone())
                    .filter(|_| is_whole)
                    .or_else(|| roll::stuck(s, &out.health)),
            );
        }
        return stage;
    }
    // Where nobody knows what the template is to be, it may be somebody else's.
    if is_known && stage.actions.is_empty() {
        // Not only while all is well: another template may be what helps. `roll` sees to it that no quorum is lost.
        let (roll, next) = roll::next(s, &out.health);
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
    match upkeep {
        upkeep::UpkeepStep::Call { via, call } if is_whole && stage.actions.is_empty() => {
            stage.actions.push(told(s, via, call));
        }
        upkeep::UpkeepStep::CatchUp(_, after) => out.upkeep_after = Some(after),
        upkeep::UpkeepStep::UsedUp(_, after) => out.upkeep_after = after,
        _ => {}
    }
    if let Some(what) = parity::due(s, &out.health, is_settled).filter(|_| is_whole && stage.actions.is_empty()) {
        stage.actions.extend(out.health.leader(s).map(|via| told(s, via, EtcdCall::Maintain(what))));
    }
    if let (true, Some(set)) = (stage.state.is_done(), s.get(Kind::StatefulSet, s.name)) {
        let pods = workload::pods_of(s.observed, s.namespace, labels::ETCD_CLUSTER, s.name);
        stage.notes.extend(workload::injected(set, pods));
    }
    stage
}

/// Ends the members' pods. The StatefulSet stays as it is otherwise: with the next epoch it gets what is new.
fn stop(s: &Subject<'_>, stage: &mut Stage, key: &ObjectKey) {
    stage.owns.push(key.clone());
    let live = s.get(Kind::StatefulSet, s.name);
    let runs = live.filter(|live| live.pointer("/spec/replicas").and_then(Value::as_i64) != Some(0));
    stage.actions.extend(runs.map(|live| Action::scale_to_zero(key, live)));
}

/// The ConfigMap with the record is written only if nobody else has written it since: what is on record happens, and a write that is late
/// does not take it back.
fn on_its_version(s: &Subject<'_>, stage: &mut Stage) {
    let map = names::etcd::bootstrap(s.name);
    let version = s.get(Kind::ConfigMap, &map).and_then(|live| live["metadata"]["resourceVersion"].as_str());
    for action in &mut stage.actions {
        if let (Action::Apply(object), Some(version)) = (action, version)
            && object.key() == &s.key(Kind::ConfigMap, &*map)
        {
            *object = object.clone().with_resource_version(version);
        }
    }
}
