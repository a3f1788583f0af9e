//! A permission to write that runs out by itself.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// Shared by the holder of the lease, who extends it, and by every writer, who asks it.
#[derive(Clone, Debug)]
pub struct Fence {
    start: Instant,
    /// Milliseconds after `start` until which writing is allowed; `u64::MAX`: always.
    until: Arc<AtomicU64>,
}

impl Fence {
    /// Always open: for one process that has no rival.
    pub fn open() -> Self {
        Self { start: Instant::now(), until: Arc::new(AtomicU64::new(u64::MAX)) }
    }

    /// Closed until [`Self::extend`].
    pub fn closed() -> Self {
        Self { start: Instant::now(), until: Arc::new(AtomicU64::new(0)) }
    }

    /// Writing is allowed until `from + span`. `from` is when the renewal was sent, not when it was answered.
    pub fn extend(&self, from: Instant, span: Duration) {
        let until = from.saturating_duration_since(self.start) + span;
        self.until.store(u64::try_from(until.as_millis()).unwrap_or(u64::MAX - 1), Ordering::SeqCst);
    }

    /// No more writing.
    pub fn close(&self) {
        self.until.store(0, Ordering::SeqCst);
    }

    /// May this process write now?
    pub fn is_open(&self) -> bool {
        let until = self.until.load(Ordering::SeqCst);
        until == u64::MAX || self.start.elapsed().as_millis() < u128::from(until)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runs_out_by_itself() {
        let f = Fence::closed();
        assert!(!f.is_open());
        f.extend(Instant::now(), Duration::from_mins(1));
        assert!(f.is_open() && f.clone().is_open());
        // A renewal that was sent long ago allows nothing, however late its answer came.
        let sent = Instant::now();
        std::thread::sleep(Duration::from_millis(5));
        f.extend(sent, Duration::from_millis(1));
        assert!(!f.is_open());
        assert!(Fence::open().is_open());
    }
}
