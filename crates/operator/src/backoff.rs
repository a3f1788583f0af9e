//! How long to wait after failures, for each object on its own.

use parking_lot::Mutex;
use std::collections::HashMap;
use std::hash::{BuildHasher, Hash, RandomState};
use std::time::Duration;

/// Failures in a row, by object.
#[derive(Debug)]
pub struct Backoff<K> {
    failures: Mutex<HashMap<K, u32>>,
}

impl<K> Default for Backoff<K> {
    fn default() -> Self {
        Self { failures: Mutex::default() }
    }
}

impl<K: Hash + Eq> Backoff<K> {
    /// Counts a failure and says how long to wait: 100 ms, or as long as it took if that is longer, doubled each time up to a minute.
    pub fn failed(&self, key: K, took: Duration) -> (u32, Duration) {
        let mut all = self.failures.lock();
        let count = all.entry(key).or_default();
        *count += 1;
        let wait = took.max(Duration::from_millis(100)) * 2u32.saturating_pow((*count - 1).min(10));
        (*count, spread(wait.min(Duration::from_mins(1))))
    }

    /// Failures in a row so far.
    pub fn failures(&self, key: &K) -> u32 {
        self.failures.lock().get(key).copied().unwrap_or_default()
    }

    /// Forgets an object: it went well, or it is gone.
    pub fn forget(&self, key: &K) {
        self.failures.lock().remove(key);
    }
}

/// Up to a half less, at random: objects that began to hang together shall not come back together.
fn spread(wait: Duration) -> Duration {
    let random = RandomState::new().hash_one(wait) % 1024;
    wait / 2 + wait / 2048 * u32::try_from(random).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn grows_to_a_minute_and_starts_over() {
        let (b, now) = (Backoff::default(), Duration::ZERO);
        let between = |(_, wait): (u32, Duration), most: u64| {
            let most = Duration::from_millis(most);
            assert!(wait <= most && wait >= most / 2, "{wait:?} of {most:?}");
        };
        for most in [100, 200, 400, 800, 1600, 3200, 6400, 12_800, 25_600, 51_200, 60_000, 60_000] {
            between(b.failed("a", now), most);
        }
        assert_eq!((b.failed("b", now).0, b.failures(&"b")), (1, 1), "each object on its own");
        b.forget(&"a");
        between(b.failed("a", now), 100);
        b.forget(&"a");
        for most in [10_000, 20_000, 40_000, 60_000] {
            between(b.failed("a", Duration::from_secs(10)), most);
        }
    }
}
