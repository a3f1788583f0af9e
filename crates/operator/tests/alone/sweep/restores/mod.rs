//! A restore, while the operator dies. The test is the Jobs' controller and their pods.

use crate::common::{FATE, SOON, SYSTEM, Team, backups, context, me, team::ACME};
use anyhow::{Result, ensure};
use berth_api::backup::{EtcdBackup, Manifest, Outcome as Said, Subject};
use berth_api::conditions::{ConditionType, is_true};
use berth_api::restore::{EtcdRestore, phase};
use berth_api::{EtcdCluster, EtcdClusterStatus, labels, names};
use berth_operator::run::run;
use berth_testkit::sweep::{Outcome, lives};
use berth_testkit::{ApiServer, FaultPlan, fixtures::eventually};
use k8s_openapi::api::apps::v1::{Deployment, StatefulSet};
use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::api::core::v1::{ConfigMap, Namespace, Pod, Secret};
use kube::Api;
use kube::api::{ListParams, Patch, PatchParams, PostParams};
use serde_json::{Value, json};
use std::sync::Arc;
use tokio_util::sync::CancellationToken;

/// It knows of a store.
pub(super) async fn operator(server: &ApiServer, plan: &FaultPlan) -> Result<()> {
    let mut context = context(server, me(server), plan);
    let mut settings = (*context.settings).clone();
    settings.backups = backups("");
    context.settings = settings.into();
    run(Arc::new(context), CancellationToken::new()).await;
    Ok(())
}

/// A tenant that serves, with a proven backup.
async fn served(server: &ApiServer, spec: &Value) -> Result<(Team, EtcdClusterStatus, Manifest)> {
    let team = Team::with_cluster(server).await;
    team.merge(ACME, &json!({"spec": spec})).await;
    let before = FaultPlan::new();
    let is_served = async {
        team.ready().await?;
        let told = async || {
            let etcd = serde_json::to_value(team.inside::<EtcdCluster>().get(names::ETCD).await?.spec)?;
            ensure!(etcd["recovery"] == spec["etcd"]["recovery"], "{etcd}");
            Ok(())
        };
        eventually(SOON, "etcd to be told how it is recovered", told).await
    };
    lives(&before, || operator(server, &before), is_served).await??;
    before.stop();
    store(&team.client).await?;
    let etcd = team.inside::<EtcdCluster>().get(names::ETCD).await?.status.unwrap_or_default();
    let manifest = proven(&team.client, &team.ns, etcd.identity.as_deref().unwrap_or_default()).await?;
    Ok((team, etcd, manifest))
}

/// The Secret of the store.
pub(super) async fn store(client: &kube::Client) -> Result<()> {
    let post = PostParams::default();
    let namespaces: Api<Namespace> = Api::all(client.clone());
    let _ = namespaces.create(&post, &serde_json::from_value(json!({"metadata": {"name": SYSTEM}}))?).await;
    let secrets: Api<Secret> = Api::namespaced(client.clone(), SYSTEM);
    let secret = json!({"metadata": {"name": "s3"}, "stringData": {"accessKeyID": "A", "secretAccessKey": "B"}});
    let _ = secrets.create(&post, &serde_json::from_value(secret)?).await;
    Ok(())
}

