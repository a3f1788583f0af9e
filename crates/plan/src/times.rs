//! When a cron schedule comes: that a backup is due, or that a tenant is to sleep.

mod shared;

use crate::digest::sha256;
use croner::Cron;
use croner::parser::{CronParser, Seconds, Year};
use jiff::tz::TimeZone;
use jiff::{SignedDuration, Timestamp};

/// The longest that a backup is put off, so that those of a fleet do not all begin in one second.
const SPREAD: SignedDuration = SignedDuration::from_mins(5);

/// Whether a schedule can be read.
///
/// # Errors
///
/// The field that is wrong, and why.
pub fn check(schedule: &str, zone: &str) -> Result<(), String> {
    Times::read(schedule, zone, "", Timestamp::UNIX_EPOCH).map(drop)
}

/// A schedule, as a spec says it.
#[derive(Clone, Copy, Debug)]
pub struct Written<'a> {
    /// Cron's five fields.
    pub schedule: &'a str,
    /// The field that says that, such as `spec.schedule`.
    pub field: &'a str,
    /// Its time zone.
    pub zone: &'a str,
    /// The field that says that, such as `spec.timeZone`.
    pub zone_field: &'a str,
}

/// Times of a schedule.
#[derive(Clone, Debug)]
pub struct Times {
    cron: Cron,
    pub zone: TimeZone,
    delay: SignedDuration,
}

impl Times {
    /// Reads the schedule of backups. `seed`: whose it is.
    ///
    /// # Errors
    ///
    /// The field that is wrong, and why.
    pub fn read(schedule: &str, zone: &str, seed: &str, now: Timestamp) -> Result<Self, String> {
        let written = Written { schedule, field: "spec.schedule", zone, zone_field: "spec.timeZone" };
        Self::read_spread(written, SPREAD, seed, now)
    }

    /// Reads a schedule. `spread`: the longest that one of `seed` is put off, and no more than a quarter of the time from one to the next.
    ///
    /// # Errors
    ///
    /// The field that is wrong, and why.
    pub fn read_spread(
        written: Written<'_>,
        spread: SignedDuration,
        seed: &str,
        now: Timestamp,
    ) -> Result<Self, String> {
        let Written { schedule, field: of, zone, zone_field } = written;
        let parser = CronParser::builder().seconds(Seconds::Disallowed).year(Year::Disallowed).build();
        let cron = parser
            .parse(schedule)
            .map_err(|e| format!("{of}: {schedule} is no cron schedule with five fields, such as 0 3 * * *: {e}"))?;
        let tz = TimeZone::get(zone)
            .map_err(|_| format!("{zone_field}: {zone} is no time zone, such as Europe/Berlin or UTC"))?;
        let mut times = Self { cron, zone: tz, delay: SignedDuration::ZERO };
        let Some(next) = times.next(now) else {
            return Err(format!("{of}: {schedule} never comes: no such day is in a calendar"));
        };
        // No more than a quarter of the time until the one after.
        let between = times.next(next).map_or(spread, |after| after.duration_since(next) / 4);
        let most = between.min(spread).as_secs().max(1);
        let hash = sha256(seed.as_bytes());
        let number = hash.get(..8).and_then(|h| i64::from_str_radix(h, 16).ok()).unwrap_or_default();
        times.delay = SignedDuration::from_secs(number % most);
        Ok(times)
    }

    /// Put off by nothing.
    #[must_use]
    pub fn punctual(self) -> Self {
        Self { delay: SignedDuration::ZERO, ..self }
    }

    /// The time of the schedule that is due, if one is that came after `since`. Of those that were missed only the last.
    pub fn due(&self, since: Timestamp, now: Timestamp) -> Option<Timestamp> {
        let before = (now - self.delay).to_zoned(self.zone.clone());
        let last = self.cron.find_previous_occurrence(&before, true).ok()?.timestamp();
        (last > since).then_some(last)
    }

    /// How long it is until the next one is due.
    pub fn wait(&self, now: Timestamp) -> SignedDuration {
        self.due_next(now).map_or(SignedDuration::from_hours(1), |next| next.duration_since(now))
    }

    /// When the next one is due, put off as it is.
    pub fn due_next(&self, now: Timestamp) -> Option<Timestamp> {
        self.next(now - self.delay).map(|next| next + self.delay)
    }

    fn names(&self, at: Timestamp) -> bool {
        self.cron.is_time_matching(&at.to_zoned(self.zone.clone())).unwrap_or(true)
    }

    fn next(&self, after: Timestamp) -> Option<Timestamp> {
        Some(self.cron.find_next_occurrence(&after.to_zoned(self.zone.clone()), false).ok()?.timestamp())
    }
}

const YEAR: SignedDuration = SignedDuration::from_hours(366 * 24);
const SECOND: SignedDuration = SignedDuration::from_secs(1);

#[cfg(test)]
mod tests {
    use super::*;

    pub(super) fn at(text: &str) -> Timestamp {
        text.parse().unwrap()
    }

    pub(super) fn times(schedule: &str, zone: &str, seed: &str) -> Result<Times, String> {
        Times::read(schedule, zone, seed, at("2026-01-01T00:00:00Z"))
    }

