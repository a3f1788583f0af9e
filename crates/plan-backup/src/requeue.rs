//! When to reconcile again, even without an event.

use jiff::SignedDuration;

/// Something is about to be there, or to change without an event.
pub(crate) use berth_plan::requeue::SOON;
/// What is awaited is not announced.
pub(crate) const WAITING: SignedDuration = SignedDuration::from_secs(15);
/// Nothing changes by itself.
pub(crate) const AT_REST: SignedDuration = SignedDuration::from_mins(10);
