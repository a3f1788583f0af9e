//! Times as people read them.

use jiff::{SignedDuration, Timestamp};

/// How long `from` is before `now`, in one unit, as kubectl does: `45s`, `12m`, `7h`, `3d`.
pub(crate) fn age(from: Timestamp, now: Timestamp) -> String {
    span(now.duration_since(from))
}

/// How long `at` is after `now`; `None` if it is over.
pub(crate) fn until(at: Timestamp, now: Timestamp) -> Option<String> {
    (at > now).then(|| span(at.duration_since(now)))
}

/// When `at` was, or will be: `3m ago`, `in 9 years`. Of clocks that differ by less than a minute nothing is said.
pub(crate) fn ago(at: Timestamp, now: Timestamp) -> String {
    const YEAR: i64 = 365 * 86_400;
    match at.duration_since(now) {
        ahead if ahead.as_secs() < 60 => format!("{} ago", age(at, now)),
        ahead if ahead.as_secs() >= 2 * YEAR => format!("in {} years", ahead.as_secs() / YEAR),
        ahead => format!("in {}", span(ahead)),
    }
}

fn span(span: SignedDuration) -> String {
    let seconds = span.as_secs().max(0);
    match seconds {
        0..120 => format!("{seconds}s"),
        120..7200 => format!("{}m", seconds / 60),
        7200..172_800 => format!("{}h", seconds / 3600),
        _ => format!("{}d", seconds / 86_400),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_unit_is_enough() {
        let now: Timestamp = "2026-01-10T00:00:00Z".parse().unwrap();
        let ago = |s: i64| age(now - SignedDuration::from_secs(s), now);
        assert_eq!([ago(-5), ago(0), ago(119), ago(120), ago(7199)], ["0s", "0s", "119s", "2m", "119m"]);
        assert_eq!([ago(7200), ago(172_799), ago(172_800), ago(864_000)], ["2h", "47h", "2d", "10d"]);
        assert_eq!(until(now + SignedDuration::from_hours(60), now).as_deref(), Some("2d"));
        assert_eq!(until(now, now), None);
        let at = |s: i64| super::ago(now + SignedDuration::from_secs(s), now);
        assert_eq!(
            [at(-120), at(0), at(59), at(60), at(86_400 * 400)],
            ["2m ago", "0s ago", "0s ago", "in 60s", "in 400d"]
        );
        assert_eq!(at(86_400 * 366 * 9), "in 9 years");
    }
}
