//! Who may change the version: turns are given here, in one place of the process, from what is read then.
//!
//! A turn is the annotation `berth.dev/turn` of the control-plane namespace. Only this writes it, one write after the other, and only while
//! the process leads; so whatever is recorded counts, and a new leader goes on with that. Reconciles only read it. Before one is taken back,
//! no reconcile that could have read it is left ([`Fleet::revoke`]).

use crate::context::Context;
use berth_api::cluster::{Cluster, TurnState, TurnStatus};
use berth_api::{labels, names};
use berth_kubeio::IoError;
use berth_plan::fleet::{Member, Memory, TenantId, decide, stopped};
use berth_plan::observed::{Turns, annotation, label};
use berth_render::{Kind, ObjectKey};
use futures::{Stream, stream};
use serde_json::{Value, json};
use std::collections::{BTreeMap, HashMap};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;
use tokio::sync::{Notify, broadcast};
use tokio_util::sync::CancellationToken;

/// How long to wait after news for more: a change of all tenants comes one by one. Not for ever.
const QUIET: Duration = Duration::from_millis(500);
const PATIENCE: Duration = Duration::from_secs(3);

/// How often to look while somebody waits or has a turn, if there is no news.
const AGAIN: Duration = Duration::from_secs(10);

/// Likewise, while whoever waits is stopped: that changes with what a status says, which is news.
const STANDS: Duration = Duration::from_mins(5);

/// What reconciles and the one who gives turns tell each other.
#[derive(Debug)]
pub struct Fleet {
    news: Notify,
    memory: Mutex<Memory>,
    tenants: Mutex<HashMap<TenantId, Tenant>>,
    changes: broadcast::Sender<TenantId>,
}

#[derive(Debug, Default)]
struct Tenant {
    /// Reconciles that may have read its turn.
    reconciles: usize,
    /// Its turn is being taken back.
    revoked: bool,
    /// What its status said last, and of which version of the spec.
    said: Option<(TurnStatus, Option<i64>)>,
}

impl Default for Fleet {
    fn default() -> Self {
        let (changes, _) = broadcast::channel(1024);
        Self { news: Notify::new(), memory: Mutex::default(), tenants: Mutex::default(), changes }
    }
}

/// Until it is dropped, the turn of that tenant is not taken back.
#[derive(Debug)]
pub struct Reading<'a> {
    fleet: &'a Fleet,
    id: TenantId,
}

/// Until it is dropped, reconciles of that tenant see no turn.
#[derive(Debug)]
struct Revoked<'a>(Reading<'a>);

impl Fleet {
    fn tenants<T>(&self, f: impl FnOnce(&mut HashMap<TenantId, Tenant>) -> T) -> T {
        f(&mut self.tenants.lock().unwrap_or_else(PoisonError::into_inner))
    }

