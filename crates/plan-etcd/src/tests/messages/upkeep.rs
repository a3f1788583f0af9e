//! What is said of a full database.

use super::*;

/// The database is full, and calls to etcd fail; or what they do does not help.
pub(super) fn all(formed: &Etcd) -> Vec<Situation> {
    let full = |e: &mut Etcd, used: i64| {
        e.probe().alarms = vec![alarm("NOSPACE", 0)];
        e.probe().members.values_mut().flatten().for_each(|m| {
            (m.progress.db_size, m.progress.db_size_in_use, m.progress.quota) = (64 << 20, used << 20, 64 << 20);
        });
    };
    let mut all = vec![];
    let mut e = formed.clone();
    full(&mut e, 60);
    e.looks();
    all.push(e.said("the database is full, and etcd is not compacted"));
    e.reconcile();
    for _ in 0..6 {
        e.passes(6);
        e.reconcile();
    }
    all.push(e.said("the database is full of what is in use"));
    let mut largest = e.clone();
    largest.probe().members.values_mut().flatten().for_each(|m| {
        (m.progress.db_size, m.progress.db_size_in_use, m.progress.quota) = (8 << 30, 8 << 30, 8 << 30);
    });
    largest.looks();
    all.push(largest.said("the database is full of what is in use, and has the largest quota"));
    let mut tenants = e.clone();
    tenants.cr.metadata.labels = Some(crate::tests::recovery::of_a_tenant());
    tenants.looks();
    all.push(tenants.said("a tenant's database is full of what is in use"));
    let mut deleted = formed.clone();
    full(&mut deleted, 60);
    deleted.probe().alarms.push(alarm("NOSPACE", 1));
    for _ in 0..2 {
        deleted.reconcile();
        deleted.passes(6);
    }
    deleted.probe().members.values_mut().flatten().for_each(|m| m.progress.revision += 1);
    deleted.looks();
    all.push(deleted.said("the database is full of what was in use, and somebody deleted keys a moment ago"));
    let mut room = formed.clone();
    full(&mut room, 20);
    room.reconcile();
    all.push(room.said("the database is full, and etcd was compacted"));
    room.passes(6);
    room.looks();
    all.push(room.said("the database is full, and a member is not defragmented"));
    room.reconcile();
    all.push(room.said("the database is full, and a member was defragmented"));
    room.passes(6);
    room.reconcile();
    room.passes(6);
    room.looks();
    all.push(room.said("the database is full, and the leader does not hand over the leadership"));
    full(&mut e, 20);
    e.probe().members.values_mut().flatten().for_each(|m| m.progress.db_size = 20 << 20);
    let upkeep = e.cr.status.as_mut().and_then(|s| s.upkeep.as_mut()).unwrap();
    upkeep.done = (0..3).map(|i| format!("etcd-{i}")).collect();
    e.looks();
    all.push(e.said("the database is small again, and the alarm is not disarmed"));
    e.cr.spec.paused = true;
    e.looks();
    all.push(e.said("the database is full, and the EtcdCluster is paused"));
    let mut e = formed.clone();
    e.answer(&[0, 1], 0);
    full(&mut e, 60);
    e.looks();
    all.push(e.said("the database is full while a member does not answer"));
    let mut e = formed.clone();
    e.cr.spec.replicas = 5;
    e.reconcile();
    full(&mut e, 60);
    e.looks();
    all.push(e.said("the database is full while a member is being added"));
    let mut e = formed.clone();
    e.probe().list.as_mut().unwrap().push(super::super::listed("stranger", "beef"));
    full(&mut e, 60);
    e.looks();
    all.push(e.said("the database is full, and etcd lists a member that Berth did not add"));
    all
}