/// From a tenant whose etcd lost its data to one that serves what was restored by itself.
pub(crate) async fn recovery(server: &ApiServer, plan: FaultPlan) -> Result<Outcome> {
    let (team, _, manifest) = served(server, &json!({"etcd": {"recovery": "Automatic"}})).await?;
    // Its guard finds the volume empty, and has for a while.
    let fate = json!({"metadata": {"annotations": {FATE: "lost"}}});
    team.inside::<Pod>().patch("etcd-0", &PatchParams::default(), &Patch::Merge(&fate)).await?;
    let since = json!({"status": {"recovery": {"since": "2026-01-01T00:00:00Z", "epoch": 1}}});
    team.inside::<EtcdCluster>().patch_status(names::ETCD, &PatchParams::default(), &Patch::Merge(&since)).await?;
    let restores: Api<EtcdRestore> = Api::namespaced(team.client.clone(), &team.ns);
    let done = async {
        let restored = async || {
            let all = restores.list(&ListParams::default()).await?.items;
            ensure!(all.len() == 1, "{all:?}");
            let name = all[0].metadata.name.clone().unwrap_or_default();
            work(&team, &Said::Checked(manifest.clone()), &names::restore_check(&name)).await?;
            work(&team, &Said::Restored, &names::restore(&name)).await?;
            let etcd = team.inside::<EtcdCluster>().get(names::ETCD).await?.status.unwrap_or_default();
            let recovery = etcd.recovery.unwrap_or_else(|| panic!("{:?}", etcd.conditions));
            ensure!(recovery.restored_at.is_some() && recovery.backup.as_deref() == Some("one"), "{recovery:?}");
            ensure!(
                etcd.operation.is_none() && is_true(&etcd.conditions, ConditionType::Ready),
                "{:?}",
                etcd.conditions
            );
            let jobs = team.inside::<Job>().list(&ListParams::default()).await?.items;
            ensure!(jobs.is_empty(), "{jobs:?}");
            Ok(())
        };
        eventually(SOON, "the recovery to be done", restored).await?;
        team.ready().await?;
        let all = restores.list(&ListParams::default()).await?.items;
        ensure!(all.len() == 1, "one, however often the operator ended: {all:?}");
        anyhow::Ok(())
    };
    lives(&plan, || operator(server, &plan), done).await??;
    let outcome = Outcome { state: self::state(&team).await?, ..Outcome::default() };
    team.wipe().await;
    Ok(outcome)
}

/// From a tenant that serves to one that serves what was restored.
pub(crate) async fn restore(server: &ApiServer, plan: FaultPlan) -> Result<Outcome> {
    let (team, etcd, manifest) = served(server, &json!({})).await?;
    let (client, post) = (team.client.clone(), PostParams::default());
    let restores: Api<EtcdRestore> = Api::namespaced(client.clone(), &team.ns);
    let restore = json!({
        "apiVersion": "berth.dev/v1alpha1", "kind": "EtcdRestore", "metadata": {"name": "back"},
        "spec": {"clusterRef": {"name": "acme"}, "source": {"backup": "one"}, "confirm": etcd.cluster_id, "backupFirst": false},
    });
    restores.create(&post, &serde_json::from_value(restore)?).await?;
    let done = async {
        let restored = async || {
            work(&team, &Said::Checked(manifest.clone()), &names::restore_check("back")).await?;
            work(&team, &Said::Restored, &names::restore("back")).await?;
            let status = restores.get("back").await?.status.unwrap_or_default();
            ensure!(status.phase.as_deref() == Some(phase::RESTORED), "{status:?}");
            let etcd = team.inside::<EtcdCluster>().get(names::ETCD).await?;
            let note = etcd.metadata.annotations.unwrap_or_default();
            let status = etcd.status.unwrap_or_default();
            ensure!(!note.contains_key(labels::RESTORE_REQUEST), "it is still asked for");
            ensure!(status.operation.is_none() && is_true(&status.conditions, ConditionType::Ready), "{status:?}");
            let jobs = team.inside::<Job>().list(&ListParams::default()).await?.items;
            ensure!(jobs.is_empty(), "{jobs:?}");
            Ok(())
        };
        eventually(SOON, "the restore to be done", restored).await?;
        team.ready().await?;
        anyhow::Ok(())
    };
    lives(&plan, || operator(server, &plan), done).await??;
    let outcome = Outcome { state: state(&team).await?, ..Outcome::default() };
    team.wipe().await;
    Ok(outcome)
}

/// What is to be the same whatever happened.
async fn state(team: &Team) -> Result<berth_testkit::oracle::Dump> {
    let map = team.inside::<ConfigMap>().get(&names::etcd::bootstrap(names::ETCD)).await?;
    let told = map.data.unwrap_or_default().remove("bootstrap.json").unwrap_or_default();
    let mut told: Value = serde_json::from_str(&told)?;
    told["clusterUID"] = Value::Null;
    let set = team.inside::<StatefulSet>().get(names::ETCD).await?;
    let mut all = berth_testkit::oracle::Dump::new();
    all.insert("bootstrap".into(), told);
    all.insert("members".into(), json!(set.spec.and_then(|s| s.replicas)));
    for deployment in team.inside::<Deployment>().list(&ListParams::default()).await? {
        let name = deployment.metadata.name.unwrap_or_default();
        all.insert(name, json!(deployment.spec.and_then(|s| s.replicas)));
    }
    let clients = team.inside::<EtcdCluster>().get(names::ETCD).await?.spec.clients_stopped;
    all.insert("clients stopped".into(), json!(clients));
    Ok(all)
}

