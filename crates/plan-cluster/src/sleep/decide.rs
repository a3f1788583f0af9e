//! Decides whether the tenant is to be awake, and the next step there.

#[cfg(test)]
mod tests;

use super::progress::SleepBackup;
use super::wish::{Wish, latest};
use berth_api::hibernation::{ByItself, SleepRecord, SleepState};
use berth_plan::RunLevel;
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

/// Who does not come to sleep, or to be awake, in this time is awake, with all that this means: nobody is left halfway.
pub(crate) const PATIENCE: SignedDuration = SignedDuration::from_mins(10);

/// One that did not come to sleep is not tried again for so long.
pub(crate) const AGAIN: SignedDuration = SignedDuration::from_mins(30);

/// Nor one of which no backup was taken: each try is a while without API servers.
pub(crate) const AGAIN_BACKUP: SignedDuration = SignedDuration::from_hours(2);

/// A backup before it has so long: its turn in the fleet, and an hour for its Job.
pub(crate) const BACKUP: SignedDuration = SignedDuration::from_hours(2);

/// While one is under way it is looked at so often: nothing tells of it.
const LOOKS: SignedDuration = SignedDuration::from_secs(15);

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
    /// How far the backup is that etcd does not stop without.
    pub(crate) backup: SleepBackup,
    /// Its name.
    pub(crate) backup_name: Option<String>,
    /// What holds up a wake.
    pub(crate) hindrance: Option<String>,
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
    /// The backup before it is to be taken.
    pub(crate) backs_up: bool,
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
    let recorded = view.record.map_or("", |record| &record.cause);
    let failed = view.record.and_then(|record| record.failed.clone());
    let backup = view.record.and_then(|record| record.backup.clone());
    match view.record.map(|record| record.state).unwrap_or_default() {
        SleepState::Awake if !sleep => Next::default(),
        SleepState::Awake => begins(view, &cause),
        SleepState::FallingAsleep if !sleep => writes(view.falling(), view.to(SleepState::Waking, &cause)),
        SleepState::FallingAsleep => falls(view, &cause),
        // In order, whatever the record says: somebody may have written it, or have brought an old one back.
        SleepState::Asleep if sleep => Next { level: view.falling(), ..Next::default() },
        SleepState::Asleep => {
            let level = if view.clients_stopped() { RunLevel::Down } else { RunLevel::Up };
            writes(level, view.to(SleepState::Waking, &cause))
        }
        SleepState::Waking if sleep && failed.is_none() && view.etcd_is_free => {
            writes(RunLevel::Up, view.to(SleepState::FallingAsleep, &cause))
        }
        // Nobody was there, or all was paused: the wake begins now.
        SleepState::Waking if view.is_late() && view.api_stopped => {
            writes(RunLevel::Up, SleepRecord { failed, backup, ..view.to(SleepState::Waking, recorded) })
        }
        SleepState::Waking if view.is_up || view.is_late() => {
            let awake = SleepRecord { failed, backup, hindrance: None, ..view.to(SleepState::Awake, recorded) };
            writes(RunLevel::Up, awake)
        }
        SleepState::Waking => Next { until: view.ends(), ..Next::default() },
    }
}

fn writes(level: RunLevel, record: SleepRecord) -> Next {
    Next { level, write: Some(record), ..Next::default() }
}

/// It is awake, and is to sleep.
fn begins(view: &SleepView<'_>, cause: &str) -> Next {
    let again = view.record.and_then(|record| {
        let pause = if record.backup.is_some() { AGAIN_BACKUP } else { AGAIN };
        let again = record.failed.as_ref()?.0 + pause;
        let said = format!("the next try at {}, since {}", again.strftime("%Y-%m-%dT%H:%M:%SZ"), record.cause);
        (view.now < again).then_some((again, said))
    });
    let (until, not_yet) = again.unzip();
    if let Some(why) = not_yet.or_else(|| view.obstacle.clone()) {
        return Next { waits: Some(why), until, ..Next::default() };
    }
    let hindrance = view.hindrance.clone();
    writes(RunLevel::Up, SleepRecord { hindrance, ..view.to(SleepState::FallingAsleep, cause) })
}

/// It falls asleep, and is to.
fn falls(view: &SleepView<'_>, cause: &str) -> Next {
    let backup = view.record.and_then(|record| record.backup.clone());
    let named = || view.backup_name.clone();
    match &view.backup {
        // What was written by those that came back is in no backup.
        so_far if !view.api_stopped && (backup.is_some() || so_far.is_there()) => {
            let why = "a pod of kube-apiserver came back after the backup was begun";
            view.gives_up(why, backup.or_else(named))
        }
        SleepBackup::NotAwaited if view.clients_stopped() && view.etcd_sleeps => {
            writes(RunLevel::Down, SleepRecord { backup, ..view.to(SleepState::Asleep, cause) })
        }
        SleepBackup::Failed(why) if view.clients_stopped() => view.gives_up(why, named()),
        SleepBackup::Proven if view.clients_stopped() => {
            let proven = SleepRecord { backup: named(), ..view.to(SleepState::FallingAsleep, cause) };
            writes(view.falling(), proven)
        }
        SleepBackup::Missing | SleepBackup::Goes if view.clients_stopped() => {
            if view.lasts(BACKUP) {
                return view.gives_up("the backup before it was not proven within 2 hours", named());
            }
            Next { level: view.falling(), backs_up: true, until: Some(view.now + LOOKS), ..Next::default() }
        }
        _ if view.is_late() => view.gives_up("it did not come to sleep within 10 minutes", None),
        _ => Next { level: view.falling(), until: view.ends(), ..Next::default() },
    }
}

impl SleepView<'_> {
    /// Nothing writes to etcd any more.
    fn clients_stopped(&self) -> bool {
        self.workers_stopped && self.api_stopped
    }

    /// What runs on the way into a sleep.
    fn falling(&self) -> RunLevel {
        if !self.workers_stopped {
            RunLevel::APIOnly
        } else if !self.api_stopped || self.backup != SleepBackup::NotAwaited {
            RunLevel::ClientsStopped
        } else {
            RunLevel::Down
        }
    }

    fn lasts(&self, time: SignedDuration) -> bool {
        self.record.is_some_and(|record| self.now.duration_since(record.since.0) >= time)
    }

    fn is_late(&self) -> bool {
        self.lasts(PATIENCE)
    }

    fn ends(&self) -> Option<Timestamp> {
        self.record.map(|record| record.since.0 + PATIENCE)
    }

    /// The record of a next step. What holds up a wake is known until it is awake.
    fn to(&self, state: SleepState, cause: &str) -> SleepRecord {
        let hindrance = self.record.and_then(|record| record.hindrance.clone());
        let (since, cause, by_itself) = (Time(self.now), cause.to_owned(), ByItself::default());
        SleepRecord { state, since, cause, failed: None, backup: None, hindrance, by_itself }
    }

    /// It wakes, and is tried again later.
    fn gives_up(&self, why: &str, backup: Option<String>) -> Next {
        let record = SleepRecord { failed: Some(Time(self.now)), backup, ..self.to(SleepState::Waking, why) };
        writes(self.falling(), record)
    }
}
