//! What is remembered of a container's usage: a few numbers, whatever was seen.

use super::amount::Size;
use jiff::{SignedDuration, Timestamp};

/// So long nothing becomes less.
pub(super) const HOURS: i64 = 6;

/// With the hour that has just begun.
const KEPT: usize = 7;

/// After a longer gap nobody knows what the peak was.
const GAP: SignedDuration = SignedDuration::from_mins(10);

/// Two samples are of different minutes if they are so far apart.
const APART: SignedDuration = SignedDuration::from_secs(40);

/// Usage of one part. It is the operator's memory: a new process begins anew, and so takes nothing away for six hours.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct History {
    /// Since when there is no gap.
    since: Option<Timestamp>,
    /// The most in an hour, with the number of the hour since 1970.
    peaks: [(i64, Size); KEPT],
    /// The last two samples, the newest first.
    last: [Option<(Timestamp, Size)>; 2],
    /// Since when samples lack some of the pods.
    partial_since: Option<Timestamp>,
}

impl History {
    /// Takes in a sample. `is_whole`: it is of all pods.
    pub fn see(&mut self, now: Timestamp, used: Size, is_whole: bool) {
        let newest = self.last[0].map(|(at, _)| at);
        let has_gap = newest.is_none_or(|at| now.duration_since(at).abs() > GAP);
        if has_gap {
            *self = Self { since: Some(now), ..Self::default() };
        }
        self.partial_since = if is_whole { None } else { self.partial_since.or(Some(now)) };
        // The one that nobody sees may be the one that uses most.
        if self.partial_since.is_some_and(|since| now.duration_since(since).abs() > GAP) {
            self.since = Some(now);
        }
        let hour = now.as_second().div_euclid(3600);
        let place = usize::try_from(hour.rem_euclid(HOURS + 1)).ok().and_then(|place| self.peaks.get_mut(place));
        if let Some(place) = place {
            *place = if place.0 == hour { (hour, place.1.max(used)) } else { (hour, used) };
        }
        match newest.filter(|at| !has_gap && now.duration_since(*at) < APART) {
            Some(at) => self.last[0] = self.last[0].map(|(_, before)| (at, before.max(used))),
            None => self.last = [Some((now, used)), self.last[0]],
        }
    }

    /// What was used for a whole minute. None: it is not known.
    pub fn sustained(&self) -> Option<Size> {
        let [Some((_, newest)), Some((_, before))] = self.last else { return None };
        Some(newest.min(before))
    }

    /// The most of the last six hours. None: they are not known as a whole.
    pub fn peak(&self, now: Timestamp) -> Option<Size> {
        let is_long = |since: &Timestamp| now.duration_since(*since) >= SignedDuration::from_hours(HOURS);
        let since = self.since.filter(|since| self.is_fresh(now) && is_long(since))?;
        let first = since.as_second().div_euclid(3600).max(now.as_second().div_euclid(3600) - HOURS);
        self.peaks.iter().filter(|(hour, _)| *hour >= first).map(|(_, used)| *used).reduce(Size::max)
    }

    /// Whether what is used was known a moment ago.
    pub fn is_fresh(&self, now: Timestamp) -> bool {
        self.newest().is_some_and(|at| now.duration_since(at).abs() <= GAP)
    }

    fn newest(&self) -> Option<Timestamp> {
        self.last[0].map(|(at, _)| at)
    }
}
