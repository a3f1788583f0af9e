//! Tenants that connections wake: so many at once, in the order in which they were called. A pure table; whoever asks brings the time.

use berth_api::hibernation::{CONNECTION, HibernationStatus, SleepState};
use berth_plan::fleet::TenantId;
use jiff::{SignedDuration, Timestamp};
use std::collections::BTreeMap;

/// A gateway tells each second of who still waits: one that it was not told of for so long waits no more.
const LASTS: SignedDuration = SignedDuration::from_secs(5);

/// One whose turn it is has so long to begin; then another one has it.
const BEGINS: SignedDuration = SignedDuration::from_secs(30);

/// A wake that began is over by then: it fails after ten minutes.
const ENDS: SignedDuration = SignedDuration::from_mins(12);

/// One that does not wake although it was called has no turn for so long.
const REFUSED: SignedDuration = SignedDuration::from_secs(30);

/// One that is called and has not begun is looked at again after that.
const AGAIN: SignedDuration = SignedDuration::from_secs(5);

#[derive(Debug)]
pub(crate) struct Waking {
    most: usize,
    calls: BTreeMap<TenantId, Called>,
    /// Whose turn it is, and until when.
    turns: BTreeMap<TenantId, Timestamp>,
    /// Who does not wake although it was called, and until when it gets no turn.
    refused: BTreeMap<TenantId, Timestamp>,
}

#[derive(Clone, Copy, Debug)]
struct Called {
    first: Timestamp,
    last: Timestamp,
    /// When it was looked at for that.
    looked: Option<Timestamp>,
}

impl Waking {
    pub(crate) fn new(most: usize) -> Self {
        let (calls, turns, refused) = (BTreeMap::new(), BTreeMap::new(), BTreeMap::new());
        Self { most, calls, turns, refused }
    }

    /// Somebody calls that tenant. Returns who is to be looked at.
    pub(crate) fn called(&mut self, of: &TenantId, now: Timestamp) -> Vec<TenantId> {
        self.forget(now);
        let call = self.calls.entry(of.clone()).or_insert(Called { first: now, last: now, looked: None });
        call.last = now;
        let mut all = self.give(now);
        let call = self.calls.get_mut(of).filter(|call| call.looked.is_none_or(|at| at + AGAIN <= now));
        if let Some(call) = call {
            let has_turn = self.turns.contains_key(of);
            // Who waits, or does not wake, is told so once.
            if call.looked.is_none() || has_turn {
                call.looked = Some(now);
                all.push(of.clone());
            }
        }
        all
    }

    /// What a tenant's status says now. Returns who is to be looked at.
    pub(crate) fn says(&mut self, of: &TenantId, sleep: Option<&HibernationStatus>, now: Timestamp) -> Vec<TenantId> {
        self.forget(now);
        match sleep.map(|sleep| sleep.state) {
            Some(SleepState::Waking) => {
                let is_called = sleep.is_some_and(|sleep| sleep.cause == CONNECTION);
                if is_called || self.turns.contains_key(of) {
                    self.turns.insert(of.clone(), now + ENDS);
                }
                return vec![];
            }
            Some(SleepState::Asleep | SleepState::FallingAsleep) => {
                if self.turns.remove(of).is_some() {
                    self.refused.insert(of.clone(), now + REFUSED);
                }
            }
            Some(SleepState::Awake) | None => {
                self.turns.remove(of);
                self.calls.remove(of);
            }
        }
        self.give(now)
    }

    /// When that tenant was called, the last time, and whether it is its turn. None: nobody waits.
    pub(crate) fn call(&self, of: &TenantId, now: Timestamp) -> Option<(Timestamp, bool)> {
        let call = self.calls.get(of).filter(|call| now < call.last + LASTS)?;
        Some((call.last, self.turns.contains_key(of)))
    }

    /// That tenant is gone.
    pub(crate) fn gone(&mut self, of: &TenantId) {
        self.calls.remove(of);
        self.turns.remove(of);
        self.refused.remove(of);
    }

    /// Tenants that are called, and have no turn while others have theirs.
    pub(crate) fn waiting(&self, now: Timestamp) -> usize {
        let waits = |of: &TenantId| !self.turns.contains_key(of) && !self.refused.contains_key(of);
        self.calls.iter().filter(|(of, call)| now < call.last + LASTS && waits(of)).count()
    }

    fn forget(&mut self, now: Timestamp) {
        self.calls.retain(|_, call| now < call.last + LASTS);
        self.turns.retain(|_, until| now < *until);
        self.refused.retain(|_, until| now < *until);
    }

