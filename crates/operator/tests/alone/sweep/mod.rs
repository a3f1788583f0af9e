//! The crash sweep, and in [`schema`] that of every field.
//!
//! The crash sweep: the operator dies before and after every single write, and with the reply lost, starts again, and must
//! end where the undisturbed run ends: nothing made twice, no key regenerated, nothing left to write.
//!
//! `make test` runs a sample; `BERTH_SWEEP=full` runs all, see [`berth_testkit::sweep`].

mod restores;
mod schema;
mod sleeps;
mod turns;

use crate::common::state::{counts, dump, dump_by, dumper, second_reconcile};
use crate::common::{CRASHES, SOON, Team, alone_at_a_server, operator};
use anyhow::{Context as _, Result, ensure};
use berth_api::conditions::ConditionType;
use berth_api::{labels, names};
use berth_testkit::oracle::{Dumper, SecretKeys, assert_deletes_carry_uid, assert_keys_unchanged, secret_keys};
use berth_testkit::sweep::{Outcome, Sweep, lives};
use berth_testkit::{ApiServer, FaultPlan, fixtures::eventually};
use k8s_openapi::api::apps::v1::{Deployment, StatefulSet};
use k8s_openapi::api::core::v1::Pod;
use kube::ResourceExt;
use kube::api::{ListParams, Patch, PatchParams};
use serde_json::json;
use std::sync::{Arc, Mutex};

/// The keys as they were at the beginning of each life.
type Seen = Arc<Mutex<Vec<SecretKeys>>>;

async fn one_life(server: &ApiServer, team: &Team, plan: &FaultPlan, seen: Seen) -> Result<()> {
    let keys = secret_keys(&team.client, &[&team.ns, &team.cp_namespace]).await?;
    seen.lock().unwrap().push(keys);
    operator(server, plan).await
}

async fn create(server: &ApiServer, plan: FaultPlan) -> Result<Outcome> {
    let team = Team::with_cluster(server).await;
    let seen = Seen::default();
    let done = async {
        team.ready().await?;
        second_reconcile(&team, &plan).await
    };
    lives(&plan, || one_life(server, &team, &plan, seen.clone()), done).await??;
    let now = secret_keys(&team.client, &[&team.ns, &team.cp_namespace]).await?;
    seen.lock().unwrap().iter().for_each(|before| assert_keys_unchanged(before, &now));
    assert_deletes_carry_uid(&plan.calls());
    let outcome = Outcome { state: dump(&team).await?, counts: counts(&team, &team.tenant().await?, &plan) };
    team.wipe().await;
    Ok(outcome)
}

/// A deletion begins when the `Cluster` is ready, or, with `early`, in the middle of its creation.
async fn delete(server: &ApiServer, plan: FaultPlan, early: bool) -> Result<Outcome> {
    let team = Team::with_cluster(server).await;
    let before = FaultPlan::new();
    let made = async {
        if early {
            let some = async || {
                ensure!(before.mutations() >= 20, "too early");
                Ok(())
            };
            eventually(SOON, "half of a tenant", some).await
        } else {
            team.ready().await.map(drop)
        }
    };
    lives(&before, || operator(server, &before), made).await??;
    before.stop();
    let tenant = team.tenant().await?;
    team.delete().await;
    let done = async {
        team.gone().await?;
        crate::common::state::settled(&plan).await;
        anyhow::Ok(())
    };
    lives(&plan, || operator(server, &plan), done).await??;
    ensure!(team.namespaces().get_opt(&team.cp_namespace).await?.is_none(), "the control-plane namespace is left");
    assert_deletes_carry_uid(&plan.calls());
    let dumper = Dumper::of([&*team.ns]).rename(&team.ns, "TEAM").rename(&team.cp_namespace, "HOME");
    let mut counts = counts(&team, &tenant, &plan);
    // The namespace controller deletes, too: who is quicker is a matter of moments. Nothing is made any more, unless the
    // EtcdCluster was being made.
    counts.retain(|what, _| !early && !what.starts_with("delete "));
    ensure!(counts.is_empty(), "{counts:?}");
    let outcome = Outcome { state: dumper.take(&team.client).await?, counts };
    team.wipe().await;
    Ok(outcome)
}

/// A tenant that is up, and whose operator has ended with nothing left to write.
async fn at_rest(server: &ApiServer) -> Result<Team> {
    let team = Team::with_cluster(server).await;
    let before = FaultPlan::new();
    let made = async {
        team.ready().await?;
        second_reconcile(&team, &before).await
    };
    lives(&before, || operator(server, &before), made).await??;
    before.stop();
    Ok(team)
}

