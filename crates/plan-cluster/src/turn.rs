//! Whether a change of the release may begin now, or waits for its turn in the fleet.
//!
//! Meanwhile the plan is made as if the spec asked for what runs: that is repaired and renewed. A way back never waits.

use super::components;
use super::revision::Course;
use super::subject::Tenant;
use super::window::{self, At};
use super::{isolation, release, revision, validate};
use berth_api::cluster::{TurnState, TurnStatus};
use berth_api::conditions::Reason;
use berth_api::labels;
use berth_api::revision::Release;
use berth_api::version::Version;
use berth_plan::fleet::Answer;
use berth_plan::model::State;
use berth_plan::observed::{Turns, annotation};
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

/// Why a change does not begin.
#[derive(Clone, Debug, PartialEq)]
pub struct Hold {
    /// `WaitingForWindow`, `WaitingForTurn`, `FleetStopped`; `InvalidSpec` where the window cannot be read.
    pub reason: Reason,
    /// For people.
    pub message: String,
    /// For the fleet.
    pub(super) state: TurnState,
    /// When it may be otherwise by time alone.
    pub(super) until: Option<Timestamp>,
}

/// Of a change of the release that would begin. None: it may.
pub(super) fn of_release(course: &Course<'_>, t: &Tenant<'_>) -> Option<Hold> {
    let asked = &course.asked().version;
    let to = course.turn_to();
    if !course.adopts() && (course.is_way_back() || course.is_scale()) {
        return None;
    }
    let what = if course.adopts() {
        format!(
            "newer templates of {asked} are to be taken up (spec.upgrade.templates), and what runs stays until then"
        )
    } else if to.is_some() {
        format!("spec.version: {asked} is asked for, and {} runs until then", course.runs_version()?)
    } else {
        "what runs stays as it is until then".to_owned()
    };
    match (window(t, &what), to) {
        (Ok(until), Some(to)) => turn(t, &to, &what, until),
        (Ok(_), None) => None,
        (Err(hold), _) => Some(hold),
    }
}

/// What a turn leads to that changes the templates of a version and not the version.
pub(super) fn of_templates(version: &str, digest: &str) -> String {
    format!("{version}+{}", digest.chars().take(8).collect::<String>())
}

/// Of the second step of a new minor version.
pub(super) fn of_second_step(t: &Tenant<'_>, from: &Version, to: &Version) -> Option<Hold> {
    let what = format!("{to} runs and emulates {}; {from} can still be gone back to", from.minor());
    match window(t, &what) {
        Ok(until) => turn(t, &to.to_string(), &what, until),
        Err(hold) => Some(hold),
    }
}

/// Until when it is open; None: for ever. Somebody may say that it is not waited for.
fn window(t: &Tenant<'_>, what: &str) -> Result<Option<Timestamp>, Hold> {
    let asked = t.cluster.spec.upgrade.window.as_ref().filter(|_| revision::roll(t.cluster).is_none());
    let Some(asked) = asked else { return Ok(None) };
    match window::at(asked, t.now) {
        Ok(At::Open(until)) => Ok(Some(until)),
        Ok(At::Closed(until)) => {
            let at = until.strftime("%Y-%m-%dT%H:%M:%SZ");
            let message = format!("{what}: it waits for spec.upgrade.window, which opens at {at}");
            Err(Hold { reason: Reason::WaitingForWindow, message, state: TurnState::Window, until: Some(until) })
        }
        Err(message) => Err(Hold { reason: Reason::InvalidSpec, message, state: TurnState::Blocked, until: None }),
    }
}

/// What is wrong with the window of the spec.
pub(super) fn wrong_window(t: &Tenant<'_>) -> Option<String> {
    window::at(t.cluster.spec.upgrade.window.as_ref()?, t.now).err()
}

/// `until`: when its window closes.
fn turn(t: &Tenant<'_>, to: &str, what: &str, until: Option<Timestamp>) -> Option<Hold> {
    let Turns::Ordered { answer, revoked } = &t.observed.turns else { return None };
    if !revoked && t.live_namespace().and_then(|live| annotation(live, labels::TURN)) == Some(to) {
        return None;
    }
    let (reason, why) = match answer {
        None => (Reason::WaitingForTurn, "it waits for its turn. To see the fleet: kubectl berth rollouts".to_owned()),
        Some(answer) => say(answer),
    };
    Some(Hold { reason, message: format!("{what}: {why}"), state: TurnState::Waiting, until })
}

