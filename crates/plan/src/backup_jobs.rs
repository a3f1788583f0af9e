//! Jobs beside etcds, as far as others look at them: which hold a place, and which have nobody left.
//!
//! A Job in a control-plane namespace is Berth's. In the namespace of a stand-alone etcd its team may create what looks the same, so there a
//! Job counts for no place but the team's own share.

use crate::object_meta::label;
use berth_api::backup::EtcdBackupSpec;
use berth_api::{labels, names};
use berth_render::{Kind, ObjectKey};
use jiff::Timestamp;
use serde_json::Value;

/// How long a Job of an `EtcdBackup` may take with all its tries, in seconds: 8 GiB at 5 MiB/s, there and back.
pub const DEADLINE: i64 = 3600;

/// Whose time a Job takes: each pool has as many places as the chart value `backups.concurrent` says.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Pool {
    /// A store of the platform, from a control-plane namespace.
    Platform,
    /// A team decides how long it takes: the store is its own, or the Job is in its namespace.
    Teams,
}

impl Pool {
    /// The pool of an `EtcdBackup`.
    pub fn of(spec: &EtcdBackupSpec) -> Self {
        let is_teams = spec.cluster_ref.is_none() || spec.secret_ref.is_some() || spec.claim_ref.is_some();
        if is_teams { Self::Teams } else { Self::Platform }
    }

    /// Places that one namespace can have. One whose etcds are slow keeps others waiting in neither.
    pub fn share(self, places: usize) -> usize {
        match self {
            Self::Platform => places.saturating_sub(1).max(1),
            Self::Teams => (places / 2).max(1),
        }
    }
}

/// What a Job does for an `EtcdBackup`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Does {
    /// Takes it.
    Take,
    /// Deletes it in the store.
    Delete,
}

/// A Job of an `EtcdBackup`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BackupJob {
    /// The `EtcdBackup`, which may be gone.
    pub of: ObjectKey,
    /// What it does.
    pub does: Does,
    /// Whose places it takes.
    pub pool: Pool,
    /// It is in the team's own namespace.
    pub stands_alone: bool,
    /// When it was created, by the API server's clock.
    pub began: Timestamp,
    /// It tries no more.
    pub ended: bool,
}

impl BackupJob {
    /// A Job as it was listed. None: it is none of an `EtcdBackup`.
    pub fn read(job: &Value) -> Option<Self> {
        let of = made_for(job).filter(|of| of.kind == Kind::EtcdBackup)?;
        let (name, namespace) = (job["metadata"]["name"].as_str()?, job["metadata"]["namespace"].as_str()?);
        let stands_alone = of.namespace.as_deref() == Some(namespace);
        let is_teams = stands_alone || label(job, labels::BACKUP_POOL) == Some(labels::BACKUP_POOL_TEAMS);
        Some(Self {
            does: if name == names::backup(&of.name) { Does::Take } else { Does::Delete },
            pool: if is_teams { Pool::Teams } else { Pool::Platform },
            stands_alone,
            began: job["metadata"]["creationTimestamp"].as_str()?.parse().ok()?,
            ended: has_ended(job),
            of,
        })
    }

    /// Whether it is at work. After its deadline it is not, whatever it says: its own clock may have been stopped by `spec.suspend`.
    pub fn works(&self, now: Timestamp) -> bool {
        !self.ended && now.duration_since(self.began).as_secs() < DEADLINE
    }
}

/// Whether a Job is complete or has failed.
pub fn has_ended(job: &Value) -> bool {
    let all = job.pointer("/status/conditions").and_then(Value::as_array);
    all.into_iter().flatten().any(|c| (c["type"] == "Complete" || c["type"] == "Failed") && c["status"] == "True")
}

/// The `EtcdBackup` or `EtcdRestore` that a Job is made for, by its labels, its name and where it is.
pub fn made_for(job: &Value) -> Option<ObjectKey> {
    let (own, home) = (job["metadata"]["name"].as_str()?, job["metadata"]["namespace"].as_str()?);
    if label(job, labels::MANAGED_BY) != Some(labels::MANAGED_BY_VALUE) {
        return None;
    }
    let named = |kind: Kind, name: &str, namespace: &str| Some((kind, label(job, name)?, label(job, namespace)?));
    let of_backup = named(Kind::EtcdBackup, labels::ETCD_BACKUP, labels::ETCD_BACKUP_NAMESPACE);
    let of_restore = || named(Kind::EtcdRestore, labels::ETCD_RESTORE, labels::ETCD_RESTORE_NAMESPACE);
    let (kind, name, namespace) = of_backup.or_else(of_restore)?;
    let jobs = if kind == Kind::EtcdBackup {
        [names::backup(name), names::backup_deletion(name)]
    } else {
        [names::restore_check(name), names::restore(name)]
    };
    let is_there = home == namespace || names::is_control_plane_namespace(home, namespace);
    (is_there && jobs.iter().any(|job| job == own)).then(|| ObjectKey::namespaced(kind, namespace, name))
}

