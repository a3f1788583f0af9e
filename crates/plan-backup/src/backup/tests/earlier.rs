//! An older backup is read back by the Job of a newer one of its schedule.

use super::*;
use crate::jobs::task_of;
use berth_api::backup::{Earlier, Proof, ReadBack, Task};
use berth_api::labels;
use jiff::SignedDuration;
use serde_json::Value;

const SNAPSHOT: &str = "prod/team-a/acme/id/20251201T000000Z-5.db";

/// It is of a schedule, which names a proven backup.
fn nightly() -> BackupFixture {
    let mut w = BackupFixture::new();
    w.put(Kind::EtcdBackup, json!({
        "apiVersion": "berth.dev/v1alpha1", "kind": "EtcdBackup",
        "metadata": {"name": "old", "namespace": TEAM, "uid": "old", "resourceVersion": "9", "creationTimestamp": "2025-12-01T00:00:00Z"},
        "spec": {"clusterRef": {"name": "acme"}, "store": "main"},
        "status": {"phase": "Verified", "key": SNAPSHOT, "sha256": "cd", "verifiedAt": "2025-12-01T00:01:00Z", "identity": "id"},
    }));
    w.put(
        Kind::EtcdBackupSchedule,
        json!({
            "apiVersion": "berth.dev/v1alpha1", "kind": "EtcdBackupSchedule",
            "metadata": {"name": "nightly", "namespace": TEAM}, "spec": {}, "status": {"nextReadBack": "old"},
        }),
    );
    w.backup.metadata.labels = Some([(labels::ETCD_BACKUP_SCHEDULE.to_owned(), "nightly".to_owned())].into());
    w
}

fn live<'a>(w: &'a mut BackupFixture, name: &str) -> &'a mut Value {
    w.observed.objects.iter_mut().find(|(key, _)| key.name == name).unwrap().1
}

fn job_of(w: &BackupFixture) -> Value {
    let planned = BackupPlanner::plan(w.input());
    let job =
        planned.plan.actions().find_map(|a| if let Action::Create(o) = a { Some(o.value().clone()) } else { None });
    job.unwrap_or_else(|| panic!("{:?}", planned.plan.stages))
}

fn asked(w: &BackupFixture) -> Option<Earlier> {
    match task_of(&job_of(w)) {
        Some(Task::Take(take)) => take.earlier,
        other => panic!("{other:?}"),
    }
}

fn old() -> Earlier {
    Earlier { name: "old".into(), key: SNAPSHOT.into(), sha256: "cd".into() }
}

/// Its Job was asked for that, and ended with this.
fn ends(w: &mut BackupFixture, of: Earlier, failure: Option<(At, &str)>) {
    let job = job_of(w);
    let Outcome::Verified(proof) = verified() else { panic!() };
    let failure = failure.map(|(at, message)| Failure { at, message: message.into() });
    let outcome = Outcome::Verified(Proof { earlier: Some(ReadBack { of, failure }), ..proof });
    w.ends("backup-one", Some("Complete"), &[outcome]);
    live(w, "backup-one")["spec"] = job["spec"].clone();
}

fn marks(planned: &BackupPlan) -> usize {
    planned.plan.actions().filter(|a| matches!(a, Action::MarkDamaged { .. })).count()
}

#[test]
fn an_older_backup_is_read_back_and_marked_if_it_is_damaged() {
    let mut w = nightly();
    assert_eq!(schedule(&w.backup).unwrap().to_string(), format!("EtcdBackupSchedule {TEAM}/nightly"));
    assert_eq!(asked(&w), Some(old()));
    ends(&mut w, old(), Some((At::Damaged, "it is cut")));
    // Its schedule may name another one by now.
    live(&mut w, "nightly")["status"] = json!({});
    let key = earlier(&w.backup, &w.observed).unwrap();
    assert_eq!(key.to_string(), format!("EtcdBackup {TEAM}/old"));
    let planned = BackupPlanner::plan(w.input());
    let Some(Action::MarkDamaged { key, uid, status: marked, .. }) = planned.plan.actions().next() else {
        panic!("{:?}", described(&planned))
    };
    assert_eq!((&*key.name, &**uid), ("old", "old"));
    assert_eq!((&marked["damaged"]["by"], &marked["phase"]), (&json!("EtcdBackup one"), &json!("Failed")));
    assert_eq!(planned.requeue_after, Some(crate::requeue::SOON));
    let said = status(w.input(), &planned, None);
    assert_eq!(said.phase.as_deref(), Some("Running"), "its Job stays until that is written");

    // Who refuses that for ever keeps no other backup from being proven.
    let mut refused = w.observed.clone();
    let job = refused.objects.iter_mut().find(|(key, _)| key.kind == Kind::Job).unwrap().1;
    job["metadata"]["creationTimestamp"] = (w.now - SignedDuration::from_mins(61)).to_string().into();
    let planned = BackupPlanner::plan(Input { observed: &refused, ..w.input() });
    assert_eq!((marks(&planned), planned.outcome.is_some()), (0, true));

    let marked = marked.clone();
    live(&mut w, "old")["status"] = marked;
    let planned = BackupPlanner::plan(w.input());
    let said = status(w.input(), &planned, None);
    assert_eq!(said.phase.as_deref(), Some("Verified"), "{:?}", said.conditions);
    let read = said.read_back.unwrap();
    assert_eq!((&*read.name, read.message.as_deref()), ("old", Some("it is cut")));
}

#[test]
fn what_is_not_a_good_one_of_the_same_etcd_and_store_is_not_read() {
    let changes: [(&str, Value); 6] = [
        ("/spec/store", "other".into()),
        ("/spec/clusterRef/name", "other".into()),
        ("/status/phase", "Running".into()),
        ("/status/sha256", Value::Null),
        // Of another team, which only who forges a Job can have in a status.
        ("/status/key", "prod/team-b/acme/id/20251201T000000Z-5.db".into()),
        ("/status/key", "prod/team-a/../../team-b/acme/id/20251201T000000Z-5.db".into()),
    ];
    for (pointer, value) in changes {
        let mut w = nightly();
        *live(&mut w, "old").pointer_mut(pointer).unwrap() = value.clone();
        assert_eq!(asked(&w), None, "{pointer} {value}");
    }
    for name in ["one", "gone"] {
        let mut w = nightly();
        live(&mut w, "nightly")["status"]["nextReadBack"] = name.into();
        assert_eq!(asked(&w), None, "{name}");
    }
    let mut w = nightly();
    w.backup.metadata.labels = None;
    assert_eq!((schedule(&w.backup), asked(&w)), (None, None));
}

#[test]
fn only_what_its_own_job_was_asked_for_and_found_damaged_is_marked() {
    let other = Earlier { key: "prod/team-a/acme/id/other.db".into(), ..old() };
    for (of, failure, message) in [
        (old(), None, None),
        (old(), Some((At::Store, "404")), Some("404")),
        (old(), Some((At::Proof, "p")), Some("p")),
        (other, Some((At::Damaged, "d")), Some("d")),
    ] {
        let mut w = nightly();
        ends(&mut w, of, failure);
        let planned = BackupPlanner::plan(w.input());
        assert_eq!(marks(&planned), 0);
        let said = status(w.input(), &planned, None);
        assert_eq!(said.phase.as_deref(), Some("Verified"));
        assert_eq!(said.read_back.unwrap().message.as_deref(), message);
    }
}
