//! What the status says of the last change of the version.

use crate::admission::is_obstructed;
use crate::revision::Rollout;
use crate::subject::Tenant;
use berth_api::cluster::{TurnState, TurnStatus};
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

/// What the status says of the last change of the version. `refused`: what the spec asks for is.
pub(crate) fn status(rollout: &Rollout<'_>, t: &Tenant<'_>, refused: bool) -> Option<TurnStatus> {
    let old = t.status().turn;
    let (wish, made) = (|| wish(rollout, t, refused), || made(rollout, t, refused));
    // What is under way goes on, whatever is refused beside it.
    let goes_on = rollout.refusal().is_some() && rollout.newest_rolls();
    let change = if goes_on { made().or_else(wish) } else { wish().or_else(made) };
    let Some((to, state, until)) = change else {
        // It is long through, and something else was changed since.
        return old.filter(|old| old.state == TurnState::Succeeded && Some(&old.to) == rollout.runs_target().as_ref());
    };
    let same = old.filter(|old| old.to == to && old.state == state);
    let since = same.and_then(|old| old.since).unwrap_or(Time(t.now));
    let came_back = (state != TurnState::Succeeded && rollout.came_back_from(&to))
        || (state == TurnState::Failed && rollout.is_stuck_by_version());
    Some(TurnStatus { to, state, since: Some(since), until: until.map(Time), came_back })
}

type TurnChange = (String, TurnState, Option<Timestamp>);

/// A change that is asked for and has not begun.
fn wish(rollout: &Rollout<'_>, t: &Tenant<'_>, refused: bool) -> Option<TurnChange> {
    let to = rollout.turn_to()?;
    Some(match rollout.hold() {
        Some(hold) => (to, hold.state, hold.until),
        None if refused || rollout.refusal().is_some() || t.stands_still() => (to, TurnState::Blocked, None),
        None => (to, TurnState::Running, None),
    })
}

/// The change that led to the newest release.
fn made(rollout: &Rollout<'_>, t: &Tenant<'_>, refused: bool) -> Option<TurnChange> {
    let failed = rollout.newest_failed() || rollout.is_stuck();
    // Nothing goes on: others need not wait for it. When it goes on, it does so without a turn.
    let halts = refused || t.stands_still() || is_obstructed(t);
    let running = if halts { TurnState::Blocked } else { TurnState::Running };
    if t.release.change.is_some() {
        let to = t.release.wanted_pin().version.to_string();
        return Some(match (&t.release.hold, &t.release.pending) {
            (Some(hold), _) => (to, hold.state, hold.until),
            (None, Some(pending)) => (to, TurnState::Emulating, Some(pending.until)),
            (None, None) if failed => (rollout.newest_target()?, TurnState::Failed, None),
            (None, None) => (to, running, None),
        });
    }
    let to = rollout.newest_target().filter(|_| rollout.newest_takes_a_turn())?;
    let state = match rollout.newest_succeeded() {
        true => TurnState::Succeeded,
        false if failed => TurnState::Failed,
        false => running,
    };
    Some((to, state, None))
}

/// What the status says where nothing could be looked at, and nothing be done: others need not wait for it.
pub(crate) fn halted(old: Option<TurnStatus>, now: Timestamp) -> Option<TurnStatus> {
    let old = old?;
    Some(match old.state {
        TurnState::Waiting | TurnState::Window | TurnState::Running => {
            TurnStatus { state: TurnState::Blocked, since: Some(Time(now)), until: None, ..old }
        }
        _ => old,
    })
}
