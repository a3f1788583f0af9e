//! Whose turn it is. Each backup decides for itself from the same list, so that no memory is needed: those that run count first, then
//! those that are ready to, a team's first one before another team's second one, by age. One that waits for something else holds up nobody.

use super::Input;
use super::place::is_for_a_recovery;
use crate::observed::deleting;
use berth_api::backup::phase;
use berth_render::{Kind, ObjectKey};
use serde_json::Value;
use std::collections::BTreeMap;

/// How many others are before it, if these are as many as may run.
///
/// What Berth takes of the members that are left of a lost etcd waits for nobody: `recovery.maxPerHour` bounds it.
pub(super) fn ahead(input: Input<'_>) -> Option<usize> {
    if is_for_a_recovery(input) {
        return None;
    }
    let own = ObjectKey::namespaced(Kind::EtcdBackup, input.namespace(), input.name());
    let all = input.observed.objects.iter().filter(|(key, _)| key.kind == Kind::EtcdBackup);
    let phase = |o: &Value| o["status"]["phase"].as_str().map(str::to_owned);
    let counts = |key: &ObjectKey, o: &Value| {
        *key == own || matches!(phase(o).as_deref(), None | Some(phase::QUEUED | phase::RUNNING))
    };
    let place = |(key, o): (&ObjectKey, &Value)| {
        let runs = phase(o).as_deref() == Some(phase::RUNNING);
        let text = |field: &str| o["metadata"][field].as_str().unwrap_or_default().to_owned();
        // Those of one schedule, or of one second, are in the order of random numbers: spread over the fleet.
        (!runs, text("creationTimestamp"), text("uid"), key.clone())
    };
    let mut queue: Vec<_> = all.filter(|(key, o)| counts(key, o)).map(place).collect();
    queue.sort();
    let mut of_team: BTreeMap<Option<String>, usize> = BTreeMap::new();
    let mut turns: Vec<_> = queue
        .into_iter()
        .map(|(waits, created, uid, key)| {
            let nth = of_team.entry(key.namespace.clone()).or_default();
            *nth += 1;
            (waits, *nth, created, uid, key)
        })
        .collect();
    turns.sort();
    let ahead = turns.iter().position(|(.., key)| *key == own)?;
    (ahead >= input.settings.backups.concurrent).then_some(ahead)
}

/// Whether its snapshot may be deleted now: of one namespace so many at once as backups of all, so that who deletes a thousand starts no
/// thousand Jobs, and no other team waits for that.
pub(super) fn may_delete(input: Input<'_>) -> bool {
    let age = |o: &Value| {
        let text = |field: &str| o["metadata"][field].as_str().unwrap_or_default().to_owned();
        (text("deletionTimestamp"), text("name"))
    };
    let own = ObjectKey::namespaced(Kind::EtcdBackup, input.namespace(), input.name());
    let Some(mine) = input.observed.get(&own).map(age) else { return true };
    let others = input.observed.of_kind(Kind::EtcdBackup, input.namespace()).filter(|(key, _)| **key != own);
    let before = others.filter(|(_, o)| deleting(o) && o["spec"]["deletionPolicy"] == "Delete" && age(o) < mine);
    before.count() < input.settings.backups.concurrent
}
