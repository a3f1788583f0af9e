//! Whose turn it is. Each backup decides for itself from the same lists, so that no memory is needed. Jobs hold places, and nothing that an
//! object says of itself does; then come those that are ready to, a team's first one before another team's second one, by age. One that waits
//! for something else, or that Berth cannot get on with, holds up nobody.
//!
//! Nor does a Job that gets no pod. Kubernetes tries on by itself, so when what refuses them is over, such Jobs begin together: there is one
//! in each namespace with Jobs, as many as there are places stay in each pool, and with those at work there are twice as many. In its own
//! namespace a team may make Jobs that look like Berth's and get no pod. They count as one: it keeps no other team waiting.

use super::input::BackupInput;
use super::validate::is_for_a_recovery;
use berth_api::backup::{EtcdBackupSpec, phase};
use berth_api::conditions::Reason;
use berth_api::names;
use berth_plan::backup_jobs::{BackupJob, Does, Pool};
use berth_plan::model::State;
use berth_plan::object_meta::deleting;
use berth_render::{Kind, ObjectKey};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};

/// What it waits for, if others are before it.
///
/// What Berth takes of the members that are left of a lost etcd waits for nobody: `recovery.maxPerHour` bounds it.
pub(super) fn waits(input: BackupInput<'_>) -> Option<State> {
    if is_for_a_recovery(input) {
        return None;
    }
    let queue = Queue::of(input);
    let was_refused = input.was_refused();
    if let Some(first) = queue.first_at_home(&input.target().namespace) {
        let on = format!(
            "its turn: {} is first in namespace {}, where its Job gets no pod. Its conditions say why",
            first.of, first.home
        );
        return Some(waiting(was_refused, on));
    }
    match queue.turn() {
        Turn::Begins => None,
        Turn::Waits(_) if was_refused && counted(&queue.without_pod) >= queue.places => Some(refused(input)),
        Turn::Waits(ahead) => Some(waiting(was_refused, queue.says(ahead))),
    }
}

/// One whose Job got no pod stays behind those that had none yet.
fn waiting(was_refused: bool, on: String) -> State {
    if was_refused { State::Waiting { reason: Reason::Rejected, on } } else { State::waiting(on) }
}

/// What one waits for whose Job got no pod, as those of many others, and is there no more.
pub(super) fn refused(input: BackupInput<'_>) -> State {
    let (places, home) = (input.settings.backups.concurrent, input.target().namespace);
    waiting(
        true,
        format!(
            "its turn: the API server refused the pods of its Job, and {places} others whose pods are refused keep theirs (chart value backups.concurrent). See kubectl -n {home} get events --field-selector reason=FailedCreate"
        ),
    )
}

/// Whether its Job, which gets no pod, is to be deleted: so many older ones without a pod are there as there are places.
pub(super) fn steps_back(input: BackupInput<'_>, job: &ObjectKey) -> bool {
    let lacks_pod = |seen: &BackupJob| seen.lacks_pod(input.now) && !input.owner().has_pods(job);
    let own = input.owner().get(job).and_then(BackupJob::read).filter(lacks_pod);
    let Some(own) = own.filter(|_| !is_for_a_recovery(input)) else { return false };
    let mut older = Queue::of(input).without_pod;
    older.retain(|seen| (seen.began, &seen.of) < (own.began, &own.of));
    counted(&older) >= input.settings.backups.concurrent
}

/// How many Jobs these are: those in a team's own namespace are one.
fn counted(jobs: &[&BackupJob]) -> usize {
    let own = |seen: &BackupJob| (!seen.stands_alone).then(|| seen.of.clone());
    let all: BTreeSet<_> = jobs.iter().map(|seen| (&seen.home, own(seen))).collect();
    all.len()
}

/// What one backup sees of the others in its pool.
struct Queue<'a> {
    input: BackupInput<'a>,
    own: ObjectKey,
    pool: Pool,
    places: usize,
    share: usize,
    /// Whose Jobs are at work.
    working: BTreeSet<&'a ObjectKey>,
    /// Jobs that get no pod.
    without_pod: Vec<&'a BackupJob>,
    /// Those of both pools.
    blocked: Vec<&'a BackupJob>,
}

/// Whether one is next.
enum Turn {
    Begins,
    /// So many are ahead of it.
    Waits(usize),
}