/// Somebody added to every workload while no operator was there.
async fn additions(server: &ApiServer, plan: FaultPlan) -> Result<Outcome> {
    let team = at_rest(server).await?;
    let more =
        Patch::Merge(json!({"spec": {"minReadySeconds": 1, "template": {"spec": {"nodeSelector": {"disk": "ssd"}}}}}));
    let (deployments, sets) = (team.inside::<Deployment>(), team.inside::<StatefulSet>());
    for component in berth_plan_cluster::components::ALL {
        deployments.patch(component.name(), &PatchParams::default(), &more).await?;
    }
    sets.patch(names::ETCD, &PatchParams::default(), &more).await?;
    let done = async {
        let gone = async || {
            let pods =
                deployments.list(&ListParams::default()).await?.into_iter().filter_map(|d| d.spec).map(|s| s.template);
            let members =
                sets.list(&ListParams::default()).await?.into_iter().filter_map(|s| s.spec).map(|s| s.template);
            let left =
                pods.chain(members).filter(|t| t.spec.as_ref().is_some_and(|s| s.node_selector.is_some())).count();
            ensure!(left == 0, "{left} workloads have it");
            Ok(())
        };
        eventually(SOON, "additions to be gone", gone).await?;
        team.ready().await?;
        second_reconcile(&team, &plan).await
    };
    lives(&plan, || operator(server, &plan), done).await??;
    let outcome = Outcome { state: dump(&team).await?, counts: counts(&team, &team.tenant().await?, &plan) };
    team.wipe().await;
    Ok(outcome)
}

/// The minor changes, through both steps.
async fn minor(server: &ApiServer, plan: FaultPlan) -> Result<Outcome> {
    let team = Team::new(server).await;
    team.create(json!({"version": "1.35.4", "upgrade": {"finalizeAfter": "0s", "soak": "0s"}})).await?;
    let before = FaultPlan::new();
    let made = async {
        // What stands in the way of the next minor is written once it was looked at: with the next reconcile, which would be in a minute.
        team.ready().await?;
        team.touch().await;
        let looked = async || {
            let status = team.ready().await?.status.unwrap_or_default();
            let known = status.conditions.iter().any(|c| c.type_ == "UpgradeReady" && c.status != "Unknown");
            ensure!(known, "{:?}", status.conditions);
            Ok(())
        };
        eventually(SOON, "UpgradeReady to be known", looked).await?;
        second_reconcile(&team, &before).await
    };
    lives(&before, || operator(server, &before), made).await??;
    before.stop();
    team.spec(json!({"version": "1.36.3"})).await?;
    let done = async {
        let through = async || {
            team.ready().await?;
            let home = team.namespaces().get(&team.cp_namespace).await?.metadata.annotations.unwrap_or_default();
            let served = home.get(labels::SERVED_MINOR).map(String::as_str);
            let left = [labels::UPGRADE, labels::TURN].iter().any(|key| home.contains_key(*key));
            ensure!(served == Some("1.36") && !left, "{home:?}");
            Ok(())
        };
        eventually(SOON, "the second step to be through", through).await?;
        second_reconcile(&team, &plan).await
    };
    lives(&plan, || operator(server, &plan), done).await??;
    let mut counts = counts(&team, &team.tenant().await?, &plan);
    // How often it is recorded depends on where it was interrupted.
    counts.retain(|what, _| !what.contains("namespaces"));
    let outcome = Outcome { state: dump(&team).await?, counts };
    team.wipe().await;
    Ok(outcome)
}

