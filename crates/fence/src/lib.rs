//! A permission to write that runs out by itself, and what no write gets past without it.
//!
//! Nothing in the operator has a client that is not a [`FencedClient`]: `clippy.toml` of the crates above refuses to make one.

mod client;
pub mod clock;

pub use client::FencedClient;

use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant, SystemTime};

/// A moment by both clocks: the monotonic one stands still while the machine is suspended, and the other one may be set.
#[derive(Clone, Copy, Debug)]
pub struct Moment {
    monotonic: Instant,
    wall: SystemTime,
}

impl Moment {
    /// This one.
    pub fn now() -> Self {
        Self { monotonic: Instant::now(), wall: clock::wall() }
    }

    /// How long ago it was, by the monotonic clock.
    pub fn elapsed(&self) -> Duration {
        self.monotonic.elapsed()
    }

    fn after(self, span: Duration) -> Self {
        Self { monotonic: self.monotonic + span, wall: self.wall + span }
    }
}

#[derive(Clone, Copy, Debug)]
enum Until {
    Always,
    Never,
    Moment(Moment),
}

/// A write was not sent.
#[derive(Clone, Copy, Debug, thiserror::Error)]
#[error("this operator no longer holds the lease")]
pub struct Closed;

impl Closed {
    /// Whether that is why a call failed.
    pub fn is(error: &kube::Error) -> bool {
        matches!(error, kube::Error::Service(error) if error.is::<Self>())
    }
}

/// Shared by the holder of the lease, who extends it, and by every writer, who asks it.
#[derive(Clone, Debug)]
pub struct Fence(Arc<Mutex<Until>>);

impl Fence {
    /// Always open: for one process that has no rival.
    pub fn open() -> Self {
        Self(Arc::new(Mutex::new(Until::Always)))
    }

    /// Closed until [`Self::extend`].
    pub fn closed() -> Self {
        Self(Arc::new(Mutex::new(Until::Never)))
    }

    /// Writing is allowed until `from + span`. `from` is when the renewal was sent, not when it was answered.
    pub fn extend(&self, from: Moment, span: Duration) {
        self.set(Until::Moment(from.after(span)));
    }

    /// No more writing.
    pub fn close(&self) {
        self.set(Until::Never);
    }

    /// An error if this process may not write now.
    pub fn check(&self) -> Result<(), Closed> {
        if self.is_open() { Ok(()) } else { Err(Closed) }
    }

    /// May this process write now?
    pub fn is_open(&self) -> bool {
        self.is_open_at(Moment::now())
    }

    /// Each clock alone closes it: one that stands still or is set back keeps nothing open.
    fn is_open_at(&self, now: Moment) -> bool {
        match *self.0.lock().unwrap_or_else(PoisonError::into_inner) {
            Until::Always => true,
            Until::Never => false,
            Until::Moment(end) => now.monotonic < end.monotonic && now.wall < end.wall,
        }
    }

    fn set(&self, until: Until) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = until;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SPAN: Duration = Duration::from_mins(1);

    #[test]
    fn runs_out_by_itself() {
        let f = Fence::closed();
        assert!(!f.is_open());
        f.extend(Moment::now(), SPAN);
        assert!(f.is_open() && f.clone().is_open());
        // A renewal that was sent long ago allows nothing, however late its answer came.
        let sent = Moment::now();
        std::thread::sleep(Duration::from_millis(5));
        f.extend(sent, Duration::from_millis(1));
        assert!(!f.is_open());
        f.extend(Moment::now(), SPAN);
        f.close();
        assert!(!f.is_open());
        assert!(Fence::open().is_open());
    }

    #[test]
    fn either_clock_closes_it_and_neither_keeps_it_open() {
        let (f, sent) = (Fence::closed(), Moment::now());
        f.extend(sent, SPAN);
        assert!(f.is_open_at(sent.after(SPAN / 2)));
        let late = sent.after(SPAN);
        assert!(!f.is_open_at(Moment { wall: late.wall, ..sent }), "it was suspended");
        assert!(!f.is_open_at(Moment { wall: sent.wall - SPAN, ..late }), "its clock was set back");
    }
}
