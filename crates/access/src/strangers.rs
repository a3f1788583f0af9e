//! Who comes with tokens that nobody knows: each is a question to the meta cluster's API server, and one source gets only so many.

use berth_edge::rate::{place, quota};
use governor::{DefaultKeyedRateLimiter, RateLimiter};
use moka::sync::Cache;
use std::net::IpAddr;
use std::num::NonZeroU32;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};
use std::time::Duration;

/// Unknown tokens of one source in a second, for a moment twice as many.
const RATE: NonZeroU32 = NonZeroU32::new(20).unwrap();
/// How long no new token is asked for then. Those that are known go on.
const PAUSE: Duration = Duration::from_secs(5);
/// Sources that are remembered.
const KEPT: u64 = 100_000;
/// So many apart, sources that have been quiet are forgotten.
const SWEEP: u32 = 1024;

/// All sources.
#[derive(Debug)]
pub(crate) struct Strangers {
    rate: DefaultKeyedRateLimiter<IpAddr>,
    paused: Cache<IpAddr, ()>,
    turn: AtomicU32,
}

impl Default for Strangers {
    fn default() -> Self {
        let paused = Cache::builder().max_capacity(KEPT).time_to_live(PAUSE).build();
        Self { rate: RateLimiter::keyed(quota(RATE)), paused, turn: AtomicU32::default() }
    }
}

impl Strangers {
    /// A token of that client's is nobody's.
    pub(crate) fn note(&self, client: IpAddr) {
        if self.turn.fetch_add(1, Relaxed).is_multiple_of(SWEEP) {
            self.rate.retain_recent();
            self.rate.shrink_to_fit();
        }
        let place = place(client);
        if self.rate.check_key(&place).is_err() {
            self.paused.insert(place, ());
        }
    }

    /// Whether tokens of that client's are asked for.
    pub(crate) fn are_heard(&self, client: IpAddr) -> bool {
        !self.paused.contains_key(&place(client))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_guesses_is_not_heard_for_a_while_and_alone_with_it() {
        let (strangers, guesses): (_, IpAddr) = (Strangers::default(), "2001:db8::1".parse().unwrap());
        (0..2 * RATE.get()).for_each(|_| strangers.note(guesses));
        assert!(strangers.are_heard(guesses));
        (0..10).for_each(|_| strangers.note(guesses));
        assert!(!strangers.are_heard("2001:db8::2".parse().unwrap()));
        assert!(strangers.are_heard("192.0.2.1".parse().unwrap()));
    }
}
