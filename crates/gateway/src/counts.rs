//! What is counted while connections come and go.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use crate::ended::Ended;

/// Of one tenant, or of several together.
#[derive(Debug, Default)]
pub(crate) struct Traffic {
    /// Connections that are open.
    pub(crate) open: AtomicU64,
    /// Connections that were ever opened.
    pub(crate) opened: AtomicU64,
    /// Bytes to API servers.
    pub(crate) up: AtomicU64,
    /// Bytes to clients.
    pub(crate) down: AtomicU64,
    /// Connections that were not let in, or led nowhere.
    pub(crate) refused: Ends,
}

/// [`Traffic`] at one time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Sum {
    pub(crate) open: u64,
    pub(crate) opened: u64,
    pub(crate) up: u64,
    pub(crate) down: u64,
    /// By the place of the reason in [`Ended::ALL`].
    pub(crate) refused: [u64; Ended::ALL.len()],
}

impl Traffic {
    pub(crate) fn sum(&self) -> Sum {
        let of = |count: &AtomicU64| count.load(Relaxed);
        let refused = self.refused.counts();
        Sum { open: of(&self.open), opened: of(&self.opened), up: of(&self.up), down: of(&self.down), refused }
    }

    /// Takes in what was counted elsewhere, but for what is open.
    pub(crate) fn add(&self, other: &Self) {
        let other = other.sum();
        self.opened.fetch_add(other.opened, Relaxed);
        self.up.fetch_add(other.up, Relaxed);
        self.down.fetch_add(other.down, Relaxed);
        for (of, count) in self.refused.0.iter().zip(other.refused) {
            of.fetch_add(count, Relaxed);
        }
    }
}

impl std::ops::AddAssign for Sum {
    fn add_assign(&mut self, other: Self) {
        self.open += other.open;
        self.opened += other.opened;
        self.up += other.up;
        self.down += other.down;
        for (of, count) in self.refused.iter_mut().zip(other.refused) {
            *of += count;
        }
    }
}

/// Connections by why they ended.
#[derive(Debug, Default)]
pub(crate) struct Ends([AtomicU64; Ended::ALL.len()]);

impl Ends {
    pub(crate) fn add(&self, ended: Ended) {
        self.0[ended as usize].fetch_add(1, Relaxed);
    }

    /// Each, also those that there were none of.
    pub(crate) fn all(&self) -> impl Iterator<Item = (Ended, u64)> + '_ {
        Ended::ALL.into_iter().zip(self.counts())
    }

    fn counts(&self) -> [u64; Ended::ALL.len()] {
        std::array::from_fn(|at| self.0[at].load(Relaxed))
    }
}
