//! Decides what is done about a lost quorum.

#[cfg(test)]
mod tests;

use berth_api::conditions::Reason;
use berth_api::etcd_recovery::RecoveryStatus;
use berth_api::names;
use berth_plan::etcd_home::give_up;
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

/// How long a loss lasts before anything is done: a guard looks at its volume again after ten seconds.
const PROVEN_FOR: SignedDuration = SignedDuration::from_secs(20);
/// What is restored, as names of restores say it: what is left, or a backup.
const SOURCES: [&str; 2] = ["s", "b"];
/// For how long one counts that said it is about to begin. It says so anew long before.
pub(crate) const QUEUED_FOR: SignedDuration = SignedDuration::from_mins(10);
/// What recoveries are counted in.
pub(crate) const HOUR: SignedDuration = SignedDuration::from_hours(1);

/// What a decision is made from.
#[derive(Clone, Debug, Default)]
pub(crate) struct RecoveryView {
    pub(crate) now: Timestamp,
    /// `Automatic`, and nothing keeps Berth from acting.
    pub(crate) is_wanted: bool,
    /// Where its members' pods and volumes are.
    pub(crate) within: String,
    /// The name of what is restored, and what tells its data from that of others of this name.
    pub(crate) of: String,
    pub(crate) identity: String,
    pub(crate) epoch: i64,
    /// None: nothing is proven.
    pub(crate) loss: Option<Loss>,
    /// A quorum answers, and no restore has stopped etcd.
    pub(crate) serves: bool,
    /// A restore has stopped etcd, or is about to, so that nothing is known of a loss.
    pub(crate) is_restored: bool,
    /// Restores of this etcd.
    pub(crate) attempts: Vec<Attempt>,
    /// The newest proven backup of it that is not known to be damaged.
    pub(crate) newest: Option<Newest>,
    /// Where a backup of what is left may be kept.
    pub(crate) store: Option<String>,
    /// Recoveries of others in the fleet.
    pub(crate) others: Others,
    /// Recoveries that may begin in an hour, in the fleet.
    pub(crate) most: usize,
    /// What it did so far.
    pub(crate) old: Option<RecoveryStatus>,
}

/// Recoveries of other etcds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Others {
    /// They began within the hour.
    pub(crate) begun: usize,
    /// They said that they are about to.
    pub(crate) queued: usize,
    /// One of these said so before this one.
    pub(crate) earlier: bool,
}

/// A quorum that cannot come back.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Loss {
    /// Members whose data is lost. Empty: a recovery failed after it had stopped etcd.
    pub(crate) lost: Vec<String>,
    /// Members that are left, and whether each answers.
    pub(crate) left: Vec<(String, bool)>,
}

/// An `EtcdRestore`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Attempt {
    pub(crate) namespace: String,
    pub(crate) name: String,
    /// It is done, or has failed.
    pub(crate) has_ended: bool,
    /// In its own words.
    pub(crate) says: String,
    pub(crate) backup: Option<String>,
    /// It ended, and its backup was found damaged.
    pub(crate) is_damaged: bool,
    pub(crate) taken_at: Option<Time>,
    pub(crate) restored_at: Option<Time>,
}

impl Attempt {
    fn key(&self) -> String {
        format!("{}/{}", self.namespace, self.name)
    }

    /// What people read of it.
    fn told(&self) -> String {
        let says = if self.says.is_empty() { String::new() } else { format!(": {}", self.says) };
        format!("EtcdRestore {}{says}", self.key())
    }

    /// The command that has Berth try again.
    fn again(&self) -> String {
        format!("kubectl -n {} delete etcdrestores.berth.dev {}", self.namespace, self.name)
    }
}

/// A verified backup.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Newest {
    pub(crate) name: String,
    pub(crate) taken_at: Time,
}

/// What is restored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Source {
    /// What members hold that are left.
    Survivors {
        store: String,
    },
    Backup(Newest),
}

/// What to do next.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) enum RecoveryStep {
    /// There is nothing to do.
    #[default]
    None,
    /// For what comes by itself, or for a member, which people read.
    Wait(String),
    /// Nothing goes on before a person acts, or an hour is over.
    Hold(Reason, String),
    /// An `EtcdRestore` of this name.
    Begin { name: String, source: Source },
}

/// The next step, and what the status says of it.
pub(crate) fn decide_recovery(view: &RecoveryView) -> (RecoveryStep, Option<RecoveryStatus>) {
    let Some(loss) = view.loss.as_ref().filter(|_| view.is_wanted) else { return (RecoveryStep::None, view.at_rest()) };
    let mut now = view.old.clone().filter(|old| view.is_same(old, loss)).unwrap_or_else(|| view.anew());
    view.look(&mut now);
    let step = view.step(loss, &mut now);
    (step, Some(now))
}

