//! What asks a tenant to sleep, or to be awake: the latest counts.

use berth_api::hibernation::{SleepRecord, SleepState};
use jiff::Timestamp;

/// What was asked for at one time: by a person, a schedule, idleness, or a connection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Wish {
    pub(crate) at: Timestamp,
    /// Sleep; else be awake.
    pub(crate) sleep: bool,
    /// What asks, for people.
    pub(crate) cause: String,
}

impl Wish {
    /// That it stays as its record says.
    pub(crate) fn of_record(record: &SleepRecord) -> Self {
        let sleep = matches!(record.state, SleepState::FallingAsleep | SleepState::Asleep);
        Self { at: record.since.0, sleep, cause: record.cause.clone() }
    }
}

/// The one that counts: the latest that is not in the future, and of two at one time the one to be awake. None: nothing asks.
pub(crate) fn latest(wishes: &[Wish], now: Timestamp) -> Option<&Wish> {
    wishes.iter().filter(|wish| wish.at <= now).max_by_key(|wish| (wish.at, !wish.sleep))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_latest_counts_and_a_tie_is_awake() {
        let now: Timestamp = "2026-11-29T20:00:00Z".parse().unwrap();
        let wish =
            |hours: i64, sleep| Wish { at: now - jiff::SignedDuration::from_hours(hours), sleep, cause: String::new() };
        let of = |all: &[Wish]| latest(all, now).map(|wish| wish.sleep);
        assert_eq!(of(&[]), None);
        assert_eq!(of(&[wish(2, true), wish(1, false)]), Some(false));
        assert_eq!(of(&[wish(1, true), wish(2, false)]), Some(true));
        assert_eq!(of(&[wish(1, false), wish(1, true)]), Some(false));
        assert_eq!(of(&[wish(1, true), wish(1, false)]), Some(false));
        assert_eq!(of(&[wish(1, true), wish(-1, false)]), Some(true));
    }
}
