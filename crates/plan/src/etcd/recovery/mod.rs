//! What Berth does by itself about a quorum that is lost for good, where `spec.recovery` is `Automatic`: it creates an `EtcdRestore`, which
//! then goes its way as a person's does. Pure: one step at a time, each from what is there, wherever the operator ended.
//!
//! A loss counts only if it is proven: guards found the volumes empty, or their claims are lost, of so many that no quorum can ever be again,
//! and that lasts. Whoever is merely away may hold what was acknowledged last, so it is waited for. What is left is preferred to a backup.
//! The etcd says that it is about to begin before it does; so the number of recoveries in the fleet is bounded, however many begin at once.

mod act;
pub(super) mod view;

#[cfg(test)]
mod tests;

use berth_api::conditions::Reason;
use berth_api::etcd_recovery::RecoveryStatus;
use berth_api::names;
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

pub(super) use act::{create, state};

/// How long a loss lasts before anything is done: a guard looks at its volume again after ten seconds.
const PROVEN_FOR: SignedDuration = SignedDuration::from_secs(20);
/// What recoveries are counted in.
pub(super) const HOUR: SignedDuration = SignedDuration::from_hours(1);

/// What a decision is made from.
#[derive(Clone, Debug, Default)]
pub(super) struct View {
    pub(super) now: Timestamp,
    /// `Automatic`, and nothing keeps Berth from acting.
    pub(super) is_wanted: bool,
    /// The name of what is restored, and what tells its data from that of others of this name.
    pub(super) of: String,
    pub(super) identity: String,
    pub(super) epoch: i64,
    /// None: nothing is proven.
    pub(super) loss: Option<Loss>,
    /// Restores of this etcd.
    pub(super) attempts: Vec<Attempt>,
    /// The newest verified backup of it.
    pub(super) newest: Option<Newest>,
    /// Where a backup of what is left may be kept.
    pub(super) store: Option<String>,
    /// Recoveries of others in the fleet.
    pub(super) others: Others,
    /// Recoveries that may begin in an hour, in the fleet.
    pub(super) most: usize,
    /// What it did so far.
    pub(super) old: Option<RecoveryStatus>,
}

/// Recoveries of other etcds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Others {
    /// They began within the hour.
    pub(super) begun: usize,
    /// They said that they are about to.
    pub(super) queued: usize,
    /// One of these said so before this one.
    pub(super) earlier: bool,
}

/// A quorum that cannot come back.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Loss {
    /// Members whose data is lost. Empty: a recovery failed after it had stopped etcd.
    pub(super) lost: Vec<String>,
    /// Members that are left, and whether each answers.
    pub(super) left: Vec<(String, bool)>,
}

/// An `EtcdRestore`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Attempt {
    pub(super) namespace: String,
    pub(super) name: String,
    /// It is done, or has failed.
    pub(super) has_ended: bool,
    /// In its own words.
    pub(super) says: String,
    pub(super) backup: Option<String>,
    pub(super) taken_at: Option<Time>,
    pub(super) restored_at: Option<Time>,
}

/// A verified backup.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Newest {
    pub(super) name: String,
    pub(super) taken_at: Time,
}

/// What is restored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Source {
    /// What members hold that are left.
    Survivors {
        store: String,
    },
    Backup(Newest),
}

/// What to do next.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Step {
    /// There is nothing to do.
    None,
    /// For what comes by itself, or for a member, which people read.
    Wait(String),
    /// Nothing goes on before a person acts, or an hour is over.
    Hold(Reason, String),
    /// An `EtcdRestore` of this name.
    Begin { name: String, source: Source },
}

/// The next step, and what the status says of it.
pub(super) fn decide(view: &View) -> (Step, Option<RecoveryStatus>) {
    let Some(loss) = view.loss.as_ref().filter(|_| view.is_wanted) else { return (Step::None, view.at_rest()) };
    let mut now = view
        .old
        .clone()
        .filter(|old| old.restored_at.is_none())
        .unwrap_or_else(|| RecoveryStatus::new(Time(view.now), view.epoch));
    view.look(&mut now);
    let step = view.step(loss, &mut now);
    (step, Some(now))
}

impl View {
    /// Nothing is lost, or nothing is to be done about it. What was begun is kept, and how it ended.
    fn at_rest(&self) -> Option<RecoveryStatus> {
        let mut old = self.old.clone().filter(|old| old.begun.is_some())?;
        if old.restored_at.is_none() {
            self.look(&mut old);
        }
        Some(old)
    }

    /// Takes in what became of its restore.
    fn look(&self, status: &mut RecoveryStatus) {
        let of = |a: &&Attempt| status.restore == Some(format!("{}/{}", a.namespace, a.name));
        if let Some(attempt) = self.attempts.iter().find(of) {
            status.backup = attempt.backup.clone().or(status.backup.take());
            status.taken_at = attempt.taken_at.clone().or(status.taken_at.take());
            status.restored_at.clone_from(&attempt.restored_at);
        }
    }

