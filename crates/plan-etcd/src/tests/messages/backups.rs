//! What is said of backups where schedules ask for them.

use super::*;

/// A schedule of it, and its newest proven backup.
pub(super) fn all(formed: &Etcd) -> Vec<Situation> {
    let daily = json!({"schedule": "0 3 * * *"});
    let proven = json!({"lastVerifiedTime": "2026-01-01T03:01:00Z"});
    let before = json!({"lastVerifiedTime": "2026-01-01T03:01:00Z", "lastVerifiedIdentity": "before"});
    let cases = [
        ("a schedule asks for backups, and none was due yet", 1, &daily, json!({})),
        ("a schedule asks for backups, and none is proven two hours after the first was due", 6, &daily, json!({})),
        ("a schedule asks for backups, and the last one is proven", 12, &daily, proven.clone()),
        ("the platform's schedule asks for backups, and the last one is proven", 12, &daily, proven.clone()),
        ("a schedule asks for backups, and the one of today is not proven", 36, &daily, proven.clone()),
        ("a schedule asks for backups, and those that are proven are an earlier etcd's", 1, &daily, before.clone()),
        (
            "a schedule asks for backups, those that are proven are an earlier etcd's, and its own first one is not",
            36,
            &daily,
            before,
        ),
        (
            "a schedule that asks for backups is suspended",
            12,
            &json!({"schedule": "0 3 * * *", "suspend": true}),
            proven.clone(),
        ),
        ("a schedule that asks for backups is no cron schedule", 12, &json!({"schedule": "0 3 * * 9"}), proven),
    ];
    let given = Some("the platform's schedule asks for backups, and the last one is proven");
    let said = |(text, hours, spec, status): (&'static str, i64, &Value, Value)| {
        let mut e = formed.clone();
        let mut whole = json!({"etcdClusterRef": {"name": NAME}, "store": "main"});
        whole.as_object_mut().unwrap().extend(spec.as_object().unwrap().clone());
        let key = Etcd::key(Kind::EtcdBackupSchedule, "nightly");
        let mut meta =
            json!({"name": key.name, "namespace": key.namespace, "creationTimestamp": e.world.now.to_string()});
        if Some(text) == given {
            meta["labels"] = json!({labels::CLUSTER_NAME: NAME});
        }
        let schedule = json!({
            "apiVersion": "berth.dev/v1alpha1", "kind": "EtcdBackupSchedule", "metadata": meta, "spec": whole, "status": status,
        });
        e.world.observed.put(key, schedule);
        e.passes(hours * 3600);
        e.looks();
        e.said(text)
    };
    cases.map(said).into()
}
