//! An `EtcdBackup` against a real API server. The test is the Job's controller and its pod.
#![allow(clippy::disallowed_methods, reason = "a test fails by panicking")]

use crate::common::{Running, SOON, SYSTEM, Team, alone_at_a_server, settings};
use anyhow::{Context as _, Result, ensure};
use berth_api::backup::{At, EtcdBackup, Failure, Manifest, Outcome, Subject, TASK, Task};
use berth_api::conditions::{ConditionType, find, is_true};
use berth_api::{EtcdBackupSchedule, EtcdCluster, EtcdRestore, labels, names};
use berth_testkit::FaultPlan;
use berth_testkit::fixtures::eventually;
use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::api::core::v1::{Namespace, Pod, Secret};
use k8s_openapi::api::networking::v1::NetworkPolicy;
use kube::Api;
use kube::api::{DeleteParams, ListParams, Patch, PatchParams, PostParams};
use serde_json::{Value, json};

pub(crate) async fn create(team: &Team, name: &str, policy: &str) -> Api<EtcdBackup> {
    let all: Api<EtcdBackup> = Api::namespaced(team.client.clone(), &team.ns);
    let backup = json!({
        "apiVersion": "berth.dev/v1alpha1", "kind": "EtcdBackup", "metadata": {"name": name},
        "spec": {"clusterRef": {"name": "acme"}, "store": "main", "deletionPolicy": policy},
    });
    all.create(&PostParams::default(), &serde_json::from_value(backup).unwrap()).await.unwrap();
    all
}

pub(crate) async fn says(all: &Api<EtcdBackup>, name: &str, phase: &str) -> EtcdBackup {
    let attempt = async || {
        let backup = all.get(name).await?;
        let status = backup.status.clone().unwrap_or_default();
        ensure!(status.phase.as_deref() == Some(phase), "{status:?}");
        Ok(backup)
    };
    eventually(SOON, &format!("{name} to be {phase}"), attempt).await.unwrap_or_else(|e| panic!("{e:#}"))
}

/// What a Job's controller and kubelet make of it.
pub(crate) async fn ends(team: &Team, name: &str, condition: &str, outcome: &Outcome) -> Task {
    let jobs = team.inside::<Job>();
    let job = eventually(SOON, "the Job", async || jobs.get(name).await.context("no Job")).await.unwrap();
    let template = job.spec.unwrap().template;
    let mut labels = template.metadata.unwrap().labels.unwrap();
    labels.insert(labels::JOB_NAME.into(), name.into());
    let spec = template.spec.unwrap();
    let task = spec.containers[0].env.clone().unwrap_or_default().into_iter().find(|e| e.name == TASK).unwrap();
    let pod = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "labels": labels}, "spec": spec});
    let pods = team.inside::<Pod>();
    pods.create(&PostParams::default(), &serde_json::from_value(pod).unwrap()).await.unwrap();
    let end = json!({
        "exitCode": 0, "message": serde_json::to_string(outcome).unwrap(),
        "startedAt": "2026-01-01T00:00:00Z", "finishedAt": "2026-01-01T00:00:10Z",
    });
    let container = json!({"name": "backup", "image": "i", "imageID": "i", "ready": false, "restartCount": 0, "state": {"terminated": end}});
    // The world's kubelet says that it runs, until it is told otherwise.
    let status = json!({"status": {"phase": "Succeeded", "containerStatuses": [container]}});
    pods.patch_status(name, &PatchParams::default(), &Patch::Merge(&status)).await.unwrap();
    let at = "2026-01-01T00:00:10Z";
    let met = |type_: &str| json!({"type": type_, "status": "True", "reason": "Test", "message": "too often", "lastTransitionTime": at, "lastProbeTime": at});
    let before = if condition == "Complete" { "SuccessCriteriaMet" } else { "FailureTarget" };
    let mut status = json!({"startTime": "2026-01-01T00:00:00Z", "conditions": [met(before), met(condition)]});
    if condition == "Complete" {
        status["completionTime"] = at.into();
        status["succeeded"] = 1.into();
    }
    jobs.patch_status(name, &PatchParams::default(), &Patch::Merge(&json!({"status": status}))).await.unwrap();
    serde_json::from_str(&task.value.unwrap()).unwrap()
}

