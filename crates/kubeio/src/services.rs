//! Writes of Services with an address: a few at once, and whether they get on.

use crate::turn::Turn;
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
    /// Waits until a Service may be applied: as long as those before it are answered, and not for ever, since they may all hang. If none
    /// is answered for longer than `patience`, or enough hang for it to wait as long as a call may take, the turn steps aside. None if
    /// there was no answer within `deadline`.
    pub(crate) async fn one_of_few(
        &self,
        turn: Option<&Turn>,
        deadline: Duration,
        patience: Duration,
    ) -> Option<SemaphorePermit<'_>> {
        let place = async {
            tokio::select! {
                biased;
                place = self.places.acquire() => place.ok(),
                () = self.hang(deadline) => None,
            }
        };
        let Some(turn) = turn else { return place.await };
        let long = || async {
            let _ = tokio::time::timeout(deadline, self.hang(patience)).await;
        };
        turn.wait_unless(place, (), long).await
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::turn::Turns;
    use futures::future::join_all;
    use tokio::time::{Instant, sleep};

    const DEADLINE: Duration = Duration::from_secs(30);
    const PATIENCE: Duration = Duration::from_secs(4);

    async fn all(services: &Services) -> Vec<SemaphorePermit<'_>> {
        join_all((0..SERVICES).map(|_| services.places.acquire())).await.into_iter().flatten().collect()
    }

    #[tokio::test(start_paused = true)]
    async fn who_waits_while_none_is_answered_gives_its_turn_to_others() {
        let (turns, services) = (Turns::new(1), Services::default());
        let _hanging = all(&services).await;
        let turn = turns.take().await.unwrap();
        let began = Instant::now();
        tokio::select! {
            _ = services.one_of_few(Some(&turn), DEADLINE, PATIENCE) => unreachable!("none is free"),
            next = turns.take() => assert!(next.is_some()),
        }
        assert_eq!(began.elapsed().as_secs(), PATIENCE.as_secs());
    }

    #[tokio::test(start_paused = true)]
    async fn who_waits_while_others_are_answered_keeps_its_turn() {
        let (turns, services) = (Turns::new(1), Services::default());
        let slow = all(&services).await;
        let turn = turns.take().await.unwrap();
        let answers = async {
            for _ in 0..9 {
                sleep(Duration::from_secs(3)).await;
                services.answered();
            }
            drop(slow);
        };
        let (place, ()) = tokio::select! {
            _ = turns.take() => unreachable!("the turn is kept"),
            both = async { tokio::join!(services.one_of_few(Some(&turn), DEADLINE, PATIENCE), answers) } => both,
        };
        assert!(place.is_some());
    }

    #[tokio::test(start_paused = true)]
    async fn who_waits_where_most_hang_gives_its_turn_to_others() {
        let (turns, services) = (Turns::new(1), Services::default());
        let _slow = all(&services).await;
        let turn = turns.take().await.unwrap();
        let answers = async {
            loop {
                sleep(Duration::from_secs(3)).await;
                services.answered();
            }
        };
        let began = Instant::now();
        tokio::select! {
            _ = services.one_of_few(Some(&turn), DEADLINE, PATIENCE) => unreachable!("no place is free"),
            () = answers => unreachable!(),
            next = turns.take() => assert!(next.is_some()),
        }
        assert_eq!(began.elapsed(), DEADLINE);
    }
}
