//! A snapshot that the store keeps, whoever deletes it. It is deleted when the store says that it may be, and left there if that is far away or not
//! known: nobody waits for ever, least of all a namespace.

use super::input::BackupInput;
use berth_api::backup::{Kept, KeptStatus};
use berth_plan::model::State;
use jiff::{RoundMode, SignedDuration, Timestamp, TimestampRound, Unit};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

/// The longest that an `EtcdBackup` waits for the end of a retention.
const LONGEST: SignedDuration = SignedDuration::from_hours(100 * 24);
/// How long one says that its snapshot is left in the store.
const TOLD: SignedDuration = SignedDuration::from_hours(1);

/// What the status says of it.
pub(super) fn status(kept: &Kept, now: Timestamp) -> KeptStatus {
    KeptStatus { since: Time(now), until: until(kept).map(Time), message: kept.message.clone() }
}

/// In whole seconds, as a status has it: never before its end.
fn until(kept: &Kept) -> Option<Timestamp> {
    let at: Timestamp = kept.until.as_deref()?.parse().ok()?;
    at.round(TimestampRound::new().smallest(Unit::Second).mode(RoundMode::Ceil)).ok()
}

/// Whether the status says so already.
pub(super) fn is_recorded(input: BackupInput<'_>, kept: &Kept) -> bool {
    let of = |old: &KeptStatus| (old.until.as_ref().map(|at| at.0), &old.message) == (until(kept), &kept.message);
    recorded(input).is_some_and(of)
}

fn recorded(input: BackupInput<'_>) -> Option<&KeptStatus> {
    input.0.object.status.as_ref()?.kept.as_ref()
}

/// What comes of one that the store keeps. None: it may be deleted by now, or was never refused.
pub(super) fn state(input: BackupInput<'_>) -> Option<State> {
    let KeptStatus { since, until, message } = recorded(input)?;
    let end = until.as_ref().map(|until| until.0).filter(|until| until.duration_since(since.0) <= LONGEST);
    match end {
        Some(end) if end <= input.now => None,
        Some(end) => Some(State::waiting(format!(
            "the store to let its snapshot go, which it keeps until {end} (retention); then Berth deletes it. To leave it there, set spec.deletionPolicy to Retain: {message}"
        ))),
        None if input.now.duration_since(since.0) >= TOLD => Some(State::Ready),
        None => {
            let how = match until {
                Some(until) => format!("until {}", until.0),
                None => "and does not say until when".to_owned(),
            };
            Some(State::waiting(format!(
                "{}, when the EtcdBackup goes and leaves its snapshot in the store, which keeps it (retention) {how}: {message}",
                since.0.saturating_add(TOLD).unwrap_or(since.0)
            )))
        }
    }
}
