//! The two Jobs: as those of backups, with etcd's image. The second has the volume of the member, and its user.

use super::place::Place;
use super::task_of;
use crate::backup::Owner;
use crate::backup::job::{add, job};
use berth_api::backup::{Check, REVISIONS_PER_EPOCH, Restore, Subject, Task};
use berth_api::conditions::Reason;
use berth_plan::model::State;
use berth_render::{Kind, Object, ObjectKey};
use serde_json::{Value, json};

/// The member's volume, as its own pod has it.
const VOLUME: &str = "/var/lib/etcd";

pub(super) fn key(place: &Place<'_>, name: String) -> ObjectKey {
    ObjectKey::namespaced(Kind::Job, &*place.asks.namespace, name)
}

fn bug(error: String) -> State {
    State::blocked(Reason::Error, error)
}

/// Key and SHA-256 of the snapshot.
fn snapshot(place: &Place<'_>) -> (String, String) {
    let status = place.backup.status.clone().unwrap_or_default();
    (status.key.unwrap_or_default(), status.sha256.unwrap_or_default())
}

/// Finds out whether the backup can be restored.
pub(super) fn check(owner: &Owner<'_>, place: &Place<'_>, key: &ObjectKey) -> Result<Object, State> {
    let (snapshot, sha256) = snapshot(place);
    let into = Subject { encryption_key: place.encryption_key.clone(), ..place.of.clone() };
    let task = Task::Check(Check { store: place.store.store.clone(), key: snapshot, sha256, into });
    job(owner, &task, &place.store, key, &place.image, Some(&place.etcd)).and_then(Object::new).map_err(bug)
}

/// Puts it onto the member's volume, as the beginning of that epoch.
pub(super) fn restore(owner: &Owner<'_>, place: &Place<'_>, key: &ObjectKey, epoch: i64) -> Result<Object, State> {
    let (snapshot, sha256) = snapshot(place);
    let was = place.backup.status.as_ref().and_then(|s| s.epoch).unwrap_or_default();
    let task = Task::Restore(Restore {
        store: place.store.store.clone(),
        key: snapshot,
        sha256,
        identity: place.identity.clone(),
        epoch,
        member: place.member.clone(),
        peer_url: format!("https://{}.{}.svc:2380", place.member, place.asks.namespace),
        bump: REVISIONS_PER_EPOCH * (epoch - was).max(1),
        keep_old_data: u64::try_from(berth_plan::etcd_home::keep_old_data(&place.etcd.spec).as_secs()).ok(),
    });
    let mut object = job(owner, &task, &place.store, key, &place.image, Some(&place.etcd)).map_err(bug)?;
    let pod = &mut object["spec"]["template"]["spec"];
    add(pod, "data", VOLUME, json!({"persistentVolumeClaim": {"claimName": place.asks.claim().name}}));
    if let Some(args) = pod["containers"][0]["args"].as_array_mut() {
        args.push(format!("--volume={VOLUME}").into());
    }
    // The files are the member's, and stay so.
    if let Some(user) = place.set.pointer("/spec/template/spec/securityContext").filter(|user| user.is_object()) {
        pod["securityContext"] = user.clone();
    }
    Object::new(object).map_err(bug)
}

/// The epoch that a Job restores.
pub(super) fn epoch(job: &Value) -> Option<i64> {
    match task_of(job)? {
        Task::Restore(task) => Some(task.epoch),
        _ => None,
    }
}
