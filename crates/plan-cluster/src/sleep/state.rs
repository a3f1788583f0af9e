//! A tenant's sleep, as a plan knows it.

use super::decide::Next;
use berth_api::hibernation::{SleepRecord, SleepState};

/// A tenant's sleep.
#[derive(Clone, Debug, Default)]
pub(crate) struct Sleep {
    /// What is recorded of it. None: it never slept.
    pub(crate) record: Option<SleepRecord>,
    /// What runs, and what is recorded next.
    pub(crate) next: Next,
}

impl Sleep {
    /// Where it is.
    pub(crate) fn state(&self) -> SleepState {
        self.record.as_ref().map(|record| record.state).unwrap_or_default()
    }

    /// What the record is to say.
    pub(crate) fn annotation(&self) -> Option<String> {
        self.next.write.as_ref().or(self.record.as_ref()).map(SleepRecord::to_json)
    }

    /// It does not begin to sleep in this plan, which begins something else.
    pub(crate) fn stay_awake(&mut self, on: &str) {
        let begins = |next: &SleepRecord| next.state == SleepState::FallingAsleep;
        if self.state() == SleepState::Awake && self.next.write.as_ref().is_some_and(begins) {
            self.next = Next { waits: Some(on.to_owned()), ..Next::default() };
        }
    }

    /// Whether nothing runs, and nothing is to.
    pub(crate) fn is_asleep(&self) -> bool {
        self.state() == SleepState::Asleep
    }
}
