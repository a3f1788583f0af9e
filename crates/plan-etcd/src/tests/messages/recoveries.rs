//! What is said where a lost quorum is restored by itself.

use super::*;

/// Two or three of three lost their volumes.
pub(super) fn all(formed: &Etcd) -> Vec<Situation> {
    let mut automatic = formed.clone();
    automatic.is_automatic();
    let of = |text, change: fn(&mut Etcd)| {
        let mut e = automatic.clone();
        change(&mut e);
        e.said(text)
    };
    let failed = json!({"phase": "Failed", "conditions": [{
        "type": "Ready", "status": "False", "reason": "RestoreFailed", "message": "store http://s3:9000: it answers 403. Nothing was stopped",
        "lastTransitionTime": "2026-01-01T00:00:00Z",
    }]});
    let mut e = automatic.clone();
    e.lose(&[0, 1, 2], &[]);
    e.backed_up("2025-01-01T00:00:00Z");
    e.looks_on();
    e.restore_is(&failed);
    e.reconcile();
    let mut damaged = automatic.clone();
    damaged.lose(&[0, 1, 2], &[]);
    damaged.backed_up("2025-01-01T00:00:00Z");
    damaged.looks_on();
    damaged.damage("2025");
    let mut found = failed.clone();
    found["conditions"][0]["reason"] = "BackupDamaged".into();
    found["conditions"][0]["message"] = "EtcdBackup team-a/at-2025 is damaged: the snapshot in the store is cut or changed (100000 of 2650144 bytes), so it cannot be restored: team-a/acme/id/1.db has SHA-256 e10d…, and had eab5…. No other proven backup of this data is left in this namespace. Nothing was stopped".into();
    damaged.restore_is(&found);
    damaged.reconcile();
    let mut left = automatic.clone();
    left.lose(&[0, 1], &[2]);
    left.looks_on();
    left.restore_is(&failed);
    left.reconcile();
    vec![
        of("recovery Automatic: a majority lost their volumes a moment ago", |e| {
            e.lose(&[0, 1], &[2]);
            e.reconcile();
        }),
        of("recovery Automatic: it is about to begin", |e| {
            e.lose(&[0, 1], &[2]);
            e.reconcile();
            e.passes_by(30);
        }),
        of("recovery Automatic: its EtcdRestore was created", |e| {
            e.lose(&[0, 1], &[2]);
            e.looks_on();
        }),
        of("recovery Automatic: the member that is left does not answer", |e| {
            e.lose(&[0, 1], &[]);
            e.looks_on();
        }),
        of("recovery Automatic: no member is left, and there is no backup", |e| {
            e.lose(&[0, 1, 2], &[]);
            e.looks_on();
        }),
        of("recovery Automatic: no store for backups is configured", |e| {
            e.settings.backups.stores.clear();
            e.lose(&[0, 1], &[2]);
            e.looks_on();
        }),
        of("recovery Automatic: more etcds than may lost their quorum within an hour", |e| {
            e.settings.recoveries_per_hour = 0;
            e.lose(&[0, 1], &[2]);
            e.looks_on();
        }),
        left.said("recovery Automatic: what the member holds that is left could not be restored"),
        e.said("recovery Automatic: its EtcdRestore failed"),
        damaged.said("recovery Automatic: each backup was found damaged"),
    ]
}
