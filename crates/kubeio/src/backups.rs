//! Reading what a plan for an `EtcdBackup`, its schedule, or an `EtcdRestore` looks at.

use crate::calls::Io;
use crate::error::{ErrorKind, IoError};
use crate::observe::Snapshot;
use crate::refused::refused_by_job;
use berth_api::backup::{EtcdBackup, STORE_SECRET, phase};
use berth_api::{EtcdBackupSchedule, EtcdRestore, labels, names};
use berth_plan::observed::label;
use berth_plan::{MetaCluster, SecretFacts, Settings};
use berth_plan_backup::backup::asks;
use berth_plan_backup::restore;
use berth_render::{Kind, ObjectKey};
use jiff::Timestamp;
use serde_json::json;
use std::sync::Arc;

/// Reads the etcd that it is of, its Job and the pods of that, and, as long as it has not ended, the store's Secret, who else is
/// waiting, and the Jobs of all. `is_stuck`: whether the operator cannot get on with an `EtcdBackup`.
pub async fn observe_backup(
    io: &Io,
    backup: &EtcdBackup,
    settings: &Settings,
    meta: &Arc<MetaCluster>,
    now: Timestamp,
    is_stuck: impl Fn(&ObjectKey) -> bool,
) -> Result<Snapshot, IoError> {
    let mut snapshot = Snapshot::of(meta);
    let asks = asks(backup, settings);
    let name = backup.metadata.name.as_deref().unwrap_or_default();
    let own = backup.metadata.namespace.as_deref().unwrap_or_default();
    let space = asks.namespace.as_str();
    if asks.cluster.is_some() && !is_home(io, &mut snapshot, space, own).await? {
        return fleet(io, &mut snapshot, backup, is_stuck).await.map(|()| snapshot);
    }
    let mut keys = beside(&[names::backup(name), names::backup_deletion(name)], space);
    let ended = backup.status.as_ref().and_then(|s| s.phase.as_deref());
    let at_rest =
        [Some(phase::VERIFIED), Some(phase::FAILED)].contains(&ended) && backup.metadata.deletion_timestamp.is_none();
    if !at_rest {
        keys.extend(of_etcd(&asks.etcd, asks.cluster.as_ref()));
        keys.extend(asks.credentials.clone().filter(|_| backup.spec.secret_ref.is_none()));
        keys.extend(asks.claim.clone());
        keys.extend(berth_plan_backup::backup::schedule(backup));
    }
    get(io, &mut snapshot, keys).await?;
    let earlier = berth_plan_backup::backup::earlier(backup, &snapshot.observed, settings).filter(|_| !at_rest);
    get(io, &mut snapshot, earlier.into_iter().collect()).await?;
    if let Some(key) = asks.credentials.filter(|_| !at_rest && backup.spec.secret_ref.is_some()) {
        teams_store(io, &mut snapshot, &key).await?;
    }
    if !at_rest {
        let selector = format!("{}={name},{}={own}", labels::ETCD_BACKUP, labels::ETCD_BACKUP_NAMESPACE);
        pods(io, &mut snapshot, space, &selector, now).await?;
        fleet(io, &mut snapshot, backup, is_stuck).await?;
    }
    Ok(snapshot)
}

/// Reads the `EtcdBackup`s and `EtcdRestore`s of a schedule's namespace.
pub async fn observe_schedule(
    io: &Io,
    schedule: &EtcdBackupSchedule,
    meta: &Arc<MetaCluster>,
) -> Result<Snapshot, IoError> {
    let mut snapshot = Snapshot::of(meta);
    let namespace = schedule.metadata.namespace.as_deref().unwrap_or_default();
    backups_and_restores(io, &mut snapshot, namespace).await?;
    Ok(snapshot)
}

/// Reads the `EtcdBackupSchedule`s of a namespace into what was observed there.
pub async fn observe_schedules(io: &Io, namespace: &str, snapshot: &mut Snapshot) -> Result<(), IoError> {
    for schedule in io.list(Kind::EtcdBackupSchedule, namespace, None).await? {
        snapshot.put(Kind::EtcdBackupSchedule, schedule);
    }
    Ok(())
}