pub(crate) fn verified(team: &Team, identity: &str, at: &str) -> Outcome {
    Outcome::from(Manifest {
        key: format!("prod/{}/acme/{identity}/{at}-7.db", team.ns),
        sha256: "ab".into(),
        size: 9,
        revision: 7,
        keys: 3,
        hash: 1,
        cluster_id: "c1".into(),
        etcd_version: "3.6.16".into(),
        taken_at: at.into(),
        verified_at: at.into(),
        of: Subject { identity: identity.into(), epoch: 1, ..Subject::default() },
    })
}

pub(crate) async fn gone<K>(all: Api<K>, name: &str) -> Result<()>
where
    K: Clone + std::fmt::Debug + serde::de::DeserializeOwned + kube::Resource,
{
    let attempt = async || {
        ensure!(all.get_opt(name).await?.is_none(), "{name} is there");
        Ok(())
    };
    eventually(SOON, &format!("{name} to be gone"), attempt).await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_backup_is_taken_by_a_job_recorded_and_deleted_once_it_is_superseded() {
    let (_turn, server) = alone_at_a_server().await;
    let team = Team::with_cluster(server).await;
    let client = team.client.clone();
    let namespaces: Api<Namespace> = Api::all(client.clone());
    let _ = namespaces
        .create(&PostParams::default(), &serde_json::from_value(json!({"metadata": {"name": SYSTEM}})).unwrap())
        .await;
    // Another test of this program may have left it, at the same server.
    let secrets: Api<Secret> = Api::namespaced(client.clone(), SYSTEM);
    let _ = secrets.delete("s3", &DeleteParams::default()).await;
    let plan = FaultPlan::new();
    let with = berth_plan::Settings { backups: crate::common::backups("prod"), ..settings() };
    let _operator = Running::start_with(server, with, &plan);
    team.ready().await.unwrap_or_else(|e| panic!("{e:#}"));
    let all = create(&team, "one", "Delete").await;
    let waits = says(&all, "one", "Waiting").await.status.unwrap();
    let ready = find(&waits.conditions, ConditionType::Ready).unwrap();
    assert!(ready.message.contains("Secret berth-system/s3"), "{}", ready.message);

    let secret = json!({"metadata": {"name": "s3"}, "stringData": {"accessKeyID": "A", "secretAccessKey": "B"}});
    secrets.create(&PostParams::default(), &serde_json::from_value(secret).unwrap()).await.unwrap();
    says(&all, "one", "Running").await;
    let copy = team.inside::<Secret>().get("backup-one").await.unwrap().data.unwrap();
    assert_eq!(copy["secretAccessKey"].0, b"B");
    let policies = team.inside::<NetworkPolicy>();
    let egress = policies.get(names::ETCD_BACKUP).await.unwrap().spec.unwrap().egress.unwrap();
    let port = |rule: &k8s_openapi::api::networking::v1::NetworkPolicyEgressRule| {
        serde_json::to_value(rule).unwrap()["ports"][0]["port"].clone()
    };
    assert!(egress.iter().any(|rule| port(rule) == 9000), "{egress:?}");

    let etcd = team.inside::<EtcdCluster>().get(names::ETCD).await.unwrap();
    let identity = etcd.status.unwrap().identity.unwrap();
    let task = ends(&team, "backup-one", "Complete", &verified(&team, &identity, "2026-01-01T00:00:00Z")).await;
    let Task::Take(take) = task else { panic!("{task:?}") };
    assert_eq!(take.prefix, format!("prod/{}/acme/{identity}", team.ns));
    assert_eq!(take.members, [format!("https://etcd-0.{}.svc:2379", team.cp_namespace)]);
    assert!(
        take.of.encryption_key.is_some() && take.of.kubernetes_version.as_deref() == Some("1.36.3"),
        "{:?}",
        take.of
    );
    let status = says(&all, "one", "Verified").await.status.unwrap();
    assert_eq!((status.revision, status.keys), (Some(7), Some(3)));
    gone(team.inside::<Job>(), "backup-one").await.unwrap();
    gone(team.inside::<Secret>(), "backup-one").await.unwrap();

    // One that fails supersedes nothing; one that is proven does.
    create(&team, "two", "Delete").await;
    let why = Failure { at: At::Store, message: "it answers 403".into() };
    ends(&team, "backup-two", "Failed", &Outcome::Failed(why)).await;
    let failed = says(&all, "two", "Failed").await.status.unwrap();
    assert_eq!(find(&failed.conditions, ConditionType::Stalled).unwrap().message, "it answers 403");
    create(&team, "three", "Delete").await;
    ends(&team, "backup-three", "Complete", &verified(&team, &identity, "2026-01-02T00:00:00Z")).await;
    says(&all, "three", "Verified").await;
    all.delete("one", &DeleteParams::default()).await.unwrap();
    let task = ends(&team, "backup-one-delete", "Complete", &Outcome::Deleted).await;
    assert!(matches!(task, Task::Delete(ref delete) if delete.key.contains("2026-01-01")), "{task:?}");
    gone(all.clone(), "one").await.unwrap();
    all.delete("three", &DeleteParams::default()).await.unwrap();
    gone(all.clone(), "three").await.unwrap();
    assert!(team.inside::<Job>().get_opt("backup-three-delete").await.unwrap().is_none(), "the last one stays");
}

/// A restore finds the newest backup damaged: that is on record before it ends, and nothing is offered or deleted for it any more.
#[tokio::test(flavor = "multi_thread")]
async fn a_backup_that_a_restore_finds_damaged_is_not_offered_again() {
    let (_turn, server) = alone_at_a_server().await;
    let team = Team::with_cluster(server).await;
    store(&team).await;
    let with = berth_plan::Settings { backups: crate::common::backups("prod"), ..settings() };
    let _operator = Running::start_with(server, with, &FaultPlan::new());
    team.ready().await.unwrap_or_else(|e| panic!("{e:#}"));
    let etcd = team.inside::<EtcdCluster>().get(names::ETCD).await.unwrap().status.unwrap();
    let (identity, confirm) = (etcd.identity.unwrap(), etcd.cluster_id.unwrap());
    let all = create(&team, "good", "Delete").await;
    for (name, at) in [("good", "2026-01-01T00:00:00Z"), ("bad", "2026-01-02T00:00:00Z")] {
        if name == "bad" {
            create(&team, name, "Delete").await;
        }
        let mut outcome = verified(&team, &identity, at);
        if let (Outcome::Verified(proof), "bad") = (&mut outcome, name) {
            proof.manifest.revision += 1;
        }
        ends(&team, &format!("backup-{name}"), "Complete", &outcome).await;
        says(&all, name, "Verified").await;
    }

    let restores: Api<EtcdRestore> = Api::namespaced(team.client.clone(), &team.ns);
    let latest = |name: &str| {
        let spec = json!({"clusterRef": {"name": "acme"}, "source": {"latestBefore": "2100-01-01T00:00:00Z"}, "confirm": confirm});
        let restore = json!({"apiVersion": "berth.dev/v1alpha1", "kind": "EtcdRestore", "metadata": {"name": name}, "spec": spec});
        serde_json::from_value(restore).unwrap()
    };
    restores.create(&PostParams::default(), &latest("first")).await.unwrap();
    let why =
        Failure { at: At::Damaged, message: "the snapshot in the store is cut or changed (9 of 99 bytes)".into() };
    let task = ends(&team, "restore-first-check", "Failed", &Outcome::Failed(why)).await;
    assert!(matches!(&task, Task::Check(check) if check.key.contains("2026-01-02")), "{task:?}");
    let failed = async || {
        let conditions = restores.get("first").await?.status.unwrap_or_default().conditions;
        let ready = find(&conditions, ConditionType::Ready).context("no Ready")?;
        ensure!(ready.reason == "BackupDamaged" && ready.message.contains("--backup good"), "{ready:?}");
        Ok(())
    };
    eventually(SOON, "the restore to fail", failed).await.unwrap_or_else(|e| panic!("{e:#}"));
    let bad = says(&all, "bad", "Failed").await.status.unwrap();
    assert!(is_true(&bad.conditions, ConditionType::Damaged) && bad.damaged.is_some(), "{bad:?}");

    // A second restore takes the other one; and deleting that one leaves its snapshot, since none is newer.
    restores.create(&PostParams::default(), &latest("second")).await.unwrap();
    let task = ends(
        &team,
        "restore-second-check",
        "Failed",
        &Outcome::Failed(Failure { at: At::Store, message: "it answers 403".into() }),
    )
    .await;
    assert!(matches!(&task, Task::Check(check) if check.key.contains("2026-01-01")), "{task:?}");
    let status = says(&all, "good", "Verified").await.status.unwrap();
    assert!(!is_true(&status.conditions, ConditionType::Damaged), "a store that refuses damages nothing");
    let ended = async || {
        let phase = restores.get("second").await?.status.unwrap_or_default().phase;
        ensure!(phase.as_deref() == Some("Failed"), "{phase:?}");
        Ok(())
    };
    eventually(SOON, "the second restore to fail", ended).await.unwrap_or_else(|e| panic!("{e:#}"));
    all.delete("good", &DeleteParams::default()).await.unwrap();
    gone(all.clone(), "good").await.unwrap();
    assert!(team.inside::<Job>().get_opt("backup-good-delete").await.unwrap().is_none(), "the last good one stays");
}

/// The store's Secret.
async fn store(team: &Team) {
    for (path, object) in [
        ("namespaces", json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": SYSTEM}})),
        (
            "namespaces/berth-system/secrets",
            json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "s3"}, "stringData": {"accessKeyID": "A", "secretAccessKey": "B"}}),
        ),
    ] {
        let request = http::Request::post(format!("/api/v1/{path}")).header("content-type", "application/json");
        // Another test of this program may have made it at the same server.
        let _ = team.client.request::<Value>(request.body(serde_json::to_vec(&object).unwrap()).unwrap()).await;
    }
}

