//! Whatever one namespace does, or has refused: backups of others have their turn, and end.

use crate::backup::{create, ends, gone, says, verified};
use crate::common::{Running, SOON, SYSTEM, Team, alone_at_a_server, backups, settings};
use anyhow::{Context as _, ensure};
use berth_api::backup::{EtcdBackup, phase};
use berth_api::conditions::{ConditionType, find};
use berth_api::{EtcdCluster, labels, names};
use berth_plan::Settings;
use berth_testkit::fault::{Call, Fault, Verb};
use berth_testkit::{ApiServer, FaultPlan, fixtures::eventually, fixtures::from_json};
use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::api::core::v1::{Event, Namespace, Pod, ResourceQuota, Secret};
use kube::api::{DeleteParams, ListParams, Patch, PatchParams, PostParams};
use kube::{Api, ResourceExt};
use serde_json::json;
use std::collections::BTreeSet;
use std::time::Duration;

/// A write, as a right names it.
type Write = (Verb, String, Option<String>);

/// One place for all.
fn one_place() -> Settings {
    let mut with = Settings { backups: backups("prod"), ..settings() };
    with.backups.concurrent = 1;
    with
}

/// The store's Secret. Another test at this server may have made it.
async fn store(server: &ApiServer) {
    let client = server.client();
    let post = PostParams::default();
    let system = from_json(json!({"metadata": {"name": SYSTEM}}));
    let _ = Api::<Namespace>::all(client.clone()).create(&post, &system).await;
    let secret =
        from_json(json!({"metadata": {"name": "s3"}, "stringData": {"accessKeyID": "A", "secretAccessKey": "B"}}));
    let _ = Api::<Secret>::namespaced(client, SYSTEM).create(&post, &secret).await;
}

async fn identity(team: &Team) -> String {
    let etcd = team.inside::<EtcdCluster>().get(names::ETCD).await.expect("etcd");
    etcd.status.and_then(|status| status.identity).expect("an identity")
}

/// Takes a backup of that team to its end, whatever others do meanwhile.
async fn is_taken(team: &Team, name: &str) {
    let all = create(team, name, "Retain").await;
    let done = verified(team, &identity(team).await, "2026-01-01T00:00:00Z");
    ends(team, &names::backup(name), "Complete", &done).await;
    says(&all, name, phase::VERIFIED).await;
}

fn is_of(call: &Call, team: &Team) -> bool {
    [&team.ns, &team.cp_namespace].contains(&&call.namespace)
}

/// Every write that the backups of a team take, from the first to the last.
async fn writes(team: &Team, plan: &FaultPlan) -> BTreeSet<Write> {
    plan.reset_log();
    is_taken(team, "whole").await;
    gone(team.inside::<Job>(), "backup-whole").await.expect("its Job ends");
    gone(team.inside::<Secret>(), "backup-whole").await.expect("and so does its Secret");
    let calls = plan.calls();
    let own = calls.into_iter().filter(|c| c.mutation.is_some() && is_of(c, team) && c.name.ends_with("whole"));
    own.map(|c| (c.verb, c.resource, c.subresource)).collect()
}

/// Jobs of a team end, as they would by themselves: none keeps its place for that.
async fn all_end(team: &Team) -> anyhow::Result<()> {
    let jobs = team.inside::<Job>();
    for job in jobs.list(&ListParams::default().labels(labels::ETCD_BACKUP)).await? {
        let ended = job.status.iter().flat_map(|s| s.conditions.iter().flatten()).any(|c| c.type_ == "Failed");
        if !ended {
            let at = "2026-01-01T00:00:10Z";
            let met = |type_: &str| json!({"type": type_, "status": "True", "reason": "Test", "message": "too often", "lastTransitionTime": at, "lastProbeTime": at});
            let status =
                json!({"startTime": "2026-01-01T00:00:00Z", "conditions": [met("FailureTarget"), met("Failed")]});
            let patch = Patch::Merge(json!({"status": status}));
            jobs.patch_status(&job.name_any(), &PatchParams::default(), &patch).await?;
        }
    }
    Ok(())
}