    fn memory<T>(&self, f: impl FnOnce(&mut Memory) -> T) -> T {
        f(&mut self.memory.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// A reconcile of that tenant begins to read.
    pub fn begin(&self, id: TenantId) -> Reading<'_> {
        self.tenants(|all| all.entry(id.clone()).or_default().reconciles += 1);
        Reading { fleet: self, id }
    }

    /// What a reconcile is to know of the fleet.
    pub fn turns(&self, id: &TenantId) -> Turns {
        let revoked = self.tenants(|all| all.get(id).is_some_and(|tenant| tenant.revoked));
        Turns::Ordered { answer: self.memory(|memory| memory.told.get(id).cloned()), revoked }
    }

    /// A tenant is gone.
    pub fn gone(&self, id: &TenantId) {
        self.says(id, None, None);
        self.forget(id);
    }

    /// Nobody needs to know of a tenant that says nothing.
    fn forget(&self, id: &TenantId) {
        self.tenants(|all| all.retain(|of, t| of != id || t.reconciles > 0 || t.revoked || t.said.is_some()));
    }

    /// What a tenant's status says now, and of which generation.
    pub fn says(&self, id: &TenantId, status: Option<&TurnStatus>, generation: Option<i64>) {
        let said = status.map(|status| (status.clone(), generation));
        let (before, now) = self.tenants(|all| {
            let tenant = all.entry(id.clone()).or_default();
            (std::mem::replace(&mut tenant.said, said.clone()), said)
        });
        let what = |said: &Option<(TurnStatus, Option<i64>)>| {
            said.as_ref().map(|(turn, generation)| (turn.to.clone(), turn.state, turn.came_back, *generation))
        };
        let is_at_rest = |said: &Option<(TurnStatus, Option<i64>)>| {
            said.as_ref().is_none_or(|(turn, _)| matches!(turn.state, TurnState::Succeeded))
        };
        if what(&before) != what(&now) && !(is_at_rest(&before) && is_at_rest(&now)) {
            self.news.notify_one();
        }
    }

    /// Tenants that are told something else than before.
    pub(crate) fn changes(&self) -> impl Stream<Item = TenantId> + Send + use<> {
        stream::unfold(self.changes.subscribe(), async |mut changes| {
            loop {
                match changes.recv().await {
                    Ok(id) => return Some((id, changes)),
                    // Those who were missed learn of it when they look next.
                    Err(broadcast::error::RecvError::Lagged(_)) => {}
                    Err(broadcast::error::RecvError::Closed) => return None,
                }
            }
        })
    }

    /// From now on reconciles see no turn of it. None: one is under way that may have.
    fn revoke(&self, id: &TenantId) -> Option<Revoked<'_>> {
        self.tenants(|all| {
            let tenant = all.entry(id.clone()).or_default();
            (tenant.reconciles == 0).then(|| {
                tenant.revoked = true;
                tenant.reconciles += 1;
                Revoked(Reading { fleet: self, id: id.clone() })
            })
        })
    }
}

impl Drop for Reading<'_> {
    fn drop(&mut self) {
        self.fleet.tenants(|all| {
            if let Some(tenant) = all.get_mut(&self.id) {
                tenant.reconciles = tenant.reconciles.saturating_sub(1);
            }
        });
        self.fleet.forget(&self.id);
    }
}

impl Drop for Revoked<'_> {
    fn drop(&mut self) {
        let Reading { fleet, id } = &self.0;
        fleet.tenants(|all| {
            if let Some(tenant) = all.get_mut(id) {
                tenant.revoked = false;
            }
        });
    }
}

/// Gives turns until `stop`. At rest nothing is asked.
pub async fn follow(ctx: &Context, stop: CancellationToken) {
    let mut again = Some(AGAIN);
    loop {
        let pause = async {
            match again {
                Some(again) => drop(tokio::time::timeout(again, ctx.fleet.news.notified()).await),
                None => ctx.fleet.news.notified().await,
            }
            let quiet = async { while tokio::time::timeout(QUIET, ctx.fleet.news.notified()).await.is_ok() {} };
            let _ = tokio::time::timeout(PATIENCE, quiet).await;
        };
        tokio::select! { () = pause => (), () = stop.cancelled() => return }
        again = match pass(ctx).await {
            Ok(again) => again,
            Err(error) => {
                ctx.failed(&error);
                tracing::debug!(%error, "turns could not be given, and are tried again");
                Some(AGAIN)
            }
        };
    }
}

/// Reads all, decides, and records. When to do so again without news; None: nobody waits, or has a turn.
async fn pass(ctx: &Context) -> Result<Option<Duration>, IoError> {
    let mut turns = BTreeMap::new();
    for live in ctx.io.list_selected(Kind::Namespace, None, labels::CLUSTER_NAME).await? {
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
    let before = ctx.fleet.memory(|memory| memory.clone());
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
    let before = ctx.fleet.memory(|own| std::mem::replace(own, memory)).told;
    for (id, answer) in told {
        if before.get(&id) != Some(&answer) {
            // Without a controller there is nobody to tell.
            let _ = ctx.fleet.changes.send(id);
        }
    }
}