/// A backup as its controller leaves it.
async fn proven(client: &kube::Client, namespace: &str, identity: &str) -> Result<Manifest> {
    let all: Api<EtcdBackup> = Api::namespaced(client.clone(), namespace);
    let backup = json!({
        "apiVersion": "berth.dev/v1alpha1", "kind": "EtcdBackup", "metadata": {"name": "one"},
        "spec": {"clusterRef": {"name": "acme"}, "store": "main"},
    });
    all.create(&PostParams::default(), &serde_json::from_value(backup)?).await?;
    let at = "2026-01-01T00:00:00Z";
    let key = format!("{namespace}/acme/{identity}/one.db");
    let status = json!({
        "phase": "Verified", "key": key, "sha256": "ab", "identity": identity, "epoch": 1, "revision": 7,
        "etcdVersion": "3.6.16", "takenAt": at, "verifiedAt": at,
    });
    all.patch_status("one", &PatchParams::default(), &Patch::Merge(&json!({"status": status}))).await?;
    Ok(manifest(key, identity, at))
}

/// What is kept beside a snapshot.
pub(super) fn manifest(key: String, identity: &str, at: &str) -> Manifest {
    Manifest {
        key,
        sha256: "ab".into(),
        size: 9,
        revision: 7,
        keys: 3,
        hash: 1,
        cluster_id: "c".into(),
        etcd_version: "3.6.16".into(),
        taken_at: at.into(),
        verified_at: at.into(),
        of: Subject { identity: identity.into(), epoch: 1, ..Subject::default() },
    }
}

/// What a Job's controller and kubelet make of it, if it is there and has not ended.
pub(super) async fn work(team: &Team, said: &Said, name: &str) -> Result<()> {
    let jobs = team.inside::<Job>();
    let Some(job) = jobs.get_opt(name).await? else { return Ok(()) };
    if job.status.is_some_and(|s| s.completion_time.is_some()) || job.metadata.deletion_timestamp.is_some() {
        return Ok(());
    }
    let pods = team.inside::<Pod>();
    let members = pods.list(&ListParams::default().labels(labels::ETCD_CLUSTER)).await?.items.len();
    ensure!(members == 0 || *said != Said::Restored, "etcd runs while its volume is written to");
    let template = job.spec.map(|s| s.template).unwrap_or_default();
    let mut labels = template.metadata.and_then(|m| m.labels).unwrap_or_default();
    labels.insert(labels::JOB_NAME.into(), name.into());
    let pod =
        json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "labels": labels}, "spec": template.spec});
    let _ = pods.create(&PostParams::default(), &serde_json::from_value(pod)?).await;
    let end = json!({
        "exitCode": 0, "message": serde_json::to_string(said)?,
        "startedAt": "2026-01-01T00:00:00Z", "finishedAt": "2026-01-01T00:00:10Z",
    });
    let container = json!({"name": "backup", "image": "i", "imageID": "i", "ready": false, "restartCount": 0, "state": {"terminated": end}});
    let status = json!({"status": {"phase": "Succeeded", "containerStatuses": [container]}});
    pods.patch_status(name, &PatchParams::default(), &Patch::Merge(&status)).await?;
    let at = "2026-01-01T00:00:10Z";
    let met = |type_: &str| json!({"type": type_, "status": "True", "reason": "Test", "lastTransitionTime": at, "lastProbeTime": at});
    let status = json!({
        "startTime": "2026-01-01T00:00:00Z", "completionTime": at, "succeeded": 1,
        "conditions": [met("SuccessCriteriaMet"), met("Complete")],
    });
    jobs.patch_status(name, &PatchParams::default(), &Patch::Merge(&json!({"status": status}))).await?;
    Ok(())
}
