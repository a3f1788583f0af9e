//! What a restore finds damaged is not offered again.

use super::*;
use berth_api::backup::phase as backup_phase;
use berth_render::{Kind, ObjectKey};

const CUT: &str = "the snapshot in the store is cut or changed (9 of 99 bytes), so it cannot be restored: team-a/acme/id/one.db has SHA-256 00, and had ab";

/// Carries out what marks backups, as an API server does; what was marked.
fn mark(w: &mut RestoreFixture, planned: &RestorePlan) -> Vec<String> {
    let mut marked = vec![];
    for action in planned.plan.actions() {
        if let Action::MarkDamaged { key, status, .. } = action {
            w.observed.objects.get_mut(key).expect("it is there")["status"] = status.clone();
            marked.push(key.name.clone());
        }
    }
    marked
}

fn condition(w: &RestoreFixture, name: &str, type_: &str) -> Option<String> {
    let live = w.observed.get(&ObjectKey::namespaced(Kind::EtcdBackup, TEAM, name))?;
    let all = live["status"]["conditions"].as_array()?;
    let found = all.iter().find(|c| c["type"] == type_)?;
    Some(format!("{} {}", found["status"].as_str()?, found["reason"].as_str()?))
}

/// Its check has found that.
fn checked_and(failure: &Outcome) -> RestoreFixture {
    let mut w = RestoreFixture::new();
    w.backup("older", "2025-12-31T00:00:00Z", &json!({}));
    w.reconcile();
    w.ends(CHECK, Some("Failed"), Some(failure));
    w
}

#[test]
fn a_damaged_backup_says_so_before_the_restore_ends_and_the_next_one_is_named() {
    let mut w = checked_and(&failed(At::Damaged, CUT));
    let (planned, status) = w.reconcile();
    assert_eq!(described(&planned), ["mark EtcdBackup team-a/one as damaged"]);
    assert_eq!((status.phase.as_deref(), status.backup.as_deref()), (Some("Checking"), Some("one")));
    assert_eq!(mark(&mut w, &planned), ["one"]);
    assert_eq!(condition(&w, "one", "Damaged").as_deref(), Some("True BackupDamaged"));
    assert_eq!(condition(&w, "one", "Ready").as_deref(), Some("False BackupDamaged"));
    assert_eq!(condition(&w, "one", "Verified").as_deref(), Some("False BackupDamaged"));
    let said = w.says();
    assert!(said.starts_with(&format!("Failed BackupDamaged: EtcdBackup team-a/one is damaged: {CUT}")), "{said}");
    assert!(said.ends_with("is left is EtcdBackup older, taken at 2025-12-31T00:00:00Z: kubectl berth -n team-a etcd restore acme --backup older. Nothing was stopped"), "{said}");
    assert_eq!(described(&w.reconcile().0), [format!("delete Job {}/{CHECK}", RestoreFixture::home())]);
}

/// Nothing but what was read and is another one.
#[test]
fn a_store_or_a_node_that_is_ill_makes_no_backup_a_damaged_one() {
    for at in [At::Store, At::Proof, At::Etcd, At::Other] {
        let mut w = checked_and(&failed(at, "it answers 404"));
        let (planned, status) = w.reconcile();
        assert_eq!((mark(&mut w, &planned).len(), status.phase.as_deref()), (0, Some("Failed")), "{at:?}");
    }
    // Another one took its name meanwhile.
    let mut w = checked_and(&failed(At::Damaged, CUT));
    let key = ObjectKey::namespaced(Kind::EtcdBackup, TEAM, "one");
    w.observed.objects.get_mut(&key).unwrap()["status"]["sha256"] = "cd".into();
    let (planned, status) = w.reconcile();
    assert_eq!((mark(&mut w, &planned).len(), status.phase.as_deref()), (0, Some("Failed")));
}

