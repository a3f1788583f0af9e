//! A tenant sleeps and wakes, wherever the operator dies.

use crate::common::state::{counts, dump_by, dumper, second_reconcile};
use crate::common::{SOON, Team, operator};
use anyhow::{Context as _, Result, ensure};
use berth_api::hibernation::{SleepRecord, SleepState};
use berth_api::labels;
use berth_testkit::oracle::{assert_keys_unchanged, secret_keys};
use berth_testkit::sweep::{Outcome, lives};
use berth_testkit::{ApiServer, FaultPlan, fixtures::eventually};
use k8s_openapi::api::core::v1::Pod;
use kube::api::ListParams;
use serde_json::json;

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
    let home = team.namespaces().get(&team.cp_namespace).await?.metadata.annotations.unwrap_or_default();
    let record = home.get(labels::SLEEP).and_then(|text| SleepRecord::parse(text)).context("a record")?;
    let since = record.since.0.strftime("%Y-%m-%dT%H:%M:%SZ").to_string();
    let dumper = dumper(&team).await?.rename(since, "<since>");
    let outcome = Outcome { state: dump_by(&team, dumper).await?, counts };
    team.wipe().await;
    Ok(outcome)
}
