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
    }
}
