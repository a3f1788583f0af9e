//! Backups of a stand-alone etcd on a volume beside it.

use super::*;
use crate::StoreObject;
use berth_api::backup::{BackupRef, StoreClaim};
use berth_api::labels;
use serde_json::Value;

pub(super) fn claim() -> ObjectKey {
    ObjectKey::namespaced(Kind::PersistentVolumeClaim, TEAM, "disk")
}

/// A stand-alone etcd, and an `EtcdBackup` that goes to claim `disk`.
pub(super) fn on_a_volume() -> BackupFixture {
    let mut w = BackupFixture::new();
    w.settings.backups.stores.clear();
    w.backup.spec.store.name = String::new();
    w.backup.spec.cluster_ref = None;
    w.backup.spec.etcd_cluster_ref = Some(BackupRef { name: "etcd".into() });
    w.backup.spec.store.claim_ref = Some(StoreClaim { name: "disk".into() });
    let key = ObjectKey::namespaced(Kind::EtcdCluster, BackupFixture::home(), "etcd");
    let mut etcd = w.observed.objects.remove(&key).unwrap();
    etcd["metadata"]["namespace"] = TEAM.into();
    w.put(Kind::EtcdCluster, etcd);
    let labels = json!({(labels::BACKUP_STORE): "true"});
    w.put(
        Kind::PersistentVolumeClaim,
        json!({
            "metadata": {"name": "disk", "namespace": TEAM, "labels": labels},
            "spec": {"accessModes": ["ReadWriteOnce"], "volumeMode": "Filesystem"}, "status": {"phase": "Pending"},
        }),
    );
    w
}

#[test]
fn a_backup_of_a_stand_alone_etcd_goes_to_a_volume_without_any_store() {
    let w = on_a_volume();
    assert_eq!(store_object(&w.backup, &w.settings), Some(StoreObject::Readable(claim())), "it is read");
    let planned = w.plan();
    assert_eq!(described(&planned), [format!("create Job {TEAM}/backup-one")], "there are no credentials to copy");
    let job = job_of(&planned);
    let pod = job.get("/spec/template/spec").unwrap();
    let volume = json!({"name": "store", "persistentVolumeClaim": {"claimName": "disk"}});
    assert!(pod["volumes"].as_array().unwrap().contains(&volume), "{pod}");
    let mount = json!({"name": "store", "mountPath": "/store"});
    assert!(pod["containers"][0]["volumeMounts"].as_array().unwrap().contains(&mount), "{pod}");
    assert_eq!(pod["securityContext"]["fsGroupChangePolicy"], "OnRootMismatch");
    let task: Value = serde_json::from_str(pod["containers"][0]["env"][0]["value"].as_str().unwrap()).unwrap();
    assert_eq!(task["take"]["store"]["directory"], "/store");
    assert_eq!(task["take"]["prefix"], "team-a/etcd/id");
    let findings = berth_render::lint(std::slice::from_ref(&job));
    assert!(findings.is_empty(), "{findings:?}");
}

