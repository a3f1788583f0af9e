//! Who comes with tokens that nobody knows: each is a question to the meta cluster's API server, and one source gets only so many.

use berth_edge::rate::{place, quota};
use governor::{DefaultKeyedRateLimiter, RateLimiter};
use moka::sync::Cache;
use parking_lot::Mutex;
use std::collections::HashMap;
use std::net::IpAddr;
use std::num::NonZeroU32;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};
use std::time::Duration;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// Unknown tokens of one source in a second, for a moment twice as many.
const RATE: NonZeroU32 = NonZeroU32::new(20).unwrap();
/// How long no new token is asked for then. Those that are known go on.
const PAUSE: Duration = Duration::from_secs(5);
/// New tokens of one source that are asked for at once. The others wait.
const AT_ONCE: usize = 8;
/// Sources that are remembered.
const KEPT: u64 = 100_000;
/// So many apart, sources that have been quiet are forgotten.
const SWEEP: u32 = 1024;

/// All sources.
#[derive(Debug)]
pub(crate) struct Strangers {
    rate: DefaultKeyedRateLimiter<IpAddr>,
    paused: Cache<IpAddr, ()>,
    asking: Mutex<HashMap<IpAddr, Arc<Semaphore>>>,
    turn: AtomicU32,
}

impl Default for Strangers {
    fn default() -> Self {
        let paused = Cache::builder().max_capacity(KEPT).time_to_live(PAUSE).build();
        Self { rate: RateLimiter::keyed(quota(RATE)), paused, asking: Mutex::default(), turn: AtomicU32::default() }
    }
}

impl Strangers {
    /// Until it is that client's turn to have a new token asked for. None: no token of it is.
    pub(crate) async fn turn(&self, client: IpAddr) -> Option<OwnedSemaphorePermit> {
        let place = place(client);
        let asking = {
            let mut all = self.asking.lock();
            all.retain(|_, asking| Arc::strong_count(asking) > 1 || asking.available_permits() < AT_ONCE);
            all.entry(place).or_insert_with(|| Arc::new(Semaphore::new(AT_ONCE))).clone()
        };
        let permit = asking.acquire_owned().await.ok()?;
        // Those before it may have been too many.
        self.are_heard(client).then_some(permit)
    }

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

    /// Whether new tokens of that client's are asked for.
    fn are_heard(&self, client: IpAddr) -> bool {
        !self.paused.contains_key(&place(client))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn one_source_waits_for_itself_alone() {
        let (strangers, client): (_, IpAddr) = (Strangers::default(), "192.0.2.1".parse().unwrap());
        let mut held = vec![];
        for _ in 0..AT_ONCE {
            held.push(strangers.turn(client).await.unwrap());
        }
        let next = strangers.turn(client);
        tokio::pin!(next);
        assert!(futures::poll!(next.as_mut()).is_pending());
        assert!(strangers.turn("192.0.2.2".parse().unwrap()).await.is_some());
        (0..3 * RATE.get()).for_each(|_| strangers.note(client));
        drop(held);
        assert!(next.await.is_none(), "too many of them were unknown");
        assert_eq!(strangers.asking.lock().len(), 2);
        drop(strangers.turn("192.0.2.3".parse().unwrap()).await);
        assert_eq!(strangers.asking.lock().len(), 1, "who is gone is forgotten");
    }

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