/// One that waits for its turn, in the order in which they have it.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
struct Waiting<'a> {
    was_refused: bool,
    nth_of_team: usize,
    created: String,
    uid: String,
    key: &'a ObjectKey,
}

impl<'a> Queue<'a> {
    fn of(input: BackupInput<'a>) -> Self {
        let pool = Pool::of(&input.object.spec);
        let (places, own) = (input.settings.backups.concurrent, input.key());
        let is_known = |seen: &BackupJob| {
            let live = input.observed.get(&seen.of);
            let phase = live.and_then(|o| o["status"]["phase"].as_str());
            // In its own namespace a team may create a Job that looks like Berth's.
            !seen.stands_alone || [Some(phase::RUNNING), Some(phase::DELETING)].contains(&phase)
        };
        let takes = input.observed.backup_jobs.iter().filter(|seen| seen.does == Does::Take && seen.of != own);
        let takes: Vec<_> = takes.filter(|seen| is_known(seen)).collect();
        let working = takes.iter().filter(|seen| seen.pool == pool && seen.works(input.now)).map(|seen| &seen.of);
        let blocked: Vec<_> = takes.iter().copied().filter(|seen| seen.lacks_pod(input.now)).collect();
        let without_pod = blocked.iter().copied().filter(|seen| seen.pool == pool).collect();
        Self { own, pool, places, share: pool.share(places), working: working.collect(), without_pod, blocked, input }
    }

    /// The Job of a namespace that gets no pod there: no other would.
    fn first_at_home(&self, home: &str) -> Option<&'a BackupJob> {
        self.blocked.iter().copied().find(|seen| seen.home == home)
    }

    fn turn(&self) -> Turn {
        let mut of_team = self.of_teams();
        // Who makes Jobs that look like Berth's takes more than a share from nobody else.
        let mut taken: usize = of_team.values().map(|jobs| (*jobs).min(self.share)).sum();
        let mut without_pod = counted(&self.without_pod);
        for (ahead, next) in (self.working.len()..).zip(self.in_turn(&of_team)) {
            let team = of_team.entry(next.key.namespace.as_deref()).or_default();
            let begins = taken < self.places
                && *team < self.share
                // Those of recoveries stay, however many they are: one place is always left.
                && (taken == 0 || taken + without_pod < 2 * self.places)
                && (!next.was_refused || without_pod < self.places);
            if *next.key == self.own {
                return if begins { Turn::Begins } else { Turn::Waits(ahead) };
            }
            if begins {
                taken += 1;
                *team += 1;
                without_pod += usize::from(next.was_refused);
            }
        }
        Turn::Begins
    }

    fn of_teams(&self) -> BTreeMap<Option<&str>, usize> {
        let mut of_team: BTreeMap<Option<&str>, usize> = BTreeMap::new();
        for backup in &self.working {
            *of_team.entry(backup.namespace.as_deref()).or_default() += 1;
        }
        of_team
    }

    /// What it waits for, behind so many.
    fn says(&self, ahead: usize) -> String {
        let Self { places, share, .. } = self;
        let namespace = self.input.namespace();
        let own_jobs = self.working.iter().filter(|of| of.namespace.as_deref() == Some(namespace)).count();
        match self.pool {
            Pool::Teams if own_jobs >= *share => format!(
                "its turn: {own_jobs} of namespace {namespace} run, and at most {share} of one namespace at once go to stores of teams (half of the chart value backups.concurrent)"
            ),
            Pool::Teams => format!(
                "its turn: {ahead} others to stores of teams are ahead, and {places} run at once (chart value backups.concurrent)"
            ),
            Pool::Platform if own_jobs >= *share => format!(
                "its turn: {own_jobs} of namespace {namespace} run, and at most {share} of one namespace at once (chart value backups.concurrent: {places})"
            ),
            Pool::Platform => {
                format!("its turn: {ahead} others are ahead, and {places} run at once (chart value backups.concurrent)")
            }
        }
    }

    /// Those that wait for their turn, this one among them, in their order.
    fn in_turn(&self, of_team: &BTreeMap<Option<&str>, usize>) -> Vec<Waiting<'_>> {
        let observed = self.input.observed;
        let is_waiting = |(key, o): &(&ObjectKey, &Value)| {
            let phase = o["status"]["phase"].as_str();
            **key != self.own
                && !deleting(o)
                && matches!(phase, None | Some(phase::QUEUED))
                && !self.working.contains(key)
        };
        let may = |key: &ObjectKey, o: &Value| {
            // What is not read here decides nothing.
            let spec: EtcdBackupSpec = serde_json::from_value(o["spec"].clone()).unwrap_or_default();
            Pool::of(&spec) == self.pool && self.first_at_home(&home(key, o)).is_none()
        };
        let text = |o: &Value, field: &str| o["metadata"][field].as_str().unwrap_or_default().to_owned();
        let all = observed.objects.iter().filter(|(key, _)| key.kind == Kind::EtcdBackup).filter(is_waiting);
        // Who has failed lately passes over nobody: all of them come back together after an API server was away.
        let passes = !observed.stuck.contains(&self.own);
        let all = all.filter(|(key, o)| !(passes && observed.stuck.contains(*key)) && may(key, o));
        // Those of one schedule, or of one second, are in the order of random numbers: spread over the fleet.
        let one = |(key, o): (&'a ObjectKey, &'a Value)| Waiting {
            was_refused: o["status"]["reason"] == Reason::Rejected.as_str(),
            nth_of_team: 0,
            created: text(o, "creationTimestamp"),
            uid: text(o, "uid"),
            key,
        };
        let mut waiting: Vec<Waiting<'_>> = all.map(one).collect();
        let meta = &self.input.object.metadata;
        waiting.push(Waiting {
            was_refused: self.input.was_refused(),
            nth_of_team: 0,
            created: meta.creation_timestamp.as_ref().map(|at| at.0.to_string()).unwrap_or_default(),
            uid: meta.uid.clone().unwrap_or_default(),
            key: &self.own,
        });
        waiting.sort();
        let mut before = of_team.clone();
        for one in &mut waiting {
            let nth = before.entry(one.key.namespace.as_deref()).or_default();
            *nth += 1;
            one.nth_of_team = *nth;
        }
        waiting.sort();
        waiting
    }
}

