//! When drift is looked for: each interval, at another time in each tenant, and soon after somebody asks for it. Pure.

use berth_api::app::{CheckStatus, DriftStatus};
use berth_plan::digest::sha256;
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

/// A time that was missed by more is left out: else all that were missed while the operator was away would come at once.
const LATE: SignedDuration = SignedDuration::from_mins(10);

/// What is known of the looks at an installation.
#[derive(Clone, Copy, Debug)]
pub(super) struct Looks<'a> {
    /// By this each has times of its own.
    pub(super) uid: &'a str,
    /// Between two looks, in seconds.
    pub(super) interval: i64,
    /// Digest of what a look is asked for with now.
    pub(super) request: &'a str,
    /// A person asks for one.
    pub(super) asked: bool,
    /// How many others may be asked at the same time.
    pub(super) others: i64,
    /// What the last one found.
    pub(super) last: Option<&'a DriftStatus>,
    /// What is on record of the next one.
    pub(super) next: Option<&'a CheckStatus>,
    /// Since when the release is as it is.
    pub(super) since: Option<Timestamp>,
}

/// What is to be done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Due {
    /// Nothing before then.
    Later(Timestamp),
    /// The next one is put on record.
    Record(CheckStatus),
    /// It begins.
    Now,
}

impl Looks<'_> {
    pub(super) fn due(&self, now: Timestamp) -> Due {
        let record = |at: Timestamp| Due::Record(CheckStatus { request: self.request.to_owned(), at: Time(at) });
        if let Some(next) = self.next.filter(|next| next.request == self.request) {
            // One that is further ahead than any is put on record is of a clock that was set.
            let is_due = now >= next.at.0 || next.at.0 > after(now, self.spread());
            return if is_due { Due::Now } else { Due::Later(next.at.0) };
        }
        let handled = self.last.and_then(|last| last.request.as_deref());
        if handled.map_or(self.asked, |handled| handled != self.request) {
            // About one in a second.
            return record(after(now, self.offset(self.spread())));
        }
        let slot = self.slot(now);
        let last = self.last.and_then(|last| last.checked_at.as_ref()).map(|at| at.0).max(self.since);
        let last = last.filter(|last| *last <= now);
        if last.is_none_or(|last| last < slot) && now.duration_since(slot) < LATE {
            return record(now);
        }
        Due::Later(after(slot, self.interval))
    }

    /// Over how many seconds those are spread that are asked for at once.
    fn spread(&self) -> i64 {
        self.others.clamp(1, self.interval)
    }

    /// The newest of its times.
    fn slot(&self, now: Timestamp) -> Timestamp {
        let second = now.as_second();
        let since = (second - self.offset(self.interval)).rem_euclid(self.interval);
        Timestamp::from_second(second - since).unwrap_or(now)
    }

    /// A number of its own below that.
    fn offset(&self, below: i64) -> i64 {
        let digest = sha256(self.uid.as_bytes());
        i64::from_str_radix(&digest[..15], 16).unwrap_or_default() % below
    }
}

fn after(at: Timestamp, seconds: i64) -> Timestamp {
    at.checked_add(SignedDuration::from_secs(seconds)).unwrap_or(Timestamp::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOURS: i64 = 21_600;

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(1_800_000_000 + second).unwrap()
    }

    fn of(uid: &str) -> Looks<'_> {
        Looks { uid, interval: HOURS, request: "r", asked: false, others: 1, last: None, next: None, since: None }
    }

    fn checked(second: i64, request: &str) -> DriftStatus {
        DriftStatus { checked_at: Some(Time(at(second))), request: Some(request.into()), ..DriftStatus::default() }
    }

    #[test]
    fn a_thousand_tenants_are_looked_at_one_after_another_and_each_once_in_an_interval() {
        let uids: Vec<String> = (0..1000).map(|n| format!("uid-{n}")).collect();
        let mut last = vec![checked(-100_000, "r"); uids.len()];
        let mut minutes = vec![0; 720];
        for (minute, count) in minutes.iter_mut().enumerate() {
            for (uid, last) in uids.iter().zip(&mut last) {
                let now = 60 * i64::try_from(minute).unwrap();
                if let Due::Record(_) = (Looks { last: Some(last), ..of(uid) }).due(at(now)) {
                    *last = checked(now, "r");
                    *count += 1;
                }
            }
        }
        // Twice in twelve hours; the first minute has those of the ten before it.
        assert!((2000..2050).contains(&minutes.iter().sum::<i32>()), "{minutes:?}");
        assert!(minutes[0] < 60 && minutes[1..].iter().all(|count| *count <= 12), "{minutes:?}");
    }

    #[test]
    fn what_was_missed_for_long_waits_for_its_next_time() {
        let slot = of("a").slot(at(0)).as_second() - at(0).as_second() + HOURS;
        let last = checked(slot - HOURS, "r");
        let looks = Looks { last: Some(&last), ..of("a") };
        assert_eq!(looks.due(at(slot - 1)), Due::Later(at(slot)));
        assert!(matches!(looks.due(at(slot + 599)), Due::Record(_)));
        assert_eq!(looks.due(at(slot + 600)), Due::Later(at(slot + HOURS)));
        let fresh = Looks { since: Some(at(slot + 1)), ..looks };
        assert_eq!(fresh.due(at(slot + 2)), Due::Later(at(slot + HOURS)), "Helm was there a second ago");
    }

    #[test]
    fn what_is_asked_for_begins_soon_and_of_many_one_after_another() {
        let rests = checked(0, "r");
        assert!(
            matches!(Looks { last: Some(&rests), asked: true, ..of("a") }.due(at(1)), Due::Later(_)),
            "it was done"
        );
        let Due::Record(next) = (Looks { asked: true, ..of("a") }).due(at(0)) else { panic!("it was asked for") };
        assert_eq!((next.at.0, &*next.request), (at(0), "r"));
        let last = checked(0, "before");
        let many = Looks { last: Some(&last), others: 1000, ..of("a") };
        let Due::Record(next) = many.due(at(0)) else { panic!("something else is asked for") };
        assert!(next.at.0 > at(0) && next.at.0 < at(1000), "{next:?}");
        let recorded = Looks { next: Some(&next), ..many };
        assert_eq!(recorded.due(at(0)), Due::Later(next.at.0));
        assert_eq!(recorded.due(at(1000)), Due::Now);
        assert_eq!(recorded.due(at(-3600)), Due::Now, "the clock was an hour ahead");
        assert!(matches!(Looks { request: "other", ..recorded }.due(at(1000)), Due::Record(_)), "it was another one");
    }
}
