//! Turns: how many work at once, and that whoever waits long for an answer keeps nobody else from working.
//!
//! A turn is one of a few places. A call that stays without an answer for much longer than others do ([`Pace`]) makes its turn *step
//! aside*: the place, and what its calls held, go to others, while the calls themselves go on to their deadline. So objects
//! whose calls hang take up no more than that of anybody's time, however many they are. Whoever waits for the few places of
//! Services ([`crate::services`]) steps aside only where those hang, or after the deadline of a call.

use std::future::Future;
use std::pin::pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, SemaphorePermit, watch};

/// How long a call may be without an answer before its turn steps aside. A call takes some milliseconds.
pub(crate) const PATIENCE: Duration = Duration::from_millis(500);

/// That, at the most, where all calls are slow: an object whose calls hang is not to be waited for.
pub(crate) const MOST: Duration = Duration::from_secs(4);

/// How long an API server takes for an answer, lately: a running mean in microseconds. Where it is slow for all, those who step
/// aside would only let more calls into it, and all would be slower.
#[derive(Debug, Default)]
pub(crate) struct Pace(AtomicU64);

impl Pace {
    /// A call took that long, which counts up to the patience that there was with it: a few that hang say nothing about the others.
    pub(crate) fn took(&self, took: Duration) {
        let took = u64::try_from(took.as_micros()).unwrap_or(u64::MAX);
        let mean = |old: u64| Some(old - old / 32 + took / 32);
        let _ = self.0.fetch_update(Ordering::Relaxed, Ordering::Relaxed, mean);
    }

    /// How long to wait for an answer before stepping aside: four times what one takes.
    pub(crate) fn patience(&self) -> Duration {
        Duration::from_micros(self.0.load(Ordering::Relaxed)).saturating_mul(4).clamp(PATIENCE, MOST)
    }
}

/// Calls of one turn under way at once: a few turns whose calls hang shall not have them all.
const CALLS: usize = 4;

/// Turns that may be aside at once: each holds what it has read. If there are more, they keep their places.
const ASIDE: usize = 256;

/// Gives out turns.
#[derive(Clone, Debug)]
pub struct Turns {
    places: Arc<Semaphore>,
    aside: Arc<Semaphore>,
}

impl Turns {
    /// That many at once.
    pub fn new(at_once: usize) -> Self {
        Self { places: Arc::new(Semaphore::new(at_once)), aside: Arc::new(Semaphore::new(ASIDE)) }
    }

    /// Waits for a turn, first come, first served. It ends when the last clone is dropped. None: closed.
    pub async fn take(&self) -> Option<Turn> {
        let place = self.places.clone().acquire_owned().await.ok()?;
        Some(Turn(Arc::new(Inner {
            place: Mutex::new(place),
            aside: self.aside.clone(),
            stepped: watch::Sender::new(false),
            calls: Semaphore::new(CALLS),
        })))
    }

    /// Nobody gets a turn any more; those that were taken go on.
    pub fn close(&self) {
        self.places.close();
    }
}

/// A turn. Clones are the same one.
#[derive(Clone, Debug)]
pub struct Turn(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    /// Among those who work, or among those aside.
    place: Mutex<OwnedSemaphorePermit>,
    aside: Arc<Semaphore>,
    stepped: watch::Sender<bool>,
    calls: Semaphore,
}

/// What a call of a turn holds until it is answered.
pub(crate) type Slot<'a> = [Option<SemaphorePermit<'a>>; 2];

impl Turn {
    /// Waits for an answer. If it takes longer than `patience`, the turn steps aside, and `held` is dropped.
    pub(crate) async fn wait<F: Future, H>(&self, answer: F, held: H, patience: Duration) -> F::Output {
        self.wait_unless(answer, held, || tokio::time::sleep(patience)).await
    }

    /// Waits for an answer. If `hangs` ends before it is there, the turn steps aside, and `held` is dropped.
    pub(crate) async fn wait_unless<F: Future, H, S: Future<Output = ()>>(
        &self,
        answer: F,
        held: H,
        hangs: impl Fn() -> S,
    ) -> F::Output {
        let mut answer = pin!(answer);
        tokio::select! {
            biased;
            answer = &mut answer => return answer,
            () = self.too_long(hangs) => drop(held),
        }
        answer.await
    }