impl RecoveryView {
    /// Nothing is lost, or nothing is to be done about it. What was begun is kept, and how it ended.
    fn at_rest(&self) -> Option<RecoveryStatus> {
        let mut old = self.old.clone().filter(|old| old.begun.is_some() || old.restore.is_some())?;
        if old.goes_on() {
            self.look(&mut old);
            let is_free = !self.is_restored && self.attempts.iter().all(|a| a.has_ended);
            let is_over = self.loss.is_none() && (self.serves || is_free);
            old.ended = Some(Time(self.now)).filter(|_| is_over && old.restored_at.is_none());
        }
        Some(old)
    }

    /// Whether it is about this loss, and not about an earlier one: each has to be proven, and counts for the fleet.
    fn is_same(&self, old: &RecoveryStatus, loss: &Loss) -> bool {
        // Its own restore has begun another epoch, and failed then.
        old.goes_on() && (old.epoch == self.epoch || loss.lost.is_empty())
    }

    /// About a loss that is seen for the first time. Names of restores that earlier ones of this epoch tried are not taken again. The one that
    /// an earlier one created may still be there: that nothing has begun tells it that it is given up.
    fn anew(&self) -> RecoveryStatus {
        let before = self.old.as_ref().filter(|old| old.epoch == self.epoch).map_or(0, |old| old.round);
        let tried = |round: i64| self.attempts.iter().any(|a| a.has_ended && self.is_ours(a, round));
        // Each attempt can have taken one name.
        let most = i64::try_from(self.attempts.len()).unwrap_or_default() + 1;
        let round = (before + 1..=before + most).find(|round| !tried(*round)).unwrap_or(before + most);
        let restore = self.old.as_ref().and_then(|old| old.restore.clone());
        RecoveryStatus { restore, ..RecoveryStatus::new(Time(self.now), self.epoch, round) }
    }

    /// Takes in what became of its restore.
    fn look(&self, status: &mut RecoveryStatus) {
        let of = |a: &&Attempt| status.begun.is_some() && status.restore == Some(a.key());
        if let Some(attempt) = self.attempts.iter().find(of) {
            status.backup = attempt.backup.clone().or(status.backup.take());
            status.taken_at = attempt.taken_at.clone().or(status.taken_at.take());
            status.restored_at.clone_from(&attempt.restored_at);
        }
    }

