//! Who may change the version: turns are given here, in one place of the process, from what is read then.
//!
//! A turn is the annotation `berth.dev/turn` of the control-plane namespace. Only this writes it, one write after the other, and only while
//! the process leads; so whatever is recorded counts, and a new leader goes on with that. Reconciles only read it. Before one is taken back,
//! no reconcile that could have read it is left ([`crate::fleet::Fleet::revoke`]).

use crate::context::Context;
use crate::fleet_tasks::FleetTask;
use berth_api::cluster::Cluster;
use berth_api::{labels, names};
use berth_kubeio::IoError;
use berth_plan::fleet::{Member, Memory, TenantId, decide, stopped};
use berth_plan::object_meta::{annotation, label};
use berth_render::{Kind, ObjectKey};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::time::Duration;

/// How long to wait after news for more: a change of all tenants comes one by one. Not for ever.
const QUIET: Duration = Duration::from_millis(500);
const PATIENCE: Duration = Duration::from_secs(3);

/// How often to look while somebody waits or has a turn, if there is no news.
const AGAIN: Duration = Duration::from_secs(10);

/// Likewise, while whoever waits is stopped: that changes with what a status says, which is news.
const STANDS: Duration = Duration::from_mins(5);

/// Gives turns, and takes back those that are not needed. At rest nothing is asked.
#[derive(Debug)]
pub(crate) struct GiveTurns;

impl FleetTask for GiveTurns {
    const AGAIN: Duration = AGAIN;

    async fn news(ctx: &Context) {
        ctx.fleet.news.notified().await;
        let quiet = async { while tokio::time::timeout(QUIET, ctx.fleet.news.notified()).await.is_ok() {} };
        let _ = tokio::time::timeout(PATIENCE, quiet).await;
    }

    /// Reads all, decides, and records. When to do so again without news; None: nobody waits, or has a turn.
    async fn pass(ctx: &Context) -> Result<Option<Duration>, IoError> {
        let mut turns = BTreeMap::new();
        for live in ctx.io.list(Kind::Namespace, None, Some(labels::CLUSTER_NAME)).await? {
            let of = |key| label(&live, key).map(str::to_owned);
            let name = live.pointer("/metadata/name").and_then(Value::as_str).unwrap_or_default().to_owned();
            let (Some(cluster), Some(namespace)) = (of(labels::CLUSTER_NAME), of(labels::CLUSTER_NAMESPACE)) else {
                continue;
            };
            // Labels may be anywhere; who gives turns writes to control planes alone.
            if name == names::control_plane_namespace(&namespace, &cluster) {
                turns.insert(TenantId { namespace, name: cluster }, live);
            }
        }
        let mut all = vec![];
        let read = |live| {
            // One that this build cannot read has no change that it could make.
            if let Ok(cluster) = serde_json::from_value::<Cluster>(live) {
                all.extend(member(&cluster, &turns));
            }
        };
        ctx.io.list_each(Kind::Cluster, read).await?;
        let before = ctx.fleet.memory.lock().clone();
        let decision = decide(&all, &ctx.settings.rollouts, &before, ctx.now());
        let stopped = stopped(&all, &ctx.settings.rollouts).into_iter();
        ctx.metrics.rollouts.stopped(stopped.map(|(version, stop)| (version.to_owned(), stop.back.len())).collect());
        // One whose namespace cannot be written is its own trouble alone.
        let mut failed = None;
        for id in &decision.take_back {
            if let Err(error) = take_back(ctx, id, &turns).await {
                failed = Some(error);
            }
        }
        for (id, to) in &decision.grant {
            if let Some(live) = turns.get(id) {
                tracing::info!(cluster = %id, version = to, "has the turn to change its version");
                if let Err(error) = record(ctx, live, Some(to)).await {
                    failed = Some(error);
                }
            }
        }
        tell(ctx, decision.memory);
        let again = if decision.stands { STANDS } else { AGAIN };
        failed.map_or(Ok((decision.open || !decision.take_back.is_empty()).then_some(again)), Err)
    }

    fn failed(error: &IoError, _is_new: bool) {
        tracing::debug!(%error, "turns could not be given, and are tried again");
    }
}

fn member(cluster: &Cluster, turns: &BTreeMap<TenantId, Value>) -> Option<Member> {
    let meta = &cluster.metadata;
    let id = TenantId { namespace: meta.namespace.clone()?, name: meta.name.clone()? };
    Member::of(cluster, turns.get(&id).and_then(|live| annotation(live, labels::TURN)))
}

/// Takes a turn back that is not needed, once nobody can have read it. While somebody may have, it stays for now.
async fn take_back(ctx: &Context, id: &TenantId, turns: &BTreeMap<TenantId, Value>) -> Result<(), IoError> {
    let Some(_until_it_is_written) = ctx.fleet.revoke(id) else { return Ok(()) };
    let key = ObjectKey::namespaced(Kind::Cluster, &id.namespace, &id.name);
    // It may have begun since it was read.
    let live = ctx.io.get(&key).await?.and_then(|live| serde_json::from_value::<Cluster>(live).ok());
    let member = live.and_then(|cluster| member(&cluster, turns));
    if member.is_some_and(|member| member.gives_back(ctx.now()))
        && let Some(live) = turns.get(id)
    {
        record(ctx, live, None).await?;
        ctx.fleet.news.notify_one();
    }
    Ok(())
}

/// Only on the namespace as it was read: nobody else writes turns, but it may be another namespace by now.
async fn record(ctx: &Context, live: &Value, turn: Option<&str>) -> Result<(), IoError> {
    let meta = &live["metadata"];
    let key = ObjectKey::cluster(Kind::Namespace, meta["name"].as_str().unwrap_or_default());
    let patch = json!({"metadata": {"uid": meta["uid"], "annotations": {(labels::TURN): turn}}});
    let query = format!("fieldManager={}", labels::MANAGER_FLEET);
    ctx.io.merge(&key, "", &query, &patch).await.map(|_| ())
}

/// Who is told something else than before looks again.
fn tell(ctx: &Context, memory: Memory) {
    let told = memory.told.clone();
    let before = std::mem::replace(&mut *ctx.fleet.memory.lock(), memory).told;
    for (id, answer) in told {
        if before.get(&id) != Some(&answer) {
            // Without a controller there is nobody to tell.
            let _ = ctx.fleet.changes.send(id);
        }
    }
}
