//! Reading what a plan for an `EtcdBackup`, its schedule, or an `EtcdRestore` looks at.

use crate::calls::Io;
use crate::dry_run::refused;
use crate::error::{ErrorKind, IoError, permitted};
use crate::refused::refused_by_job;
use crate::snapshot::Snapshot;
use berth_api::backup::{EtcdBackup, STORE_SECRET};
use berth_api::{EtcdBackupSchedule, EtcdRestore, labels, names};
use berth_plan::backup_jobs::{age, job_names, owner_labels};
use berth_plan::jobs::secret_beside;
use berth_plan::object_meta::label;
use berth_plan::{MetaCluster, SecretFacts, Settings};
use berth_plan_backup::{StoreObject, Target, backup, restore};
use berth_render::{Kind, ObjectKey};
use jiff::{SignedDuration, Timestamp};
use kube::ResourceExt;
use serde_json::json;
use std::sync::Arc;

/// A Job that is younger may get its pod yet.
const A_MOMENT: SignedDuration = SignedDuration::from_secs(3);

/// Reads the etcd that it is of, its Job and the pods of that, and, as long as it has not ended, the store's Secret, who else is
/// waiting, and the Jobs of all. `is_stuck`: whether the operator cannot get on with an `EtcdBackup`.
pub async fn observe_backup(
    io: &Io,
    object: &EtcdBackup,
    settings: &Settings,
    meta: &Arc<MetaCluster>,
    now: Timestamp,
    is_stuck: impl Fn(&ObjectKey) -> bool,
) -> Result<Snapshot, IoError> {
    let mut snapshot = Snapshot::of(meta);
    let target = Target::from(object);
    let own = ObjectKey::namespaced(Kind::EtcdBackup, object.namespace().unwrap_or_default(), object.name_any());
    if !is_home(io, &mut snapshot, &target, &own).await? {
        return fleet(io, &mut snapshot, object, &own, is_stuck).await.map(|()| snapshot);
    }
    let jobs = jobs(&own, &target);
    if object.has_ended() && object.metadata.deletion_timestamp.is_none() {
        get(io, &mut snapshot, jobs).await?;
        return Ok(snapshot);
    }
    let keys = jobs.into_iter().chain(of_etcd(&target)).chain(backup::schedule(object));
    get(io, &mut snapshot, keys.collect()).await?;
    let earlier = backup::earlier(object, &snapshot.observed);
    get(io, &mut snapshot, earlier.into_iter().collect()).await?;
    store(io, &mut snapshot, backup::store_object(object, settings)).await?;
    pods(io, &mut snapshot, &target.namespace, &own, now).await?;
    fleet(io, &mut snapshot, object, &own, is_stuck).await?;
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
    // Its namespace may be about to be made, or to go.
    let etcd = permitted(io.get(&Target::from(schedule).etcd).await)?.flatten();
    snapshot.put_all(Kind::EtcdCluster, etcd);
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
    object: &EtcdRestore,
    settings: &Settings,
    meta: &Arc<MetaCluster>,
    now: Timestamp,
) -> Result<Snapshot, IoError> {
    let mut snapshot = Snapshot::of(meta);
    let target = Target::from(object);
    let own = ObjectKey::namespaced(Kind::EtcdRestore, object.namespace().unwrap_or_default(), object.name_any());
    backups_and_restores(io, &mut snapshot, own.namespace.as_deref().unwrap_or_default()).await?;
    if !is_home(io, &mut snapshot, &target, &own).await? {
        return Ok(snapshot);
    }
    // Which backup it is may follow from whose data the etcd has.
    get(io, &mut snapshot, of_etcd(&target)).await?;
    let store_object = restore::store_object(object, &snapshot.observed, settings);
    let keys = jobs(&own, &target).into_iter().chain([target.claim()]);
    get(io, &mut snapshot, keys.collect()).await?;
    store(io, &mut snapshot, store_object).await?;
    pods(io, &mut snapshot, &target.namespace, &own, now).await?;
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

/// Reads what a store has: credentials, or the claim of its volume.
async fn store(io: &Io, snapshot: &mut Snapshot, object: Option<StoreObject>) -> Result<(), IoError> {
    match object {
        Some(StoreObject::TeamSecret(key)) => teams_secret(io, snapshot, &key, STORE_SECRET).await,
        Some(StoreObject::Readable(key)) => get(io, snapshot, vec![key]).await,
        None => Ok(()),
    }
}

/// Reads a team's Secret as the published kubeconfig is read, by an empty dry run: the operator may read no Secret of a
/// team, and a policy lets this one pass for its type. Of any other nothing is kept but that it is another, or why it
/// cannot be read.
pub(crate) async fn teams_secret(
    io: &Io,
    snapshot: &mut Snapshot,
    key: &ObjectKey,
    type_: &str,
) -> Result<(), IoError> {
    match io.merge(key, "", "dryRun=All", &json!({})).await {
        Ok(secret) if secret["type"] == type_ => snapshot.put(Kind::Secret, secret),
        Ok(_) => drop(snapshot.observed.secrets.insert(key.clone(), SecretFacts::default().into())),
        Err(e) if e.kind == ErrorKind::Rejected => {
            snapshot.observed.secrets.insert(key.clone(), refused(&e).into());
        }
        Err(e) if e.kind == ErrorKind::NotFound => {}
        Err(e) => denied(snapshot, e)?,
    }
    Ok(())
}

/// Whether the namespace of a tenant's etcd is the control plane of a `Cluster` beside `own`. In any other there is nothing of ours, and no right
/// to look.
async fn is_home(io: &Io, snapshot: &mut Snapshot, target: &Target, own: &ObjectKey) -> Result<bool, IoError> {
    if target.cluster.is_none() {
        return Ok(true);
    }
    let Some(namespace) = io.get(&ObjectKey::cluster(Kind::Namespace, &*target.namespace)).await? else {
        return Ok(false);
    };
    let ours = label(&namespace, labels::CLUSTER_NAMESPACE) == own.namespace.as_deref();
    snapshot.put(Kind::Namespace, namespace);
    Ok(ours)
}

/// The Jobs of an object, and the Secrets beside them.
fn jobs(own: &ObjectKey, target: &Target) -> Vec<ObjectKey> {
    let jobs =
        job_names(own.kind, &own.name).into_iter().map(|job| ObjectKey::namespaced(Kind::Job, &*target.namespace, job));
    jobs.flat_map(|job| [job.clone(), secret_beside(&job)]).collect()
}

/// An etcd, what runs it, and what it is of.
fn of_etcd(Target { namespace, cluster, etcd }: &Target) -> Vec<ObjectKey> {
    let key = cluster.as_ref().map(|_| ObjectKey::namespaced(Kind::Secret, &**namespace, names::APISERVER_ENCRYPTION));
    let set = ObjectKey { kind: Kind::StatefulSet, ..etcd.clone() };
    cluster.iter().cloned().chain([etcd.clone(), set]).chain(key).collect()
}

/// A Job's pods. After the Job: of one that is complete, the pod that says how is there already. Of a Job without any, what refuses them.
pub(crate) async fn pods(
    io: &Io,
    snapshot: &mut Snapshot,
    namespace: &str,
    own: &ObjectKey,
    now: Timestamp,
) -> Result<(), IoError> {
    let [of_name, of_namespace] = owner_labels(own.kind);
    let selector = format!("{of_name}={},{of_namespace}={}", own.name, own.namespace.as_deref().unwrap_or_default());
    let pods = match io.list(Kind::Pod, namespace, Some(&selector)).await {
        Ok(pods) => pods,
        Err(e) => return denied(snapshot, e),
    };
    let has_pods = |job: &str| pods.iter().any(|pod| label(pod, labels::JOB_NAME) == Some(job));
    // Most get theirs at once: nobody asks why one is not there before a moment has passed.
    let jobs = snapshot.observed.of_kind(Kind::Job, namespace).filter(|(_, job)| age(job, now) >= A_MOMENT);
    let without: Vec<String> = jobs.map(|(key, _)| key.name.clone()).filter(|job| !has_pods(job)).collect();
    for job in without {
        let why = refused_by_job(io, namespace, &job, now).await;
        snapshot.observed.refused.extend(why.map(|why| (job, why)));
    }
    for pod in pods {
        snapshot.put(Kind::Pod, pod);
    }
    Ok(())
}

pub(crate) async fn get(io: &Io, snapshot: &mut Snapshot, keys: Vec<ObjectKey>) -> Result<(), IoError> {
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
    own: &ObjectKey,
    is_stuck: impl Fn(&ObjectKey) -> bool,
) -> Result<(), IoError> {
    let listed = if backup.metadata.deletion_timestamp.is_none() {
        let listed = io.queue().read(io, own).await?;
        for (_, other) in &listed.backups {
            snapshot.put(Kind::EtcdBackup, other.clone());
        }
        listed
    } else if backup.status.as_ref().is_some_and(|s| s.key.is_some()) {
        backups_and_restores(io, snapshot, own.namespace.as_deref().unwrap_or_default()).await?;
        io.queue().read(io, own).await?
    } else {
        return Ok(());
    };
    snapshot.observed.backup_jobs = listed.jobs.clone();
    let all = snapshot.observed.objects.keys().filter(|key| key.kind == Kind::EtcdBackup);
    snapshot.observed.stuck = all.filter(|key| is_stuck(key)).cloned().collect();
    Ok(())
}

/// A right that is missing, as after a namespace that is about to be gone; anything else is a failure.
pub(crate) fn denied(snapshot: &mut Snapshot, error: IoError) -> Result<(), IoError> {
    if error.kind != ErrorKind::Forbidden {
        return Err(error);
    }
    snapshot.observed.denied = true;
    snapshot.denied.get_or_insert(error);
    Ok(())
}