/// A release that does not come up is taken back.
async fn way_back(server: &ApiServer, plan: FaultPlan) -> Result<Outcome> {
    let team = Team::new(server).await;
    team.create(json!({"apiServer": {"replicas": 2}, "upgrade": {"soak": "0s", "progressDeadline": "10m"}})).await?;
    let before = FaultPlan::new();
    let made = async {
        team.ready().await?;
        second_reconcile(&team, &before).await?;
        team.spec(json!({"apiServer": {"extraArgs": [{"name": CRASHES, "value": "1"}]}})).await?;
        team.rolls_since(2, 0).await?;
        second_reconcile(&team, &before).await
    };
    lives(&before, || operator(server, &before), made).await??;
    before.stop();
    // Its name is in messages, and it is gone in the end.
    let pods = team.inside::<Pod>().list(&ListParams::default()).await?;
    let failing = pods.iter().find(|pod| serde_json::to_string(&pod.spec).is_ok_and(|spec| spec.contains(CRASHES)));
    let failing = failing.map(ResourceExt::name_any).context("no pod fails")?;
    team.rolls_since(2, 601).await?;
    let done = async {
        let back = async || {
            let ready = team.condition(ConditionType::Ready).await?;
            ensure!(ready.reason == "RolledBack", "{ready:?}");
            let api = team.inside::<Deployment>().get(names::APISERVER).await?;
            let status = api.status.clone().unwrap_or_default();
            ensure!(!serde_json::to_string(&api.spec)?.contains(CRASHES), "it runs the release that failed");
            ensure!(status.replicas == Some(2) && status.available_replicas == Some(2), "{status:?}");
            Ok(())
        };
        eventually(SOON, "the way back to be through", back).await?;
        second_reconcile(&team, &plan).await
    };
    lives(&plan, || operator(server, &plan), done).await??;
    let dumper = dumper(&team).await?.rename(failing, "<the pod that failed>");
    let state = dump_by(&team, dumper).await?;
    let outcome = Outcome { state, counts: counts(&team, &team.tenant().await?, &plan) };
    team.wipe().await;
    Ok(outcome)
}

async fn sweep(name: &str, one_in: u64, workload: impl AsyncFn(FaultPlan) -> Result<Outcome>) {
    let summary = Sweep::new(name, one_in).run(workload).await.unwrap_or_else(|e| panic!("{e:#}"));
    println!("sweep {name}: {summary:?}");
}

#[tokio::test]
async fn a_crash_at_any_write_of_a_creation_changes_nothing() {
    let (_turn, server) = alone_at_a_server().await;
    sweep("create", 32, async |plan| create(server, plan).await).await;
}

#[tokio::test]
async fn a_crash_at_any_write_of_a_deletion_leaves_nothing() {
    let (_turn, server) = alone_at_a_server().await;
    sweep("delete", 24, async |plan| delete(server, plan, false).await).await;
}

#[tokio::test]
async fn a_crash_while_half_a_tenant_is_deleted_leaves_nothing() {
    let (_turn, server) = alone_at_a_server().await;
    sweep("delete-early", 68, async |plan| delete(server, plan, true).await).await;
}

#[tokio::test]
async fn a_crash_at_any_write_of_a_change_of_the_minor_changes_nothing() {
    let (_turn, server) = alone_at_a_server().await;
    sweep("minor", 60, async |plan| minor(server, plan).await).await;
}

#[tokio::test]
async fn a_crash_at_any_write_of_a_restore_ends_with_what_was_restored() {
    let (_turn, server) = alone_at_a_server().await;
    sweep("restore", 60, async |plan| restores::restore(server, plan).await).await;
}

#[tokio::test]
async fn a_crash_at_any_write_of_a_recovery_ends_with_what_was_restored() {
    let (_turn, server) = alone_at_a_server().await;
    sweep("recovery", 68, async |plan| restores::recovery(server, plan).await).await;
}

#[tokio::test]
async fn a_crash_at_any_write_of_a_way_back_changes_nothing() {
    let (_turn, server) = alone_at_a_server().await;
    sweep("way-back", 8, async |plan| way_back(server, plan).await).await;
}

#[tokio::test]
async fn a_crash_at_any_write_of_a_turn_changes_nothing() {
    let (_turn, server) = alone_at_a_server().await;
    sweep("turn", 24, async |plan| turns::turn(server, plan).await).await;
}

#[tokio::test]
async fn a_crash_at_any_write_of_a_sleep_and_a_wake_changes_nothing() {
    let (_turn, server) = alone_at_a_server().await;
    sweep("sleep", 40, async |plan| sleeps::both_ways(server, plan).await).await;
}

#[tokio::test]
async fn a_crash_at_any_write_of_a_sleep_with_a_backup_sleeps_with_that_backup() {
    let (_turn, server) = alone_at_a_server().await;
    sweep("sleep-backup", 60, async |plan| sleeps::with_a_backup(server, plan).await).await;
}

#[tokio::test]
async fn a_crash_while_additions_are_removed_changes_nothing() {
    let (_turn, server) = alone_at_a_server().await;
    sweep("additions", 80, async |plan| additions(server, plan).await).await;
}
