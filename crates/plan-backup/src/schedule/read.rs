//! Which of its backups is read back by the Job of the next one: nobody else looks at what a store has kept for weeks. The schedule remembers
//! what came of it, since who read it is deleted before long.

use crate::backup::proven;
use berth_api::backup::{EtcdBackup, ReadBackStatus};
use berth_api::backup_schedule::{EtcdBackupScheduleSpec, EtcdBackupScheduleStatus};
use jiff::{SignedDuration, Timestamp};

/// From one to the next, and how long what was read or proven is as good as that. A schedule that runs once a day comes a minute earlier at times.
const PAUSE: SignedDuration = SignedDuration::from_hours(20);

/// What is remembered. What is forgotten was read least recently, so it comes next.
const REMEMBERED: usize = 100;

/// Writes down what was read, and which one is next.
pub(super) fn remember(
    status: &mut EtcdBackupScheduleStatus,
    backups: &[EtcdBackup],
    spec: &EtcdBackupScheduleSpec,
    now: Timestamp,
) {
    for new in backups.iter().filter_map(|b| b.status.as_ref()?.read_back.as_ref()) {
        let old = status.read_back.iter().find(|old| old.name == new.name);
        if old.is_some_and(|old| old.at.0 >= new.at.0) {
            continue;
        }
        let before = old.and_then(|old| old.failures).unwrap_or_default();
        let failures = new.message.as_ref().map(|_| before + 1);
        status.read_back.retain(|old| old.name != new.name);
        status.read_back.push(ReadBackStatus { failures, ..new.clone() });
    }
    let last = status.read_back.iter().map(|read| read.at.clone()).max();
    status.last_read_back_time = status.last_read_back_time.clone().max(last).filter(|at| at.0 <= now);
    // Another one may have taken its name.
    let is_there = |read: &ReadBackStatus| {
        backups.iter().any(|b| {
            let since = b.metadata.creation_timestamp.as_ref();
            b.metadata.name.as_ref() == Some(&read.name) && since.is_none_or(|since| *since <= read.at)
        })
    };
    status.read_back.retain(is_there);
    status.read_back.sort_by_key(|read| std::cmp::Reverse((read.at.clone(), read.name.clone())));
    status.read_back.truncate(REMEMBERED);
    status.next_read_back = next(status, backups, spec, now);
}

/// The one that was read least recently, once a day; and first of all one that failed, once.
fn next(
    status: &EtcdBackupScheduleStatus,
    backups: &[EtcdBackup],
    spec: &EtcdBackupScheduleSpec,
    now: Timestamp,
) -> Option<String> {
    let is_due = |at: Timestamp| now.duration_since(at) >= PAUSE;
    if status.last_read_back_time.as_ref().is_some_and(|last| !is_due(last.0)) {
        return None;
    }
    let known = |b: &EtcdBackup| {
        let last = last(status, b);
        let fails = last.is_some_and(|read| read.failures == Some(1));
        let at = last.map_or(Timestamp::MIN, |read| read.at.0).max(proven::proven_at(b)?);
        Some((!fails, at, b.metadata.name.clone()?))
    };
    good(backups, spec).filter_map(known).filter(|(_, at, _)| is_due(*at)).min().map(|(.., name)| name)
}

/// Good ones in the store to which the next one goes.
fn good<'b>(backups: &'b [EtcdBackup], spec: &EtcdBackupScheduleSpec) -> impl Iterator<Item = &'b EtcdBackup> {
    backups.iter().filter(|b| proven::is_good(b) && b.spec.store == spec.store)
}

fn last<'a>(status: &'a EtcdBackupScheduleStatus, backup: &EtcdBackup) -> Option<&'a ReadBackStatus> {
    status.read_back.iter().find(|read| backup.metadata.name.as_ref() == Some(&read.name))
}