    fn step(&self, loss: &Loss, status: &mut RecoveryStatus) -> Step {
        let lasts = self.now.duration_since(status.since.0);
        if lasts < PROVEN_FOR {
            status.queued = None;
            return Step::Wait(format!(
                "the loss of {} to last: {} s. Then Berth restores etcd by itself (spec.recovery)",
                loss.lost.join(", "),
                PROVEN_FOR.as_secs()
            ));
        }
        if let Some(attempt) = self.attempts.iter().find(|a| !a.has_ended) {
            // The operator ended after it had created it.
            if self.is_ours(attempt) && status.restore.is_none() {
                status.begun.get_or_insert(Time(self.now));
                status.restore = Some(format!("{}/{}", attempt.namespace, attempt.name));
                self.look(status);
            }
            let Attempt { namespace, name, says, .. } = attempt;
            return Step::Wait(format!("EtcdRestore {namespace}/{name}{}", after(": ", says)));
        }
        let (name, source) = match self.next(loss) {
            Ok(next) => next,
            Err(step) => {
                status.queued = None;
                return step;
            }
        };
        if status.begun.is_none()
            && let Some(step) = self.turn(status)
        {
            return step;
        }
        if let Source::Backup(newest) = &source {
            (status.backup, status.taken_at) = (Some(newest.name.clone()), Some(newest.taken_at.clone()));
        }
        Step::Begin { name, source }
    }

    /// What it waits for until it is its turn. Whoever begins has said so before it counted the others: the last one to say so sees all of
    /// them, so there are never too many. Of several that see each other the first stays, and the others take it back.
    fn turn(&self, status: &mut RecoveryStatus) -> Option<Step> {
        let Others { begun, queued, earlier } = self.others;
        let is_free = begun + queued < self.most;
        let wait = Some(Step::Wait(format!("its turn to be restored: at most {} etcds begin in an hour", self.most)));
        match status.queued {
            None if is_free => {
                status.queued = Some(Time(self.now));
                wait
            }
            Some(_) if is_free => None,
            Some(_) if begun < self.most && !earlier => wait,
            _ => {
                status.queued = None;
                Some(self.hold())
            }
        }
    }

    /// It is created, or is about to be.
    pub(super) fn begun(&self, status: &mut RecoveryStatus, namespace: &str, name: &str) {
        status.begun.get_or_insert(Time(self.now));
        status.queued = None;
        status.restore = Some(format!("{namespace}/{name}"));
    }

    fn is_ours(&self, attempt: &Attempt) -> bool {
        ["s", "b"].iter().any(|source| self.name(source) == attempt.name)
    }

    fn name(&self, source: &str) -> String {
        names::recovery(&self.of, &self.identity, self.epoch, source)
    }

    /// What is restored next, under which name: what is left once, then the newest backup once.
    fn next(&self, loss: &Loss) -> Result<(String, Source), Step> {
        let tried = |name: &String| self.attempts.iter().find(|a| a.name == *name);
        let (survivors, backup) = (self.name("s"), self.name("b"));
        if !loss.left.is_empty() && tried(&survivors).is_none() {
            if let Some((away, _)) = loss.left.iter().find(|(_, answers)| !answers) {
                return Err(Step::Wait(format!(
                    "member {away} to answer: its data is not lost, and it may hold what was written since the newest backup. If it is lost, too, delete PersistentVolumeClaim data-{away} and pod {away}; then Berth restores without it"
                )));
            }
            if let Some(store) = &self.store {
                return Ok((survivors, Source::Survivors { store: store.clone() }));
            }
        }
        if let (None, Some(newest)) = (tried(&backup), &self.newest) {
            return Ok((backup, Source::Backup(newest.clone())));
        }
        let failed: Vec<String> = [tried(&survivors), tried(&backup)]
            .into_iter()
            .flatten()
            .map(|a| format!("EtcdRestore {}/{}{}", a.namespace, a.name, after(": ", &a.says)))
            .collect();
        let hold = |reason, text: String| Err(Step::Hold(reason, text));
        if !failed.is_empty() {
            return hold(
                Reason::RestoreFailed,
                format!(
                    "Berth could not restore etcd by itself: {}. Correct that and delete it, and Berth tries again; or create another EtcdRestore",
                    failed.join("; ")
                ),
            );
        }
        let why = match &self.store {
            None => "no store for backups is configured (chart value backups.stores)",
            Some(_) => "there is no verified EtcdBackup of it, and no member is left",
        };
        hold(Reason::DataLost, format!("a majority of the members lost their data, and Berth cannot restore it: {why}"))
    }

    fn hold(&self) -> Step {
        Step::Hold(
            Reason::RecoveryHeld,
            format!(
                "{} etcds, and this one, lost their quorum for good within an hour, and Berth restores at most {} (chart value recovery.maxPerHour): look for what ails the platform, such as its storage. This one begins when its turn comes; or create an EtcdRestore",
                self.others.begun + self.others.queued,
                self.most
            ),
        )
    }
}

fn after(before: &str, text: &str) -> String {
    if text.is_empty() { String::new() } else { format!("{before}{text}") }
}
