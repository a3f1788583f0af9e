//! The two Jobs: one takes a backup and proves it, the other deletes it in the store.

use super::input::BackupInput;
use super::validate::{ValidBackup, members, names_members};
use crate::jobs::{JobTemplate, Volume};
use crate::store::ResolvedStore;
use berth_api::backup::{Delete, Take, Task};
use berth_api::{EtcdCluster, labels};
use berth_plan::backup_jobs::Pool;
use serde_json::{Value, json};

/// Takes a backup.
pub(super) fn take<'a>(input: BackupInput<'a>, valid: &'a ValidBackup) -> JobTemplate<'a> {
    let status = valid.etcd.status.clone().unwrap_or_default();
    let of = valid.subject.clone();
    let parts = [&*valid.store.prefix, &of.namespace, &of.name, &of.identity];
    let prefix: Vec<&str> = parts.into_iter().filter(|part| !part.is_empty()).collect();
    let members = members(input.object, &status).unwrap_or_default();
    let task = Task::Take(Take {
        store: valid.store.store.clone(),
        prefix: prefix.join("/"),
        members: members.iter().map(|e| e.url.clone()).collect(),
        of,
        without_quorum: input.object.spec.without_quorum,
        all: names_members(input.object),
        earlier: super::earlier::asked(input),
    });
    let mut job = of_backup(input, JobTemplate::new(task, &valid.store, &valid.image, Some(&valid.etcd)));
    if Pool::of(&input.object.spec) == Pool::Teams {
        job.labels.push((labels::BACKUP_POOL, labels::BACKUP_POOL_TEAMS));
    }
    let certificate = json!({"secret": {"secretName": valid.client, "defaultMode": 0o440}});
    job.volumes.push(Volume::new("etcd", "/etc/berth/etcd", certificate));
    let aliases: Vec<Value> = members.iter().map(|e| json!({"ip": e.address, "hostnames": [e.host]})).collect();
    job.pod.insert("hostAliases".into(), aliases.into());
    job
}

/// Deletes a backup in the store.
pub(super) fn delete<'a>(
    input: BackupInput<'a>,
    store: &'a ResolvedStore,
    (snapshot, image): (&str, &'a str),
    etcd: Option<&'a EtcdCluster>,
) -> JobTemplate<'a> {
    let task = Task::Delete(Delete { store: store.store.clone(), key: snapshot.to_owned() });
    // With the finalizer of its EtcdBackup nobody is left to delete it.
    JobTemplate { ttl: Some(600), ..of_backup(input, JobTemplate::new(task, store, image, etcd)) }
}

/// With the UID of the `EtcdBackup`, since another one may have its name later.
fn of_backup<'a>(input: BackupInput<'a>, mut job: JobTemplate<'a>) -> JobTemplate<'a> {
    job.labels.push((labels::ETCD_BACKUP_UID, input.uid()));
    job
}