    /// One of the turn's calls and one of all `slots`; none once the turn is aside, which waits for nobody.
    pub(crate) async fn slot<'a>(&'a self, slots: &'a Semaphore) -> Slot<'a> {
        let mut stepped = self.0.stepped.subscribe();
        let both = async { [self.0.calls.acquire().await.ok(), slots.acquire().await.ok()] };
        tokio::select! {
            biased;
            _ = stepped.wait_for(|s| *s) => [None, None],
            slot = both => slot,
        }
    }

    /// Until the turn is aside, by this wait or another one.
    async fn too_long<S: Future<Output = ()>>(&self, hangs: impl Fn() -> S) {
        let mut stepped = self.0.stepped.subscribe();
        loop {
            tokio::select! {
                biased;
                _ = stepped.wait_for(|s| *s) => return,
                () = hangs() => self.step_aside(),
            }
        }
    }

    fn step_aside(&self) {
        let mut place = self.0.place.lock().unwrap_or_else(PoisonError::into_inner);
        if *self.0.stepped.borrow() {
            return;
        }
        if let Ok(aside) = self.0.aside.clone().try_acquire_owned() {
            *place = aside;
            self.0.stepped.send_replace(true);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::future::pending;

    /// Long enough for anything that happens at all.
    const EVER: Duration = Duration::from_mins(1);

    #[tokio::test]
    async fn whoever_waits_long_gives_place_and_slots_to_others() {
        let (turns, slots) = (Turns::new(1), Semaphore::new(1));
        let first = turns.take().await.unwrap();
        let hangs = async {
            let slot = first.slot(&slots).await;
            first.wait(pending::<()>(), slot, PATIENCE).await;
        };
        let next = async {
            let next = turns.take().await.unwrap();
            assert!(next.slot(&slots).await.iter().all(Option::is_some));
            assert!(first.slot(&slots).await.iter().all(Option::is_none), "who is aside waits for nobody");
        };
        tokio::select! {
            () = hangs => {}
            done = tokio::time::timeout(EVER, next) => done.unwrap(),
        }
    }

    #[tokio::test]
    async fn who_is_answered_keeps_the_place_and_a_turn_has_a_few_calls_at_once() {
        let (turns, slots) = (Turns::new(1), Semaphore::new(100));
        let turn = turns.take().await.unwrap();
        turn.wait(async {}, (), PATIENCE).await;
        let mut held = vec![];
        for _ in 0..CALLS {
            held.push(turn.slot(&slots).await);
        }
        assert_eq!((slots.available_permits(), turns.places.available_permits()), (100 - CALLS, 0));
        assert_eq!(turn.0.calls.available_permits(), 0);
        drop(held);
        drop(turn);
        assert_eq!((slots.available_permits(), turns.places.available_permits()), (100, 1));
        turns.close();
        assert!(turns.take().await.is_none());
    }

    #[test]
    fn patience_follows_what_answers_take_and_one_slow_one_does_not_matter() {
        let pace = Pace::default();
        assert_eq!(pace.patience(), PATIENCE);
        (0..500).for_each(|_| pace.took(Duration::from_millis(5)));
        pace.took(Duration::from_secs(1));
        assert_eq!(pace.patience(), PATIENCE);
        (0..500).for_each(|_| pace.took(Duration::from_millis(400)));
        let patience = pace.patience().as_millis();
        assert!((1500..=1600).contains(&patience), "{patience} ms");
        (0..500).for_each(|_| pace.took(MOST));
        assert_eq!(pace.patience(), MOST);
    }

    #[test]
    fn patience_grows_where_all_calls_hang_and_not_where_a_fifth_does() {
        let of = |hanging: u32| {
            let pace = Pace::default();
            for n in 0..1000 {
                let took = if n % 10 < hanging { EVER } else { Duration::from_millis(5) };
                pace.took(took.min(pace.patience()));
            }
            pace.patience()
        };
        assert_eq!((of(2), of(10)), (PATIENCE, MOST));
    }

    #[tokio::test]
    async fn where_too_many_are_aside_the_place_is_kept() {
        let turns = Turns { places: Arc::new(Semaphore::new(1)), aside: Arc::new(Semaphore::new(0)) };
        let turn = turns.take().await.unwrap();
        turn.step_aside();
        assert_eq!(turns.places.available_permits(), 0);
        turns.aside.add_permits(1);
        turn.step_aside();
        assert_eq!(turns.places.available_permits(), 1);
        drop(turn);
        assert_eq!(turns.aside.available_permits(), 1);
    }
}