/// Each write of each kind is refused for one namespace, for ever.
#[tokio::test(flavor = "multi_thread")]
#[ignore = "make chaos: three minutes of waiting; the other tests here play its kinds one by one"]
async fn whatever_is_refused_for_one_namespace_the_backups_of_others_end() {
    let (_turn, server) = alone_at_a_server().await;
    let (bad, good) = (Team::with_cluster(server).await, Team::with_cluster(server).await);
    store(server).await;
    let plan = FaultPlan::new();
    let _running = Running::start_with(server, one_place(), &plan);
    for team in [&bad, &good] {
        team.ready().await.unwrap_or_else(|e| panic!("{e:#}"));
    }
    let writes = writes(&bad, &plan).await;
    assert!(writes.len() >= 6, "{writes:?}");
    for (n, write) in writes.into_iter().enumerate() {
        let of = bad.clone();
        let (verb, resource, subresource) = write.clone();
        let is_it = move |c: &Call| {
            is_of(c, &of) && !c.dry_run && (c.verb, &c.resource, &c.subresource) == (verb, &resource, &subresource)
        };
        plan.when(is_it, Fault::status(403));
        let bads: Vec<_> = (0..3).map(|i| format!("bad-{n}-{i}")).collect();
        let mut all = None;
        for name in &bads {
            all = Some(create(&bad, name, "Retain").await);
        }
        // Those of the other team come later, and some of the first one's Jobs may run. They end as Jobs do.
        let others = async {
            loop {
                let _ = all_end(&bad).await;
                tokio::time::sleep(Duration::from_millis(200)).await;
            }
        };
        let later = format!("good-{n}");
        tokio::select! {
            () = others => {}
            () = is_taken(&good, &later) => {}
        }
        plan.clear();
        let all = all.expect("some");
        for name in &bads {
            let _ = all.delete(name, &DeleteParams::default()).await;
            gone(all.clone(), name).await.unwrap_or_else(|e| panic!("{write:?}: {e:#}"));
        }
    }
    for team in [bad, good] {
        team.wipe().await;
    }
}

/// What a namespace's admin may write into statuses there counts for nothing.
#[tokio::test(flavor = "multi_thread")]
async fn forged_statuses_hold_no_place() {
    let (_turn, server) = alone_at_a_server().await;
    let (bad, good) = (Team::new(server).await, Team::with_cluster(server).await);
    store(server).await;
    let mut with = one_place();
    with.backups.stores[0].namespaces.push(bad.ns.clone());
    let plan = FaultPlan::new();
    let of = bad.ns.clone();
    // As by a quota of no Jobs.
    plan.when(move |c| c.verb == Verb::Create && c.resource == "jobs" && c.namespace == of, Fault::status(403));
    // Nothing of it is real: the operator cannot make it so.
    let of = bad.ns.clone();
    plan.when(move |c| c.resource == "etcdclusters" && c.namespace == of && c.verb.is_mutating(), Fault::status(403));
    let _running = Running::start_with(server, with, &plan);
    good.ready().await.unwrap_or_else(|e| panic!("{e:#}"));
    let post = PostParams::default();
    let etcds: Api<EtcdCluster> = Api::namespaced(bad.client.clone(), &bad.ns);
    let fake = json!({"apiVersion": "berth.dev/v1alpha1", "kind": "EtcdCluster", "metadata": {"name": "fake"}, "spec": {"version": "3.6.16"}});
    etcds.create(&post, &from_json(fake)).await.expect("EtcdCluster");
    let status = json!({"status": {
        "identity": "0", "clusterId": "1", "epoch": 1, "version": "3.6.16",
        "endpoints": [{"name": "f", "url": "https://f:2379", "host": "f", "address": "192.0.2.9"}],
        "clients": [{"name": "backup", "secretRef": {"name": "x"}}],
    }});
    etcds.patch_status("fake", &PatchParams::default(), &Patch::Merge(&status)).await.expect("status");
    let all: Api<EtcdBackup> = Api::namespaced(bad.client.clone(), &bad.ns);
    for n in 0..4 {
        let name = format!("forged-{n}");
        let backup = json!({
            "apiVersion": "berth.dev/v1alpha1", "kind": "EtcdBackup", "metadata": {"name": name},
            "spec": {"etcdClusterRef": {"name": "fake"}, "store": "main"},
        });
        all.create(&post, &from_json(backup)).await.expect("EtcdBackup");
        let runs = Patch::Merge(json!({"status": {"phase": phase::RUNNING}}));
        all.patch_status(&name, &PatchParams::default(), &runs).await.expect("status");
    }
    is_taken(&good, "real").await;
    plan.clear();
    for n in 0..4 {
        let name = format!("forged-{n}");
        all.delete(&name, &DeleteParams::default()).await.expect("delete");
        gone(all.clone(), &name).await.unwrap_or_else(|e| panic!("{e:#}"));
    }
    let free = Patch::Merge(json!({"metadata": {"finalizers": null}}));
    etcds.patch("fake", &PatchParams::default(), &free).await.expect("patch");
    let _ = etcds.delete("fake", &DeleteParams::default()).await;
    for team in [bad, good] {
        team.wipe().await;
    }
}

