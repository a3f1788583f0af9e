//! What has room in a tenant, and what is looked for there first.

use super::judge::{Judged, Verdict};
use super::record::{AccessId, Entry, MOST, Record, SHARE};
use super::wanted::Grant;
use berth_render::{Object, ObjectKey};
use std::collections::{BTreeMap, BTreeSet};

fn wanted(judged: &[Judged]) -> impl Iterator<Item = &Grant> {
    judged.iter().filter_map(|one| match &one.verdict {
        Verdict::Given(grant) => Some(grant),
        _ => None,
    })
}

/// What is to be in the tenant. It has so many objects at the most, and by `ClusterAccess`es of one namespace half of these: nobody takes another's
/// place. What is recorded has its own; what is not comes whole, or not at all.
pub(super) fn objects<'a>(
    record: &Record,
    judged: &'a [Judged],
) -> BTreeMap<ObjectKey, (&'a Object, Option<&'a AccessId>)> {
    let known: BTreeSet<ObjectKey> = record.objects.iter().filter_map(Entry::key).collect();
    let mut room = MOST.saturating_sub(known.len());
    let mut shares: BTreeMap<&str, usize> = BTreeMap::new();
    for of in record.objects.iter().filter_map(|entry| entry.of.as_ref()) {
        *shares.entry(&of.namespace).or_default() += 1;
    }
    let mut grants: Vec<&Grant> = wanted(judged).collect();
    let is_new = |grant: &Grant| record.of(&grant.of).next().is_none();
    grants.sort_by(|a, b| (is_new(a), &a.of).cmp(&(is_new(b), &b.of)));
    let mut all = BTreeMap::new();
    for grant in grants {
        let (mut bindings, more): (Vec<&Object>, Vec<&Object>) =
            grant.bindings.iter().partition(|binding| known.contains(binding.key()));
        let roles = grant.role.iter().filter(|role| !known.contains(role.key()) && !all.contains_key(role.key()));
        let (roles, share) = (roles.count(), shares.get(&*grant.of.namespace).copied().unwrap_or_default());
        if more.len() + roles <= room && share + more.len() <= SHARE {
            *shares.entry(&grant.of.namespace).or_default() += more.len();
            room -= more.len();
            bindings.extend(more);
        }
        if !bindings.is_empty() {
            room = room.saturating_sub(roles);
            all.extend(grant.role.iter().map(|role| (role.key().clone(), (role, None))));
            all.extend(bindings.into_iter().map(|binding| (binding.key().clone(), (binding, Some(&grant.of)))));
        }
    }
    all
}

/// What is looked for in the tenant, in this order, since the time may not suffice for all: what ends and what a restore may have brought, then what
/// is not there yet. `epoch`: of the tenant's etcd.
pub fn looked_for(record: &Record, judged: &[Judged], epoch: i64) -> Vec<ObjectKey> {
    let wanted = objects(record, judged);
    let entries = record.objects.iter().chain(&record.revoked);
    let ranks: BTreeMap<ObjectKey, u8> = entries
        .filter_map(|entry| {
            let key = entry.key()?;
            let ends = !wanted.contains_key(&key) || entry.epoch != epoch;
            Some((key, if ends { 0 } else { 1 + u8::from(entry.digest.is_some()) }))
        })
        .collect();
    let mut keys: Vec<ObjectKey> = record.looked_for(epoch).into_iter().collect();
    keys.sort_by_key(|key| ranks.get(key).copied());
    keys
}
