//! How long to wait after failures, for each object on its own.

use std::collections::HashMap;
use std::hash::Hash;
use std::sync::{Mutex, PoisonError};
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
    /// Counts a failure and says how long to wait: 100 ms, doubled each time up to a minute.
    pub fn failed(&self, key: K) -> (u32, Duration) {
        let mut all = self.failures.lock().unwrap_or_else(PoisonError::into_inner);
        let count = all.entry(key).or_default();
        *count += 1;
        let wait = Duration::from_millis(100) * 2u32.saturating_pow((*count - 1).min(10));
        (*count, wait.min(Duration::from_mins(1)))
    }

    /// Failures in a row so far.
    pub fn failures(&self, key: &K) -> u32 {
        self.failures.lock().unwrap_or_else(PoisonError::into_inner).get(key).copied().unwrap_or_default()
    }

    /// Forgets an object: it went well, or it is gone.
    pub fn forget(&self, key: &K) {
        self.failures.lock().unwrap_or_else(PoisonError::into_inner).remove(key);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn grows_to_a_minute_and_starts_over() {
        let b = Backoff::default();
        let waits: Vec<u128> = (0..12).map(|_| b.failed("a").1.as_millis()).collect();
        assert_eq!(&waits[..4], [100, 200, 400, 800]);
        assert_eq!(waits[11], 60_000);
        assert_eq!((b.failed("b").0, b.failures(&"b")), (1, 1), "each object on its own");
        b.forget(&"a");
        assert_eq!(b.failed("a").1.as_millis(), 100);
    }
}
