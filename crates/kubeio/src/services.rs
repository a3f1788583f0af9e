//! Writes of Services with an address: a few at once, and whether they get on.

use std::future::Future;
use std::time::Duration;
use tokio::sync::{Semaphore, SemaphorePermit, watch};

/// Services with an address applied at once. An API server gives out addresses one after the other (`MetaAllocator` in its `ipallocator` holds a lock
/// meanwhile): more of them would only wait there until their deadline, give their addresses back, and come again.
pub(crate) const SERVICES: usize = 6;

/// The places of those under way. Where the API server is slow, many wait for one, each longer than any single write takes; that says nothing
/// while writes are answered. Only when none is, they hang.
#[derive(Debug)]
pub(crate) struct Services {
    places: Semaphore,
    answered: watch::Sender<()>,
}

impl Default for Services {
    fn default() -> Self {
        Self { places: Semaphore::new(SERVICES), answered: watch::Sender::default() }
    }
}

impl Services {
    /// Waits for a place.
    pub(crate) async fn place(&self) -> Option<SemaphorePermit<'_>> {
        self.places.acquire().await.ok()
    }

    /// One was answered, be it by an error.
    pub(crate) fn answered(&self) {
        self.answered.send_replace(());
    }

    /// Until none was answered for that long, from now on.
    pub(crate) fn hang(&self, patience: Duration) -> impl Future<Output = ()> + use<> {
        let mut answered = self.answered.subscribe();
        async move { while tokio::time::timeout(patience, answered.changed()).await.is_ok_and(|more| more.is_ok()) {} }
    }
}
