//! Who may do what in which tenants: `ClusterAccess`es are watched by one watch, and whoever they concern is visited
//! ([ADR 78](../../../../docs/adr/0078-users-are-recorded.md)). It is no part of a `Cluster`'s reconcile: what is wrong with the rights of people
//! in a tenant keeps nothing else from being done there.
//!
//! What is remembered says whom to visit ([`crate::users`]); what is done follows from what a visit reads.

mod tenant;
mod tend;
mod visit;

use crate::context::Context;
use crate::controllers::Backoff;
use crate::panics::catch_panic;
use crate::users::table::{AGAIN, Facts, Heard};
use berth_api::{ClusterAccess, labels};
use berth_kubeio::{ErrorKind, IoError};
use berth_plan::fleet::TenantId;
use berth_render::{Kind, ObjectKey};
use futures::stream::FuturesUnordered;
use futures::{Stream, StreamExt};
use kube::Api;
use kube::api::{ObjectMeta, PartialObjectMeta};
use kube::runtime::WatchStreamExt;
use kube::runtime::watcher::{self, Event, watcher};
use serde_json::Value;
use std::collections::BTreeSet;
use std::pin::pin;
use std::time::{Duration, Instant};
use tokio_util::sync::CancellationToken;

/// Tenants that are visited at once.
const AT_ONCE: usize = 64;

/// `ClusterAccess`es that are read and told at once.
const TOLD_AT_ONCE: usize = 16;

/// How long it may take at the most until time is looked at again, while something is due: the clock that counts may be set.
const LOOK: Duration = Duration::from_secs(15);

/// After a failure of what everything needs.
const RETRY: Duration = Duration::from_secs(2);

/// Keeps rights as they are asked for until `stop`.
pub(crate) async fn run(ctx: &Context, stop: &CancellationToken) {
    tokio::select! { () = keep(ctx) => (), () = stop.cancelled() => () }
}

async fn keep(ctx: &Context) {
    let platform = ctx.settings.service_account.as_ref().map(|(namespace, _)| namespace.clone());
    while let Err(error) = know_clusters(ctx, platform.clone()).await {
        ctx.failed(&error);
        tracing::debug!(%error, "Clusters could not be listed, and are again");
        tokio::time::sleep(RETRY).await;
    }
    let mut watch = pin!(watch(ctx));
    let (mut visits, mut tendings) = (FuturesUnordered::new(), FuturesUnordered::new());
    let mut listed: Option<BTreeSet<ObjectKey>> = None;
    loop {
        let (due, again) = {
            let mut table = ctx.users.table.lock();
            let due = table.due(ctx.now(), AT_ONCE.saturating_sub(visits.len()));
            let told = table.tendings(ctx.now(), Instant::now(), TOLD_AT_ONCE.saturating_sub(tendings.len()));
            tendings.extend(told.into_iter().map(|key| async move { (catch_panic(tend::tend(ctx, &key)).await, key) }));
            (due, table.until_next(ctx.now(), Instant::now()))
        };
        visits.extend(due.into_iter().map(|due| async move {
            let visited = catch_panic(visit::visit(ctx, &due)).await;
            (visited, due.id)
        }));
        ctx.metrics.users.set(ctx.users.table.lock().counts());
        let pause = async {
            match again {
                Some(again) => tokio::time::sleep(again.min(LOOK)).await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            Some(event) = watch.next() => hear(ctx, event, &mut listed),
            Some((visited, id)) = visits.next(), if !visits.is_empty() => {
                if let Err(error) = &visited {
                    complain(ctx, error, "rights in a tenant are not as asked for yet", &id.to_string());
                }
                ctx.users.table.lock().visited(&id, visited.ok(), ctx.now(), Instant::now());
            }
            Some((tended, key)) = tendings.next(), if !tendings.is_empty() => {
                if let Err(error) = &tended {
                    complain(ctx, error, "the status of a ClusterAccess is not written yet", &key.to_string());
                }
                let again = tended.unwrap_or(Some(AGAIN));
                ctx.users.table.lock().tended(&key, again, ctx.now(), Instant::now());
            }
            () = ctx.users.news.notified() => {}
            () = pause => {}
        }
    }
}

fn complain(ctx: &Context, error: &IoError, what: &str, of: &str) {
    ctx.failed(error);
    if !matches!(error.kind, ErrorKind::Fenced | ErrorKind::Conflict) {
        tracing::debug!(%error, of, "{what}");
    }
}

/// All there are, so that nobody is missed that a reconcile has not met yet.
async fn know_clusters(ctx: &Context, platform: Option<String>) -> Result<(), IoError> {
    let mut all = vec![];
    let read = |live: Value| {
        let meta: ObjectMeta = serde_json::from_value(live["metadata"].clone()).unwrap_or_default();
        let id = TenantId {
            namespace: meta.namespace.clone().unwrap_or_default(),
            name: meta.name.clone().unwrap_or_default(),
        };
        // One that is deleted may serve on: a reconcile tells.
        all.push((id, Facts { labels: meta.labels.unwrap_or_default(), ..Facts::default() }));
    };
    ctx.io.list_each(Kind::Cluster, read).await?;
    ctx.users.table.lock().begin(platform, all, Instant::now());
    Ok(())
}

/// By metadata alone: one that this build cannot read is no reason to hear of no other.
fn watch(ctx: &Context) -> impl Stream<Item = watcher::Result<Event<PartialObjectMeta<ClusterAccess>>>> + Send + use<> {
    let api = Api::<PartialObjectMeta<ClusterAccess>>::all((**ctx.io.client()).clone());
    watcher(api, watcher::Config::default().page_size(50)).backoff(Backoff::for_watches())
}

fn hear(
    ctx: &Context,
    event: watcher::Result<Event<PartialObjectMeta<ClusterAccess>>>,
    listed: &mut Option<BTreeSet<ObjectKey>>,
) {
    let (mut table, now) = (ctx.users.table.lock(), Instant::now());
    match event {
        Ok(Event::Init) => *listed = Some(BTreeSet::new()),
        Ok(Event::InitApply(live)) => {
            let (key, heard) = heard(&live.metadata);
            listed.get_or_insert_default().insert(key.clone());
            table.heard(key, heard, now);
        }
        Ok(Event::InitDone) => {
            if let Some(all) = listed.take() {
                table.listed(&all);
            }
        }
        Ok(Event::Apply(live)) => {
            let (key, heard) = heard(&live.metadata);
            table.heard(key, heard, now);
        }
        Ok(Event::Delete(live)) => table.gone(&heard(&live.metadata).0),
        Err(error) => {
            drop(table);
            ctx.failed(&IoError::from_watch(&error));
        }
    }
}

/// What of its metadata matters.
fn heard(meta: &ObjectMeta) -> (ObjectKey, Heard) {
    let key = ObjectKey::namespaced(
        Kind::ClusterAccess,
        meta.namespace.clone().unwrap_or_default(),
        meta.name.clone().unwrap_or_default(),
    );
    let held = meta.finalizers.iter().flatten().any(|finalizer| finalizer == labels::FINALIZER);
    let (uid, generation) = (meta.uid.clone().unwrap_or_default(), meta.generation.unwrap_or_default());
    (key, Heard { uid, generation, held, ends: meta.deletion_timestamp.is_some() })
}