    #[test]
    fn what_is_wrong_is_named() {
        let wrong = |schedule: &str, zone: &str| times(schedule, zone, "a").map(|_| ()).unwrap_err();
        assert!(wrong("0 3 * *", "UTC").starts_with("spec.schedule: 0 3 * * is no cron schedule"));
        assert!(wrong("* * * * * *", "UTC").starts_with("spec.schedule"), "seconds");
        assert!(wrong("61 * * * *", "UTC").starts_with("spec.schedule"));
        assert!(wrong("0 0 30 2 *", "UTC").contains("never comes"));
        assert!(wrong("0 3 * * *", "Mars/Base").starts_with("spec.timeZone: Mars/Base is no time zone"));
    }

    #[test]
    fn of_what_was_missed_the_last_is_made_up_for_and_nothing_twice() {
        let mut daily = times("0 3 * * *", "Europe/Berlin", "a").unwrap();
        daily.delay = SignedDuration::from_mins(1);
        let due = |since: &str, now: &str| daily.due(at(since), at(now)).map(|t| t.to_string());
        assert_eq!(due("2026-01-01T00:00:00Z", "2026-01-01T02:00:30Z"), None, "it is put off");
        assert_eq!(due("2026-01-01T00:00:00Z", "2026-01-01T02:01:00Z").as_deref(), Some("2026-01-01T02:00:00Z"));
        assert_eq!(due("2026-01-01T02:00:00Z", "2026-01-01T23:00:00Z"), None);
        assert_eq!(due("2026-01-01T02:00:00Z", "2026-01-09T23:00:00Z").as_deref(), Some("2026-01-09T02:00:00Z"));
        assert_eq!(daily.wait(at("2026-01-01T02:00:30Z")), SignedDuration::from_secs(30));
        assert_eq!(daily.wait(at("2026-01-01T02:01:00Z")), SignedDuration::from_hours(24));
    }

    #[test]
    fn a_fleet_is_spread_within_a_quarter_of_the_interval() {
        let of = |schedule: &str, n: usize| times(schedule, "UTC", &format!("team/{n}")).unwrap().delay.as_secs();
        let daily: std::collections::BTreeSet<_> = (0..200).map(|n| of("0 3 * * *", n)).collect();
        assert!(daily.len() > 100 && daily.iter().all(|d| (0..300).contains(d)), "{}", daily.len());
        assert!((0..50).all(|n| of("* * * * *", n) < 15));
        assert_eq!(of("0 3 * * *", 1), of("0 3 * * *", 1));
    }

    /// Those of a day in that zone, by UTC, as a search forwards and one backwards from each minute find them.
    fn of_a_day(schedule: &str, zone: &str, day: &str) -> Vec<String> {
        let mut times = times(schedule, zone, "a").unwrap();
        times.delay = SignedDuration::ZERO;
        let begin = day.parse::<jiff::civil::Date>().unwrap().to_zoned(times.zone.clone()).unwrap();
        let end = begin.tomorrow().unwrap().timestamp();
        let minutes = (0..).map(|n| begin.timestamp() + SignedDuration::from_mins(n)).take_while(|at| *at < end);
        let forwards = std::iter::successors(times.next(begin.timestamp() - SECOND), |at| times.next(*at));
        let forwards: Vec<_> = forwards.take_while(|at| *at < end).collect();
        for now in minutes {
            let last = forwards.iter().rev().find(|at| **at <= now).copied();
            assert_eq!(times.due(begin.timestamp() - SECOND, now), last, "{schedule} {zone} at {now}");
        }
        forwards.iter().map(|at| at.strftime("%H:%M").to_string()).collect()
    }

    #[test]
    fn what_clocks_skip_comes_when_they_go_on_and_what_they_show_twice_once() {
        for (schedule, zone, day, wanted) in [
            ("30 2 * * *", "Europe/Berlin", "2026-03-28", vec!["01:30"]),
            ("30 2 * * *", "Europe/Berlin", "2026-03-29", vec!["01:00"]),
            ("0 3 * * *", "Europe/Berlin", "2026-03-29", vec!["01:00"]),
            ("30 2 * * *", "Europe/Berlin", "2026-10-25", vec!["00:30"]),
            ("0 3 * * *", "Europe/Berlin", "2026-10-25", vec!["02:00"]),
            // Half an hour: from 02:00 to 02:30 in October, and back in April.
            ("15 2 * * *", "Australia/Lord_Howe", "2026-10-04", vec!["15:30"]),
            ("45 2 * * *", "Australia/Lord_Howe", "2026-10-04", vec!["15:45"]),
            ("45 1 * * *", "Australia/Lord_Howe", "2026-04-05", vec!["14:45"]),
            ("15 2 * * *", "Australia/Lord_Howe", "2026-04-05", vec!["15:45"]),
        ] {
            assert_eq!(of_a_day(schedule, zone, day), wanted, "{schedule} {zone} {day}");
        }
        // One of each hour comes as often as there are hours.
        assert_eq!(of_a_day("0 * * * *", "Europe/Berlin", "2026-03-29").len(), 23);
        assert_eq!(of_a_day("0 * * * *", "Europe/Berlin", "2026-10-25").len(), 25);
    }
}
