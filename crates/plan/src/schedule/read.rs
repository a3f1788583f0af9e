//! Which of its backups is read back by the Job of the next one: nobody else looks at what a store has kept for weeks.

use crate::backup::proven;
use berth_api::backup::{EtcdBackup, ReadBackStatus};
use berth_api::backup_schedule::EtcdBackupScheduleSpec;
use jiff::{SignedDuration, Timestamp};

/// From one to the next, and how long what was read or proven is as good as that. A schedule that runs once a day comes a minute earlier at times.
const PAUSE: SignedDuration = SignedDuration::from_hours(20);

/// The one that was read least recently, once a day.
pub(super) fn due(backups: &[EtcdBackup], spec: &EtcdBackupScheduleSpec, now: Timestamp) -> Option<String> {
    let created = |b: &EtcdBackup| b.metadata.creation_timestamp.as_ref().map(|at| at.0);
    let asked = backups.iter().filter(|b| b.spec.read_back.is_some()).filter_map(created).max();
    let is_due = |at: Timestamp| now.duration_since(at) >= PAUSE;
    if !asked.is_none_or(is_due) {
        return None;
    }
    let is_here = |b: &&EtcdBackup| {
        (&b.spec.store, &b.spec.secret_ref, &b.spec.claim_ref) == (&spec.store, &spec.secret_ref, &spec.claim_ref)
    };
    let known = |b: &EtcdBackup| {
        let last = last(backups, b).map(|read| read.at.0);
        Some((proven::proven_at(b)?.max(last.unwrap_or(Timestamp::MIN)), b.metadata.name.clone()?))
    };
    let good = backups.iter().filter(|b| proven::is_good(b)).filter(is_here);
    good.filter_map(known).filter(|(at, _)| is_due(*at)).min().map(|(_, name)| name)
}

/// What was said when it was read back last.
fn last<'a>(backups: &'a [EtcdBackup], of: &EtcdBackup) -> Option<&'a ReadBackStatus> {
    let reads = backups.iter().filter_map(|b| b.status.as_ref()?.read_back.as_ref());
    // Before that, another one had its name.
    let since = of.metadata.creation_timestamp.as_ref().map(|at| at.0);
    let of_it = |read: &&ReadBackStatus| Some(&read.name) == of.metadata.name.as_ref() && Some(read.at.0) >= since;
    reads.filter(of_it).max_by_key(|read| read.at.0)
}

/// One that counts and could not be read, though nobody says that it is damaged.
pub(super) fn unread(backups: &[EtcdBackup]) -> Option<String> {
    backups.iter().filter(|b| proven::is_good(b)).find_map(|b| {
        let read = last(backups, b)?;
        let why = read.message.as_ref()?;
        Some(format!(
            "EtcdBackup {} could not be read back at {:.0}: {why}. Look whether the store still has what its status.key says. Berth reads it again in its turn, one a day",
            read.name, read.at.0
        ))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
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
        let mut backup = backup(name, created, &json!({"readBack": {"name": of, "at": created, "message": message}}));
        backup.spec.read_back = Some(of.into());
        backup
    }

    fn spec() -> EtcdBackupScheduleSpec {
        serde_json::from_value(json!({"clusterRef": {"name": "acme"}, "store": "main", "schedule": "0 3 * * *"}))
            .unwrap()
    }

    fn at(text: &str) -> Timestamp {
        text.parse().unwrap()
    }

    #[test]
    fn once_a_day_the_one_that_was_read_least_recently_is_read() {
        let mut all =
            vec![backup("a", "2026-01-01T03:00:00Z", &json!({})), backup("b", "2026-01-02T03:00:00Z", &json!({}))];
        let due_at = |all: &[EtcdBackup], now: &str| due(all, &spec(), at(now));
        assert_eq!(due_at(&all, "2026-01-01T22:59:59Z"), None, "it was proven today");
        assert_eq!(due_at(&all, "2026-01-03T03:00:00Z").as_deref(), Some("a"));
        all.push(reads("c", "2026-01-03T03:00:00Z", "a", None));
        assert_eq!(due_at(&all, "2026-01-03T04:00:00Z"), None, "another one was read today");
        assert_eq!(due_at(&all, "2026-01-04T03:00:00Z").as_deref(), Some("b"));
        all.push(reads("d", "2026-01-04T03:00:00Z", "b", None));
        assert_eq!(due_at(&all, "2026-01-05T03:00:00Z").as_deref(), Some("a"), "c and a are as old; the first by name");
        // Another store has its own.
        let elsewhere = EtcdBackupScheduleSpec { store: "other".into(), ..spec() };
        assert_eq!(due(&all, &elsewhere, at("2026-01-09T03:00:00Z")), None);
        // One that is damaged is known to be.
        all[0] = backup(
            "a",
            "2026-01-01T03:00:00Z",
            &json!({"damaged": {"at": "2026-01-03T03:00:00Z", "by": "x", "message": "m"}}),
        );
        assert_eq!(due_at(&all, "2026-01-05T03:00:00Z").as_deref(), Some("c"));
        // Of one whose result nobody recorded it is known that it was asked for.
        let mut asked = backup("e", "2026-01-05T03:00:00Z", &json!({"phase": "Failed"}));
        asked.spec.read_back = Some("c".into());
        all.push(asked);
        assert_eq!(due_at(&all, "2026-01-05T09:00:00Z"), None);
    }

    #[test]
    fn what_could_not_be_read_is_said_until_it_is_read_again_or_gone() {
        let a = backup("a", "2026-01-01T03:00:00Z", &json!({}));
        let failed = reads("b", "2026-01-02T03:00:00Z", "a", Some("404 Not Found"));
        let said = unread(&[a.clone(), failed.clone()]).unwrap();
        assert!(
            said.starts_with("EtcdBackup a could not be read back at 2026-01-02T03:00:00Z: 404 Not Found."),
            "{said}"
        );
        let again = reads("c", "2026-01-03T03:00:00Z", "a", None);
        assert_eq!(unread(&[a, failed.clone(), again]), None);
        assert_eq!(unread(std::slice::from_ref(&failed)), None, "it is gone");
        let later = backup("a", "2026-01-03T03:00:00Z", &json!({}));
        assert_eq!(unread(&[failed, later]), None, "another one of its name");
    }
}
