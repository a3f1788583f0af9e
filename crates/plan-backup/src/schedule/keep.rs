//! Which backups are kept.

use berth_api::backup_schedule::Keep;
use jiff::tz::TimeZone;
use jiff::{Timestamp, ToSpan, Zoned};
use std::collections::BTreeSet;

/// The name of the period that a time is in.
type Period = fn(&Zoned) -> String;

/// Of proven backups, from the oldest, with when they were taken: the places of those that stay. The newest always does.
pub(super) fn kept(taken: &[Timestamp], keep: &Keep, zone: &TimeZone) -> BTreeSet<usize> {
    // Their order is that in which they were created: a node's clock may be wrong.
    let newest_first: Vec<usize> = (0..taken.len()).rev().collect();
    let mut kept: BTreeSet<usize> = newest_first.iter().take((keep.last as usize).max(1)).copied().collect();
    let periods: [(u32, Period); 3] = [(keep.hourly, hour), (keep.daily, day), (keep.weekly, week)];
    for (count, period) in periods {
        let mut seen = BTreeSet::new();
        for place in &newest_first {
            let period = period(&taken[*place].to_zoned(zone.clone()));
            if seen.len() < count as usize && seen.insert(period) {
                kept.insert(*place);
            }
        }
    }
    kept
}

/// With its offset: the hour that a clock shows twice is two hours.
fn hour(at: &Zoned) -> String {
    at.strftime("%Y-%m-%dT%H%z").to_string()
}

fn day(at: &Zoned) -> String {
    at.date().to_string()
}

fn week(at: &Zoned) -> String {
    let back = i64::from(at.weekday().to_monday_zero_offset());
    at.date().saturating_sub(back.days()).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn keep(last: u32, hourly: u32, daily: u32, weekly: u32) -> Keep {
        Keep { last, hourly, daily, weekly }
    }

    fn of(times: &[&str], keep: &Keep, zone: &str) -> Vec<String> {
        let all: Vec<Timestamp> = times.iter().map(|t| t.parse().unwrap()).collect();
        let kept = kept(&all, keep, &TimeZone::get(zone).unwrap());
        kept.into_iter().map(|place| times[place].to_owned()).collect()
    }

    #[test]
    fn the_newest_of_each_period_stays() {
        let times = [
            "2026-01-01T10:00:00Z", // Thursday
            "2026-01-01T10:30:00Z",
            "2026-01-01T11:00:00Z",
            "2026-01-02T09:00:00Z",
            "2026-01-05T09:00:00Z", // Monday
        ];
        assert_eq!(of(&times, &keep(1, 0, 0, 0), "UTC"), ["2026-01-05T09:00:00Z"]);
        assert_eq!(of(&times, &keep(2, 0, 0, 0), "UTC"), times[3..]);
        assert_eq!(of(&times, &keep(0, 4, 0, 0), "UTC"), times[1..]);
        assert_eq!(of(&times, &keep(0, 0, 3, 0), "UTC"), [times[2], times[3], times[4]]);
        assert_eq!(of(&times, &keep(0, 0, 0, 2), "UTC"), [times[3], times[4]]);
        assert_eq!(of(&times, &keep(9, 9, 9, 9), "UTC"), times);
        assert_eq!(of(&times, &keep(0, 0, 0, 0), "UTC"), ["2026-01-05T09:00:00Z"], "the newest always");
        assert!(of(&[], &keep(3, 3, 3, 3), "UTC").is_empty());
    }

    #[test]
    fn a_day_is_one_of_the_time_zone_and_an_hour_that_comes_twice_is_two() {
        let midnight = ["2026-06-01T21:30:00Z", "2026-06-01T22:30:00Z"];
        assert_eq!(of(&midnight, &keep(0, 0, 9, 0), "UTC"), [midnight[1]]);
        assert_eq!(of(&midnight, &keep(0, 0, 9, 0), "Europe/Berlin"), midnight);
        let autumn = ["2026-10-25T00:30:00Z", "2026-10-25T01:30:00Z"];
        assert_eq!(of(&autumn, &keep(0, 9, 0, 0), "Europe/Berlin"), autumn);
    }

    #[test]
    fn however_many_there_are_no_more_stay_than_are_asked_for_and_what_stays_is_stable() {
        let start: Timestamp = "2026-01-01T00:00:00Z".parse().unwrap();
        let all: Vec<Timestamp> = (0..2000).map(|n| start + jiff::SignedDuration::from_mins(30 * n)).collect();
        let wanted = keep(3, 24, 7, 4);
        let zone = TimeZone::UTC;
        let first: Vec<Timestamp> = kept(&all, &wanted, &zone).into_iter().map(|place| all[place]).collect();
        assert!(first.len() <= 3 + 24 + 7 + 4 && first.contains(&all[1999]), "{}", first.len());
        // What was deleted is not missed.
        assert_eq!(kept(&first, &wanted, &zone).len(), first.len());
    }
}
