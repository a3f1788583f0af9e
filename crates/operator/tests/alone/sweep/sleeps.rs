//! A tenant sleeps and wakes, wherever the operator dies.

use super::restores;
use crate::common::state::{counts, dump_by, dumper, second_reconcile};
use crate::common::{SOON, Team, operator};
use anyhow::{Context as _, Result, ensure};
use berth_api::backup::{EtcdBackup, Outcome as Said};
use berth_api::hibernation::{SleepRecord, SleepState};
use berth_api::{EtcdCluster, labels, names};
use berth_testkit::oracle::{Dump, assert_keys_unchanged, secret_keys};
use berth_testkit::sweep::{Outcome, lives};
use berth_testkit::{ApiServer, FaultPlan, fixtures::eventually};
use k8s_openapi::api::apps::v1::{Deployment, StatefulSet};
use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::api::core::v1::Pod;
use kube::api::{DeleteParams, ListParams, Patch, PatchParams};
use kube::{Api, ResourceExt};
use serde_json::{Value, json};

/// Until its status says so.
async fn reaches(team: &Team, state: SleepState) -> Result<()> {
    let looks = async || {
        let status = team.ready().await?.status.unwrap_or_default();
        let now = status.hibernation.map(|hibernation| hibernation.state);
        ensure!(now == Some(state), "{now:?}");
        Ok(())
    };
    eventually(SOON, &format!("it to be {state:?}"), looks).await
}

pub(crate) async fn both_ways(server: &ApiServer, plan: FaultPlan) -> Result<Outcome> {
    let team = super::at_rest(server).await?;
    let keys = secret_keys(&team.client, &[&team.ns, &team.cp_namespace]).await?;
    let done = async {
        team.spec(json!({"hibernation": {"enabled": true}})).await?;
        reaches(&team, SleepState::Asleep).await?;
        let left = team.inside::<Pod>().list(&ListParams::default()).await?.items.len();
        ensure!(left == 0, "{left} pods are left");
        team.spec(json!({"hibernation": {"enabled": false}})).await?;
        reaches(&team, SleepState::Awake).await?;
        second_reconcile(&team, &plan).await
    };
    lives(&plan, || operator(server, &plan), done).await??;
    assert_keys_unchanged(&keys, &secret_keys(&team.client, &[&team.ns, &team.cp_namespace]).await?);
    let mut counts = counts(&team, &team.tenant().await?, &plan);
    // How often a step is recorded depends on where it was interrupted.
    counts.retain(|what, _| !what.contains("namespaces"));
    let since = record(&team).await?.since.0.strftime("%Y-%m-%dT%H:%M:%SZ").to_string();
    let dumper = dumper(&team).await?.rename(since, "<since>");
    let outcome = Outcome { state: dump_by(&team, dumper).await?, counts };
    team.wipe().await;
    Ok(outcome)
}

async fn record(team: &Team) -> Result<SleepRecord> {
    let home = team.namespaces().get(&team.cp_namespace).await?.metadata.annotations.unwrap_or_default();
    home.get(labels::SLEEP).and_then(|text| SleepRecord::parse(text)).context("a record")
}

/// Into a sleep, with a backup before etcd stops, and out of it. The test is the Job's controller and its pod.
pub(crate) async fn with_a_backup(server: &ApiServer, plan: FaultPlan) -> Result<Outcome> {
    let team = Team::new(server).await;
    restores::store(&team.client).await?;
    team.create(json!({"hibernation": {"backupFirst": true}})).await?;
    let before = FaultPlan::new();
    let made = async {
        team.ready().await?;
        second_reconcile(&team, &before).await
    };
    lives(&before, || restores::operator(server, &before), made).await??;
    before.stop();
    let identity = team.inside::<EtcdCluster>().get(names::ETCD).await?.status.and_then(|status| status.identity);
    let identity = identity.context("an identity")?;
    let backups: Api<EtcdBackup> = Api::namespaced(team.client.clone(), &team.ns);
    let all = ListParams::default().labels(labels::SLEEP_BACKUP);
    let done = async {
        team.spec(json!({"hibernation": {"enabled": true}})).await?;
        let asleep = async || {
            for backup in backups.list(&all).await? {
                let name = backup.name_any();
                let key = format!("{}/acme/{identity}/{name}.db", team.ns);
                let said = Said::from(restores::manifest(key, &identity, "2026-01-01T00:00:00Z"));
                restores::work(&team, &said, &names::backup(&name)).await?;
            }
            let record = record(&team).await?;
            ensure!(record.state == SleepState::Asleep, "{record:?}");
            let jobs = team.inside::<Job>().list(&ListParams::default()).await?.items.len();
            ensure!(jobs == 0, "{jobs} Jobs are left");
            Ok(())
        };
        eventually(SOON, "it to sleep with a backup", asleep).await?;
        let slept = state(&team, &backups, &all).await?;
        team.spec(json!({"hibernation": {"enabled": false}})).await?;
        reaches(&team, SleepState::Awake).await?;
        second_reconcile(&team, &plan).await?;
        let woke = state(&team, &backups, &all).await?;
        anyhow::Ok([("asleep".to_owned(), slept), ("awake".to_owned(), woke)])
    };
    let state: Dump = lives(&plan, || restores::operator(server, &plan), done).await??.into();
    let free = Patch::Merge(json!({"metadata": {"finalizers": null}}));
    for backup in backups.list(&ListParams::default()).await? {
        let _ = backups.delete(&backup.name_any(), &DeleteParams::default()).await;
        let _ = backups.patch(&backup.name_any(), &PatchParams::default(), &free).await;
    }
    team.wipe().await;
    Ok(Outcome { state, ..Outcome::default() })
}

/// What is to be the same wherever it was interrupted: one try, one backup, which the record names, and who runs.
async fn state(team: &Team, backups: &Api<EtcdBackup>, all: &ListParams) -> Result<Value> {
    let record = record(team).await?;
    let backups = backups.list(all).await?.items;
    let named = backups.iter().filter(|backup| record.backup.as_deref() == Some(&*backup.name_any())).count();
    let phases: Vec<_> = backups.iter().map(|backup| backup.phase().map(str::to_owned)).collect();
    let deployments = team.inside::<Deployment>().list(&ListParams::default()).await?.items.into_iter();
    let deployments: Value = deployments.map(|of| (of.name_any(), json!(of.spec.and_then(|s| s.replicas)))).collect();
    let members = team.inside::<StatefulSet>().get(names::ETCD).await?.spec.and_then(|s| s.replicas);
    Ok(json!({
        "state": record.state, "failed": record.failed.is_some(), "named": named, "backups": phases, "members": members,
        "deployments": deployments,
    }))
}
