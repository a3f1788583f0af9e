//! When a backup is due.

use crate::digest::sha256;
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

/// Times of a schedule.
#[derive(Debug)]
pub struct Times {
    cron: croner::Cron,
    pub zone: TimeZone,
    delay: SignedDuration,
}

impl Times {
    /// Reads a schedule. `seed`: whose it is.
    ///
    /// # Errors
    ///
    /// The field that is wrong, and why.
    pub fn read(schedule: &str, zone: &str, seed: &str, now: Timestamp) -> Result<Self, String> {
        let parser = CronParser::builder().seconds(Seconds::Disallowed).year(Year::Disallowed).build();
        let cron = parser.parse(schedule).map_err(|e| {
            format!("spec.schedule: {schedule} is no cron schedule with five fields, such as 0 3 * * *: {e}")
        })?;
        let tz = TimeZone::get(zone)
            .map_err(|_| format!("spec.timeZone: {zone} is no time zone, such as Europe/Berlin or UTC"))?;
        let mut times = Self { cron, zone: tz, delay: SignedDuration::ZERO };
        let Some(next) = times.next(now) else {
            return Err(format!("spec.schedule: {schedule} never comes: no such day is in a calendar"));
        };
        // No more than a quarter of the time until the one after.
        let between = times.next(next).map_or(SPREAD, |after| after.duration_since(next) / 4);
        let most = between.min(SPREAD).as_secs().max(1);
        let hash = sha256(seed.as_bytes());
        let number = hash.get(..8).and_then(|h| i64::from_str_radix(h, 16).ok()).unwrap_or_default();
        times.delay = SignedDuration::from_secs(number % most);
        Ok(times)
    }

    /// The time of the schedule for which a backup is due, if one is that came after `since`. Of those that were missed only the last.
    pub fn due(&self, since: Timestamp, now: Timestamp) -> Option<Timestamp> {
        let before = (now - self.delay).to_zoned(self.zone.clone());
        let last = self.cron.find_previous_occurrence(&before, true).ok()?.timestamp();
        (last > since).then_some(last)
    }

    /// How long it is until the next one is due.
    pub fn wait(&self, now: Timestamp) -> SignedDuration {
        let next = self.next(now - self.delay);
        next.map_or(SignedDuration::from_hours(1), |next| (next + self.delay).duration_since(now))
    }

    fn next(&self, after: Timestamp) -> Option<Timestamp> {
        Some(self.cron.find_next_occurrence(&after.to_zoned(self.zone.clone()), false).ok()?.timestamp())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(text: &str) -> Timestamp {
        text.parse().unwrap()
    }

    fn times(schedule: &str, zone: &str, seed: &str) -> Result<Times, String> {
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
}
