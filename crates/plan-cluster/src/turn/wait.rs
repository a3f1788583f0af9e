//! Whether a change may begin now, or waits for its window, and for its turn in the fleet.

use super::Hold;
use crate::record::Pin;
use crate::revision::roll;
use crate::subject::Tenant;
use crate::window::{self, At};
use berth_api::cluster::TurnState;
use berth_api::conditions::Reason;
use berth_api::helpers::Amounts;
use berth_api::hibernation::SleepState;
use berth_api::labels;
use berth_api::proxy::Proxy;
use berth_api::version::Version;
use berth_plan::digest::sha256;
use berth_plan::fleet::Answer;
use berth_plan::object_meta::annotation;
use berth_plan::observed::Turns;
use jiff::Timestamp;
use serde_json::json;

/// Of the second step of a new minor version.
pub(crate) fn hold_of_second_step(t: &Tenant<'_>, from: &Version, to: &Version) -> Option<Hold> {
    let what = format!("{to} runs and emulates {}; a rollback to {from} is still possible", from.minor());
    match window(t, &what) {
        Ok(until) => turn(t, &to.to_string(), &what, until),
        Err(hold) => Some(hold),
    }
}

/// What a turn leads to that changes the templates of a version and not the version.
pub(crate) fn target_of_templates(version: &str, pin: &Pin) -> String {
    let issuers = (!pin.jwt.is_empty()).then(|| json!(pin.jwt).to_string());
    let values = [pin.helper_resources.as_ref().map(Amounts::to_json), pin.proxy.as_ref().map(Proxy::to_json), issuers];
    let values = values.into_iter().flatten().collect::<String>();
    let digest =
        if values.is_empty() { pin.templates.clone() } else { sha256([&*pin.templates, &values].concat().as_bytes()) };
    format!("{version}+{}", digest.chars().take(8).collect::<String>())
}

/// Until when it is open; None: for ever. Somebody may say that it is not waited for.
pub(crate) fn window(t: &Tenant<'_>, what: &str) -> Result<Option<Timestamp>, Hold> {
    if let Some(hold) = asleep(t, what) {
        return Err(hold);
    }
    let asked = t.cluster.spec.upgrade.window.as_ref().filter(|_| roll(t.cluster).is_none());
    let Some(asked) = asked else { return Ok(None) };
    match window::at(asked, t.now) {
        Ok(At::Open(until)) => Ok(Some(until)),
        Ok(At::Closed(until)) => {
            let at = until.strftime("%Y-%m-%dT%H:%M:%SZ");
            let message = format!("{what}: waiting for spec.upgrade.window, which opens at {at}");
            Err(Hold { reason: Reason::WaitingForWindow, message, state: TurnState::Window, until: Some(until) })
        }
        Err(message) => Err(Hold { reason: Reason::InvalidSpec, message, state: TurnState::Blocked, until: None }),
    }
}

/// Why no change of what runs begins: it would be made by a wake, or stopped halfway.
pub(crate) fn asleep(t: &Tenant<'_>, what: &str) -> Option<Hold> {
    let (reason, why) = match t.sleep.state() {
        SleepState::Awake => return None,
        SleepState::Waking => (Reason::Waking, "waiting for the tenant to be awake"),
        SleepState::FallingAsleep | SleepState::Asleep => {
            (Reason::Asleep, "the tenant sleeps; the change begins once it is awake")
        }
    };
    Some(Hold { reason, message: format!("{what}: {why}"), state: TurnState::Blocked, until: None })
}

/// What is wrong with the window of the spec.
pub(crate) fn wrong_window(t: &Tenant<'_>) -> Option<String> {
    window::at(t.cluster.spec.upgrade.window.as_ref()?, t.now).err()
}

/// `until`: when its window closes.
pub(crate) fn turn(t: &Tenant<'_>, to: &str, what: &str, until: Option<Timestamp>) -> Option<Hold> {
    let Turns::Ordered { answer, revoked } = &t.observed.turns else { return None };
    if !revoked && t.live_namespace().and_then(|live| annotation(live, labels::TURN)) == Some(to) {
        return None;
    }
    let (reason, why) = match answer {
        None => (Reason::WaitingForTurn, "waiting for its turn. To see the fleet: kubectl berth rollouts".to_owned()),
        Some(answer) => say(answer),
    };
    Some(Hold { reason, message: format!("{what}: {why}"), state: TurnState::Waiting, until })
}

fn say(answer: &Answer) -> (Reason, String) {
    let why = match answer {
        Answer::Full { most: 0, .. } => "rollouts.maxConcurrent is 0 in the operator's configuration".to_owned(),
        Answer::Full { most, on } => {
            let on = on.as_ref().map(|on| format!(", such as {on}")).unwrap_or_default();
            format!("waiting for its turn: {most} Clusters change at once (rollouts.maxConcurrent){on}")
        }
        Answer::Wave { wave, on } => format!("waiting for {on}, of wave {wave} (label {})", labels::WAVE),
        Answer::Soak { until } => {
            let until = until.strftime("%Y-%m-%dT%H:%M:%SZ");
            format!("earlier waves are complete; waiting until {until} (rollouts.waveSoak)")
        }
        Answer::Stopped { version, back, only, most } => {
            let shown: Vec<String> = back.iter().take(NAMES).map(ToString::to_string).collect();
            let more = back.len().saturating_sub(NAMES);
            let more = if more > 0 { format!(" and {more} more") } else { String::new() };
            let of = only.as_ref().map(|team| format!(" of namespace {team}")).unwrap_or_default();
            let why = format!(
                "{NOBODY}{of} changes to {version}, since more than {most} Clusters failed with it (rollouts.maxFailed): {}{more}. Set them back or correct them; or raise rollouts.maxFailed in the chart's values",
                shown.join(", ")
            );
            return (Reason::FleetStopped, why);
        }
    };
    (Reason::WaitingForTurn, why)
}

/// How the message begins that nobody starts towards a version.
const NOBODY: &str = "nobody else";

/// What a condition with the reason `FleetStopped` says of the fleet alone.
pub fn said_of_the_fleet(message: &str) -> &str {
    message.find(NOBODY).map_or(message, |at| &message[at..])
}

/// So many names fit a message.
const NAMES: usize = 10;