/// The namespace of an `EtcdBackup`'s Jobs.
fn home(key: &ObjectKey, backup: &Value) -> String {
    let namespace = key.namespace.as_deref().unwrap_or_default();
    let cluster = backup.pointer("/spec/clusterRef/name").and_then(Value::as_str);
    cluster.map_or_else(|| namespace.to_owned(), |name| names::control_plane_namespace(namespace, name))
}

/// Whether its snapshot may be deleted now: of one namespace so many at once as backups of all, so that who deletes a thousand starts no
/// thousand Jobs, and no other team waits for that. One whose Job has failed, or cannot be created, holds up nobody.
pub(super) fn may_delete(input: BackupInput<'_>) -> bool {
    let age = |o: &Value| {
        let text = |field: &str| o["metadata"][field].as_str().unwrap_or_default().to_owned();
        (text("deletionTimestamp"), text("name"))
    };
    let own = input.key();
    let Some(mine) = input.observed.get(&own).map(age) else { return true };
    let jobs = input.observed.backup_jobs.iter();
    let jobs: Vec<_> = jobs.filter(|seen| seen.does == Does::Delete && seen.of != own).collect();
    let is_its = |seen: &&&BackupJob| seen.of.namespace == own.namespace && seen.works(input.now);
    let working = jobs.iter().filter(is_its).count();
    let others = input.observed.of_kind(Kind::EtcdBackup, input.namespace()).filter(|(key, _)| **key != own);
    let waits = |key: &ObjectKey| !input.observed.stuck.contains(key) && jobs.iter().all(|seen| seen.of != *key);
    // One that the store keeps waits for a time, and not for a place.
    let is_kept = |o: &Value| !o["status"]["kept"].is_null();
    // Where one Job gets no pod, no other does.
    let is_blocked = |home: &str| jobs.iter().any(|seen| seen.home == home && seen.lacks_pod(input.now));
    let is_before = |key: &ObjectKey, o: &Value| {
        let deletes = deleting(o) && o["spec"]["deletionPolicy"] == "Delete" && !is_kept(o);
        deletes && age(o) < mine && !is_blocked(&home(key, o))
    };
    let before = others.filter(|(key, o)| is_before(key, o) && waits(key));
    !is_blocked(&input.target().namespace) && working + before.count() < input.settings.backups.concurrent
}
