//! What is said while the version changes, and of versions that cannot be.

use super::super::versions::{NEW, OLD};
use super::*;

pub(super) fn all() -> Vec<Situation> {
    let mut all = vec![];
    let mut e = Etcd::of_version("3.5.31", 3);
    e.asks_for(NEW);
    all.push(e.said("3.6 is asked for, and a member runs less than 3.5.32"));
    let mut e = Etcd::of_version(OLD, 3);
    e.answer(&[0, 1], 0);
    e.asks_for(NEW);
    e.serves(0);
    e.probe().alarms.push(alarm("NOSPACE", 0));
    e.looks();
    all.push(e.said("another version is asked for while an alarm is raised"));
    let mut e = Etcd::of_version(OLD, 3);
    let check = json!({"checkedAt": e.world.now, "revision": 5, "differing": ["etcd-1"]});
    e.cr.status.as_mut().unwrap().hashes = serde_json::from_value(check).unwrap();
    e.looks();
    all.push(e.said("one member has other data than the others"));
    let check = json!({"checkedAt": e.world.now, "revision": 5, "differing": ["etcd-0", "etcd-1", "etcd-2"]});
    e.cr.status.as_mut().unwrap().hashes = serde_json::from_value(check).unwrap();
    e.looks();
    all.push(e.said("all members have different data"));
    e.is_automatic();
    e.looks();
    all.push(e.said("all members of a tenant's etcd have different data, and there is a store"));
    let mut e = Etcd::of_version(OLD, 3);
    e.cr.status.as_mut().unwrap().hashes_failed_at =
        Some(k8s_openapi::apimachinery::pkg::apis::meta::v1::Time(e.world.now));
    e.asks_for(NEW);
    all.push(e.said("another version: a member gave no hash of its data"));
    let mut e = Etcd::of_version(OLD, 3);
    e.asks_for(NEW);
    all.push(e.said("another version: the StatefulSet's controller has not taken note"));
    e.until_new(2);
    e.looks();
    all.push(e.said("another version: the first member has come up a moment ago"));
    e.answer(&[0, 1], 0);
    e.looks();
    all.push(e.said("another version: a member has its pod and does not answer yet"));
    e.fails(2);
    e.looks();
    all.push(e.said("another version: a member does not come up"));
    e.world.now += SignedDuration::from_secs(31);
    e.reconcile();
    e.members_run();
    e.looks();
    all.push(e.said("another version did not come up, and the member that failed is replaced"));
    (0..8).for_each(|_| e.turn());
    all.push(e.said("another version did not come up"));
    let mut e = Etcd::of_version(OLD, 3);
    e.asks_for(NEW);
    e.until_new(0);
    e.fails(0);
    e.serves(2);
    let pod = Etcd::key(Kind::Pod, "etcd-0");
    e.edit(&pod)["status"]["containerStatuses"][0]["lastState"]["terminated"]["startedAt"] = Value::Null;
    e.world.now += SignedDuration::from_secs(31);
    e.reconcile();
    all.push(e.said("another version: the last member does not come up, and there may be no way back"));
    all
}
