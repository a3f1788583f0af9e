//! An older backup is read back by the Job of a newer one.

use super::*;
use berth_api::backup::{Earlier, Proof, ReadBack, Task};

/// A proven backup of that name.
fn older(w: &mut Fixture, store: &str) {
    w.put(Kind::EtcdBackup, json!({
        "apiVersion": "berth.dev/v1alpha1", "kind": "EtcdBackup",
        "metadata": {"name": "old", "namespace": TEAM, "uid": "old", "resourceVersion": "9", "creationTimestamp": "2025-12-01T00:00:00Z"},
        "spec": {"clusterRef": {"name": "acme"}, "store": store},
        "status": {"phase": "Verified", "key": "old.db", "sha256": "cd", "verifiedAt": "2025-12-01T00:01:00Z", "identity": "id"},
    }));
    w.backup.spec.read_back = Some("old".into());
}

fn asked(w: &Fixture) -> Option<Earlier> {
    let planned = plan(w.input());
    let job =
        planned.plan.actions().find_map(|a| if let Action::Create(o) = a { Some(o.value().clone()) } else { None });
    let env =
        job.unwrap().pointer("/spec/template/spec/containers/0/env/0/value").unwrap().as_str().unwrap().to_owned();
    match serde_json::from_str(&env).unwrap() {
        Task::Take(take) => take.earlier,
        other => panic!("{other:?}"),
    }
}

fn old() -> Earlier {
    Earlier { name: "old".into(), key: "old.db".into(), sha256: "cd".into() }
}

fn proof(failure: Option<(At, &str)>) -> Outcome {
    let Outcome::Verified(proof) = verified() else { panic!() };
    let failure = failure.map(|(at, message)| Failure { at, message: message.into() });
    Outcome::Verified(Proof { earlier: Some(ReadBack { of: old(), failure }), ..proof })
}

#[test]
fn an_older_backup_is_read_back_and_marked_if_it_is_damaged() {
    let mut w = Fixture::new();
    assert_eq!(asked(&w), None);
    older(&mut w, "main");
    assert_eq!(asked(&w), Some(old()));
    assert_eq!(earlier(&w.backup).unwrap().to_string(), format!("EtcdBackup {TEAM}/old"));

    w.ends("backup-one", Some("Complete"), &[proof(Some((At::Damaged, "it is cut")))]);
    let planned = plan(w.input());
    let Some(Action::MarkDamaged { key, uid, status: marked, .. }) = planned.plan.actions().next() else {
        panic!("{:?}", described(&planned))
    };
    assert_eq!((&*key.name, &**uid), ("old", "old"));
    assert_eq!((&marked["damaged"]["by"], &marked["phase"]), (&json!("EtcdBackup one"), &json!("Failed")));
    assert_eq!(planned.requeue_after, Some(super::super::SOON));
    assert_eq!(
        status(w.input(), &planned, None).phase.as_deref(),
        Some("Running"),
        "its Job stays until that is written"
    );

    let marked = marked.clone();
    let live = w.observed.objects.iter_mut().find(|(key, _)| key.name == "old").unwrap().1;
    live["status"] = marked;
    let planned = plan(w.input());
    let said = status(w.input(), &planned, None);
    assert_eq!(said.phase.as_deref(), Some("Verified"), "{:?}", said.conditions);
    let read = said.read_back.unwrap();
    assert_eq!((&*read.name, read.message.as_deref()), ("old", Some("it is cut")));
}

#[test]
fn what_is_not_a_good_one_in_the_same_store_is_not_read_and_what_is_not_damaged_not_marked() {
    let mut w = Fixture::new();
    older(&mut w, "other");
    assert_eq!(asked(&w), None);
    older(&mut w, "main");
    w.backup.spec.read_back = Some("one".into());
    assert_eq!((earlier(&w.backup), asked(&w)), (None, None), "itself");
    w.backup.spec.read_back = Some("gone".into());
    assert_eq!(asked(&w), None);
    for (failure, message) in
        [(None, None), (Some((At::Store, "404")), Some("404")), (Some((At::Proof, "p")), Some("p"))]
    {
        w.ends("backup-one", Some("Complete"), &[proof(failure)]);
        let planned = plan(w.input());
        assert_eq!(planned.plan.actions().filter(|a| matches!(a, Action::MarkDamaged { .. })).count(), 0);
        let said = status(w.input(), &planned, None);
        assert_eq!(said.phase.as_deref(), Some("Verified"));
        assert_eq!(said.read_back.unwrap().message.as_deref(), message);
    }
}
