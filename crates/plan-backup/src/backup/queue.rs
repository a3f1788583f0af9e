//! Whose turn it is. Each backup decides for itself from the same lists, so that no memory is needed. Jobs hold places, and nothing that an
//! object says of itself does; then come those that are ready to, a team's first one before another team's second one, by age. One that waits
//! for something else, or that Berth cannot get on with, holds up nobody.

use super::input::BackupInput;
use super::place::is_for_a_recovery;
use berth_api::backup::{EtcdBackupSpec, phase};
use berth_plan::backup_jobs::{BackupJob, Does, Pool};
use berth_plan::observed::deleting;
use berth_render::{Kind, ObjectKey};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};

/// What it waits for, if others are before it.
///
/// What Berth takes of the members that are left of a lost etcd waits for nobody: `recovery.maxPerHour` bounds it.
pub(super) fn waits(input: BackupInput<'_>) -> Option<String> {
    if is_for_a_recovery(input) {
        return None;
    }
    let places = input.settings.backups.concurrent;
    let pool = Pool::of(&input.object.spec);
    let share = pool.share(places);
    let own = ObjectKey::namespaced(Kind::EtcdBackup, input.namespace(), input.name());
    let working = working(input, pool, &own);
    let mut of_team: BTreeMap<Option<&str>, usize> = BTreeMap::new();
    for backup in &working {
        *of_team.entry(backup.namespace.as_deref()).or_default() += 1;
    }
    let own_namespace = Some(input.namespace());
    let own_jobs = of_team.get(&own_namespace).copied().unwrap_or_default();
    // Who makes Jobs that look like Berth's takes more than a share from nobody else.
    let mut taken: usize = of_team.values().map(|jobs| (*jobs).min(share)).sum();
    for (ahead, backup) in (working.len()..).zip(in_turn(input, pool, &working, &own, &of_team)) {
        let team = of_team.entry(backup.namespace.as_deref()).or_default();
        let begins = taken < places && *team < share;
        if *backup == own {
            return (!begins).then(|| match pool {
                Pool::Teams if own_jobs >= share => format!(
                    "its turn: {own_jobs} of namespace {} are being taken, and of one namespace {share} at once go to stores of teams (half of the chart value backups.concurrent)",
                    input.namespace()
                ),
                Pool::Teams => format!(
                    "its turn: {ahead} others that go to stores of teams are taken first, {places} at once (chart value backups.concurrent)"
                ),
                Pool::Platform if own_jobs >= share => format!(
                    "its turn: {own_jobs} of namespace {} are being taken, and {share} of one namespace at once (chart value backups.concurrent: {places})",
                    input.namespace()
                ),
                Pool::Platform => format!(
                    "its turn: {ahead} others are taken first, {places} at once (chart value backups.concurrent)"
                ),
            });
        }
        if begins {
            taken += 1;
            *team += 1;
        }
    }
    None
}

/// The `EtcdBackup`s of a pool whose Jobs are at work.
fn working<'a>(input: BackupInput<'a>, pool: Pool, own: &ObjectKey) -> BTreeSet<&'a ObjectKey> {
    let is_known = |seen: &BackupJob| {
        let live = input.observed.get(&seen.of);
        let phase = live.and_then(|o| o["status"]["phase"].as_str());
        // In its own namespace a team may create a Job that looks like Berth's.
        !seen.stands_alone || [Some(phase::RUNNING), Some(phase::DELETING)].contains(&phase)
    };
    let jobs = input.observed.backup_jobs.iter();
    let works = |seen: &&BackupJob| seen.does == Does::Take && seen.pool == pool && seen.works(input.now);
    jobs.filter(works).filter(|seen| seen.of != *own && is_known(seen)).map(|seen| &seen.of).collect()
}

/// Those of a pool that wait for their turn, this one among them, in their order.
fn in_turn<'a>(
    input: BackupInput<'a>,
    pool: Pool,
    working: &BTreeSet<&ObjectKey>,
    own: &'a ObjectKey,
    of_team: &BTreeMap<Option<&str>, usize>,
) -> Vec<&'a ObjectKey> {
    let is_waiting = |(key, o): &(&ObjectKey, &Value)| {
        let phase = o["status"]["phase"].as_str();
        *key != own && !deleting(o) && matches!(phase, None | Some(phase::QUEUED)) && !working.contains(key)
    };
    let is_of_pool = |o: &Value| {
        // What is not read here decides nothing.
        let spec: EtcdBackupSpec = serde_json::from_value(o["spec"].clone()).unwrap_or_default();
        Pool::of(&spec) == pool
    };
    let text = |o: &Value, field: &str| o["metadata"][field].as_str().unwrap_or_default().to_owned();
    let all = input.observed.objects.iter().filter(|(key, _)| key.kind == Kind::EtcdBackup).filter(is_waiting);
    // Who has failed lately passes over nobody: all of them come back together after an API server was away.
    let passes = !input.observed.stuck.contains(own);
    let all = all.filter(|(key, o)| !(passes && input.observed.stuck.contains(*key)) && is_of_pool(o));
    // Those of one schedule, or of one second, are in the order of random numbers: spread over the fleet.
    let mut waiting: Vec<_> = all.map(|(key, o)| (text(o, "creationTimestamp"), text(o, "uid"), key)).collect();
    let meta = &input.object.metadata;
    let created = meta.creation_timestamp.as_ref().map(|at| at.0.to_string()).unwrap_or_default();
    waiting.push((created, meta.uid.clone().unwrap_or_default(), own));
    waiting.sort();
    let mut before = of_team.clone();
    let mut turns: Vec<_> = waiting
        .into_iter()
        .map(|(created, uid, key)| {
            let nth = before.entry(key.namespace.as_deref()).or_default();
            *nth += 1;
            (*nth, created, uid, key)
        })
        .collect();
    turns.sort();
    turns.into_iter().map(|(.., key)| key).collect()
}

/// Whether its snapshot may be deleted now: of one namespace so many at once as backups of all, so that who deletes a thousand starts no
/// thousand Jobs, and no other team waits for that. One whose Job has failed, or cannot be created, holds up nobody.
pub(super) fn may_delete(input: BackupInput<'_>) -> bool {
    let age = |o: &Value| {
        let text = |field: &str| o["metadata"][field].as_str().unwrap_or_default().to_owned();
        (text("deletionTimestamp"), text("name"))
    };
    let own = ObjectKey::namespaced(Kind::EtcdBackup, input.namespace(), input.name());
    let Some(mine) = input.observed.get(&own).map(age) else { return true };
    let jobs = input.observed.backup_jobs.iter();
    let jobs: Vec<_> = jobs.filter(|seen| seen.does == Does::Delete && seen.of != own).collect();
    let is_its = |seen: &&&BackupJob| seen.of.namespace == own.namespace && seen.works(input.now);
    let working = jobs.iter().filter(is_its).count();
    let others = input.observed.of_kind(Kind::EtcdBackup, input.namespace()).filter(|(key, _)| **key != own);
    let waits = |key: &ObjectKey| !input.observed.stuck.contains(key) && jobs.iter().all(|seen| seen.of != *key);
    let before =
        others.filter(|(key, o)| deleting(o) && o["spec"]["deletionPolicy"] == "Delete" && age(o) < mine && waits(key));
    working + before.count() < input.settings.backups.concurrent
}
