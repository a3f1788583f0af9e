//! What a record keeps of how a tenant slept by itself.

use super::events::HOUR;
use berth_api::hibernation::{ByItself, Event, Happened, SleepRecord, SleepState};
use berth_plan::heard::Uses;
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

/// For so long no connection wakes one that was woken in vain, the first time. It doubles.
const QUIET: SignedDuration = SignedDuration::from_mins(5);

/// At most: whoever wants to use it finds it awake after that.
const QUIET_AT_MOST: SignedDuration = SignedDuration::from_hours(1);

/// The next record with what is kept of the one before. `by`: what happened by itself and led to it, if that did.
pub(crate) fn carried(
    before: Option<&SleepRecord>,
    mut next: SleepRecord,
    by: Option<(Happened, Timestamp)>,
    (uses, now): (&Uses, Timestamp),
) -> SleepRecord {
    let mut kept = before.map(|record| record.by_itself.clone()).unwrap_or_default();
    kept.woken.retain(|Time(woken)| now < *woken + HOUR);
    if was_used(&kept, uses) {
        (kept.unused, kept.quiet) = (0, None);
    }
    let state = before.map(|record| record.state).unwrap_or_default();
    let begins = state != next.state && matches!(next.state, SleepState::FallingAsleep | SleepState::Waking);
    if begins {
        kept.by = by.map(|(what, at)| Event { what, at: Time(at) });
        match (by, next.state) {
            (Some((Happened::Connection, _)), SleepState::Waking) => kept.woken.push(Time(now)),
            // One that did not come to sleep is woken for that.
            (Some((Happened::Unused, _)), SleepState::FallingAsleep) => {
                kept.quiet = Some(Time(now + quiet(kept.unused)));
                kept.unused = kept.unused.saturating_add(1);
            }
            _ => {}
        }
    }
    next.by_itself = kept;
    next
}

/// Whether somebody used it since a connection woke it.
fn was_used(kept: &ByItself, uses: &Uses) -> bool {
    let Some(Event { what: Happened::Connection, at: Time(called) }) = &kept.by else { return false };
    matches!(uses, Uses::Known { last, now, .. } if *now || last.is_some_and(|last| last > *called))
}

/// After so many in a row that were in vain.
fn quiet(before: u32) -> SignedDuration {
    let doubled = 2_i32.checked_pow(before).and_then(|times| QUIET.checked_mul(times));
    doubled.map_or(QUIET_AT_MOST, |quiet| quiet.min(QUIET_AT_MOST))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn now() -> Timestamp {
        "2026-11-29T20:00:00Z".parse().unwrap()
    }

    fn record(state: SleepState, by_itself: ByItself) -> SleepRecord {
        let (since, cause) = (Time(now()), String::new());
        SleepRecord { state, since, cause, failed: None, backup: None, hindrance: None, by_itself }
    }

    fn to(
        state: SleepState,
        before: &SleepRecord,
        by: Option<Happened>,
        (uses, at): (&Uses, Timestamp),
    ) -> SleepRecord {
        carried(Some(before), record(state, ByItself::default()), by.map(|what| (what, at)), (uses, at))
    }

    #[test]
    fn each_wake_in_vain_is_followed_by_a_longer_pause_until_one_is_used() {
        let mut is = record(SleepState::Asleep, ByItself::default());
        let mut pauses = vec![];
        let mut at = now();
        for _ in 0..6 {
            is = to(SleepState::Waking, &is, Some(Happened::Connection), (&Uses::NotYet, at));
            is = to(SleepState::Awake, &is, None, (&Uses::NotYet, at));
            assert_eq!(is.by_itself.by.as_ref().unwrap().what, Happened::Connection, "what woke it stays");
            at += SignedDuration::from_mins(10);
            let nobody = Uses::Known { since: now(), last: Some(now()), now: false };
            is = to(SleepState::FallingAsleep, &is, Some(Happened::Unused), (&nobody, at));
            is = to(SleepState::Asleep, &is, Some(Happened::Unused), (&nobody, at));
            pauses.push(is.by_itself.quiet.as_ref().unwrap().0.duration_since(at).as_mins());
            at = is.by_itself.quiet.as_ref().unwrap().0;
        }
        assert_eq!(pauses, [5, 10, 20, 40, 60, 60]);
        assert!(is.by_itself.woken.len() <= 2, "those of the last hour: {:?}", is.by_itself);
        is = to(SleepState::Waking, &is, Some(Happened::Connection), (&Uses::NotYet, at));
        is = to(SleepState::Awake, &is, None, (&Uses::NotYet, at));
        let used = Uses::Known { since: now(), last: Some(at + SignedDuration::from_secs(1)), now: false };
        is = to(SleepState::FallingAsleep, &is, Some(Happened::Idle), (&used, at + HOUR));
        assert_eq!((is.by_itself.unused, is.by_itself.quiet.clone()), (0, None));
        assert_eq!(is.by_itself.by.unwrap().what, Happened::Idle);
    }

    #[test]
    fn what_is_asked_for_elsewhere_is_no_event_of_its_own() {
        let idle = ByItself { by: Some(Event { what: Happened::Idle, at: Time(now()) }), ..ByItself::default() };
        let is = to(SleepState::Waking, &record(SleepState::Asleep, idle), None, (&Uses::NotYet, now()));
        assert_eq!(is.by_itself, ByItself::default());
    }
}
