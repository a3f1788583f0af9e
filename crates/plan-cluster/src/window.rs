//! `spec.upgrade.window`: when changes may begin that replace pods.

use berth_api::cluster::Window;
use jiff::civil::Time;
use jiff::tz::TimeZone;
use jiff::{SignedDuration, Timestamp, ToSpan};

/// Whether something may begin.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum At {
    /// It may, until then.
    Open(Timestamp),
    /// It may not, until then.
    Closed(Timestamp),
}

/// Where in a window, or between two, a time is.
///
/// # Errors
///
/// The field that is wrong, and why.
pub fn at(window: &Window, now: Timestamp) -> Result<At, String> {
    let Window { days, start, duration, time_zone } = window;
    let zone = TimeZone::get(time_zone).map_err(|_| {
        format!("spec.upgrade.window.timeZone: {time_zone} is no time zone, such as Europe/Berlin or UTC")
    })?;
    let begins = clock(start).ok_or(format!("spec.upgrade.window.start: {start} is no time such as 22:30"))?;
    let lasts: Option<SignedDuration> = duration.parse().ok();
    let lasts = lasts
        .filter(SignedDuration::is_positive)
        .ok_or(format!("spec.upgrade.window.duration: {duration} is no duration such as 4h"))?;
    let today = now.to_zoned(zone.clone()).date();
    // One that began yesterday may be open, and there is one in each week.
    let all = (-2..=8).filter_map(|n| today.checked_add(n.days()).ok());
    let all = all
        .filter(|date| days.is_empty() || days.iter().any(|day| *day as i8 == date.weekday().to_monday_zero_offset()));
    let starts: Vec<Timestamp> =
        all.filter_map(|date| Some(date.to_datetime(begins).to_zoned(zone.clone()).ok()?.timestamp())).collect();
    let open = starts.iter().filter(|start| **start <= now).map(|start| *start + lasts).filter(|end| *end > now).max();
    let next = starts.iter().filter(|start| **start > now).min();
    match (open, next) {
        (Some(until), _) => Ok(At::Open(until)),
        (None, Some(until)) => Ok(At::Closed(*until)),
        (None, None) => Err(format!("spec.upgrade.window.start: {start} never comes in {time_zone}")),
    }
}

fn clock(text: &str) -> Option<Time> {
    let (hours, minutes) = text.split_once(':')?;
    Time::new(hours.parse().ok()?, minutes.parse().ok()?, 0, 0).ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use berth_api::cluster::Day;

    fn window(days: &[Day], start: &str, duration: &str, zone: &str) -> Window {
        Window { days: days.to_vec(), start: start.into(), duration: duration.into(), time_zone: zone.into() }
    }

    /// `+` and until when it is open, or `-` and until when it is not.
    fn told(window: &Window, now: &str) -> String {
        match at(window, now.parse().unwrap()).unwrap() {
            At::Open(until) => format!("+{until}"),
            At::Closed(until) => format!("-{until}"),
        }
    }

    #[test]
    fn it_is_open_from_its_start_and_no_longer_than_its_duration() {
        let w = window(&[], "22:00", "4h", "UTC");
        for (now, wanted) in [
            ("2026-01-01T21:59:59Z", "-2026-01-01T22:00:00Z"),
            ("2026-01-01T22:00:00Z", "+2026-01-02T02:00:00Z"),
            ("2026-01-02T01:59:59Z", "+2026-01-02T02:00:00Z"),
            ("2026-01-02T02:00:00Z", "-2026-01-02T22:00:00Z"),
        ] {
            assert_eq!(told(&w, now), wanted, "{now}");
        }
        let weekend = window(&[Day::Saturday, Day::Sunday], "01:00", "24h", "Europe/Berlin");
        for (now, wanted) in [
            // A Friday, and a Sunday.
            ("2026-01-02T12:00:00Z", "-2026-01-03T00:00:00Z"),
            ("2026-01-04T12:00:00Z", "+2026-01-05T00:00:00Z"),
            ("2026-01-05T00:00:00Z", "-2026-01-10T00:00:00Z"),
        ] {
            assert_eq!(told(&weekend, now), wanted, "{now}");
        }
        let always = window(&[], "00:00", "24h", "UTC");
        assert_eq!(told(&always, "2026-01-01T00:00:00Z"), "+2026-01-02T00:00:00Z");
    }

    #[test]
    fn daylight_saving_moves_it_and_does_not_change_how_long_it_is() {
        let berlin = |start| window(&[], start, "2h", "Europe/Berlin");
        // In winter an hour later than in summer, by UTC.
        assert_eq!(told(&berlin("22:00"), "2026-03-28T12:00:00Z"), "-2026-03-28T21:00:00Z");
        assert_eq!(told(&berlin("22:00"), "2026-03-29T12:00:00Z"), "-2026-03-29T20:00:00Z");
        // 02:30 is not there on 2026-03-29: it begins at 03:30, an hour after 01:30 by the clock.
        assert_eq!(told(&berlin("02:30"), "2026-03-29T00:00:00Z"), "-2026-03-29T01:30:00Z");
        assert_eq!(told(&berlin("02:30"), "2026-03-29T01:30:00Z"), "+2026-03-29T03:30:00Z");
        // It comes twice on 2026-10-25: the first time counts, and the second is no other.
        assert_eq!(told(&berlin("02:30"), "2026-10-24T22:00:00Z"), "-2026-10-25T00:30:00Z");
        assert_eq!(told(&berlin("02:30"), "2026-10-25T01:40:00Z"), "+2026-10-25T02:30:00Z");
        assert_eq!(told(&berlin("02:30"), "2026-10-25T02:30:00Z"), "-2026-10-26T01:30:00Z");
        // Over the change it is as long as ever.
        assert_eq!(told(&berlin("01:00"), "2026-03-29T00:30:00Z"), "+2026-03-29T02:00:00Z");
    }

    #[test]
    fn each_day_is_its_own() {
        use Day::{Friday, Monday, Saturday, Sunday, Thursday, Tuesday, Wednesday};
        // 2026-01-05 is a Monday.
        for (date, day) in (5..).zip([Monday, Tuesday, Wednesday, Thursday, Friday, Saturday, Sunday]) {
            let w = window(&[day], "12:00", "1h", "UTC");
            assert_eq!(told(&w, "2026-01-05T00:00:00Z"), format!("-2026-01-{date:02}T12:00:00Z"));
        }
    }

    #[test]
    fn what_is_wrong_is_named() {
        let why = |w: &Window| at(w, Timestamp::UNIX_EPOCH).unwrap_err();
        assert!(why(&window(&[], "22:00", "4h", "Mars/Base")).starts_with("spec.upgrade.window.timeZone: Mars/Base"));
        assert!(why(&window(&[], "24:00", "4h", "UTC")).starts_with("spec.upgrade.window.start: 24:00"));
        assert!(why(&window(&[], "22:00", "soon", "UTC")).starts_with("spec.upgrade.window.duration: soon"));
    }
}