#[test]
fn what_is_damaged_is_not_chosen_and_not_restored() {
    let damage = json!({"damaged": {"at": "2026-01-01T12:00:00Z", "by": "EtcdRestore x", "message": CUT}});
    let mut w = RestoreFixture::new();
    w.backup("two", "2026-01-01T11:00:00Z", &damage);
    w.restore.spec.source = serde_json::from_value(json!({"latestBefore": "2100-01-01T00:00:00Z"})).unwrap();
    assert_eq!(w.reconcile().1.backup.as_deref(), Some("one"));
    let mut w = RestoreFixture::new();
    w.backup("one", "2026-01-01T00:00:00Z", &damage);
    let said = w.says();
    assert!(said.starts_with("Failed BackupDamaged"), "{said}");
    assert!(said.contains("No other proven backup of this data is left in this namespace"), "{said}");
    w.restore.status = None;
    w.restore.spec.source = serde_json::from_value(json!({"latestBefore": "2100-01-01T00:00:00Z"})).unwrap();
    let said = w.says();
    assert!(said.starts_with("Waiting Waiting") && said.contains("There is none: EtcdBackup one is damaged"), "{said}");
}

/// Whose data it is, and by when it was taken for certain.
#[test]
fn latest_before_means_this_etcds_data_and_what_was_certainly_taken_by_then() {
    let times = |created: &str, proven: &str| {
        let verified = json!({"type": "Verified", "status": "True", "reason": "AsExpected", "message": "", "lastTransitionTime": proven});
        (created.to_owned(), json!({"revision": 9, "conditions": [verified]}))
    };
    let mut w = RestoreFixture::new();
    w.restore.spec.source = serde_json::from_value(json!({"latestBefore": "2026-01-01T12:00:00Z"})).unwrap();
    w.backup("others", "2026-01-01T09:00:00Z", &json!({"identity": "before", "revision": 99}));
    for (name, taken, (created, status)) in [
        ("queued", "2026-01-01T11:00:00Z", times("2026-01-01T11:00:00Z", "2026-01-01T12:30:00Z")),
        ("ahead", "2036-01-01T00:00:00Z", times("2026-01-01T10:00:00Z", "2026-01-01T10:01:00Z")),
    ] {
        w.backup(name, taken, &status);
        let key = ObjectKey::namespaced(Kind::EtcdBackup, TEAM, name);
        w.observed.objects.get_mut(&key).unwrap()["metadata"]["creationTimestamp"] = created.into();
    }
    let (_, status) = w.reconcile();
    assert_eq!(status.backup.as_deref(), Some("ahead"));
    assert_eq!(status.taken_at.unwrap().0.to_string(), "2026-01-01T10:01:00Z", "it is no year to come that is lost");
    w.restore.status = None;
    w.observed.objects.retain(|key, _| key.kind != Kind::EtcdBackup || key.name == "others");
    let said = w.says();
    assert!(said.contains("There is none: EtcdBackup others is of an earlier etcd of this name"), "{said}");
}

#[test]
fn what_is_found_once_etcd_has_stopped_is_marked_too() {
    let mut w = RestoreFixture::told(None, "Restore", 2);
    w.ends(RESTORE, Some("Failed"), Some(&failed(At::Damaged, CUT)));
    let (planned, status) = w.reconcile();
    assert_eq!((mark(&mut w, &planned).len(), status.phase.as_deref()), (1, Some("Restoring")));
    let said = w.says();
    assert!(
        said.starts_with("Failed BackupDamaged") && said.ends_with("etcd stays stopped: create another EtcdRestore"),
        "{said}"
    );
    // It was whole when it was put onto the volume.
    let mut w = RestoreFixture::told(Some(2), "Start", 2);
    let damage = json!({"damaged": {"at": "2026-01-01T12:00:00Z", "by": "EtcdRestore x", "message": CUT}});
    w.backup("one", "2026-01-01T00:00:00Z", &damage);
    w.live(Kind::EtcdBackup)["status"]["phase"] = backup_phase::FAILED.into();
    assert_eq!(w.reconcile().1.phase.as_deref(), Some("Starting"));
}

#[test]
fn of_a_snapshot_that_is_read_by_its_key_no_backup_is_marked() {
    let mut w = others::by_key(others::KEY);
    w.backup("one", "2026-01-01T00:00:00Z", &json!({"key": others::KEY}));
    w.reconcile();
    w.ends(CHECK, Some("Failed"), Some(&failed(At::Damaged, CUT)));
    let (planned, _) = w.reconcile();
    // Nobody knew its sum: somebody may have changed the manifest, and the snapshot is good.
    assert_eq!(mark(&mut w, &planned), [""; 0]);
    assert!(w.says().starts_with(&format!("Failed BackupDamaged: {CUT}")));
}
