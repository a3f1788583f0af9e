//! Whether two schedules name one minute. First by the week, without a look at any day: that says no of nearly all that people write.

use super::{SECOND, Times, YEAR};
use jiff::Timestamp;
use std::cmp::Ordering;
use std::collections::BTreeSet;

/// What a schedule names of a week, as bits. It may name less: days of the month are not looked at.
struct Week {
    minutes: u64,
    hours: u64,
    /// From Sunday.
    days: u64,
}

const DAYS: i64 = 7;

impl Times {
    /// The first time in the year after `now` that both schedules name by the clocks of their zones. `steps`: how many times are looked at;
    /// those that were are taken from it.
    pub fn shared(&self, other: &Self, now: Timestamp, steps: &mut u32) -> Option<Timestamp> {
        self.may_meet(other, now).then(|| self.search(other, now, steps)).flatten()
    }

    fn search(&self, other: &Self, now: Timestamp, steps: &mut u32) -> Option<Timestamp> {
        let until = now + YEAR;
        let (mut own, mut theirs) = (self.next(now)?, other.next(now)?);
        while own.max(theirs) <= until && *steps > 0 {
            *steps -= 1;
            match own.cmp(&theirs) {
                // What clocks skip comes with the minute after: that is no time that both name.
                Ordering::Equal if self.names(own) && other.names(own) => return Some(own),
                Ordering::Equal => own = self.next(own)?,
                Ordering::Less => own = self.next(theirs - SECOND)?,
                Ordering::Greater => theirs = other.next(own - SECOND)?,
            }
        }
        None
    }

    /// Whether both name a minute of the week, however far the clocks of their zones are apart in that year. Else no day has to be looked at.
    fn may_meet(&self, other: &Self, now: Timestamp) -> bool {
        let (own, theirs) = (self.week(), other.week());
        self.apart(other, now).into_iter().any(|seconds| {
            let (minutes, rest) = (seconds.div_euclid(60), seconds.rem_euclid(60));
            rest != 0 || own.meets(&theirs, minutes)
        })
    }

    /// By how many seconds the clocks of the other zone are ahead, in that year.
    fn apart(&self, other: &Self, now: Timestamp) -> BTreeSet<i64> {
        let ahead = |at: Timestamp| {
            let [own, theirs] = [&self.zone, &other.zone].map(|zone| i64::from(zone.to_offset(at).seconds()));
            theirs - own
        };
        let mut all = BTreeSet::from([ahead(now)]);
        if self.zone != other.zone {
            let until = now + YEAR;
            for zone in [&self.zone, &other.zone] {
                let changes = zone.following(now).map(|change| change.timestamp());
                all.extend(changes.take_while(|at| *at <= until).map(&ahead));
            }
        }
        all
    }

    fn week(&self) -> Week {
        let pattern = &self.cron.pattern;
        let days = pattern.days_of_week.values();
        let by_day = pattern.is_dom_wildcard() && !pattern.days_of_week.has_modifiers();
        Week {
            minutes: bits((0..60).filter(|minute| pattern.minute_match(*minute).unwrap_or(true))),
            hours: bits((0..24).filter(|hour| pattern.hour_match(*hour).unwrap_or(true))),
            days: if by_day { bits(days.into_iter().map(|day| u32::from(day) % 7)) } else { bits(0..7) },
        }
    }
}

impl Week {
    /// Whether they have a minute of the week in common, by clocks of which the other's are so many minutes ahead.
    fn meets(&self, other: &Self, ahead: i64) -> bool {
        (0..60).filter(|minute| has(self.minutes, *minute)).any(|minute| {
            let (later, minute) = ((minute + ahead).div_euclid(60), (minute + ahead).rem_euclid(60));
            has(other.minutes, minute)
                && (0..24).filter(|hour| has(self.hours, *hour)).any(|hour| {
                    let (days, hour) = ((hour + later).div_euclid(24), (hour + later).rem_euclid(24));
                    let meets = |day: i64| has(self.days, day) && has(other.days, (day + days).rem_euclid(DAYS));
                    has(other.hours, hour) && (0..DAYS).any(meets)
                })
        })
    }
}