#[test]
fn no_volume_is_mounted_whose_owner_did_not_say_so_or_that_is_no_place_for_backups() {
    let says = |change: &dyn Fn(&mut Value)| {
        let mut w = on_a_volume();
        change(w.observed.objects.get_mut(&claim()).unwrap());
        let planned = w.plan();
        assert_eq!(planned.plan.actions().count(), 0, "{planned:?}");
        w.says()
    };
    for (said, wanted) in [
        (
            says(&|c| c["metadata"]["labels"] = json!({})),
            "kubectl -n team-a label pvc disk berth.dev/backup-store=true",
        ),
        (
            says(&|c| c["metadata"]["labels"][labels::MANAGED_BY] = labels::MANAGED_BY_VALUE.into()),
            "is the volume of a member of etcd",
        ),
        (says(&|c| c["spec"]["accessModes"] = json!(["ReadOnlyMany"])), "its access modes are ReadOnlyMany"),
        (says(&|c| c["status"]["accessModes"] = json!(["ReadOnlyMany"])), "can only be read"),
        (says(&|c| c["spec"]["volumeMode"] = "Block".into()), "is a block device"),
        (says(&|c| c["status"]["phase"] = "Lost".into()), "has lost its volume"),
        (says(&|c| c["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z".into()), "is being deleted"),
    ] {
        assert!(said.contains("StoreUnavailable") && said.contains(wanted), "{said}");
        assert!(said.contains("PersistentVolumeClaim team-a/disk") && said.contains("spec.claimRef"), "{said}");
    }
    let mut w = on_a_volume();
    w.observed.objects.remove(&claim());
    assert!(w.says().contains("PersistentVolumeClaim team-a/disk (spec.claimRef), which does not exist"));
}

/// Also where the platform's own Secrets are, and Berth may read those.
#[test]
fn a_teams_secret_is_one_in_every_namespace() {
    let mut w = on_a_volume();
    let namespace = w.settings.backups.namespace.clone();
    w.backup.metadata.namespace = Some(namespace.clone());
    w.backup.spec.store.secret_ref = Some(berth_api::backup::StoreSecret { name: "mine".into() });
    let key = ObjectKey::namespaced(Kind::Secret, namespace, "mine");
    assert_eq!(store_object(&w.backup, &w.settings), Some(StoreObject::TeamSecret(key)));
}

/// A control-plane namespace is not a team's, whoever could create something in it, and its volumes are etcd's.
#[test]
fn no_tenants_backup_goes_to_a_volume() {
    let mut w = on_a_volume();
    w.backup.spec.etcd_cluster_ref = None;
    w.backup.spec.cluster_ref = Some(BackupRef { name: "acme".into() });
    assert_eq!(store_object(&w.backup, &w.settings), None, "nothing is read there");
    let said = w.says();
    assert!(said.contains("NotAllowed") && said.contains("it is a backup of Cluster team-a/acme"), "{said}");
    let mut w = on_a_volume();
    let key = ObjectKey::namespaced(Kind::EtcdCluster, TEAM, "etcd");
    w.observed.objects.get_mut(&key).unwrap()["metadata"]["labels"] = json!({(labels::CLUSTER_NAME): "acme"});
    assert_eq!(w.plan().plan.actions().count(), 0);
    let said = w.says();
    assert!(said.contains("NotAllowed") && said.contains("EtcdCluster team-a/etcd is that of a Cluster"), "{said}");
}

#[test]
fn what_is_superseded_on_a_volume_is_deleted_by_a_job_that_mounts_it() {
    let mut w = on_a_volume();
    w.backup.metadata.deletion_timestamp =
        Some(k8s_openapi::apimachinery::pkg::apis::meta::v1::Time("2026-01-02T00:00:00Z".parse().unwrap()));
    let status = |at: &str| {
        json!({"phase": "Verified", "key": "team-a/etcd/id/1.db", "sha256": "ab", "identity": "id", "takenAt": at,
            "verifiedAt": at})
    };
    w.backup.status = serde_json::from_value(status("2026-01-01T00:00:00Z")).unwrap();
    let newer = |claim: &str| {
        json!({
            "metadata": {"name": "two", "namespace": TEAM, "uid": "u2"},
            "spec": {"etcdClusterRef": {"name": "etcd"}, "claimRef": {"name": claim}},
            "status": status("2026-01-01T12:00:00Z"),
        })
    };
    w.put(Kind::EtcdBackup, newer("other"));
    assert!(w.plan().plan.finished, "the newer one is elsewhere, and may go with its volume");
    w.put(Kind::EtcdBackup, newer("disk"));
    let planned = w.plan();
    assert_eq!(described(&planned), [format!("create Job {TEAM}/backup-one-delete")]);
    let job = job_of(&planned).value().to_string();
    assert!(job.contains(r#""claimName":"disk""#) && job.contains("team-a/etcd/id/1.db"), "{job}");
}
