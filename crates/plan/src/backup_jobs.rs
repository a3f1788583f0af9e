//! Jobs beside etcds, as far as others look at them: which hold a place, and which have nobody left.
//!
//! A Job in a control-plane namespace is Berth's. In the namespace of a stand-alone etcd its team may create what looks the same, so there a
//! Job counts for no place but the team's own share.

use crate::object_meta::label;
use berth_api::backup::EtcdBackupSpec;
use berth_api::{labels, names};
use berth_render::{Kind, ObjectKey};
use jiff::{SignedDuration, Timestamp};
use serde_json::Value;

/// How long a Job of an `EtcdBackup` may take with all its tries, in seconds: 8 GiB at 5 MiB/s, there and back.
pub const DEADLINE: i64 = 3600;

/// A Job gets its pod within a second or two. One that has none after so many seconds gets none: a quota or a policy refuses it, the Job is
/// suspended, or nobody makes pods.
pub const POD_AFTER: i64 = 10;

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
        let is_teams = spec.cluster_ref.is_none() || spec.store.secret_ref.is_some() || spec.store.claim_ref.is_some();
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
    /// The namespace of the Job, where its pods are.
    pub home: String,
    /// It is in the team's own namespace.
    pub stands_alone: bool,
    /// It has a pod, or had one: between two tries it keeps its place.
    pub had_pod: bool,
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
            home: namespace.to_owned(),
            stands_alone,
            had_pod: had_pod(&job["status"]),
            began: job["metadata"]["creationTimestamp"].as_str()?.parse().ok()?,
            ended: ["Complete", "Failed"].iter().any(|type_| condition(job, type_).is_some()),
            of,
        })
    }

    /// Whether it is at work, or about to be. After its deadline it is not, whatever it says: its own clock may have been stopped by
    /// `spec.suspend`.
    pub fn works(&self, now: Timestamp) -> bool {
        self.is_open(now) && !self.lacks_pod(now)
    }

    /// Whether it waits for a pod that it does not get. It goes on as soon as it gets one.
    pub fn lacks_pod(&self, now: Timestamp) -> bool {
        self.is_open(now) && !self.had_pod && now.duration_since(self.began).as_secs() >= POD_AFTER
    }

    fn is_open(&self, now: Timestamp) -> bool {
        !self.ended && now.duration_since(self.began).as_secs() < DEADLINE
    }
}

/// Whether its controller has counted a pod. It says nothing of those that were refused.
fn had_pod(status: &Value) -> bool {
    let counts = ["active", "terminating", "succeeded", "failed"].iter().any(|count| status[count].as_u64() > Some(0));
    let uncounted = status["uncountedTerminatedPods"].as_object();
    counts || uncounted.into_iter().flatten().any(|(_, pods)| pods.as_array().is_some_and(|pods| !pods.is_empty()))
}

/// How long ago a Job was created, by the API server's clock.
pub fn age(job: &Value, now: Timestamp) -> SignedDuration {
    let created: Option<Timestamp> = job["metadata"]["creationTimestamp"].as_str().and_then(|at| at.parse().ok());
    created.map(|at| now.duration_since(at)).unwrap_or_default()
}

/// A condition of a Job that is true.
pub fn condition<'a>(job: &'a Value, type_: &str) -> Option<&'a Value> {
    let all = job.pointer("/status/conditions").and_then(Value::as_array);
    all.into_iter().flatten().find(|c| c["type"] == type_ && c["status"] == "True")
}

/// Kinds that have Jobs.
pub const OWNERS: [Kind; 3] = [Kind::EtcdBackup, Kind::EtcdRestore, Kind::AppInstallation];

/// Labels of what is made for an object that has Jobs: its name and its namespace.
pub fn owner_labels(owner: Kind) -> [&'static str; 2] {
    match owner {
        Kind::EtcdBackup => [labels::ETCD_BACKUP, labels::ETCD_BACKUP_NAMESPACE],
        Kind::AppInstallation => [labels::APP_INSTALLATION, labels::APP_INSTALLATION_NAMESPACE],
        _ => [labels::ETCD_RESTORE, labels::ETCD_RESTORE_NAMESPACE],
    }
}

/// The Jobs that such an object may have, by name.
pub fn job_names(owner: Kind, name: &str) -> Vec<String> {
    match owner {
        Kind::EtcdBackup => vec![names::backup(name), names::backup_deletion(name)],
        Kind::AppInstallation => vec![names::app_job(name)],
        _ => vec![names::restore_check(name), names::restore(name)],
    }
}

/// The object that a Job is made for, by its labels, its name and where it is.
pub fn made_for(job: &Value) -> Option<ObjectKey> {
    let (own, home) = (job["metadata"]["name"].as_str()?, job["metadata"]["namespace"].as_str()?);
    if label(job, labels::MANAGED_BY) != Some(labels::MANAGED_BY_VALUE) {
        return None;
    }
    let named = |kind: Kind| {
        let [name, namespace] = owner_labels(kind);
        Some((kind, label(job, name)?, label(job, namespace)?))
    };
    let (kind, name, namespace) = OWNERS.into_iter().find_map(named)?;
    let is_there = home == namespace || names::is_control_plane_namespace(home, namespace);
    (is_there && job_names(kind, name).iter().any(|job| job == own))
        .then(|| ObjectKey::namespaced(kind, namespace, name))
}

/// Labels that a Job and the Secret beside it have both, or neither.
pub const BESIDE: [&str; 7] = [
    labels::MANAGED_BY,
    labels::ETCD_BACKUP,
    labels::ETCD_BACKUP_NAMESPACE,
    labels::ETCD_RESTORE,
    labels::ETCD_RESTORE_NAMESPACE,
    labels::APP_INSTALLATION,
    labels::APP_INSTALLATION_NAMESPACE,
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
        live["status"]["active"] = 1.into();
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
    fn a_job_without_a_pod_is_not_at_work() {
        let at =
            |seconds: i64| "2026-01-01T00:00:00Z".parse::<Timestamp>().unwrap() + SignedDuration::from_secs(seconds);
        let mut live = job("backup-one", &names::control_plane_namespace("team-a", "acme"), &of_backup());
        let mut judged = |status: Value, seconds: i64| {
            live["status"] = status;
            let seen = BackupJob::read(&live).unwrap();
            (seen.works(at(seconds)), seen.lacks_pod(at(seconds)))
        };
        let (works, lacks, ended) = ((true, false), (false, true), (false, false));
        for (status, seconds, wanted) in [
            (Value::Null, 9, works),
            (Value::Null, 10, lacks),
            // As the Job controller writes it when it could make none.
            (
                json!({"active": 0, "ready": 0, "terminating": 0, "startTime": "2026-01-01T00:00:00Z", "uncountedTerminatedPods": {}}),
                10,
                lacks,
            ),
            (json!({"conditions": [{"type": "Suspended", "status": "True"}]}), 10, lacks),
            (json!({"active": 1, "ready": 0}), 10, works),
            (json!({"terminating": 1}), 10, works),
            // It tries again after ten seconds, or twenty.
            (json!({"active": 0, "failed": 1}), 10, works),
            (json!({"uncountedTerminatedPods": {"failed": ["uid"]}}), 10, works),
            (json!({"uncountedTerminatedPods": {"failed": []}}), 10, lacks),
            (json!({"conditions": [{"type": "Failed", "status": "True"}]}), 10, ended),
            (Value::Null, 3600, ended),
        ] {
            assert_eq!(judged(status.clone(), seconds), wanted, "{status} {seconds}");
        }
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
