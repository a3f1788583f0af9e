//! Two tenants that take turns: one waits for the other, wherever the operator dies.

use crate::common::state::{counts, dump, second_reconcile};
use crate::common::{SOON, Team, context, me};
use anyhow::{Result, ensure};
use berth_api::cluster::TurnState;
use berth_api::{labels, names};
use berth_operator::run;
use berth_plan::settings::Rollouts;
use berth_testkit::sweep::{Outcome, lives};
use berth_testkit::{ApiServer, FaultPlan, fixtures::eventually};
use k8s_openapi::api::apps::v1::Deployment;
use kube::Api;
use kube::api::{DeleteParams, ListParams, Patch, PatchParams};
use serde_json::json;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use tokio_util::sync::CancellationToken;

const OTHER: &str = "other";

/// An operator under which one tenant changes at a time.
async fn operator(server: &ApiServer, plan: &FaultPlan) -> Result<()> {
    let mut context = context(server, me(server), plan);
    Arc::make_mut(&mut context.settings).rollouts = Rollouts { max_concurrent: 1, ..Rollouts::default() };
    run(Arc::new(context), CancellationToken::new()).await;
    Ok(())
}

/// How many have a turn, and how many run the new version.
async fn now(team: &Team) -> Result<(usize, usize)> {
    let (mut turns, mut run) = (0, 0);
    for name in [crate::common::team::ACME, OTHER] {
        let at = names::control_plane_namespace(&team.ns, name);
        let home = team.namespaces().get(&at).await?.metadata.annotations.unwrap_or_default();
        turns += usize::from(home.contains_key(labels::TURN));
        let api = Api::<Deployment>::namespaced(team.client.clone(), &at).get(names::APISERVER).await?;
        run += usize::from(serde_json::to_string(&api.spec)?.contains("1.36.3"));
    }
    Ok((turns, run))
}

pub(crate) async fn turn(server: &ApiServer, plan: FaultPlan) -> Result<Outcome> {
    let team = Team::new(server).await;
    let spec = json!({"version": "1.36.2", "upgrade": {"soak": "0s"}});
    team.create(spec.clone()).await?;
    team.create_as(OTHER, spec).await?;
    let before = FaultPlan::new();
    let made = async {
        let all = async || {
            for cluster in team.clusters().list(&ListParams::default()).await? {
                let status = cluster.status.unwrap_or_default();
                ensure!(status.phase.as_deref() == Some("Ready") && status.history.len() == 1, "{status:?}");
            }
            Ok(())
        };
        eventually(SOON, "both to be up", all).await?;
        second_reconcile(&team, &before).await
    };
    lives(&before, || operator(server, &before), made).await??;
    before.stop();
    let version = json!({"spec": {"version": "1.36.3"}});
    team.merge(crate::common::team::ACME, &version).await;
    team.merge(OTHER, &version).await;
    let most = AtomicUsize::new(0);
    let done = async {
        let through = async || {
            let (turns, run) = now(&team).await?;
            most.fetch_max(turns, Ordering::Relaxed);
            ensure!(turns == 0 && run == 2, "{turns} have a turn, {run} run it");
            for cluster in team.clusters().list(&ListParams::default()).await? {
                let turn = cluster.status.clone().unwrap_or_default().turn;
                ensure!(turn.is_some_and(|turn| turn.state == TurnState::Succeeded), "{:?}", cluster.status);
            }
            Ok(())
        };
        eventually(SOON, "both to have it", through).await?;
        second_reconcile(&team, &plan).await
    };
    lives(&plan, || operator(server, &plan), done).await??;
    ensure!(most.load(Ordering::Relaxed) == 1, "{most:?} had a turn at once");
    let mut counts = counts(&team, &team.tenant().await?, &plan);
    // A turn that is recorded twice is the same, and who of the two comes first is as it comes.
    counts.retain(|what, _| !what.contains("namespaces"));
    let other = names::control_plane_namespace(&team.ns, OTHER);
    let counts = counts.into_iter().map(|(what, n)| (what.replace(&other, "OTHER"), n)).collect();
    // How the other came out was looked at. What is compared is the one.
    let free = Patch::Merge(json!({"metadata": {"finalizers": null}}));
    team.clusters().delete(OTHER, &DeleteParams::default()).await?;
    team.clusters().patch(OTHER, &PatchParams::default(), &free).await?;
    let outcome = Outcome { state: dump(&team).await?, counts };
    team.wipe_all().await;
    let _ = team.namespaces().delete(&other, &DeleteParams::default()).await;
    Ok(outcome)
}
