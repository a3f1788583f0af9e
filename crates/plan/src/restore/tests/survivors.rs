//! Of an etcd without a quorum: what members hold that are left, and restores that Berth creates itself.

use super::*;

/// Restores what is left.
pub(super) fn of_survivors() -> Fixture {
    let mut w = Fixture::new();
    w.restore.spec.source = serde_json::from_value(json!({"survivors": {"store": "main"}})).unwrap();
    w.live(Kind::EtcdBackup)["status"]["revision"] = 7.into();
    w
}

/// The backup of what is left, as it became.
pub(super) fn survivors(w: &mut Fixture, but: &Value) {
    w.backup("survivors-back", "2026-01-02T00:00:00Z", but);
    let mut labels = json!(w.input().owner().labels);
    labels[labels::ETCD_RESTORE_UID] = "r1".into();
    let key = ObjectKey::namespaced(Kind::EtcdBackup, TEAM, "survivors-back");
    w.observed.objects.get_mut(&key).unwrap()["metadata"]["labels"] = labels;
}

#[test]
fn what_members_hold_that_are_left_is_backed_up_first_and_the_further_one_counts() {
    let mut w = of_survivors();
    let (planned, _) = w.reconcile();
    let backup = job_of(&planned);
    assert_eq!(backup["metadata"]["name"], "survivors-back");
    assert_eq!(backup["spec"], json!({"clusterRef": {"name": "acme"}, "store": "main", "withoutQuorum": true}));
    survivors(&mut w, &json!({"phase": "Running"}));
    assert!(w.says().contains("survivors-back"), "{}", w.says());
    for (revision, epoch, chosen) in
        [(9, 1, "survivors-back"), (7, 1, "survivors-back"), (5, 1, "one"), (5, 2, "survivors-back")]
    {
        let mut w = of_survivors();
        survivors(&mut w, &json!({"revision": revision, "epoch": epoch}));
        assert_eq!(w.reconcile().1.backup.as_deref(), Some(chosen), "{revision} {epoch}");
    }
    let mut w = of_survivors();
    survivors(&mut w, &json!({"phase": "Failed"}));
    assert!(w.says().starts_with("Failed RestoreFailed"), "{}", w.says());
    assert!(described(&w.reconcile().0).is_empty(), "it ends there");
}

#[test]
fn one_that_berth_created_leaves_an_etcd_alone_that_answers_again() {
    let mut w = Fixture::checked();
    w.restore.metadata.labels = Some([(labels::RECOVERY.to_owned(), "id".to_owned())].into());
    let (planned, status) = w.reconcile();
    assert_eq!((status.phase.as_deref(), annotation_of(&planned)), (Some("Failed"), None));
    let condition = json!({"type": "Available", "status": "False", "reason": "x", "message": "", "lastTransitionTime": "2026-01-02T00:00:00Z"});
    let mut w = Fixture::checked();
    w.restore.metadata.labels = Some([(labels::RECOVERY.to_owned(), "id".to_owned())].into());
    w.live(Kind::EtcdCluster)["status"]["conditions"] = json!([condition]);
    assert!(annotation_of(&w.reconcile().0).is_some());
}

