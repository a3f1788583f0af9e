//! What is said of an etcd that sleeps.

use super::*;

pub(super) fn all() -> Vec<Situation> {
    let mut all = vec![];
    let mut e = Etcd::with_claims(3);
    e.wants_sleep(true);
    e.world.observed.etcd = None;
    e.reconcile();
    all.push(e.said("it is to sleep, and its pods end"));
    e.pods_end();
    e.looks();
    all.push(e.said("it is to sleep, and its pods have ended"));
    let asleep = Etcd::asleep(3);
    all.push(asleep.said("it sleeps"));
    for (text, change) in [
        (
            "it sleeps, and a claim has lost its volume",
            (|claim| claim["status"]["phase"] = "Lost".into()) as fn(&mut Value),
        ),
        ("it sleeps, and a claim is being deleted", |claim| claim["metadata"]["deletionTimestamp"] = "x".into()),
    ] {
        let mut e = asleep.clone();
        change(e.edit(&Etcd::key(Kind::PersistentVolumeClaim, "data-etcd-1")));
        e.reconcile();
        all.push(e.said(text));
    }
    let mut e = asleep.clone();
    e.world.remove(&Etcd::key(Kind::PersistentVolumeClaim, "data-etcd-1"));
    e.reconcile();
    all.push(e.said("it sleeps, and a claim is gone"));
    let mut e = asleep.clone();
    e.wants_sleep(false);
    all.push(e.said("it wakes"));
    let mut e = asleep.clone();
    e.cr.spec.paused = true;
    e.wants_sleep(false);
    all.push(e.said("it is to wake, and is paused"));
    let mut e = Etcd::new(3);
    e.cr.spec.hibernation.enabled = true;
    e.reconcile();
    e.members_run();
    e.answer(&[0], 0);
    e.reconcile();
    all.push(e.said("it is to sleep before it was formed"));
    for (text, change) in [
        ("it is to sleep, and a member does not answer", (|e| e.answer(&[0, 1], 0)) as fn(&mut Etcd)),
        ("it is to sleep, and a member is added", |e| {
            e.cr.spec.replicas = 5;
            e.reconcile();
        }),
        ("it is to sleep, and an alarm is raised", |e| e.probe().alarms = vec![alarm("NOSPACE", 1)]),
        ("it is to sleep, and its pods get another template", |e| e.cr.spec.snapshot_count = Some(20_000)),
    ] {
        let mut e = Etcd::with_claims(3);
        change(&mut e);
        e.cr.spec.hibernation.enabled = true;
        e.looks();
        all.push(e.said(text));
    }
    all
}
