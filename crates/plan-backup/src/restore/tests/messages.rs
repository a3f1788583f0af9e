//! Situations of an `EtcdRestore`, for docs/reference/messages.md.

use super::survivors::{of_survivors, survivors};
use super::*;
use berth_api::labels;
use berth_render::{Kind, ObjectKey};
use berth_testkit::situations::Situation;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use serde_json::Value;

type Change = fn(&mut RestoreFixture);

const SHA: &str = "one.db: the store gives 9 bytes with SHA-256 00, and the backup had ab";

/// Each message that an `EtcdRestore` can have.
pub(crate) fn situations() -> Vec<Situation> {
    let new: &[(&str, Change)] = &[
        ("an EtcdRestore is created", |_| {}),
        ("its Cluster does not exist", |w| remove(w, Kind::Cluster)),
        ("its Cluster has no control plane yet", |w| remove(w, Kind::Namespace)),
        ("its Cluster cannot be read", |w| w.live(Kind::Cluster)["spec"]["etcd"] = json!({"replicas": "three"})),
        ("its Cluster changes its minor version", |w| {
            w.live(Kind::Namespace)["metadata"]["annotations"] = json!({labels::UPGRADE: "{}"});
        }),
        ("its etcd is being deleted", |w| {
            w.live(Kind::EtcdCluster)["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z".into();
        }),
        ("its etcd was never formed", |w| w.live(Kind::EtcdCluster)["status"]["identity"] = Value::Null),
        ("its etcd has no StatefulSet", |w| remove(w, Kind::StatefulSet)),
        ("its etcd's StatefulSet has no image", |w| {
            w.live(Kind::StatefulSet)["spec"]["template"]["spec"]["containers"] = json!([]);
        }),
        ("the first member has no volume", |w| remove(w, Kind::PersistentVolumeClaim)),
        ("another EtcdRestore is under way", |w| {
            let mut other = serde_json::to_value(&w.restore).unwrap();
            other["metadata"]["name"] = "again".into();
            other["metadata"]["creationTimestamp"] = "2026-01-01T00:00:00Z".into();
            w.put(Kind::EtcdRestore, other);
        }),
        ("its EtcdBackup does not exist", |w| remove(w, Kind::EtcdBackup)),
        ("there is no EtcdBackup until that time", |w| {
            w.restore.spec.source.backup = None;
            w.restore.spec.source.latest_before = serde_json::from_value(json!("2025-01-01T00:00:00Z")).unwrap();
        }),
        ("the EtcdBackups until that time are an earlier etcd's", |w| {
            of_backup(w, &json!({"identity": "before"}));
            latest(w, "2100-01-01T00:00:00Z");
        }),
        ("the EtcdBackups until that time are damaged", |w| {
            of_backup(w, &damaged());
            latest(w, "2100-01-01T00:00:00Z");
        }),
        ("the EtcdBackups until that time are of members that somebody named", |w| {
            w.live(Kind::EtcdBackup)["spec"]["withoutQuorum"] = true.into();
            w.live(Kind::EtcdBackup)["spec"]["members"] = json!(["etcd-1"]);
            latest(w, "2100-01-01T00:00:00Z");
        }),
        ("the EtcdBackup was created until that time, and proven later", |w| latest(w, "2025-12-31T00:00:00Z")),
        ("its Job has found the backup damaged", |w| w.ends(CHECK, Some("Failed"), Some(&failed(At::Damaged, CUT)))),
        ("the backup is damaged, and another one is left", |w| {
            w.backup("older", "2025-12-31T00:00:00Z", &json!({}));
            of_backup(w, &damaged());
        }),
        ("the backup is damaged, and no other one is left", |w| of_backup(w, &damaged())),
        ("its EtcdBackup is not taken yet", |w| of_backup(w, &json!({"phase": "Running"}))),
        ("its EtcdBackup failed", |w| of_backup(w, &json!({"phase": "Failed"}))),
        ("its EtcdBackup is another tenant's", |w| of_backup(w, &json!({"identity": "other"}))),
        ("its EtcdBackup is of a newer etcd", |w| of_backup(w, &json!({"etcdVersion": "3.7.0"}))),
        ("its EtcdBackup is of a newer Kubernetes", |w| of_backup(w, &json!({"kubernetesVersion": "1.37.0"}))),
        ("the tenant has another encryption key by now", |w| of_backup(w, &json!({"encryptionKey": "00"}))),
        ("the store is not configured any more", |w| w.settings.backups.stores.clear()),
        ("somebody else's Job has its name", |w| {
            w.put(Kind::Job, json!({"metadata": {"name": CHECK, "namespace": RestoreFixture::home()}}));
        }),
        ("its Job checks the backup", |w| w.ends(CHECK, None, None)),
        ("its Job tries again", |w| w.ends(CHECK, None, Some(&failed(At::Proof, SHA)))),
        ("the backup is not what it was", |w| w.ends(CHECK, Some("Failed"), Some(&failed(At::Proof, SHA)))),
        ("the backup is fit", |w| w.ends(CHECK, Some("Complete"), Some(&checked()))),
    ];
    let mut all: Vec<Situation> = new.iter().map(|(text, change)| of(RestoreFixture::new(), text, *change)).collect();
    let fit: &[(&str, Change)] =
        &[("etcd answers, and nobody confirmed", |w| w.restore.spec.confirm = None), ("etcd is told", |_| {})];
    let first: &[(&str, Change)] = &[
        ("etcd answers, and another backup is to be taken first", |_| {}),
        ("the backup that is taken first runs", |w| w.before("Running")),
        ("the backup that is to be taken first fails", |w| w.before("Failed")),
        ("the backup that was taken first is of an earlier EtcdRestore", |w| {
            w.before("Verified");
            w.restore.metadata.uid = Some("r2".into());
        }),
        ("the backup that is to be taken first is somebody else's", |w| {
            w.put(Kind::EtcdBackup, json!({"metadata": {"name": "before-back", "namespace": TEAM}}));
        }),
    ];
    all.extend(first.iter().map(|(text, change)| of(RestoreFixture::fit(), text, *change)));
    all.extend(fit.iter().map(|(text, change)| of(RestoreFixture::checked(), text, *change)));
    let left: &[(&str, Change)] = &[
        ("what members hold is to be restored that are left", |_| {}),
        ("no backup can be taken of the members that are left", |w| survivors(w, &json!({"phase": "Failed"}))),
    ];
    all.extend(left.iter().map(|(text, change)| of(of_survivors(), text, *change)));
    all.push(of(of_survivors(), "a member is away whose data is not known to be lost", |w| {
        w.members(&["DataLost", "DataLost", "Answers", "Away"]);
    }));
    all.push(of(of_survivors(), "what is left is to be restored, and no member is left", |w| {
        w.members(&["DataLost"; 3]);
    }));
    for (text, members, without) in [
        (
            "what is left is to be restored, and the quorum is not known to be lost",
            &["DataLost", "Answers", "Away"][..],
            "etcd-2",
        ),
        ("what is left is to be restored without a member", &["DataLost", "DataLost", "Answers", "Away"], "etcd-3"),
    ] {
        let mut w = of_survivors();
        w.restore.spec.confirm = None;
        w.restore.spec.without_members = vec![without.into()];
        w.members(members);
        survivors(&mut w, &json!({"revision": 9, "epoch": 1}));
        w.ends(CHECK, Some("Complete"), Some(&checked()));
        w.reconcile();
        all.push(of(w, text, |_| {}));
    }
    let anothers: &[(&str, Change)] = &[
        ("a backup is of another etcd than spec.source.of names", |w| {
            w.restore.spec.source.of = serde_json::from_value(json!({"etcdClusterRef": {"name": "acme"}})).unwrap();
        }),
        ("data of another etcd is to be put into a tenant's", |w| {
            w.live(Kind::EtcdCluster)["metadata"]["labels"] = json!({labels::CLUSTER_NAME: "acme"});
        }),
        ("a stand-alone EtcdCluster is to be restored from a store that is for Clusters only", |w| {
            w.settings.backups.stores[0].namespaces.clear();
        }),
        ("an EtcdBackup names a key of another namespace", |w| {
            of_backup(w, &json!({"key": "prod/team-b/acme/id/1.db"}));
        }),
        ("a backup of another etcd is of an epoch that cannot be", |w| of_backup(w, &json!({"epoch": -1}))),
        ("data of another etcd is to be put into an EtcdCluster, and nobody confirmed", |w| {
            w.restore.spec.confirm = None;
            others::found(w, |_| {});
        }),
    ];
    all.extend(anothers.iter().map(|(text, change)| of(others::of_another(), text, *change)));
    let mut alone = others::of_another();
    alone.restore.spec.source.of = None;
    for (name, but) in [("one", damaged()), ("older", json!({}))] {
        alone.backup(name, "2025-12-31T00:00:00Z", &but);
        let key = ObjectKey::namespaced(Kind::EtcdBackup, TEAM, name);
        let live = alone.observed.objects.get_mut(&key).unwrap();
        live["spec"] = json!({"etcdClusterRef": {"name": "scratch"}, "store": "main"});
        live["status"]["identity"] = "scratch-id".into();
    }
    all.push(of(alone, "the backup of a stand-alone etcd is damaged, and another one is left", |_| {}));
    let lost = others::of_another();
    all.push(of(lost, "data of another etcd is to be put into one without a quorum, and nobody confirmed", |w| {
        w.restore.spec.confirm = None;
        others::found(w, |_| {});
        let condition = json!({"type": "Available", "status": "False", "reason": "x", "message": "", "lastTransitionTime": "2026-01-02T00:00:00Z"});
        w.live(Kind::EtcdCluster)["status"]["conditions"] = json!([condition]);
    }));
    all.push(of(
        RestoreFixture::new(),
        "the EtcdBackup is in a store of the team's own, which is not allowed any more",
        |w| {
            of_backup(w, &json!({}));
            w.live(Kind::EtcdBackup)["spec"] = json!({"clusterRef": {"name": "acme"}, "secretRef": {"name": "mine"}});
        },
    ));
    all.push(of(others::by_key("prod/team-b/acme/id/1.db"), "spec.source.key is another namespace's", |_| {}));
    all.push(of(
        RestoreFixture::checked(),
        "etcd does not answer, and no member is known to have lost its data",
        |w| {
            outage(w, &["Away", "Away", "Answers"]);
        },
    ));
    all.push(of(RestoreFixture::checked(), "etcd does not answer, and says nothing of its members", |w| {
        outage(w, &[]);
    }));
    all.push(of(RestoreFixture::checked(), "a majority lost its data, and a member that is left answers", |w| {
        outage(w, &["DataLost", "DataLost", "Answers"]);
    }));
    all.push(of(RestoreFixture::checked(), "a majority lost its data, one member answers, and one is away", |w| {
        outage(w, &["DataLost", "DataLost", "Answers", "Away"]);
    }));
    all.push(of(RestoreFixture::checked(), "a majority lost its data, and a member that is left is away", |w| {
        outage(w, &["DataLost", "DataLost", "Away"]);
    }));
    all.push(of(
        RestoreFixture::told(None, "WaitingForClients", 1),
        "nobody confirmed it, and etcd answers again",
        |w| {
            w.restore.spec.confirm = None;
            let request = json!({"namespace": TEAM, "name": "back", "uid": "r1", "unconfirmed": true}).to_string();
            w.live(Kind::EtcdCluster)["metadata"]["annotations"] = json!({labels::RESTORE_REQUEST: request});
            available(w, "True", "2026-01-02T00:00:30Z");
        },
    ));
    all.push(of(RestoreFixture::checked(), "the member's claim has lost its volume", |w| {
        w.live(Kind::PersistentVolumeClaim)["status"]["phase"] = "Lost".into();
    }));
    all.push(of(
        RestoreFixture::told(None, "Restore", 2),
        "etcd has stopped, and the member's claim has lost its volume",
        |w| {
            w.live(Kind::PersistentVolumeClaim)["status"]["phase"] = "Lost".into();
        },
    ));
    all.push(of(RestoreFixture::told(None, "Restore", 2), "etcd has stopped, and the member's claim is gone", |w| {
        remove(w, Kind::PersistentVolumeClaim);
    }));
    let again: Change = |w| {
        w.restore.metadata.labels = Some([(labels::RECOVERY.to_owned(), "id".to_owned())].into());
        w.restore.spec.confirm = None;
        let since = "2026-01-02T00:00:00Z";
        w.live(Kind::EtcdCluster)["status"]["recovery"] =
            json!({"since": since, "epoch": 1, "begun": since, "restore": "team-a/back"});
    };
    all.push(of(RestoreFixture::checked(), "its label says that Berth created it, and the etcd does not", |w| {
        w.restore.metadata.labels = Some([(labels::RECOVERY.to_owned(), "id".to_owned())].into());
        w.restore.spec.confirm = None;
    }));
    all.push(of(RestoreFixture::checked(), "Berth created it by itself, and etcd answers again", again));
    let mut own = RestoreFixture::checked();
    again(&mut own);
    all.push(of(own, "Berth created it by itself, and a member has its data again", |w| {
        w.live(Kind::EtcdCluster)["status"]["recovery"]["left"] =
            json!([{"name": "etcd-2", "url": "u", "host": "h", "address": "a"}]);
        available(w, "False", "2026-01-02T00:00:30Z");
        w.members(&["DataLost", "DataLost", "Answers"]);
    }));
    all.push(of(RestoreFixture::checked(), "the members have different data, and no majority agrees", |w| {
        outage(w, &["Answers"; 3]);
        w.live(Kind::EtcdCluster)["status"]["conditions"][0]["reason"] = "EtcdAlarm".into();
    }));
    all.push(of(RestoreFixture::checked(), "etcd does not answer, and its status was lost", |w| {
        outage(w, &["Away"; 3]);
        let status = &mut w.live(Kind::EtcdCluster)["status"];
        status["conditions"][0]["reason"] = "QuorumLost".into();
        status["clusterId"] = Value::Null;
    }));
    let told: Vec<(&str, RestoreFixture, Change)> = vec![
        ("etcd has not begun yet", RestoreFixture::told(None, "", 1), |_| {}),
        ("etcd is paused", RestoreFixture::told(None, "", 1), |w| {
            w.live(Kind::EtcdCluster)["spec"]["paused"] = true.into();
        }),
        ("etcd was made by an earlier Berth", RestoreFixture::told(None, "Stop", 1), |w| {
            let etcd = w.live(Kind::EtcdCluster);
            etcd["status"]["conditions"][0]["reason"] = "EtcdChangeUnsupported".into();
            etcd["status"]["conditions"][0]["message"] = "this etcd is of an earlier Berth".into();
        }),
        ("the API server's pods end", RestoreFixture::told(None, "WaitingForClients", 1), |_| {}),
        ("etcd has stopped", RestoreFixture::told(None, "Restore", 2), |_| {}),
        ("its Job restores", RestoreFixture::told(None, "Restore", 2), |w| w.ends(RESTORE, None, None)),
        ("its Job is of an epoch before", RestoreFixture::told(None, "Restore", 2), |w| {
            w.ends(RESTORE, None, None);
            w.live(Kind::EtcdCluster)["status"]["epoch"] = 3.into();
        }),
        ("its Job failed, and etcd has stopped", RestoreFixture::told(None, "Restore", 2), |w| {
            w.ends(RESTORE, Some("Failed"), Some(&failed(At::Proof, SHA)));
        }),
        ("its Job is done", RestoreFixture::told(None, "Restore", 2), |w| {
            w.ends(RESTORE, Some("Complete"), Some(&Outcome::Restored));
        }),
        ("etcd knows that it is done", RestoreFixture::told(Some(2), "Restore", 2), |_| {}),
        ("the first member starts", RestoreFixture::told(Some(2), "Start", 2), |_| {}),
        ("etcd serves", RestoreFixture::told(Some(2), "Done", 2), |_| {}),
        ("etcd serves, and what it held before is still there", RestoreFixture::told(Some(2), "Done", 2), |w| {
            w.reconcile();
        }),
        ("it is deleted while its Job runs", RestoreFixture::told(None, "Restore", 2), |w| {
            w.ends(RESTORE, None, None);
            w.restore.metadata.deletion_timestamp = Some(Time(w.now));
        }),
    ];
    for (text, mut w, change) in told {
        change(&mut w);
        all.push(of(w, text, |_| {}));
    }
    all
}

/// etcd does not answer, and nobody confirmed.
fn outage(w: &mut RestoreFixture, members: &[&str]) {
    w.restore.spec.confirm = None;
    available(w, "False", "2026-01-02T00:00:30Z");
    w.members(members);
}

fn of(mut world: RestoreFixture, text: &'static str, change: Change) -> Situation {
    change(&mut world);
    world.reconcile();
    Situation::of("EtcdRestore", text, &world.restore)
}

fn of_backup(world: &mut RestoreFixture, but: &Value) {
    world.backup("one", "2026-01-01T00:00:00Z", but);
}

/// The newest one that was taken by then.
fn latest(world: &mut RestoreFixture, until: &str) {
    world.restore.spec.source = serde_json::from_value(json!({"latestBefore": until})).unwrap();
}

const CUT: &str = "the snapshot in the store is cut or changed (100000 of 2650144 bytes), so it cannot be restored: team-a/acme/id/one.db has SHA-256 e10d…, and had eab5…";

fn damaged() -> Value {
    json!({"phase": "Failed", "damaged": {"at": "2026-01-01T12:00:00Z", "by": "EtcdRestore before", "message": CUT}})
}

fn remove(world: &mut RestoreFixture, kind: Kind) {
    world.observed.objects.retain(|key, _| key.kind != kind);
}
