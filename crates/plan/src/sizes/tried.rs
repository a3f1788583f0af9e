//! Resizes that do not come to what they were to: they are not repeated each minute.

use super::amount::Size;
use jiff::{SignedDuration, Timestamp};

/// After the first one; after each further one twice as long, up to [`SELDOM`].
const AGAIN: SignedDuration = SignedDuration::from_mins(10);
const SELDOM: SignedDuration = SignedDuration::from_hours(2);

/// What was resized a moment ago may be seen without it.
const SEEN: SignedDuration = SignedDuration::from_secs(30);

/// The last resize of a pod, which does not have that size.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Tried {
    size: Size,
    at: Timestamp,
    times: u32,
    /// How it was refused. None: it was taken.
    pub(super) why: Option<String>,
}

impl Tried {
    /// One more. Another size is no repetition.
    pub(super) fn new(before: Option<&Self>, size: Size, why: Option<String>, at: Timestamp) -> Self {
        let times = before.filter(|before| before.size == size).map_or(0, |before| before.times).saturating_add(1);
        Self { size, at, times, why }
    }

    /// Whether that size is not tried again yet.
    pub(super) fn holds(&self, size: Size, now: Timestamp) -> bool {
        let pause = AGAIN.saturating_mul(1 << self.times.saturating_sub(1).min(6)).min(SELDOM);
        self.size == size && now.duration_since(self.at).abs() < pause
    }

    /// Whether it was refused, or taken and changed back.
    pub(super) fn failed(&self, now: Timestamp) -> bool {
        self.why.is_some() || self.times > 1 || now.duration_since(self.at).abs() >= SEEN
    }
}