/// Two requests take an object away from its Job: its finalizer, then itself.
#[tokio::test(flavor = "multi_thread")]
async fn a_job_without_its_object_goes_with_the_keys_beside_it() {
    let (_turn, server) = alone_at_a_server().await;
    let team = Team::with_cluster(server).await;
    store(server).await;
    let plan = FaultPlan::new();
    let all = {
        let _running = Running::start_with(server, one_place(), &plan);
        team.ready().await.unwrap_or_else(|e| panic!("{e:#}"));
        let all = create(&team, "mine", "Retain").await;
        says(&all, "mine", phase::RUNNING).await;
        all
    };
    team.inside::<Secret>().get("backup-mine").await.expect("keys");
    let free = Patch::Merge(json!({"metadata": {"finalizers": null}}));
    all.patch("mine", &PatchParams::default(), &free).await.expect("patch");
    all.delete("mine", &DeleteParams::default()).await.expect("delete");
    gone(all.clone(), "mine").await.expect("nothing holds it");
    plan.reset_log();
    let _running = Running::start_with(server, one_place(), &plan);
    gone(team.inside::<Job>(), "backup-mine").await.unwrap_or_else(|e| panic!("{e:#}"));
    gone(team.inside::<Secret>(), "backup-mine").await.unwrap_or_else(|e| panic!("{e:#}"));
    let calls = plan.calls();
    let deleted = calls.iter().filter(|c| c.verb == Verb::Delete && c.name == "backup-mine");
    let deleted: Vec<_> = deleted.map(|c| (c.resource.as_str(), c.uid.is_some())).collect();
    assert_eq!(
        deleted,
        [("secrets", true), ("jobs", true)],
        "by UID; the Job, by which the Secret is found, goes last"
    );
    team.wipe().await;
}

/// What the quota controller makes of a quota without any pods, and what the API server then says of a Job's pod.
async fn quota_refuses(team: &Team, job: &str) -> String {
    let quotas = team.inside::<ResourceQuota>();
    let none = json!({"pods": "0"});
    let quota = from_json(json!({"metadata": {"name": "small"}, "spec": {"hard": none}}));
    quotas.create(&PostParams::default(), &quota).await.expect("quota");
    let status = Patch::Merge(json!({"status": {"hard": none, "used": none}}));
    quotas.patch_status("small", &PatchParams::default(), &status).await.expect("quota's status");
    let refused = async || match pod_of(team, job).await {
        Err(kube::Error::Api(status)) if status.message.contains("exceeded quota: small") => Ok(status.message),
        other => anyhow::bail!("{other:?}"),
    };
    eventually(SOON, "a refusal", refused).await.unwrap_or_else(|e| panic!("{e:#}"))
}