/// One that counts and could not be read twice in a row, though nobody says that it is damaged.
pub(super) fn unread(
    status: &EtcdBackupScheduleStatus,
    backups: &[EtcdBackup],
    spec: &EtcdBackupScheduleSpec,
) -> Option<String> {
    good(backups, spec).find_map(|b| {
        let read = last(status, b).filter(|read| read.failures >= Some(2))?;
        let why = read.message.as_ref()?;
        Some(format!(
            "EtcdBackup {} could not be read back, twice: {why}. Check that the store still has its status.key. Berth reads back one a day, and this one again in its turn",
            read.name
        ))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use berth_api::backup::StoreRef;
    use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
    use serde_json::{Value, json};

    fn backup(name: &str, created: &str, status: &Value) -> EtcdBackup {
        let mut object = json!({
            "apiVersion": "berth.dev/v1alpha1", "kind": "EtcdBackup",
            "metadata": {"name": name, "namespace": "team-a", "creationTimestamp": created},
            "spec": {"clusterRef": {"name": "acme"}, "store": "main"},
            "status": {"phase": "Verified", "verifiedAt": created, "key": name, "sha256": "ab"},
        });
        object["status"].as_object_mut().unwrap().extend(status.as_object().cloned().unwrap_or_default());
        serde_json::from_value(object).unwrap()
    }

    fn reads(name: &str, created: &str, of: &str, message: Option<&str>) -> EtcdBackup {
        backup(name, created, &json!({"readBack": {"name": of, "at": created, "message": message}}))
    }

    fn spec() -> EtcdBackupScheduleSpec {
        serde_json::from_value(json!({"clusterRef": {"name": "acme"}, "store": "main", "schedule": "0 3 * * *"}))
            .unwrap()
    }

    /// The next one, at that time.
    fn at(status: &mut EtcdBackupScheduleStatus, all: &[EtcdBackup], now: &str) -> Option<String> {
        remember(status, all, &spec(), now.parse().unwrap());
        status.next_read_back.clone()
    }

    #[test]
    fn once_a_day_the_one_that_was_read_least_recently_is_next() {
        let mut status = EtcdBackupScheduleStatus::default();
        let mut all =
            vec![backup("a", "2026-01-01T03:00:00Z", &json!({})), backup("b", "2026-01-02T03:00:00Z", &json!({}))];
        assert_eq!(at(&mut status, &all, "2026-01-01T22:59:59Z"), None, "it was proven today");
        assert_eq!(at(&mut status, &all, "2026-01-03T03:00:00Z").as_deref(), Some("a"));
        all.push(reads("c", "2026-01-03T03:00:00Z", "a", None));
        assert_eq!(at(&mut status, &all, "2026-01-03T04:00:00Z"), None, "one was read today");
        // Whoever read it goes, and what it found stays.
        all.pop();
        assert_eq!(at(&mut status, &all, "2026-01-03T22:00:00Z"), None);
        assert_eq!(at(&mut status, &all, "2026-01-04T03:00:00Z").as_deref(), Some("b"));
        all.push(reads("d", "2026-01-04T03:00:00Z", "b", None));
        assert_eq!(at(&mut status, &all, "2026-01-05T03:00:00Z").as_deref(), Some("a"));
        // Another store has its own, and one that is damaged is known to be.
        let elsewhere =
            EtcdBackupScheduleSpec { store: StoreRef { name: "other".into(), ..StoreRef::default() }, ..spec() };
        assert_eq!(next(&status, &all, &elsewhere, "2026-01-09T03:00:00Z".parse().unwrap()), None);
        let damaged = json!({"damaged": {"at": "2026-01-03T03:00:00Z", "by": "x", "message": "m"}});
        all[0] = backup("a", "2026-01-01T03:00:00Z", &damaged);
        assert_eq!(at(&mut status, &all, "2026-01-05T03:00:00Z").as_deref(), Some("b"));
        // That it was read is forgotten with the one that it was.
        all.remove(1);
        at(&mut status, &all, "2026-01-05T03:00:00Z");
        assert!(status.read_back.iter().all(|read| read.name != "b"), "{:?}", status.read_back);
        assert_eq!(status.last_read_back_time, Some(Time("2026-01-04T03:00:00Z".parse().unwrap())));
    }

    #[test]
    fn what_could_not_be_read_is_tried_the_next_day_and_said_if_that_fails_too() {
        let mut status = EtcdBackupScheduleStatus::default();
        let first = [backup("a", "2026-01-01T03:00:00Z", &json!({})), backup("b", "2026-01-01T02:00:00Z", &json!({}))];
        let failed = reads("c", "2026-01-02T03:00:00Z", "a", Some("404 Not Found"));
        let mut all = [&first[..], &[failed]].concat();
        at(&mut status, &all, "2026-01-02T03:00:00Z");
        assert_eq!(unread(&status, &all, &spec()), None, "once is chance");
        assert_eq!(at(&mut status, &all, "2026-01-03T03:00:00Z").as_deref(), Some("a"), "before b, which is older");
        all.push(reads("d", "2026-01-03T03:00:00Z", "a", Some("404 Not Found")));
        assert_eq!(at(&mut status, &all, "2026-01-04T03:00:00Z").as_deref(), Some("b"), "others have their turn");
        let said = unread(&status, &all, &spec()).unwrap();
        assert!(said.starts_with("EtcdBackup a could not be read back, twice: 404 Not Found."), "{said}");
        let elsewhere =
            EtcdBackupScheduleSpec { store: StoreRef { name: "other".into(), ..StoreRef::default() }, ..spec() };
        assert_eq!(unread(&status, &all, &elsewhere), None, "nobody reads it any more");
        all.push(reads("e", "2026-01-06T03:00:00Z", "a", None));
        at(&mut status, &all, "2026-01-06T03:00:00Z");
        assert_eq!(unread(&status, &all, &spec()), None);
        // Another one of its name.
        all.push(reads("f", "2026-01-07T03:00:00Z", "a", Some("m")));
        at(&mut status, &all, "2026-01-07T03:00:00Z");
        all[0] = backup("a", "2026-01-08T03:00:00Z", &json!({}));
        at(&mut status, &all, "2026-01-08T03:00:00Z");
        assert_eq!(last(&status, &all[0]), None);
    }
}
