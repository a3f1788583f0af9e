//! Decides whether the tenant is to be awake, and the next step there.

#[cfg(test)]
mod tests;

use super::wish::{Wish, latest};
use berth_api::hibernation::{SleepRecord, SleepState};
use berth_plan::RunLevel;
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

/// Who does not come to sleep, or to be awake, in this time is awake, with all that this means: nobody is left halfway.
pub(crate) const PATIENCE: SignedDuration = SignedDuration::from_mins(10);

/// One that did not come to sleep is not tried again for so long.
pub(crate) const AGAIN: SignedDuration = SignedDuration::from_mins(30);

/// What a decision is made from.
#[expect(clippy::struct_excessive_bools)]
#[derive(Clone, Debug)]
pub(crate) struct SleepView<'a> {
    pub(crate) now: Timestamp,
    /// `spec.hibernation.enabled`.
    pub(crate) enabled: bool,
    /// What was asked for. The latest counts.
    pub(crate) wishes: Vec<Wish>,
    pub(crate) record: Option<&'a SleepRecord>,
    /// Why it does not begin to sleep now.
    pub(crate) obstacle: Option<String>,
    /// Controller-manager and scheduler have no pods.
    pub(crate) workers_stopped: bool,
    /// API servers have no pods.
    pub(crate) api_stopped: bool,
    /// etcd has no pods, and says so.
    pub(crate) etcd_sleeps: bool,
    /// Nothing but a sleep is done to etcd.
    pub(crate) etcd_is_free: bool,
    /// All components run, and the API answers.
    pub(crate) is_up: bool,
}

/// What runs, and what is recorded next.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Next {
    pub(crate) level: RunLevel,
    pub(crate) write: Option<SleepRecord>,
    /// It is to sleep, and does not begin to.
    pub(crate) waits: Option<String>,
    /// When time alone changes the decision.
    pub(crate) until: Option<Timestamp>,
}

/// Whether it is to sleep, and what asks for it.
pub(super) fn asked(view: &SleepView<'_>) -> (bool, String) {
    if view.enabled {
        return (true, "spec.hibernation.enabled".into());
    }
    let wish = latest(&view.wishes, view.now);
    wish.map_or_else(|| (false, "spec.hibernation".into()), |wish| (wish.sleep, wish.cause.clone()))
}

/// The next step.
pub(crate) fn decide_sleep(view: &SleepView<'_>) -> Next {
    let (sleep, cause) = asked(view);
    let state = view.record.map(|record| record.state).unwrap_or_default();
    let since = view.record.map(|record| record.since.0);
    let late = since.is_some_and(|since| view.now.duration_since(since) >= PATIENCE);
    let ends = since.map(|since| since + PATIENCE);
    let recorded = view.record.map_or("", |record| &record.cause);
    let failed = view.record.and_then(|record| record.failed.clone());
    let write = |state, cause: &str, failed: Option<Time>| {
        Some(SleepRecord { state, since: Time(view.now), cause: cause.to_owned(), failed })
    };
    let falling = || {
        if !view.workers_stopped {
            RunLevel::APIOnly
        } else if !view.api_stopped {
            RunLevel::ClientsStopped
        } else {
            RunLevel::Down
        }
    };
    match state {
        SleepState::Awake if !sleep => Next::default(),
        SleepState::Awake => {
            let again = failed.as_ref().map(|Time(at)| *at + AGAIN).filter(|again| view.now < *again);
            let not_yet = again.map(|again| {
                let at = again.strftime("%Y-%m-%dT%H:%M:%SZ");
                format!("the next try at {at}, since it did not come to sleep within 10 minutes")
            });
            match not_yet.or_else(|| view.obstacle.clone()) {
                Some(why) => Next { waits: Some(why), until: again, ..Next::default() },
                None => Next { write: write(SleepState::FallingAsleep, &cause, None), ..Next::default() },
            }
        }
        SleepState::FallingAsleep if !sleep => {
            Next { level: falling(), write: write(SleepState::Waking, &cause, None), ..Next::default() }
        }
        SleepState::FallingAsleep if view.workers_stopped && view.api_stopped && view.etcd_sleeps => {
            Next { level: RunLevel::Down, write: write(SleepState::Asleep, &cause, None), ..Next::default() }
        }
        SleepState::FallingAsleep if late => {
            let failed = Some(Time(view.now));
            let why = "it did not come to sleep within 10 minutes";
            Next { level: falling(), write: write(SleepState::Waking, why, failed), ..Next::default() }
        }
        SleepState::FallingAsleep => Next { level: falling(), until: ends, ..Next::default() },
        // In order, whatever the record says: somebody may have written it, or have brought an old one back.
        SleepState::Asleep if sleep => Next { level: falling(), ..Next::default() },
        SleepState::Asleep => {
            let level = if view.workers_stopped && view.api_stopped { RunLevel::Down } else { RunLevel::Up };
            Next { level, write: write(SleepState::Waking, &cause, None), ..Next::default() }
        }
        SleepState::Waking if sleep && failed.is_none() && view.etcd_is_free => {
            Next { write: write(SleepState::FallingAsleep, &cause, None), ..Next::default() }
        }
        // Nobody was there, or all was paused: the wake begins now.
        SleepState::Waking if late && view.api_stopped => {
            Next { write: write(SleepState::Waking, recorded, failed), ..Next::default() }
        }
        SleepState::Waking if view.is_up || late => {
            Next { write: write(SleepState::Awake, recorded, failed), ..Next::default() }
        }
        SleepState::Waking => Next { until: ends, ..Next::default() },
    }
}
