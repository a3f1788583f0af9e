//! What people read of a restore.

use super::decide::RestoreStep;
use berth_api::conditions::Reason;
use berth_plan::model::State;

/// What a restore waits for.
pub(crate) fn restore_state(so_far: &State, step: &RestoreStep) -> Option<State> {
    let waiting = |on: String| Some(State::Waiting { reason: Reason::Restoring, on });
    match step {
        _ if matches!(so_far, State::Blocked { .. }) => None,
        RestoreStep::None => None,
        RestoreStep::Write(_) => waiting("Berth to record the next step of the restore".into()),
        RestoreStep::Wait(on) => waiting(on.clone()),
        RestoreStep::Refuse(why) => Some(State::blocked(Reason::EtcdChangeUnsupported, why.clone())),
    }
}