    fn step(&self, loss: &Loss, status: &mut RecoveryStatus) -> RecoveryStep {
        let lasts = self.now.duration_since(status.since.0);
        if lasts < PROVEN_FOR {
            status.queued = None;
            return RecoveryStep::Wait(format!(
                "the loss of {} to last {} s; then Berth restores etcd by itself (spec.recovery)",
                loss.lost.join(", "),
                PROVEN_FOR.as_secs()
            ));
        }
        if let Some(attempt) = self.attempts.iter().find(|a| !a.has_ended) {
            // It was created in this reconcile, or the operator ended after that.
            let is_noted = status.begun.is_some() && status.restore == Some(attempt.key());
            if self.is_ours(attempt, status.round) && !is_noted {
                self.begun(status, &attempt.namespace, &attempt.name);
                self.look(status);
            }
            return RecoveryStep::Wait(attempt.told());
        }
        let (name, source) = match self.next(loss, status.round) {
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
        RecoveryStep::Begin { name, source }
    }

    /// What it waits for until it is its turn. Whoever begins has said so before it counted the others: the last one to say so sees all of
    /// them, so there are never too many. Of several that see each other the first stays, and the others take it back.
    fn turn(&self, status: &mut RecoveryStatus) -> Option<RecoveryStep> {
        let Others { begun, queued, earlier } = self.others;
        let is_free = begun + queued < self.most;
        // Others count it no longer for ever.
        let is_fresh = |at: &&Time| self.now.duration_since(at.0) < QUEUED_FOR / 2;
        let wait = Some(RecoveryStep::Wait(format!(
            "its turn: Berth restores at most {} etcds in an hour (chart value recovery.maxPerHour)",
            self.most
        )));
        match status.queued.as_ref().filter(is_fresh) {
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
    pub(crate) fn begun(&self, status: &mut RecoveryStatus, namespace: &str, name: &str) {
        status.begun.get_or_insert(Time(self.now));
        status.queued = None;
        status.restore = Some(format!("{namespace}/{name}"));
    }

    fn is_ours(&self, attempt: &Attempt, round: i64) -> bool {
        SOURCES.iter().any(|source| nth(&self.name(source, round), &attempt.name).is_some())
    }

    /// The restore of a backup that comes next: its name, the last one if that failed for another reason than its backup, and those whose
    /// backups were found damaged. Each such is followed by one of the next older backup.
    fn backup(&self, round: i64) -> (String, Option<&Attempt>, Vec<&Attempt>) {
        let first = self.name(SOURCES[1], round);
        let mut tried: Vec<_> = self.attempts.iter().filter_map(|a| Some((nth(&first, &a.name)?, a))).collect();
        tried.sort_by_key(|(n, _)| *n);
        let damaged = tried.iter().map(|(_, a)| *a).filter(|a| a.is_damaged).collect();
        match tried.last() {
            None => (first, None, damaged),
            Some((n, last)) if last.is_damaged => (format!("{first}-{}", n + 1), None, damaged),
            Some((_, last)) => (last.name.clone(), Some(last), damaged),
        }
    }

    fn name(&self, source: &str, round: i64) -> String {
        let nth = if round > 1 { round.to_string() } else { String::new() };
        names::recovery(&self.of, &self.identity, self.epoch, &format!("{source}{nth}"))
    }

    /// What is restored next, under which name: what is left, once; if nobody is, the newest backup, once. As long as a member is left, it
    /// may hold more than any backup.
    fn next(&self, loss: &Loss, round: i64) -> Result<(String, Source), RecoveryStep> {
        let tried = |name: &String| self.attempts.iter().find(|a| a.name == *name);
        let survivors = self.name(SOURCES[0], round);
        if !loss.left.is_empty() {
            if let Some((away, _)) = loss.left.iter().find(|(_, answers)| !answers) {
                return Err(RecoveryStep::Wait(format!(
                    "member {away} to answer: its data may be intact and newer than any backup. If it cannot come back, start it on an empty volume; Berth then restores without it, and its old volume is kept: {}",
                    give_up(&self.within, &[away.as_str()])
                )));
            }
            return match (tried(&survivors), &self.store) {
                (Some(failed), _) => Err(left_behind(&self.within, loss, failed)),
                (None, Some(store)) => Ok((survivors, Source::Survivors { store: store.clone() })),
                (None, None) => Err(no_source(NO_STORE)),
            };
        }
        let (backup, stuck, damaged) = self.backup(round);
        if let (None, Some(newest)) = (stuck, &self.newest) {
            return Ok((backup, Source::Backup(newest.clone())));
        }
        let all_damaged = stuck.is_none() && !damaged.is_empty();
        let failed: Vec<&Attempt> = tried(&survivors).into_iter().chain(damaged).chain(stuck).collect();
        let told = failed.iter().map(|failed| failed.told()).collect::<Vec<_>>().join("; ");
        if all_damaged {
            return Err(RecoveryStep::Hold(
                Reason::RestoreFailed,
                format!(
                    "Berth cannot restore etcd by itself: no proven EtcdBackup of it is left that is not damaged. {told}. A snapshot that is mended, or that another store has, is restored by its key: create an EtcdRestore with spec.source.key"
                ),
            ));
        }
        if let Some(last) = failed.last() {
            return Err(RecoveryStep::Hold(
                Reason::RestoreFailed,
                format!(
                    "Berth could not restore etcd by itself: {told}. Correct that, and have Berth try again: {}",
                    last.again()
                ),
            ));
        }
        Err(no_source(match &self.store {
            None => NO_STORE,
            Some(_) => "there is no verified EtcdBackup of it, and no member is left",
        }))
    }

    fn hold(&self) -> RecoveryStep {
        RecoveryStep::Hold(
            Reason::RecoveryHeld,
            format!(
                "This etcd and {} others lost their quorum for good within an hour; Berth restores at most {} an hour (chart value recovery.maxPerHour). Check the platform, such as its storage. This one is restored in its turn; or create an EtcdRestore",
                self.others.begun + self.others.queued,
                self.most
            ),
        )
    }
}

const NO_STORE: &str = "no store for backups is configured that it may use (chart value backups.stores)";

fn no_source(why: &str) -> RecoveryStep {
    RecoveryStep::Hold(
        Reason::DataLost,
        format!("a majority of the members lost their data, and Berth cannot restore it: {why}"),
    )
}

/// What a member holds that is left could not be restored, and a backup may be older.
fn left_behind(namespace: &str, loss: &Loss, failed: &Attempt) -> RecoveryStep {
    let members: Vec<&str> = loss.left.iter().map(|(m, _)| m.as_str()).collect();
    let left = members.join(", ");
    RecoveryStep::Hold(
        Reason::RestoreFailed,
        format!(
            "Berth could not restore what {left} holds: {}. Correct that, and have Berth try again: {}. A backup may be older, so Berth takes none while a member is left. If that cannot be, start {left} on an empty volume; Berth then restores the newest backup, and the old volume is kept: {}",
            failed.told(),
            failed.again(),
            give_up(namespace, &members)
        ),
    )
}

/// Which one of those it is that begin with that name: 1 for the first.
fn nth(first: &str, name: &str) -> Option<u32> {
    match name.strip_prefix(first)? {
        "" => Some(1),
        more => more.strip_prefix('-')?.parse().ok(),
    }
}