fn bits(all: impl Iterator<Item = u32>) -> u64 {
    all.fold(0, |bits, one| bits | (1 << one))
}

fn has(bits: u64, one: i64) -> bool {
    (bits >> one) & 1 == 1
}

#[cfg(test)]
mod tests {
    use super::super::tests::{at, times};

    const BERLIN: &str = "Europe/Berlin";
    const UTC: &str = "UTC";
    const NOW: &str = "2026-01-01T00:00:00Z";

    #[test]
    fn a_minute_that_two_schedules_name_is_found() {
        let shared = |a: (&str, &str), b: (&str, &str)| {
            let (a, b) = (times(a.0, a.1, "a").unwrap(), times(b.0, b.1, "b").unwrap());
            let found = [a.shared(&b, at(NOW), &mut 2000), b.shared(&a, at(NOW), &mut 2000)];
            assert_eq!(found[0], found[1]);
            found[0].map(|at| at.to_string())
        };
        assert_eq!(shared(("0 20 * * 1-5", BERLIN), ("0 7 * * 1-5", BERLIN)), None);
        assert_eq!(shared(("0 20 * * 1-5", BERLIN), ("0 20 * * 6", BERLIN)), None);
        assert_eq!(shared(("0 20 * * 1-5", BERLIN), ("0 20 1 * *", BERLIN)).as_deref(), Some("2026-01-01T19:00:00Z"));
        assert_eq!(shared(("0 20 31 12 *", UTC), ("*/10 * * * *", UTC)).as_deref(), Some("2026-12-31T20:00:00Z"));
        // In summer alone.
        assert_eq!(shared(("0 20 * * *", BERLIN), ("0 18 * * *", UTC)).as_deref(), Some("2026-03-29T18:00:00Z"));
        // On Sunday there, and still on Saturday here.
        assert_eq!(shared(("0 5 * * 0", "Asia/Tokyo"), ("0 20 * * 6", UTC)).as_deref(), Some("2026-01-03T20:00:00Z"));
        assert_eq!(shared(("0 5 * * 6", "Asia/Tokyo"), ("0 20 * * 6", UTC)), None);
        // Clocks skip both in one night: they come together, and neither was asked for at that minute.
        assert_eq!(shared(("0 2 * * *", BERLIN), ("30 2 * * *", BERLIN)), None);
    }

    #[test]
    fn what_the_week_says_is_what_a_look_at_every_time_says() {
        let zones = [UTC, BERLIN, "Australia/Lord_Howe", "Pacific/Apia"];
        let schedules = ["0 20 * * 1-5", "30 1 * * 0", "15 */12 * * *", "0 7 * * 6,7", "0 20 1-7 * 1", "30 14 * * 1#2"];
        for (a, b) in zones.iter().flat_map(|a| zones.iter().map(move |b| (a, b))) {
            for (one, other) in schedules.iter().flat_map(|a| schedules.iter().map(move |b| (a, b))) {
                let (own, theirs) = (times(one, a, "a").unwrap(), times(other, b, "b").unwrap());
                let both = own.search(&theirs, at(NOW), &mut 10_000);
                assert!(both.is_none() || own.may_meet(&theirs, at(NOW)), "{one} {a}, {other} {b} at {both:?}");
            }
        }
    }

    #[test]
    fn what_never_meets_takes_no_step() {
        for (one, other) in [
            (("0 20 * * 1-5", BERLIN), ("0 7 * * 1-5", BERLIN)),
            (("0 20 * * 1-5", BERLIN), ("0 20 * * 6", BERLIN)),
            (("0 18 * * *", "America/New_York"), ("0 8 * * *", BERLIN)),
            (("*/2 * * * *", "Asia/Kolkata"), ("1-59/2 * * * *", "Australia/Lord_Howe")),
        ] {
            let mut steps = 1;
            let [a, b] = [one, other].map(|(schedule, zone)| times(schedule, zone, "a").unwrap());
            assert_eq!((a.shared(&b, at(NOW), &mut steps), steps), (None, 1), "{one:?} {other:?}");
        }
    }
}
