//! A tenant's sleep, as a plan knows it.

use super::decide::Next;
use berth_api::hibernation::{NextSleep, SleepRecord, SleepState};
use jiff::Timestamp;

/// A tenant's sleep.
#[derive(Clone, Debug, Default)]
pub(crate) struct Sleep {
    /// What is recorded of it. None: it never slept.
    pub(crate) record: Option<SleepRecord>,
    /// What runs, and what is recorded next.
    pub(crate) next: Next,
    /// When a schedule changes what is asked for.
    pub(crate) change: Option<NextSleep>,
    /// What is wrong with the schedules.
    pub(crate) wrong: Option<String>,
    /// Why no backup can be taken before it.
    pub(crate) unfit: Option<String>,
    /// What people are told of how it sleeps by itself and wakes.
    pub(crate) note: Option<String>,
}

impl Sleep {
    /// Where it is.
    pub(crate) fn state(&self) -> SleepState {
        self.record.as_ref().map(|record| record.state).unwrap_or_default()
    }

    /// When time alone changes something.
    pub(crate) fn until(&self) -> Option<Timestamp> {
        self.next.until.into_iter().chain(self.change.as_ref().map(|change| change.at.0)).min()
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
