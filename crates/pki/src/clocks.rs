//! When something is issued, by two clocks of which one may be wrong.

use jiff::{SignedDuration, Timestamp};

/// The time that ages are counted by, and that of the machine which issues. What is issued is valid by both, as long as they are no more than a
/// [part of its life](Clocks::within) apart.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Clocks {
    /// The time that ages are counted by.
    pub now: Timestamp,
    own: Timestamp,
}

impl From<Timestamp> for Clocks {
    fn from(now: Timestamp) -> Self {
        Self { now, own: now }
    }
}

impl Clocks {
    /// The machine's own clock is that much ahead of `now`; negative: behind.
    pub fn new(now: Timestamp, ahead: SignedDuration) -> Self {
        Self { now, own: now.saturating_add(ahead).unwrap_or(now) }
    }

    /// How far two clocks may be apart for a certificate of that life to be valid by both: a third of it. It is renewed at two thirds, so one
    /// that is made as if that long ago is not due at once.
    pub fn within(life: SignedDuration) -> SignedDuration {
        life / 3
    }

    /// A short life, lengthened so that what is kept in memory is valid by both, however far they are apart.
    #[must_use]
    pub fn covered(self, life: SignedDuration) -> SignedDuration {
        life.saturating_add(self.own.duration_since(self.now).abs().saturating_mul(3))
    }

    /// The earlier and the later one, as far as that life allows.
    pub(crate) fn span(self, life: SignedDuration) -> (Timestamp, Timestamp) {
        let most = Self::within(life);
        let apart = self.own.duration_since(self.now).clamp(-most, most);
        let own = self.now.saturating_add(apart).unwrap_or(self.now);
        (self.now.min(own), self.now.max(own))
    }
}