/// What the Job controller does.
async fn pod_of(team: &Team, job: &str) -> Result<Pod, kube::Error> {
    let template = team.inside::<Job>().get(job).await?.spec.expect("a spec").template;
    let mut pod = from_json::<Pod>(serde_json::to_value(template).expect("JSON"));
    pod.metadata.generate_name = Some(format!("{job}-"));
    pod.metadata.labels.get_or_insert_default().insert(labels::JOB_NAME.into(), job.into());
    team.inside::<Pod>().create(&PostParams::default(), &pod).await
}

/// A quota that lets the Job pass and not its pods.
#[tokio::test(flavor = "multi_thread")]
async fn a_job_whose_pods_a_quota_refuses_says_so_and_takes_no_place() {
    let (_turn, server) = alone_at_a_server().await;
    let (bad, good) = (Team::with_cluster(server).await, Team::with_cluster(server).await);
    store(server).await;
    let _running = Running::start_with(server, one_place(), &FaultPlan::new());
    for team in [&bad, &good] {
        team.ready().await.unwrap_or_else(|e| panic!("{e:#}"));
    }
    let all = create(&bad, "mine", "Retain").await;
    says(&all, "mine", phase::RUNNING).await;
    let refused = quota_refuses(&bad, "backup-mine").await;
    let at = jiff::Timestamp::now().strftime("%Y-%m-%dT%H:%M:%SZ").to_string();
    let event = json!({
        "metadata": {"name": "backup-mine.1", "namespace": bad.cp_namespace}, "type": "Warning", "reason": "FailedCreate",
        "involvedObject": {"apiVersion": "batch/v1", "kind": "Job", "name": "backup-mine", "namespace": bad.cp_namespace},
        "message": format!("Error creating: {refused}"), "firstTimestamp": at, "lastTimestamp": at,
    });
    bad.inside::<Event>().create(&PostParams::default(), &from_json(event)).await.expect("Event");
    let ready = async |all: &Api<EtcdBackup>, name: &str| {
        let conditions = all.get(name).await?.status.unwrap_or_default().conditions;
        find(&conditions, ConditionType::Ready).cloned().context("no Ready")
    };
    let told = async || {
        let ready = ready(&all, "mine").await?;
        let why = format!(
            "exceeded quota: small, requested: pods=1, used: pods=0, limited: pods=0. To allow it, raise spec.hard of ResourceQuota small in namespace {}",
            bad.cp_namespace
        );
        ensure!(ready.reason == "Rejected" && ready.message.contains(&why), "{ready:?}");
        Ok(())
    };
    eventually(SOON, "why it has no pod", told).await.unwrap_or_else(|e| panic!("{e:#}"));
    // The next one there would have none either; those of others are taken.
    create(&bad, "second", "Retain").await;
    is_taken(&good, "other").await;
    let waits = async || {
        let ready = ready(&all, "second").await?;
        ensure!(ready.message.contains("where its Job gets no pod"), "{ready:?}");
        Ok(())
    };
    eventually(SOON, "whom it waits for", waits).await.unwrap_or_else(|e| panic!("{e:#}"));
    // It goes on by itself, and then takes its place.
    bad.inside::<ResourceQuota>().delete("small", &DeleteParams::default()).await.expect("delete");
    let made = async || pod_of(&bad, "backup-mine").await.map(drop).map_err(anyhow::Error::from);
    eventually(SOON, "a pod", made).await.unwrap_or_else(|e| panic!("{e:#}"));
    let active = Patch::Merge(json!({"status": {"active": 1, "startTime": at}}));
    bad.inside::<Job>().patch_status("backup-mine", &PatchParams::default(), &active).await.expect("status");
    let goes_on = async || {
        let (first, second) = (ready(&all, "mine").await?, ready(&all, "second").await?);
        ensure!(first.reason != "Rejected", "{first:?}");
        ensure!(
            second.message.contains("1 of namespace") || second.message.contains("1 others are ahead"),
            "{second:?}"
        );
        Ok(())
    };
    eventually(SOON, "the first one at work", goes_on).await.unwrap_or_else(|e| panic!("{e:#}"));
    for team in [bad, good] {
        team.wipe().await;
    }
}
