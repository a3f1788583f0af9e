//! A tenant that wakes, or that was restored, takes nobody in before what had ended is gone.

use super::decide::Outcome;
use super::judge::Judged;
use super::record::{AccessId, Entry, Record};
use super::room::objects;
use berth_api::cluster_access::AccessState;
use berth_api::hibernation::{SleepRecord, SleepState};
use berth_api::{labels, names};
use berth_plan::object_meta::{annotation, deleting};
use berth_plan::observed::Observed;
use berth_plan::workload;
use berth_render::{Kind, ObjectKey};
use jiff::{SignedDuration, Timestamp};
use serde_json::Value;
use std::collections::BTreeMap;

/// How long people wait for what ended to be gone.
const PATIENCE: SignedDuration = SignedDuration::from_mins(10);

/// The record in that control-plane namespace, as it is stored; empty: there is none.
pub fn stored<'a>(observed: &'a Observed, home: &str) -> &'a str {
    let live = observed.get(&ObjectKey::namespaced(Kind::ConfigMap, home, names::USERS_RECORD));
    live.and_then(|live| live.pointer("/data/record")).and_then(Value::as_str).unwrap_or_default()
}

/// Whether a `Cluster` that is deleted serves nobody any more, nor will again: its control-plane namespace goes, or has no API server and nothing
/// that would start one. Until then people have there what they were given.
pub fn serves_nobody(observed: &Observed, home: &str) -> bool {
    let Some(namespace) = observed.get(&ObjectKey::cluster(Kind::Namespace, home)) else { return true };
    if deleting(namespace) || observed.denied {
        return deleting(namespace);
    }
    let starts = observed.get(&ObjectKey::namespaced(Kind::Deployment, home, names::APISERVER));
    let starts = starts.is_some_and(|live| live.pointer("/spec/replicas").and_then(Value::as_i64) != Some(0));
    !starts && workload::pods_of(observed, home, labels::COMPONENT, names::APISERVER).next().is_none()
}

/// Since when the tenant of that control-plane namespace wakes. None: it does not.
pub fn waking_since(observed: &Observed, home: &str) -> Option<Timestamp> {
    let namespace = observed.get(&ObjectKey::cluster(Kind::Namespace, home))?;
    let sleep = SleepRecord::parse(annotation(namespace, labels::SLEEP)?)?;
    (sleep.state == SleepState::Waking).then_some(sleep.since.0)
}

/// Whether the gateway is to hand nobody over: it sleeps, or wakes, and rights are there of which nobody knows yet whether they ended. A record
/// that cannot be read holds up no wake.
pub fn closes(observed: &Observed, home: &str, sleep: Option<&SleepRecord>) -> bool {
    let since = match sleep {
        Some(sleep) if sleep.state == SleepState::Asleep => None,
        Some(sleep) if sleep.state == SleepState::Waking => Some(sleep.since.0),
        _ => return false,
    };
    let record = Record::read(stored(observed, home)).unwrap_or_default();
    !record.objects.is_empty() && (since.is_none() || record.woke != since)
}

/// Whether the tenant's etcd was restored and nobody has looked yet what that brought back. For ten minutes at the most after etcd serves again:
/// a tenant that only Berth does not reach is there for its people after that.
pub fn is_restored(observed: &Observed, home: &str, now: Timestamp) -> bool {
    let etcd = observed.get(&ObjectKey::namespaced(Kind::EtcdCluster, home, names::ETCD));
    let Some(status) = etcd.and_then(|etcd| etcd.get("status")) else { return false };
    let Some(epoch) = status["epoch"].as_i64() else { return false };
    let record = Record::read(stored(observed, home)).unwrap_or_default();
    let mut conditions = status["conditions"].as_array().into_iter().flatten();
    let serves = conditions.find(|one| one["type"] == "Available" && one["status"] == "True");
    let since = serves.and_then(|one| one["lastTransitionTime"].as_str()?.parse::<Timestamp>().ok());
    !record.was_looked_for(epoch) && since.is_none_or(|since| now.duration_since(since) < PATIENCE)
}

/// Takes down that what had ended is gone, once it is: nothing is left, and nothing that is there is otherwise than it is to be. `since`: when it
/// began to wake. True: it was not down yet.
pub fn settles(
    record: &mut Record,
    (judged, outcomes): (&[Judged], &BTreeMap<AccessId, Outcome>),
    (since, epoch): (Option<Timestamp>, i64),
) -> bool {
    let is_left = outcomes.values().any(|outcome| outcome.state == AccessState::NotRevoked);
    if since.is_none() || record.woke == since || !record.was_looked_for(epoch) || is_left || record.objects.is_empty()
    {
        return false;
    }
    let wanted = objects(record, judged);
    let is_otherwise = |entry: &Entry| {
        let object = entry.key().and_then(|key| wanted.get(&key).map(|(object, _)| object.digest()));
        entry.uid.is_some() && object.is_some_and(|digest| entry.digest != Some(digest))
    };
    if record.objects.iter().any(is_otherwise) {
        return false;
    }
    record.woke = since;
    true
}