    /// Gives turns that are free to those who wait longest. Returns who has one now.
    fn give(&mut self, now: Timestamp) -> Vec<TenantId> {
        let mut given = vec![];
        while self.turns.len() < self.most {
            let may = |of: &TenantId| !self.turns.contains_key(of) && !self.refused.contains_key(of);
            let next = self.calls.iter().filter(|(of, _)| may(of)).min_by_key(|(_, call)| call.first);
            let Some(of) = next.map(|(of, _)| of.clone()) else { break };
            self.turns.insert(of.clone(), now + BEGINS);
            if let Some(call) = self.calls.get_mut(&of) {
                call.looked = Some(now);
            }
            given.push(of);
        }
        given
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

    fn now(seconds: i64) -> Timestamp {
        "2026-11-29T20:00:00Z".parse::<Timestamp>().unwrap() + SignedDuration::from_secs(seconds)
    }

    fn id(name: &str) -> TenantId {
        TenantId { namespace: "team-a".to_owned(), name: name.to_owned() }
    }

    fn named(all: Vec<TenantId>) -> Vec<String> {
        all.into_iter().map(|id| id.name).collect()
    }

    fn status(state: SleepState) -> HibernationStatus {
        let mut status = serde_json::json!({"since": now(0), "cause": CONNECTION});
        status["state"] = serde_json::to_value(state).unwrap();
        serde_json::from_value(status).unwrap()
    }

    fn says(waking: &mut Waking, name: &str, state: SleepState, at: i64) -> Vec<String> {
        named(waking.says(&id(name), Some(&status(state)), now(at)))
    }

    #[test]
    fn so_many_wake_at_once_and_the_others_in_the_order_of_their_calls() {
        let mut waking = Waking::new(2);
        let turn = |waking: &Waking, name: &str, at: i64| waking.call(&id(name), now(at)).map(|(_, turn)| turn);
        for (at, name) in ["a", "b", "c", "d"].into_iter().enumerate() {
            let at = i64::try_from(at).unwrap();
            assert_eq!(named(waking.called(&id(name), now(at))), [name], "each is looked at once: some to be told");
            assert_eq!(named(waking.called(&id(name), now(at))), [""; 0]);
        }
        assert_eq!(["a", "b", "c", "d"].map(|name| turn(&waking, name, 3)), [true, true, false, false].map(Some));
        assert_eq!((waking.waiting(now(3)), waking.waiting(now(60))), (2, 0));
        for name in ["a", "b"] {
            assert_eq!(says(&mut waking, name, SleepState::Waking, 3), [""; 0]);
        }
        // Gateways go on telling.
        for name in ["d", "c"] {
            assert_eq!(named(waking.called(&id(name), now(4))), [""; 0]);
        }
        assert_eq!(says(&mut waking, "a", SleepState::Awake, 5), ["c"]);
        assert_eq!(
            (turn(&waking, "c", 5), turn(&waking, "d", 5), turn(&waking, "a", 5)),
            (Some(true), Some(false), None)
        );
        assert_eq!(waking.waiting(now(5)), 1);
        // One that may not wake costs nobody else a turn.
        assert_eq!(says(&mut waking, "c", SleepState::Asleep, 6), ["d"]);
        assert_eq!(named(waking.called(&id("c"), now(7))), [""; 0]);
        assert_eq!(turn(&waking, "c", 7), Some(false));
        assert_eq!(turn(&waking, "c", 12), None, "nobody waits any more");
        waking.gone(&id("d"));
        assert_eq!(turn(&waking, "d", 6), None, "nor is one that was deleted called");
    }

    #[test]
    fn a_turn_that_nobody_uses_is_another_ones_and_one_that_began_is_kept() {
        let mut waking = Waking::new(1);
        waking.called(&id("a"), now(0));
        assert_eq!(named(waking.called(&id("a"), now(5))), ["a"], "it did not begin, and is called still");
        assert_eq!(named(waking.called(&id("b"), now(29))), ["b"]);
        assert!(!waking.call(&id("b"), now(29)).unwrap().1);
        assert_eq!(named(waking.called(&id("b"), now(30))), ["b"]);
        assert!(waking.call(&id("b"), now(30)).unwrap().1);
        says(&mut waking, "b", SleepState::Waking, 31);
        assert_eq!(named(waking.called(&id("a"), now(70))), ["a"]);
        assert!(!waking.call(&id("a"), now(70)).unwrap().1, "b wakes");
        assert_eq!(named(waking.called(&id("a"), now(31 + 12 * 60))), ["a"]);
    }

    #[test]
    fn one_that_another_operator_woke_counts() {
        let mut waking = Waking::new(1);
        says(&mut waking, "a", SleepState::Waking, 0);
        waking.called(&id("b"), now(1));
        assert_eq!(waking.call(&id("b"), now(1)).map(|(_, turn)| turn), Some(false));
        let by_hand =
            HibernationStatus { cause: "a hand".to_owned(), since: Time(now(0)), ..status(SleepState::Waking) };
        let mut other = Waking::new(1);
        other.says(&id("a"), Some(&by_hand), now(0));
        other.called(&id("b"), now(1));
        assert_eq!(other.call(&id("b"), now(1)).map(|(_, turn)| turn), Some(true), "what a person wakes costs no turn");
    }

    #[test]
    fn none_wakes_where_none_may() {
        let mut waking = Waking::new(0);
        assert_eq!(named(waking.called(&id("a"), now(0))), ["a"]);
        assert_eq!(waking.call(&id("a"), now(0)).map(|(_, turn)| turn), Some(false));
    }
}
