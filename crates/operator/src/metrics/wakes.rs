//! Wakes that connections ask for: of these a scanner may cause many.

use berth_api::hibernation::{CONNECTION, HibernationStatus, SleepState, UNUSED};
use parking_lot::Mutex;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;

/// Who knows how many tenants wait.
type Waiting = Box<dyn Fn() -> usize + Send + Sync>;

/// What is known of them.
#[derive(Default)]
pub struct Wakes {
    /// Tenants that a connection woke.
    pub begun: Counter,
    /// Of these, those that nobody used.
    pub unused: Counter,
    waiting: Mutex<Option<Waiting>>,
}

impl std::fmt::Debug for Wakes {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Wakes").field("begun", &self.begun).field("unused", &self.unused).finish_non_exhaustive()
    }
}

impl Wakes {
    /// Takes in what a status says of a sleep, and the one before.
    pub fn say(&self, old: Option<&HibernationStatus>, new: Option<&HibernationStatus>) {
        let Some(new) = new.filter(|new| old.is_none_or(|old| old.state != new.state)) else { return };
        let counter = match (new.state, &*new.cause) {
            (SleepState::Waking, CONNECTION) => &self.begun,
            (SleepState::FallingAsleep, UNUSED) => &self.unused,
            _ => return,
        };
        counter.inc();
    }

    /// Says whom to ask how many tenants wait for their turn.
    pub fn waiting_from(&self, source: impl Fn() -> usize + Send + Sync + 'static) {
        *self.waiting.lock() = Some(Box::new(source));
    }

    /// Adds what is known now to a registry.
    pub(super) fn register(&self, registry: &mut Registry) {
        let what = "Tenants that a connection woke";
        registry.register("wakes_by_connection", what, self.begun.clone());
        let what = "Tenants that a connection woke and nobody used, so that they sleep again";
        registry.register("wakes_unused", what, self.unused.clone());
        let waiting: Gauge = Gauge::default();
        let count = self.waiting.lock().as_ref().map(|known| known()).unwrap_or_default();
        waiting.set(i64::try_from(count).unwrap_or(i64::MAX));
        registry.register("wakes_waiting", "Tenants that are called, and wait while others wake", waiting);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn each_wake_by_a_connection_counts_once_and_so_does_one_in_vain() {
        let wakes = Wakes::default();
        let said = |state: SleepState, cause: &str| {
            let status = json!({"state": state, "since": "2026-11-29T20:00:00Z", "cause": cause});
            serde_json::from_value::<HibernationStatus>(status).unwrap()
        };
        let life = [
            said(SleepState::Asleep, "annotation"),
            said(SleepState::Waking, CONNECTION),
            said(SleepState::Waking, CONNECTION),
            said(SleepState::Awake, CONNECTION),
            said(SleepState::FallingAsleep, UNUSED),
            said(SleepState::FallingAsleep, UNUSED),
            said(SleepState::Asleep, UNUSED),
            said(SleepState::Waking, "annotation"),
            said(SleepState::Awake, "annotation"),
            said(SleepState::FallingAsleep, "spec.hibernation.afterIdle"),
        ];
        wakes.say(None, life.first());
        for two in life.windows(2) {
            wakes.say(two.first(), two.last());
        }
        wakes.say(life.last(), None);
        assert_eq!((wakes.begun.get(), wakes.unused.get()), (1, 1));
    }
}
