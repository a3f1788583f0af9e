//! Whatever one namespace does, or has refused: backups of others have their turn, and end.

use crate::backup::{create, ends, gone, says, verified};
use crate::common::{Running, SOON, SYSTEM, Team, alone_at_a_server, backups, settings};
use anyhow::{Context as _, ensure};
use berth_api::backup::{At, EtcdBackup, Failure, Outcome, phase};
use berth_api::conditions::{ConditionType, find};
use berth_api::{EtcdCluster, labels, names};
use berth_plan::Settings;
use berth_testkit::fault::{Call, Fault, Verb};
use berth_testkit::{ApiServer, FaultPlan, fixtures::eventually, fixtures::from_json};
use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::api::core::v1::{Event, Namespace, Secret};
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

/// A quota, or a policy, that lets the Job pass and not its pods.
#[tokio::test(flavor = "multi_thread")]
async fn what_refuses_the_pods_of_a_job_is_in_the_condition() {
    let (_turn, server) = alone_at_a_server().await;
    let team = Team::with_cluster(server).await;
    store(server).await;
    let _running = Running::start_with(server, one_place(), &FaultPlan::new());
    team.ready().await.unwrap_or_else(|e| panic!("{e:#}"));
    let all = create(&team, "mine", "Retain").await;
    says(&all, "mine", phase::RUNNING).await;
    let why = r#"pods "backup-mine-x7k2p" is forbidden: exceeded quota: small"#;
    let at = jiff::Timestamp::now().strftime("%Y-%m-%dT%H:%M:%SZ").to_string();
    let event = json!({
        "metadata": {"name": "backup-mine.1", "namespace": team.cp_namespace}, "type": "Warning", "reason": "FailedCreate",
        "involvedObject": {"apiVersion": "batch/v1", "kind": "Job", "name": "backup-mine", "namespace": team.cp_namespace},
        "message": format!("Error creating: {why}"), "firstTimestamp": at, "lastTimestamp": at,
    });
    team.inside::<Event>().create(&PostParams::default(), &from_json(event)).await.expect("Event");
    let told = async || {
        let conditions = all.get("mine").await?.status.unwrap_or_default().conditions;
        let ready = find(&conditions, ConditionType::Ready).context("no Ready")?;
        ensure!(ready.reason == "Rejected" && ready.message.contains(why), "{ready:?}");
        Ok(())
    };
    eventually(SOON, "why it has no pod", told).await.unwrap_or_else(|e| panic!("{e:#}"));
    let failed = Outcome::Failed(Failure { at: At::Other, message: "it was allowed in the end".into() });
    ends(&team, "backup-mine", "Failed", &failed).await;
    says(&all, "mine", phase::FAILED).await;
    team.wipe().await;
}
