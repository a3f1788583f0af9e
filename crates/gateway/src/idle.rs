//! Whether a tenant is used. A connection counts from the moment that its client says more than its first message, until it ends: who only looks whether
//! somebody answers, as scanners and probes do, uses nothing.

use parking_lot::Mutex;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::time::Instant;

/// The use of one tenant.
#[derive(Debug, Default)]
pub(crate) struct Uses {
    open: AtomicU64,
    /// When a connection began to count, or ended, the last time.
    last: Mutex<Option<Instant>>,
}

/// At one time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Used {
    /// Somebody is connected.
    pub(crate) now: bool,
    /// When somebody was, the last time. None: nobody ever was.
    pub(crate) last: Option<Instant>,
}

/// A connection that may become use; it is over when this is dropped.
#[derive(Debug)]
pub(crate) struct Using {
    uses: Arc<Uses>,
    counts: AtomicBool,
}

impl Uses {
    pub(crate) fn begin(self: &Arc<Self>) -> Using {
        Using { uses: self.clone(), counts: AtomicBool::default() }
    }

    pub(crate) fn now(&self) -> Used {
        Used { now: self.open.load(Relaxed) > 0, last: *self.last.lock() }
    }
}

impl Using {
    /// The client has said more than its first message.
    pub(crate) fn says(&self) {
        if !self.counts.swap(true, Relaxed) {
            self.uses.open.fetch_add(1, Relaxed);
            *self.uses.last.lock() = Some(Instant::now());
        }
    }
}

impl Drop for Using {
    fn drop(&mut self) {
        if self.counts.load(Relaxed) {
            // First: who sees that nobody is there sees since when, too.
            *self.uses.last.lock() = Some(Instant::now());
            self.uses.open.fetch_sub(1, Relaxed);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_says_no_more_than_a_first_message_uses_nothing() {
        let uses = Arc::new(Uses::default());
        drop(uses.begin());
        assert_eq!(uses.now(), Used::default());
        let (one, other) = (uses.begin(), uses.begin());
        one.says();
        one.says();
        other.says();
        assert!(uses.now().now && uses.now().last.is_some());
        let begun = uses.now().last;
        drop(one);
        assert!(uses.now().now, "the other is there");
        drop(other);
        assert!(!uses.now().now && uses.now().last > begun);
    }
}