/// Reads what a decision about a recovery looks at: restores and backups of that namespace, and all etcds.
pub async fn observe_recoveries(io: &Io, namespace: &str, snapshot: &mut Snapshot) -> Result<(), IoError> {
    backups_and_restores(io, snapshot, namespace).await?;
    io.list_each(Kind::EtcdCluster, |etcd| snapshot.put(Kind::EtcdCluster, etcd)).await
}

/// Reads the etcd that is restored, the backup, both Jobs and their pods.
pub async fn observe_restore(
    io: &Io,
    restore: &EtcdRestore,
    settings: &Settings,
    meta: &Arc<MetaCluster>,
    now: Timestamp,
) -> Result<Snapshot, IoError> {
    let mut snapshot = Snapshot::of(meta);
    let asks = restore::asks(restore);
    let name = restore.metadata.name.as_deref().unwrap_or_default();
    let own = restore.metadata.namespace.as_deref().unwrap_or_default();
    let space = asks.namespace.as_str();
    backups_and_restores(io, &mut snapshot, own).await?;
    if asks.cluster.is_some() && !is_home(io, &mut snapshot, space, own).await? {
        return Ok(snapshot);
    }
    // Which backup it is may follow from whose data the etcd has.
    get(io, &mut snapshot, of_etcd(&asks.etcd, asks.cluster.as_ref())).await?;
    let mut keys = beside(&[names::restore_check(name), names::restore(name)], space);
    keys.push(asks.claim());
    keys.extend(restore::claim(restore, &snapshot.observed));
    let credentials = restore::credentials(restore, &snapshot.observed, settings);
    let is_platforms = |key: &ObjectKey| key.namespace.as_deref() == Some(&*settings.backups.namespace);
    keys.extend(credentials.clone().filter(is_platforms));
    let selector = format!("{}={name},{}={own}", labels::ETCD_RESTORE, labels::ETCD_RESTORE_NAMESPACE);
    get(io, &mut snapshot, keys).await?;
    if let Some(key) = credentials.filter(|key| !is_platforms(key)) {
        teams_store(io, &mut snapshot, &key).await?;
    }
    pods(io, &mut snapshot, space, &selector, now).await?;
    Ok(snapshot)
}

/// All of a namespace.
async fn backups_and_restores(io: &Io, snapshot: &mut Snapshot, namespace: &str) -> Result<(), IoError> {
    for kind in [Kind::EtcdBackup, Kind::EtcdRestore] {
        for object in io.list(kind, namespace, None).await? {
            snapshot.put(kind, object);
        }
    }
    Ok(())
}

/// Reads the Secret of a team's own store as the published kubeconfig is read, by an empty dry run: the operator may read no Secret of a
/// team, and a policy lets this one pass for its type. Of any other nothing is kept but that it is another.
async fn teams_store(io: &Io, snapshot: &mut Snapshot, key: &ObjectKey) -> Result<(), IoError> {
    match io.merge(key, "", "dryRun=All", &json!({})).await {
        Ok(secret) if secret["type"] == STORE_SECRET => snapshot.put(Kind::Secret, secret),
        Ok(_) => drop(snapshot.observed.secrets.insert(key.clone(), SecretFacts::default().into())),
        Err(e) if e.kind == ErrorKind::Rejected => {
            snapshot.observed.secrets.insert(key.clone(), SecretFacts::default().into());
        }
        Err(e) if e.kind == ErrorKind::NotFound => {}
        Err(e) => denied(snapshot, e)?,
    }
    Ok(())
}

/// Whether a namespace is the control plane of a `Cluster` in `own`. In any other there is nothing of ours, and no right to look.
async fn is_home(io: &Io, snapshot: &mut Snapshot, namespace: &str, own: &str) -> Result<bool, IoError> {
    let namespace = io.get(&ObjectKey::cluster(Kind::Namespace, namespace)).await?;
    let ours = namespace.as_ref().is_some_and(|n| label(n, labels::CLUSTER_NAMESPACE) == Some(own));
    if let Some(namespace) = namespace {
        snapshot.put(Kind::Namespace, namespace);
    }
    Ok(ours)
}