/// A schedule creates the backup that is due, and none beside it; once that is proven, the older one goes, and the `Cluster` says so.
#[tokio::test(flavor = "multi_thread")]
async fn a_schedule_creates_what_is_due_and_deletes_what_is_not_kept() {
    let (_turn, server) = alone_at_a_server().await;
    let team = Team::with_cluster(server).await;
    let client = team.client.clone();
    store(&team).await;
    let plan = FaultPlan::new();
    let with = berth_plan::Settings { backups: crate::common::backups("prod"), ..settings() };
    let all: Api<EtcdBackup> = Api::namespaced(client.clone(), &team.ns);
    let schedules: Api<EtcdBackupSchedule> = Api::namespaced(client.clone(), &team.ns);
    {
        let _operator = Running::start_with(server, with.clone(), &plan);
        team.ready().await.unwrap_or_else(|e| panic!("{e:#}"));
    }
    // While no operator runs: as if the last time had been long ago.
    let spec = json!({
        "clusterRef": {"name": "acme"}, "store": "main", "schedule": "0 3 * * *",
        "keep": {"last": 1, "hourly": 0, "daily": 0, "weekly": 0},
    });
    let schedule = json!({"apiVersion": "berth.dev/v1alpha1", "kind": "EtcdBackupSchedule", "metadata": {"name": "nightly"}, "spec": spec});
    schedules.create(&PostParams::default(), &serde_json::from_value(schedule).unwrap()).await.unwrap();
    let long_ago = Patch::Merge(json!({"status": {"lastScheduleTime": "2026-01-01T03:00:00Z"}}));
    schedules.patch_status("nightly", &PatchParams::default(), &long_ago).await.unwrap();
    let old = json!({
        "apiVersion": "berth.dev/v1alpha1", "kind": "EtcdBackup",
        "metadata": {"name": "nightly-old", "labels": {labels::ETCD_BACKUP_SCHEDULE: "nightly"}},
        "spec": {"clusterRef": {"name": "acme"}, "store": "main", "deletionPolicy": "Delete"},
    });
    all.create(&PostParams::default(), &serde_json::from_value(old).unwrap()).await.unwrap();

    let _operator = Running::start_with(server, with, &plan);
    let identity = team.inside::<EtcdCluster>().get(names::ETCD).await.unwrap().status.unwrap().identity.unwrap();
    says(&all, "nightly-old", "Running").await;
    let missed = async || {
        let conditions = schedules.get("nightly").await?.status.unwrap_or_default().conditions;
        let ready = find(&conditions, ConditionType::Ready).context("no Ready")?;
        ensure!(ready.message.contains("was missed, since EtcdBackup nightly-old has not ended"), "{}", ready.message);
        Ok(())
    };
    eventually(SOON, "never two at once", missed).await.unwrap_or_else(|e| panic!("{e:#}"));
    ready_says(&team, "Unknown", "Waiting").await;
    ends(&team, "backup-nightly-old", "Complete", &verified(&team, &identity, "2026-01-01T00:00:00Z")).await;
    says(&all, "nightly-old", "Verified").await;

    let created = async || {
        let found =
            all.list(&ListParams::default().labels(&format!("{}=nightly", labels::ETCD_BACKUP_SCHEDULE))).await?;
        let new: Vec<_> = found.into_iter().filter_map(|b| b.metadata.name).filter(|n| n != "nightly-old").collect();
        ensure!(new.len() == 1, "{new:?}");
        Ok(new[0].clone())
    };
    let mut name = String::new();
    eventually(SOON, "the backup that is due", async || {
        name = created().await?;
        anyhow::Ok(())
    })
    .await
    .unwrap_or_else(|e| panic!("{e:#}"));
    assert!(name.starts_with("nightly-2") && name.ends_with("0300"), "{name}");
    let recorded = async |name: &str| {
        let seen = async || {
            let last = schedules.get("nightly").await?.status.unwrap_or_default().last_verified;
            ensure!(last.as_deref() == Some(name), "{last:?}");
            Ok(())
        };
        eventually(SOON, "the newest proven one", seen).await.unwrap_or_else(|e| panic!("{e:#}"));
    };
    recorded("nightly-old").await;
    // Its node's clock is far behind, and the API server knows that it was created just now.
    ready_says(&team, "True", "AsExpected").await;
    let now = jiff::Timestamp::now().strftime("%Y-%m-%dT%H:%M:%SZ").to_string();
    ends(&team, &format!("backup-{name}"), "Complete", &verified(&team, &identity, &now)).await;
    says(&all, &name, "Verified").await;
    let task = ends(&team, "backup-nightly-old-delete", "Complete", &Outcome::Deleted).await;
    assert!(matches!(task, Task::Delete(ref delete) if delete.key.contains("2026-01-01")), "{task:?}");
    gone(all.clone(), "nightly-old").await.unwrap();
    recorded(&name).await;
    ready_says(&team, "True", "AsExpected").await;
    assert_eq!(created().await.unwrap(), name, "one for each time");
}

