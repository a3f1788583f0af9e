//! When to reconcile again, even without an event.

use jiff::SignedDuration;

/// What is awaited is not announced.
pub(crate) const WAITING: SignedDuration = SignedDuration::from_secs(10);
/// A Job's end is announced.
pub(crate) const RUNNING: SignedDuration = SignedDuration::from_mins(1);
/// What is awaited may take for ever.
pub(crate) const SLOW: SignedDuration = SignedDuration::from_mins(1);
/// Nothing changes by itself.
pub(crate) const AT_REST: SignedDuration = SignedDuration::from_mins(10);