/// Jobs, and the Secrets beside them.
fn beside(jobs: &[String], namespace: &str) -> Vec<ObjectKey> {
    let both = |job: &String| [Kind::Job, Kind::Secret].map(|kind| ObjectKey::namespaced(kind, namespace, job));
    jobs.iter().flat_map(both).collect()
}

/// An etcd, what runs it, and what it is of.
fn of_etcd(etcd: &ObjectKey, cluster: Option<&ObjectKey>) -> Vec<ObjectKey> {
    let mut keys: Vec<_> = cluster.cloned().into_iter().collect();
    keys.extend([etcd.clone(), ObjectKey { kind: Kind::StatefulSet, ..etcd.clone() }]);
    let space = etcd.namespace.as_deref().unwrap_or_default();
    keys.extend(cluster.map(|_| ObjectKey::namespaced(Kind::Secret, space, names::APISERVER_ENCRYPTION)));
    keys
}

/// A Job's pods. After the Job: of one that is complete, the pod that says how is there already. Of a Job without any, what refuses them.
async fn pods(
    io: &Io,
    snapshot: &mut Snapshot,
    namespace: &str,
    selector: &str,
    now: Timestamp,
) -> Result<(), IoError> {
    let pods = match io.list(Kind::Pod, namespace, Some(selector)).await {
        Ok(pods) => pods,
        Err(e) => return denied(snapshot, e),
    };
    let has_pods = |job: &str| pods.iter().any(|pod| label(pod, labels::JOB_NAME) == Some(job));
    let jobs = snapshot.observed.of_kind(Kind::Job, namespace).map(|(key, _)| key.name.clone());
    let without: Vec<String> = jobs.filter(|job| !has_pods(job)).collect();
    for job in without {
        let why = refused_by_job(io, namespace, &job, now).await;
        snapshot.observed.refused.extend(why.map(|why| (job, why)));
    }
    for pod in pods {
        snapshot.put(Kind::Pod, pod);
    }
    Ok(())
}

async fn get(io: &Io, snapshot: &mut Snapshot, keys: Vec<ObjectKey>) -> Result<(), IoError> {
    for key in keys {
        match io.get(&key).await {
            Ok(Some(object)) => snapshot.put(key.kind, object),
            Ok(None) => {}
            Err(e) => denied(snapshot, e)?,
        }
    }
    Ok(())
}

/// Other `EtcdBackup`s: all that wait or run, by which it has its turn; of one that is deleted, those of its namespace, since a newer one
/// has to be there, and the `EtcdRestore`s, which may need it. And the Jobs of all.
async fn fleet(
    io: &Io,
    snapshot: &mut Snapshot,
    backup: &EtcdBackup,
    is_stuck: impl Fn(&ObjectKey) -> bool,
) -> Result<(), IoError> {
    let meta = &backup.metadata;
    let namespace = meta.namespace.as_deref().unwrap_or_default();
    let own = ObjectKey::namespaced(Kind::EtcdBackup, namespace, meta.name.as_deref().unwrap_or_default());
    let listed = if meta.deletion_timestamp.is_none() {
        let listed = io.queue().read(io, &own).await?;
        for (_, other) in &listed.backups {
            snapshot.put(Kind::EtcdBackup, other.clone());
        }
        listed
    } else if backup.status.as_ref().is_some_and(|s| s.key.is_some()) {
        backups_and_restores(io, snapshot, namespace).await?;
        io.queue().read(io, &own).await?
    } else {
        return Ok(());
    };
    snapshot.observed.backup_jobs = listed.jobs.clone();
    let all = snapshot.observed.objects.keys().filter(|key| key.kind == Kind::EtcdBackup);
    snapshot.observed.stuck = all.filter(|key| is_stuck(key)).cloned().collect();
    Ok(())
}

/// A right that is missing, as after a namespace that is about to be gone; anything else is a failure.
fn denied(snapshot: &mut Snapshot, error: IoError) -> Result<(), IoError> {
    if error.kind != ErrorKind::Forbidden {
        return Err(error);
    }
    snapshot.observed.denied = true;
    snapshot.denied.get_or_insert(error);
    Ok(())
}
