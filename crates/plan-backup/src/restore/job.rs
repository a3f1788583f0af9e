//! The two Jobs: as those of backups, with etcd's image. The second has the volume of the member, and its user.

use super::validate::ValidRestore;
use crate::jobs::{JobTemplate, Volume, task_of};
use berth_api::backup::{Check, REVISIONS_PER_EPOCH, Restore, Subject, Task};
use serde_json::{Value, json};

/// The member's volume, as its own pod has it.
const VOLUME: &str = "/var/lib/etcd";

/// Finds out whether the backup can be restored.
pub(super) fn check<'a>(valid: &'a ValidRestore<'_>) -> JobTemplate<'a> {
    let (key, sha256) = valid.source.snapshot();
    let into = Subject { encryption_key: valid.encryption_key.clone(), ..valid.of.clone() };
    let task = Task::Check(Check { store: valid.store.store.clone(), key, sha256, into });
    JobTemplate::new(task, &valid.store, &valid.image, Some(&valid.etcd))
}

/// Puts it onto the member's volume, as the beginning of that epoch.
pub(super) fn restore<'a>(valid: &'a ValidRestore<'_>, epoch: i64) -> JobTemplate<'a> {
    let (key, sha256) = valid.source.snapshot();
    let was = valid.source.status.epoch.unwrap_or_default();
    let task = Task::Restore(Restore {
        store: valid.store.store.clone(),
        key,
        sha256,
        identity: valid.identity.clone(),
        epoch,
        member: valid.member.clone(),
        peer_url: format!("https://{}.{}.svc:2380", valid.member, valid.target.namespace),
        bump: REVISIONS_PER_EPOCH * (epoch - was).max(1),
        keep_old_data: u64::try_from(berth_plan::etcd_home::keep_old_data(&valid.etcd.spec).as_secs()).ok(),
    });
    let mut job = JobTemplate::new(task, &valid.store, &valid.image, Some(&valid.etcd));
    let claim = json!({"persistentVolumeClaim": {"claimName": valid.target.claim().name}});
    job.volumes.push(Volume::new("data", VOLUME, claim));
    job.args.push(format!("--volume={VOLUME}"));
    // The files are the member's, and stay so.
    let user = valid.set.pointer("/spec/template/spec/securityContext").filter(|user| user.is_object());
    job.pod.extend(user.map(|user| ("securityContext".to_owned(), user.clone())));
    job
}

/// The epoch that a Job restores.
pub(super) fn epoch(job: &Value) -> Option<i64> {
    match task_of(job)? {
        Task::Restore(task) => Some(task.epoch),
        _ => None,
    }
}