fn say(answer: &Answer) -> (Reason, String) {
    let why = match answer {
        Answer::Full { most: 0, .. } => "rollouts.maxConcurrent is 0 in the operator's configuration".to_owned(),
        Answer::Full { most, on } => {
            let on = on.as_ref().map(|on| format!(", such as {on}")).unwrap_or_default();
            format!("it waits for its turn: {most} Clusters change at once (rollouts.maxConcurrent){on}")
        }
        Answer::Wave { wave, on } => format!("it waits for {on}, of wave {wave} (label {})", labels::WAVE),
        Answer::Soak { until } => {
            let until = until.strftime("%Y-%m-%dT%H:%M:%SZ");
            format!("the waves before are through, and it waits until {until} (rollouts.waveSoak)")
        }
        Answer::Stopped { version, back, only, most } => {
            let shown: Vec<String> = back.iter().take(NAMES).map(ToString::to_string).collect();
            let more = back.len().saturating_sub(NAMES);
            let more = if more > 0 { format!(" and {more} more") } else { String::new() };
            let of = only.as_ref().map(|team| format!(" of namespace {team}")).unwrap_or_default();
            let why = format!(
                "nobody else{of} starts towards {version}, since more than {most} Clusters came back from it (rollouts.maxFailed): {}{more}. Set them back or correct them; or raise rollouts.maxFailed in the chart's values",
                shown.join(", ")
            );
            return (Reason::FleetStopped, why);
        }
    };
    (Reason::WaitingForTurn, why)
}

/// So many names fit a message.
const NAMES: usize = 10;

/// Why what the spec asks for is refused, or has to wait for something in the tenant itself: then no turn helps, and nothing of it begins.
pub(super) fn refusal(t: &Tenant<'_>) -> Option<State> {
    let invalid = |message| State::blocked(Reason::InvalidSpec, message);
    release::of(t)
        .1
        .or_else(|| validate::networks(&t.cluster.spec.network).err().map(invalid))
        .or_else(|| isolation::private::refusal(t))
        .or_else(|| validate::writers::data_policy(t.cluster.spec.deletion.data_policy, &t.settings.writers).err())
        .or_else(|| of_components(t))
}

fn of_components(t: &Tenant<'_>) -> Option<State> {
    components::ALL.iter().find_map(|component| validate::component(t, component).err())
}

/// Whether a release cannot run as it is, such as with more pods than may be.
pub(super) fn refuses_pods(release: &Release, t: &Tenant<'_>) -> bool {
    let cluster = release.put_into(t.cluster);
    of_components(&Tenant { cluster: &cluster, ..t.clone() }).is_some()
}

/// What the status says of the last change of the version. `refused`: what the spec asks for is.
pub(super) fn status(course: &Course<'_>, t: &Tenant<'_>, refused: bool) -> Option<TurnStatus> {
    let old = t.status().turn;
    let (wish, made) = (|| wish(course, t, refused), || made(course, t, refused));
    // What is under way goes on, whatever is refused beside it.
    let goes_on = course.refusal().is_some() && course.newest_rolls();
    let change = if goes_on { made().or_else(wish) } else { wish().or_else(made) };
    let Some((to, state, until)) = change else {
        // It is long through, and something else was changed since.
        return old.filter(|old| old.state == TurnState::Succeeded && Some(&old.to) == course.runs_target().as_ref());
    };
    let same = old.filter(|old| old.to == to && old.state == state);
    let since = same.and_then(|old| old.since).unwrap_or(Time(t.now));
    let came_back = (state != TurnState::Succeeded && course.came_back_from(&to))
        || (state == TurnState::Failed && course.is_stuck_by_version());
    Some(TurnStatus { to, state, since: Some(since), until: until.map(Time), came_back })
}

type Change = (String, TurnState, Option<Timestamp>);

/// A change that is asked for and has not begun.
fn wish(course: &Course<'_>, t: &Tenant<'_>, refused: bool) -> Option<Change> {
    let to = course.turn_to()?;
    Some(match course.hold() {
        Some(hold) => (to, hold.state, hold.until),
        None if refused || course.refusal().is_some() || t.stands_still() => (to, TurnState::Blocked, None),
        None => (to, TurnState::Running, None),
    })
}

/// The change that led to the newest release.
fn made(course: &Course<'_>, t: &Tenant<'_>, refused: bool) -> Option<Change> {
    let failed = course.newest_failed() || course.is_stuck();
    // Nothing goes on: others need not wait for it. When it goes on, it does so without a turn.
    let running = if refused || t.stands_still() { TurnState::Blocked } else { TurnState::Running };
    if t.release.change.is_some() {
        let to = t.release.wanted_pin().version.to_string();
        return Some(match (&t.release.hold, &t.release.pending) {
            (Some(hold), _) => (to, hold.state, hold.until),
            (None, Some(pending)) => (to, TurnState::Emulating, Some(pending.until)),
            (None, None) if failed => (course.newest_target()?, TurnState::Failed, None),
            (None, None) => (to, running, None),
        });
    }
    let to = course.newest_target().filter(|_| course.newest_takes_a_turn())?;
    let state = match course.newest_succeeded() {
        true => TurnState::Succeeded,
        false if failed => TurnState::Failed,
        false => running,
    };
    Some((to, state, None))
}

/// What the status says where nothing could be looked at, and nothing be done: others need not wait for it.
pub(super) fn halted(old: Option<TurnStatus>, now: Timestamp) -> Option<TurnStatus> {
    let old = old?;
    Some(match old.state {
        TurnState::Waiting | TurnState::Window | TurnState::Running => {
            TurnStatus { state: TurnState::Blocked, since: Some(Time(now)), until: None, ..old }
        }
        _ => old,
    })
}