/// Labels that a Job and the Secret beside it have both, or neither.
pub const BESIDE: [&str; 5] = [
    labels::MANAGED_BY,
    labels::ETCD_BACKUP,
    labels::ETCD_BACKUP_NAMESPACE,
    labels::ETCD_RESTORE,
    labels::ETCD_RESTORE_NAMESPACE,
];

/// Whether a Secret is that beside a Job: it has the Job's name, and both have the same labels.
pub fn is_beside(secret: &Value, job: &Value) -> bool {
    let same = |field: &str| secret["metadata"][field] == job["metadata"][field];
    same("name") && same("namespace") && BESIDE.iter().all(|name| label(secret, name) == label(job, name))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn job(name: &str, namespace: &str, labels: &Value) -> Value {
        let mut job = json!({"metadata": {
            "name": name, "namespace": namespace, "creationTimestamp": "2026-01-01T00:00:00Z", "labels": labels,
        }});
        job["metadata"]["labels"][labels::MANAGED_BY] = labels::MANAGED_BY_VALUE.into();
        job
    }

    fn of_backup() -> Value {
        json!({labels::ETCD_BACKUP: "one", labels::ETCD_BACKUP_NAMESPACE: "team-a"})
    }

    #[test]
    fn a_job_is_of_what_its_labels_its_name_and_its_place_say() {
        let home = names::control_plane_namespace("team-a", "acme");
        let of = |name: &str, namespace: &str| made_for(&job(name, namespace, &of_backup())).map(|key| key.to_string());
        let one = Some("EtcdBackup team-a/one".to_owned());
        for (name, namespace, wanted) in [
            ("backup-one", &*home, &one),
            ("backup-one-delete", &home, &one),
            ("backup-one", "team-a", &one),
            ("backup-two", &home, &None),
            ("backup-one", "team-b", &None),
            ("backup-one", &names::control_plane_namespace("team-b", "acme"), &None),
            ("backup-one", "acme-00000000", &None),
        ] {
            assert_eq!(of(name, namespace), *wanted, "{namespace}/{name}");
        }
        let restore = json!({labels::ETCD_RESTORE: "back", labels::ETCD_RESTORE_NAMESPACE: "team-a"});
        for name in ["restore-back-check", "restore-back"] {
            let owner = made_for(&job(name, &home, &restore)).map(|key| key.to_string());
            assert_eq!(owner.as_deref(), Some("EtcdRestore team-a/back"), "{name}");
        }
        let mut others = job("backup-one", &home, &of_backup());
        others["metadata"]["labels"][labels::MANAGED_BY] = "helm".into();
        assert_eq!(made_for(&others), None);
    }

    #[test]
    fn a_job_works_until_it_has_ended_and_for_an_hour() {
        let at = |text: &str| text.parse::<Timestamp>().unwrap();
        let mut live = job("backup-one", &names::control_plane_namespace("team-a", "acme"), &of_backup());
        let seen = BackupJob::read(&live).unwrap();
        assert_eq!((seen.does, seen.pool, seen.stands_alone), (Does::Take, Pool::Platform, false));
        assert!(seen.works(at("2026-01-01T00:59:59Z")) && !seen.works(at("2026-01-01T01:00:00Z")));
        live["metadata"]["labels"][labels::BACKUP_POOL] = labels::BACKUP_POOL_TEAMS.into();
        assert_eq!(BackupJob::read(&live).unwrap().pool, Pool::Teams);
        for (type_, ended) in [("Complete", true), ("Failed", true), ("FailureTarget", false), ("Suspended", false)] {
            live["status"]["conditions"] = json!([{"type": type_, "status": "True"}]);
            assert_eq!(BackupJob::read(&live).unwrap().ended, ended, "{type_}");
        }
        let alone = BackupJob::read(&job("backup-one-delete", "team-a", &of_backup())).unwrap();
        assert_eq!((alone.does, alone.pool, alone.stands_alone), (Does::Delete, Pool::Teams, true));
    }

    #[test]
    fn a_secret_is_beside_a_job_by_name_and_labels() {
        let live = job("backup-one", "team-a", &of_backup());
        assert!(is_beside(&live, &live));
        let mut other = live.clone();
        other["metadata"]["labels"][labels::ETCD_BACKUP] = "two".into();
        assert!(!is_beside(&other, &live));
        other["metadata"]["labels"] = Value::Null;
        assert!(!is_beside(&other, &live));
    }
}
