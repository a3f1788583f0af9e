//! What a step does, and what is said of it.

use super::decide::UpgradeStep;
use super::view;
use crate::procedures::parity;
use crate::subject::{Subject, told};
use berth_api::conditions::Reason;
use berth_api::names;
use berth_plan::model::{Action, EtcdCall, MemberChange, State};
use berth_render::{Kind, Object};
use serde_json::json;

/// The call to etcd.
pub(crate) fn upgrade_action(s: &Subject<'_>, step: &UpgradeStep) -> Option<Action> {
    match step {
        UpgradeStep::MoveLeader { via, id } => {
            Some(told(s, via.clone(), EtcdCall::Change(MemberChange::MoveLeader { id: id.clone() })))
        }
        UpgradeStep::Compare => Some(told(s, names::etcd::member(s.name, 0), EtcdCall::Maintain(parity::compare(s)?))),
        _ => None,
    }
}

/// What it waits for.
pub(crate) fn upgrade_state(step: &UpgradeStep) -> Option<State> {
    let waiting = |on: String| Some(State::Waiting { reason: Reason::RollingOut, on });
    match step {
        UpgradeStep::Rest => None,
        UpgradeStep::Wait(on) => waiting(on.clone()),
        UpgradeStep::Hold(why) => Some(State::blocked(Reason::Held, why.clone())),
        UpgradeStep::Compare => waiting("the members' hashes of their data, before their version changes".into()),
        UpgradeStep::MoveLeader { via, .. } => waiting(format!("{via} to hand over leadership before its turn")),
        UpgradeStep::Write(_) => waiting("Berth to record the next step of the change of the version".into()),
    }
}

/// The StatefulSet while the version changes: pods below the partition are made from the former template, if they are lost.
pub(crate) fn partitioned(s: &Subject<'_>, object: Object) -> Object {
    match view::partition(s).filter(|_| object.key().kind == Kind::StatefulSet) {
        Some(partition) => object
            .with("/spec/updateStrategy", json!({"type": "RollingUpdate", "rollingUpdate": {"partition": partition}})),
        None => object,
    }
}
