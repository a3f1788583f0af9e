//! Situations of an `EtcdBackup`, for docs/reference/messages.md.

use super::deletion::{deleted, is_kept, many_deleted, newer, newer_is_restored, restored};
use super::volumes::{claim, on_a_volume};
use super::*;
use berth_api::backup::Damage;
use berth_api::labels;
use berth_plan::backup_jobs::Pool;
use berth_testkit::situations::Situation;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use serde_json::Value;

type Change = fn(&mut BackupFixture);

/// Each message that an `EtcdBackup` can have.
pub(crate) fn situations() -> Vec<Situation> {
    let all: &[(&str, Change)] = &[
        ("an EtcdBackup is created", |_| {}),
        ("its Cluster does not exist", |w| remove(w, Kind::Cluster, "acme")),
        ("its Cluster has no control plane yet", |w| {
            let home = BackupFixture::home();
            remove(w, Kind::Namespace, &home);
        }),
        ("its Cluster cannot be read", |w| live(w, Kind::Cluster)["spec"]["etcd"] = json!({"replicas": "three"})),
        ("its etcd is being deleted", |w| {
            live(w, Kind::EtcdCluster)["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z".into();
        }),
        ("its etcd is not formed yet", |w| live(w, Kind::EtcdCluster)["status"]["clusterId"] = Value::Null),
        ("its etcd sleeps", |w| {
            live(w, Kind::EtcdCluster)["status"]["operation"] =
                json!({"id": 3, "type": "Sleep", "target": "etcd", "phase": "Asleep", "since": "2026-01-01T00:00:00Z"});
        }),
        ("the client certificate is not issued yet", |w| live(w, Kind::EtcdCluster)["status"]["clients"] = json!([])),
        ("a stand-alone EtcdCluster has no client `backup`", |w| {
            live(w, Kind::EtcdCluster)["status"]["clients"] = json!([]);
            w.settings.backups.stores[0].namespaces.push(TEAM.into());
            stands_alone(w);
        }),
        ("a stand-alone EtcdCluster is to use a store that is for Clusters only", stands_alone),
        ("its etcd has no version", |w| live(w, Kind::EtcdCluster)["spec"]["version"] = "x".into()),
        ("no store is configured", |w| w.settings.backups.stores.clear()),
        ("the store is not configured", |w| w.backup.spec.store.name = "other".into()),
        ("the chart is older than backups", |w| w.settings.backups.image.clear()),
        ("the store's Secret is not there", |w| remove(w, Kind::Secret, "s3")),
        ("the store's Secret lacks a key", |w| w.secret("berth-system", "s3", &["accessKeyID"])),
        ("somebody else's Job has its name", |w| {
            w.put(Kind::Job, json!({"metadata": {"name": "backup-one", "namespace": BackupFixture::home()}}));
        }),
        ("many backups are due at once", |w| many(w, Pool::Platform)),
        ("the API server refuses the pods of its Job", |w| {
            w.ends("backup-one", None, &[]);
            w.observed.refused.insert("backup-one".into(), REFUSED.into());
        }),
        ("the API server refused the pods of its Job until the Job's deadline", |w| {
            w.ends("backup-one", Some("Failed"), &[]);
            live(w, Kind::Job)["status"]["conditions"][0]["message"] =
                "Job was active longer than specified deadline".into();
            w.observed.refused.insert("backup-one".into(), REFUSED.into());
        }),
        ("the API server refuses the pods of another Job in the namespace of its own", |w| {
            let home = BackupFixture::home();
            let seen = w.works(TEAM, "first", Pool::Platform);
            (seen.home, seen.had_pod, seen.began) = (home, false, OLD.parse().unwrap());
        }),
        ("the API server refuses the pods of its Job, and of many others", |w| {
            w.ends("backup-one", None, &[]);
            for n in 0..4 {
                let seen = w.works("team-b", &format!("b{n}"), Pool::Platform);
                (seen.had_pod, seen.began) = (false, OLD.parse().unwrap());
            }
            let now = w.now - jiff::SignedDuration::from_secs(10);
            live(w, Kind::Job)["metadata"]["creationTimestamp"] = now.to_string().into();
        }),
        ("its Job has not ended long after its deadline", |w| {
            w.ends("backup-one", None, &[]);
            live(w, Kind::Job)["metadata"]["creationTimestamp"] = "2025-12-31T22:50:59Z".into();
        }),
        ("the Job of an EtcdBackup that had its name is there", |w| earlier(w, "backup-one")),
        ("its Job runs", |w| w.ends("backup-one", None, &[])),
        ("its Job tries again", |w| w.ends("backup-one", None, &[failed(At::Store, STORE)])),
        ("the store refuses", |w| w.ends("backup-one", Some("Failed"), &[failed(At::Store, STORE)])),
        ("etcd has no quorum", |w| {
            w.ends("backup-one", Some("Failed"), &[failed(At::Etcd, "etcdctl: Error: context deadline exceeded")]);
        }),
        ("the store gives back something else", |w| w.ends("backup-one", Some("Failed"), &[failed(At::Proof, PROOF)])),
        ("its Job takes too long", |w| {
            w.ends("backup-one", Some("Failed"), &[]);
            live(w, Kind::Job)["status"]["conditions"][0]["message"] =
                "Job was active longer than specified deadline".into();
        }),
        ("its Job failed without a message", |w| {
            w.ends("backup-one", Some("Failed"), &[]);
            live(w, Kind::Job)["status"]["conditions"][0]["message"] = Value::Null;
        }),
        ("the pod of its Job is deleted at its end", |w| w.ends("backup-one", Some("Complete"), &[])),
        ("it is proven", |w| w.ends("backup-one", Some("Complete"), &[verified()])),
        ("it is proven, and a restore has found since that it is damaged", found_damaged),
        ("it is to be of members that are left, and their etcd does not say where one of them is", |w| {
            w.backup.spec.without_quorum = true;
            w.backup.spec.members = vec!["etcd-4".into()];
        }),
        ("an earlier Berth takes it of the members that are left, and their etcd does not say who that is yet", |w| {
            w.backup.spec.without_quorum = true;
            w.backup.metadata.labels = Some([(berth_api::labels::RECOVERY.to_owned(), "r".to_owned())].into());
        }),
    ];
    let mut situations: Vec<Situation> =
        all.iter().map(|(text, change)| of(BackupFixture::new(), text, *change)).collect();
    situations.extend(REFUSALS.iter().map(|(text, why)| {
        let mut world = BackupFixture::new();
        world.ends("backup-one", None, &[]);
        world.observed.refused.insert("backup-one".into(), (*why).into());
        of(world, text, |_| {})
    }));
    let own: &[(&str, Change)] = &[
        ("stores of teams are not allowed", |w| w.settings.backups.endpoints.clear()),
        ("the Secret of the team's store is not there", |w| {
            w.observed.secrets.retain(|key, _| key.name != "mine");
        }),
        ("the API server refuses to show the Secret of the team's store", |w| {
            let why = "admission webhook \"x.example.com\" denied the request".to_owned();
            let refused = SecretFacts { refused: Some(why), ..SecretFacts::default() };
            let key = ObjectKey::namespaced(Kind::Secret, TEAM, "mine");
            w.observed.secrets.insert(key, refused.into());
        }),
        ("the Secret of the team's store is of another type", |w| {
            let key = ObjectKey::namespaced(Kind::Secret, TEAM, "mine");
            w.observed.secrets.insert(key, SecretFacts::default().into());
        }),
        ("the endpoint of the team's store is not allowed", |w| own_store(w, &[("endpoint", "https://elsewhere")])),
        ("the team's store has no endpoint", |w| own_store(w, &[("endpoint", "")])),
        ("the endpoint of the team's store is no URL", |w| own_store(w, &[("endpoint", "s3.team")])),
        ("the team's store has no access key", |w| own_store(w, &[("accessKeyID", "")])),
        ("the bucket of the team's store is none", |w| own_store(w, &[("bucket", "a/b")])),
        ("the region of the team's store is none", |w| own_store(w, &[("region", "a/b")])),
        ("the prefix of the team's store is none", |w| own_store(w, &[("prefix", "a/../b")])),
        ("pathStyle of the team's store is neither true nor false", |w| own_store(w, &[("pathStyle", "yes")])),
        ("how the team's store is to encrypt is not known", |w| own_store(w, &[("serverSideEncryption", "yes")])),
        ("the KMS key of the team's store is none", |w| {
            own_store(w, &[("serverSideEncryption", "aws:kms"), ("kmsKeyID", "a b")]);
        }),
        ("the KMS key of the team's store is one without KMS", |w| own_store(w, &[("kmsKeyID", "a")])),
        ("many backups that go to stores of teams are due at once", |w| many(w, Pool::Teams)),
        ("others of its namespace are being taken that go to a store of the team's", |w| {
            for n in 0..2 {
                w.works(TEAM, &format!("b{n}"), Pool::Teams);
            }
        }),
    ];
    situations.push(of(
        BackupFixture::new(),
        "others of its namespace are being taken that go to a store of the platform",
        |w| {
            w.settings.backups.concurrent = 4;
            for n in 0..3 {
                w.works(TEAM, &format!("b{n}"), Pool::Platform);
            }
        },
    ));
    situations.extend(own.iter().map(|(text, change)| of(in_own_store(), text, *change)));
    let volume: &[(&str, Change)] = &[
        ("the claim of its volume is not there", |w| drop(w.observed.objects.remove(&claim()))),
        ("the claim of its volume is being deleted", |w| {
            live_claim(w)["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z".into();
        }),
        ("the claim of its volume lacks the label of consent", |w| live_claim(w)["metadata"]["labels"] = json!({})),
        ("the claim of its volume is that of a member of etcd", |w| {
            live_claim(w)["metadata"]["labels"][berth_api::labels::MANAGED_BY] =
                berth_api::labels::MANAGED_BY_VALUE.into();
        }),
        ("the claim of its volume has lost it", |w| live_claim(w)["status"]["phase"] = "Lost".into()),
        ("its volume is a block device", |w| live_claim(w)["spec"]["volumeMode"] = "Block".into()),
        ("its volume can only be read", |w| live_claim(w)["spec"]["accessModes"] = json!(["ReadOnlyMany"])),
        ("a tenant's backup is to go to a volume", |w| {
            w.backup.spec.etcd_cluster_ref = None;
            w.backup.spec.cluster_ref = Some(berth_api::backup::BackupRef { name: "acme".into() });
        }),
        ("the EtcdCluster of a Cluster is to be kept on a volume", |w| {
            live(w, Kind::EtcdCluster)["metadata"]["labels"] = json!({(berth_api::labels::CLUSTER_NAME): "acme"});
        }),
    ];
    situations.extend(volume.iter().map(|(text, change)| of(on_a_volume(), text, *change)));
    let deletions: &[(&str, Change)] = &[
        ("it is deleted, and so is its snapshot", |w| newer(w, &|_| {})),
        ("it is deleted, and so is its snapshot: the Job runs", |w| {
            newer(w, &|_| {});
            w.ends("backup-one-delete", None, &[]);
        }),
        ("its snapshot cannot be deleted", |w| {
            newer(w, &|_| {});
            w.ends("backup-one-delete", Some("Failed"), &[failed(At::Store, STORE)]);
        }),
        ("the store keeps its snapshot until a time", |w| is_kept(w, Some("2026-01-31T03:04:05Z"))),
        ("the store keeps its snapshot for years", |w| is_kept(w, Some("2033-01-31T03:04:05Z"))),
        ("the store keeps its snapshot, and does not say until when", |w| is_kept(w, None)),
        ("its snapshot is deleted", |w| {
            newer(w, &|_| {});
            w.ends("backup-one-delete", Some("Complete"), &[Outcome::Deleted]);
            let (home, labels) = (BackupFixture::home(), BackupInput(w.input()).owner().labels.clone());
            w.put(
                Kind::Secret,
                json!({"metadata": {"name": "backup-one-delete", "namespace": home, "labels": labels}}),
            );
        }),
        ("it is deleted while its etcd has no StatefulSet", |w| {
            newer(w, &|_| {});
            live(w, Kind::EtcdCluster)["status"]["clusterId"] = Value::Null;
        }),
        ("it is deleted while an EtcdRestore needs it", |w| restored(w, "Restoring")),
        ("it is deleted while an EtcdRestore restores the only newer one", |w| newer_is_restored(w, "Checking")),
        ("many are deleted at once", |w| many_deleted(w, 4)),
        ("it is deleted, and the Job of an EtcdBackup that had its name is there", |w| {
            newer(w, &|_| {});
            earlier(w, "backup-one-delete");
        }),
        ("it is deleted while its Job runs", |w| w.ends("backup-one", None, &[])),
    ];
    situations.extend(deletions.iter().map(|(text, change)| of(deleted(), text, *change)));
    situations
}

pub(super) fn found_damaged(world: &mut BackupFixture) {
    world.ends("backup-one", Some("Complete"), &[verified()]);
    world.reconcile();
    world.observed.objects.retain(|key, _| !matches!(key.kind, Kind::Job | Kind::Pod));
    let message = "the snapshot in the store is cut or changed (100000 of 2650144 bytes), so it cannot be restored: prod/team-a/acme/id/20260101T000000Z-7.db has SHA-256 e10d…, and had eab5…";
    let damage = Damage { at: Time(world.now), by: "EtcdRestore back".into(), message: message.into() };
    world.backup.status = Some(crate::backup::status::damaged(&world.backup, damage, world.now));
}

const STORE: &str = "store https://s3:9000: cannot look for prod/team-a/acme/id/any.json in bucket b: it answers 403: the credentials do not allow it";
const PROOF: &str = "restored, etcd has 2 keys, and had 3 when the snapshot was taken";

/// What else the API server may say of a pod.
const REFUSALS: &[(&str, &str)] = &[
    ("a quota counts what the pods of its Job do not say", "failed quota: cpu: must specify limits.cpu for: backup"),
    (
        "a LimitRange refuses the pods of its Job",
        "[maximum memory usage per Container is 1Gi, but limit is 4Gi, maximum memory usage per Pod is 2Gi, but limit is 4Gi, memory max limit to request ratio per Container is 4, but provided ratio is 8.000000]",
    ),
    (
        "Pod Security refuses the pods of its Job",
        r#"violates PodSecurity "restricted:latest": restricted volume types (volume "x" uses restricted volume type "hostPath")"#,
    ),
    (
        "a policy refuses the pods of its Job",
        "ValidatingAdmissionPolicy 'images.example.com' with binding 'all' denied request: not from our registry",
    ),
    (
        "a webhook refuses the pods of its Job",
        r#"admission webhook "images.example.com" denied the request: not from our registry"#,
    ),
    (
        "a webhook that refuses the pods of its Job is down",
        r#"Internal error occurred: failed calling webhook "images.example.com": failed to call webhook: connection refused"#,
    ),
];

/// When a Job was created that is before its deadline.
const OLD: &str = "2025-12-31T23:59:00Z";

const REFUSED: &str =
    "exceeded quota: small, requested: limits.memory=4Gi, used: limits.memory=6Gi, limited: limits.memory=8Gi";

/// Other teams' take all places.
fn many(world: &mut BackupFixture, pool: Pool) {
    for n in 0..4 {
        world.works(&format!("team-b{}", n / 2), &format!("b{n}"), pool);
    }
}

/// A Job of this name that was made for another object.
fn earlier(world: &mut BackupFixture, job: &str) {
    world.ends(job, None, &[]);
    live(world, Kind::Job)["metadata"]["labels"][labels::ETCD_BACKUP_UID] = "u0".into();
}

fn of(mut world: BackupFixture, text: &'static str, change: Change) -> Situation {
    change(&mut world);
    world.reconcile();
    Situation::of("EtcdBackup", text, &world.backup)
}

fn live(world: &mut BackupFixture, kind: Kind) -> &mut Value {
    let found = world.observed.objects.iter_mut().find(|(key, _)| key.kind == kind);
    found.map(|(_, object)| object).expect("it is there")
}

fn live_claim(world: &mut BackupFixture) -> &mut Value {
    world.observed.objects.get_mut(&claim()).expect("it is there")
}

fn remove(world: &mut BackupFixture, kind: Kind, name: &str) {
    let is = |key: &ObjectKey| key.kind == kind && key.name == name;
    world.observed.objects.retain(|key, _| !is(key));
    world.observed.secrets.retain(|key, _| !is(key));
}
