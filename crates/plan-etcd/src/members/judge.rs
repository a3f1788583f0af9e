//! How the members are, in the words of their stage.

use crate::health::{Health, Member};
use crate::procedures::{growth, membership, parity, upgrade, upkeep};
use crate::steps::Steps;
use crate::subject::Subject;
use berth_api::conditions::Reason;
use berth_api::etcd_bootstrap::BootstrapState;
use berth_plan::State;
/// How the members are, if that is worth more than what the stage says already.
pub(super) fn judge(
    s: &Subject<'_>,
    health: &Health,
    so_far: &State,
    steps: &Steps,
    upkeep: &upkeep::UpkeepStep,
) -> Option<State> {
    if matches!(so_far, State::Blocked { .. }) {
        return None;
    }
    if let Some((reason, message)) = &health.data {
        return Some(State::blocked(*reason, message.clone()));
    }
    if let Some(message) = &health.deleting_volume {
        return Some(State::blocked(Reason::VolumeDeleting, message.clone()));
    }
    let formed = s.record.bootstrap.state == BootstrapState::Established;
    let why = health.members.iter().find_map(Member::trouble);
    let why = why.unwrap_or_default();
    let of = health.members.len();
    if formed && health.quorum != Some(true) {
        let held = match &steps.upgrade {
            upgrade::UpgradeStep::Hold(held) => held,
            _ => &why,
        };
        let on = format!("a quorum: {} of {of} members are ready; {held}", health.ready());
        return Some(State::Waiting { reason: Reason::QuorumLost, on });
    }
    if !so_far.is_done() {
        return None;
    }
    if let Some(state) = membership::members_state(s, &steps.members).filter(|_| health.corrupt()) {
        return Some(state);
    }
    if !health.alarms.is_empty() {
        return Some(upkeep::alarm_state(s, health, (&steps.members, &steps.upgrade), upkeep));
    }
    if let Some(state) = membership::members_state(s, &steps.members) {
        return Some(state);
    }
    if let Some(differs) = parity::problem(s) {
        return Some(State::blocked(Reason::EtcdAlarm, differs));
    }
    // What makes a member not ready is said beside, unless it is its turn.
    if let Some(state) = upgrade::upgrade_state(&steps.upgrade).filter(|_| health.all_ready() || s.is_upgraded()) {
        return Some(state);
    }
    if !health.all_ready() {
        let reason = health.pods.as_ref().map_or(if formed { Reason::PodsNotReady } else { Reason::Waiting }, |p| p.0);
        return Some(State::Waiting {
            reason,
            on: format!("its members: {} of {of} are ready; {why}", health.ready()),
        });
    }
    if let Some(state) = growth::state(&steps.growth) {
        return Some(state);
    }
    (!formed).then(|| State::waiting("all members to report the same cluster ID and leader"))
}
