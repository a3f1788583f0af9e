//! What people read of a sleep.

use super::decide::SleepStep;
use crate::subject::Subject;
use crate::volumes;
use berth_api::conditions::Reason;
use berth_plan::model::State;
use berth_plan::object_meta::deleting;

/// What it says of the members. None: they are as always.
pub(crate) fn sleep_state(s: &Subject<'_>, so_far: &State, step: &SleepStep) -> Option<State> {
    let waiting = |reason, on: &str| Some(State::Waiting { reason, on: on.to_owned() });
    match step {
        _ if matches!(so_far, State::Blocked { .. }) => None,
        SleepStep::None | SleepStep::Hold(_) => None,
        SleepStep::Falling => waiting(Reason::FallingAsleep, "etcd's pods to end, so that it sleeps"),
        SleepStep::Write(_) => waiting(Reason::FallingAsleep, "Berth to record the next step of the sleep"),
        SleepStep::Asleep(_) => Some(gone(s).unwrap_or(State::Ready)),
        SleepStep::Waking => waiting(Reason::Waking, "its members to be ready after the sleep"),
    }
}

/// Why it does not fall asleep, where nothing else is to be said.
pub(crate) fn held_state(so_far: &State, step: &SleepStep) -> Option<State> {
    let SleepStep::Hold(on) = step else { return None };
    let on = format!("{on}; then it sleeps (spec.hibernation.enabled)");
    so_far.is_done().then_some(State::Waiting { reason: Reason::FallingAsleep, on })
}

/// Where members do not serve, and that is as it is to be.
pub(crate) fn said(step: &SleepStep) -> Option<(Reason, String)> {
    match step {
        SleepStep::None | SleepStep::Hold(_) => None,
        SleepStep::Falling | SleepStep::Write(_) => {
            Some((Reason::FallingAsleep, "etcd's members stop, so that it sleeps".into()))
        }
        SleepStep::Asleep(operation) => {
            let since = operation.since.0.strftime("%Y-%m-%dT%H:%M:%SZ");
            let text = format!("etcd sleeps since {since}: it has no pods, and its data stays on its volumes");
            Some((Reason::Asleep, text))
        }
        SleepStep::Waking => Some((Reason::Waking, "etcd's members start after a sleep".into())),
    }
}

/// What would keep it from waking: to be known now, and not at the wake.
fn gone(s: &Subject<'_>) -> Option<State> {
    let blocked = |reason, why: String| Some(State::blocked(reason, why));
    s.members().into_iter().find_map(|member| match volumes::mounted(s, &member) {
        None => blocked(
            Reason::DataLost,
            format!("PersistentVolumeClaim data-{member} is gone, while etcd sleeps: member {member} would not start. Restore the claim with its volume, or restore etcd from a backup"),
        ),
        Some((key, claim)) if deleting(claim) => blocked(
            Reason::VolumeDeleting,
            format!("{key} is being deleted, while etcd sleeps. Keep its volume at once (persistentVolumeReclaimPolicy: Retain): without it member {member} does not start"),
        ),
        Some((key, claim)) if volumes::is_lost(claim) => blocked(
            Reason::DataLost,
            format!("{key} has lost its volume, while etcd sleeps: member {member} would not start. Restore the volume, or restore etcd from a backup"),
        ),
        Some(_) => None,
    })
}