/// What the `Cluster` says of its backups.
async fn ready_says(team: &Team, status: &str, reason: &str) {
    // No watch tells a `Cluster` of schedules.
    team.touch().await;
    let said = async || {
        let conditions = team.clusters().get("acme").await?.status.unwrap_or_default().conditions;
        let ready = find(&conditions, ConditionType::BackupReady).context("no BackupReady")?;
        ensure!((&*ready.status, &*ready.reason) == (status, reason), "{ready:?}");
        Ok(())
    };
    eventually(SOON, reason, said).await.unwrap_or_else(|e| panic!("{e:#}"));
}

/// A backup goes to a store of the team's own; then it is put into a new etcd beside the tenant, which goes on undisturbed.
#[tokio::test(flavor = "multi_thread")]
async fn a_backup_in_a_teams_own_store_is_looked_into_in_a_new_stand_alone_etcd() {
    let (_turn, server) = alone_at_a_server().await;
    let team = Team::with_cluster(server).await;
    let post = PostParams::default();
    let mut with = berth_plan::Settings { backups: crate::common::backups("prod"), ..settings() };
    with.backups.endpoints = vec!["http://10.8.8.8:9001".into()];
    let _operator = Running::start_with(server, with, &FaultPlan::new());
    team.ready().await.unwrap_or_else(|e| panic!("{e:#}"));

    let all: Api<EtcdBackup> = Api::namespaced(team.client.clone(), &team.ns);
    let backup = json!({
        "apiVersion": "berth.dev/v1alpha1", "kind": "EtcdBackup", "metadata": {"name": "mine"},
        "spec": {"clusterRef": {"name": "acme"}, "secretRef": {"name": "mine"}},
    });
    let secrets: Api<Secret> = Api::namespaced(team.client.clone(), &team.ns);
    let secret = |type_: &str| {
        let data = json!({
            "endpoint": "http://10.8.8.8:9001", "bucket": "ours", "accessKeyID": "AKIA-ours", "secretAccessKey": "dontsay",
        });
        serde_json::from_value(json!({"metadata": {"name": "mine"}, "type": type_, "stringData": data})).unwrap()
    };
    secrets.create(&post, &secret("Opaque")).await.unwrap();
    all.create(&post, &serde_json::from_value(backup).unwrap()).await.unwrap();
    let waits = says(&all, "mine", "Waiting").await.status.unwrap();
    let ready = find(&waits.conditions, ConditionType::Ready).unwrap();
    assert!(ready.message.contains("is not of type berth.dev/object-store"), "{}", ready.message);
    secrets.delete("mine", &DeleteParams::default()).await.unwrap();
    secrets.create(&post, &secret("berth.dev/object-store")).await.unwrap();
    says(&all, "mine", "Running").await;
    let copy = team.inside::<Secret>().get("backup-mine").await.unwrap().data.unwrap();
    assert_eq!(copy.keys().collect::<Vec<_>>(), ["accessKeyID", "secretAccessKey"], "what the Job needs, and no more");
    let identity = team.inside::<EtcdCluster>().get(names::ETCD).await.unwrap().status.unwrap().identity.unwrap();
    let Outcome::Verified(mut proof) = verified(&team, &identity, "2026-01-01T00:00:00Z") else { panic!() };
    proof.manifest.of.epoch = 4;
    let manifest = proof.manifest.clone();
    let task = ends(&team, "backup-mine", "Complete", &Outcome::Verified(proof)).await;
    let Task::Take(take) = task else { panic!("{task:?}") };
    assert_eq!((&*take.store.endpoint, &*take.store.bucket), ("http://10.8.8.8:9001", "ours"));
    let taken = says(&all, "mine", "Verified").await;
    let said = serde_json::to_string(&taken).unwrap();
    assert!(!said.contains("dontsay") && !said.contains("AKIA-ours"), "{said}");

    let etcds: Api<EtcdCluster> = Api::namespaced(team.client.clone(), &team.ns);
    // Nothing uses it: its first operation may begin at once.
    let spec = json!({"version": "3.6.16", "dataPolicy": "Delete", "clientsStopped": 1});
    let scratch = json!({"apiVersion": "berth.dev/v1alpha1", "kind": "EtcdCluster", "metadata": {"name": "scratch"}, "spec": spec});
    etcds.create(&post, &serde_json::from_value(scratch).unwrap()).await.unwrap();
    let restores: Api<EtcdRestore> = Api::namespaced(team.client.clone(), &team.ns);
    let restore = |into: Value, confirm: &str| {
        let of = json!({"backup": "mine", "of": {"clusterRef": {"name": "acme"}}});
        let mut spec = json!({"source": of, "confirm": confirm, "backupFirst": false});
        spec.as_object_mut().unwrap().extend(into.as_object().unwrap().clone());
        json!({"apiVersion": "berth.dev/v1alpha1", "kind": "EtcdRestore", "metadata": {"name": "fish"}, "spec": spec})
    };
    let wrong = restore(json!({"clusterRef": {"name": "acme"}}), "c1");
    let refused = restores.create(&post, &serde_json::from_value(wrong).unwrap()).await.unwrap_err().to_string();
    assert!(refused.contains("a stand-alone EtcdCluster only"), "{refused}");
    let formed = async || {
        let status = etcds.get("scratch").await?.status.unwrap_or_default();
        ensure!(is_true(&status.conditions, ConditionType::Ready), "{:?}", status.conditions);
        status.cluster_id.context("no cluster ID")
    };
    eventually(SOON, "the new etcd", async || formed().await.map(drop)).await.unwrap_or_else(|e| panic!("{e:#}"));
    let fish = restore(json!({"etcdClusterRef": {"name": "scratch"}}), &formed().await.unwrap());
    restores.create(&post, &serde_json::from_value(fish).unwrap()).await.unwrap();
    let mut home = team.clone();
    home.cp_namespace.clone_from(&team.ns);
    let task = ends(&home, "restore-fish-check", "Complete", &Outcome::Checked(manifest)).await;
    assert!(matches!(&task, Task::Check(check) if check.into.identity == identity), "{task:?}");
    let task = ends(&home, "restore-fish", "Complete", &Outcome::Restored).await;
    let own = etcds.get("scratch").await.unwrap().metadata.uid.unwrap();
    let Task::Restore(task) = task else { panic!("{task:?}") };
    assert_eq!((task.identity, task.epoch, &*task.member), (own, 5, "scratch-0"), "its own, later than the backup's");
    let restored = async || {
        let status = restores.get("fish").await?.status.unwrap_or_default();
        ensure!(status.phase.as_deref() == Some(berth_api::restore::phase::RESTORED), "{status:?}");
        formed().await.map(drop)
    };
    eventually(SOON, "what is looked into", restored).await.unwrap_or_else(|e| panic!("{e:#}"));
    assert_eq!(etcds.get("scratch").await.unwrap().status.unwrap().epoch, Some(5));
    let tenant = team.inside::<EtcdCluster>().get(names::ETCD).await.unwrap().status.unwrap();
    assert_eq!((tenant.epoch, tenant.operation), (Some(1), None), "the tenant goes on");
    etcds.delete("scratch", &DeleteParams::default()).await.unwrap();
}
