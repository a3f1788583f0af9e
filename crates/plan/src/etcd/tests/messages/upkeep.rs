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
    full(&mut e, 20);
    e.probe().members.values_mut().flatten().for_each(|m| m.progress.db_size = 20 << 20);
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
