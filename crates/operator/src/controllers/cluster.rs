//! The `Cluster` controller.

use super::news::news;
use super::pass::{self, PassError, Patience, changes, drain, look_again};
use super::passes::{Next, Passes};
use crate::context::Context;
use berth_api::cluster::{Cluster, ClusterStatus};
use berth_api::conditions::ConditionType;
use berth_api::{EtcdCluster, labels, names};
use berth_kubeio::{
    Carried, Io, IoError, Kindred, Own, Snapshot, carry_out, observe_cluster, patch_finalizers, probe_tenant,
    tenant_target, write_status,
};
use berth_plan::cluster::{ClusterPlan, Input, endpoint, plan, probe_key, status::status};
use berth_plan::observed::ApiProbe;
use berth_plan::{Settings, workload};
use berth_render::{Kind, ObjectKey};
use futures::TryStreamExt;
use jiff::Timestamp;
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::{Namespace, ObjectReference, Pod, Service};
use kube::Api;
use kube::api::{ObjectMeta, PartialObjectMeta};
use kube::runtime::controller::{Action, Controller};
use kube::runtime::reflector::{ObjectRef, reflector, store::Writer};
use kube::runtime::{PredicateConfig, WatchStreamExt, controller, watcher};
use serde_json::Value;
use std::sync::Arc;
use std::time::Duration;
use tokio_util::sync::CancellationToken;

type Meta = PartialObjectMeta<Cluster>;

/// Its name in metrics and logs.
const CONTROLLER: &str = "cluster";

/// Rounds of planning and carrying out in one pass. Each round makes what the one before gave the answers for; a tenant
/// takes four.
const ROUNDS: usize = 8;

/// Runs until `stop`; passes that are under way end first.
pub async fn run(ctx: Arc<Context>, stop: CancellationToken) {
    let client = ctx.io.client().clone();
    let passes = Passes::<Cluster>::new(CONTROLLER, Kind::Cluster, ctx.concurrency);
    let (heard, run) = (passes.clone(), passes.clone());
    let writer = Writer::<Meta>::default();
    let reader = writer.as_reader();
    let clusters = watcher(Api::<Meta>::all(client.clone()), pass::in_one_page());
    let clusters = reflector(writer, clusters.modify(|o| o.metadata.managed_fields = None).backoff(Patience::watch()))
        .touched_objects()
        .predicate_filter(pass::asked, PredicateConfig::default())
        .inspect_ok(move |meta| heard.news(meta));
    let label = labels::CLUSTER_NAME;
    let config = controller::Config::default().debounce(pass::CALM);
    let stream = Controller::for_stream(clusters, reader)
        .with_config(config)
        .trigger_backoff(Patience::controller())
        .watches_stream(changes::<Namespace>(client.clone(), label), passes.woken_by(owner))
        .watches_stream(changes::<Service>(client.clone(), label), passes.woken_by(owner))
        .watches_stream(changes::<EtcdCluster>(client.clone(), label), passes.woken_by(owner))
        .watches_stream(news::<Deployment>(client.clone(), label), passes.woken_by(owner))
        .watches_stream(news::<Pod>(client, label), passes.woken_by(owner))
        .graceful_shutdown_on(passes.end(stop))
        .run(
            move |meta, ctx| run.clone().reconcile(meta, ctx, one),
            |_, _: &PassError, _| Action::requeue(Duration::from_secs(5)),
            ctx.clone(),
        );
    drain(CONTROLLER, &ctx, &passes, stream).await;
}

/// The `Cluster` that a child names in its labels. Owner references do not cross namespaces.
fn owner(meta: &ObjectMeta) -> Option<ObjectRef<Meta>> {
    let all = meta.labels.as_ref()?;
    Some(ObjectRef::new(all.get(labels::CLUSTER_NAME)?).within(all.get(labels::CLUSTER_NAMESPACE)?))
}

/// One pass. Steps: observe (reads) → validate and plan (pure) → apply (writes) → status (pure, one write).
pub(super) async fn one(ctx: Context, meta: Arc<Meta>, about: ObjectReference) -> Result<Next, IoError> {
    let ctx = &ctx;
    let key = Own::of(Kind::Cluster, &*meta).key;
    let Some(value) = ctx.io.get(&key).await? else { return Ok(pass::gone(ctx, &key)) };
    let now = ctx.now();
    let mut cluster: Cluster = match serde_json::from_value(value.clone()) {
        Ok(cluster) => cluster,
        Err(error) => {
            return pass::unreadable(ctx, &Own::of(Kind::Cluster, &*meta), &value, ConditionType::CLUSTER, &error, now)
                .await;
        }
    };
    let finalizers = cluster.metadata.finalizers.clone().unwrap_or_default();
    let deleting = cluster.metadata.deletion_timestamp.is_some();
    let held = finalizers.iter().any(|f| f == labels::FINALIZER);
    match (deleting, held) {
        (true, false) => return Ok(pass::gone(ctx, &key)),
        (false, false) => {
            let all = [finalizers.as_slice(), &[labels::FINALIZER.to_owned()]].concat();
            let own = Own::of(Kind::Cluster, &cluster);
            match patch_finalizers(&ctx.io, &own, &all).await {
                Ok(written) => cluster = serde_json::from_value(written).unwrap_or(cluster),
                Err(error) => return Err(blind(ctx, &own, &value, error, now).await),
            }
        }
        _ => {}
    }
    let own = Own::of(Kind::Cluster, &cluster);
    let settings = ctx.settings();
    let (planned, snapshot, failure) = match pass::caught(observe_and_apply(ctx, &settings, &cluster, now)).await {
        Ok(all) => all,
        Err(error) => return Err(blind(ctx, &own, &value, error, now).await),
    };
    if planned.plan.finished && failure.is_none() {
        let left: Vec<String> = finalizers.into_iter().filter(|f| f != labels::FINALIZER).collect();
        return match patch_finalizers(&ctx.io, &own, &left).await {
            Err(error) if error.kind != Kindred::NotFound => Err(blind(ctx, &own, &value, error, now).await),
            _ => Ok(pass::gone(ctx, &key)),
        };
    }
    let input = Input { cluster: &cluster, observed: &snapshot.observed, settings: &settings, now };
    // A namespace that could not be looked into is not news either, unless it stays so.
    let failure = failure.or_else(|| snapshot.denied.clone());
    if snapshot.denied.is_some() && snapshot.rights_are_young(now) {
        // A right in a namespace that was made a moment ago is on its way.
        return failure.map_or(Ok(None), Err);
    }
    // That is not so where the team is.
    let inside = snapshot.unread.is_none();
    let young = |e: &IoError| e.kind == Kindred::Forbidden && inside && snapshot.rights_are_young(now);
    let told = failure.as_ref().filter(|e| !pass::passing(ctx, CONTROLLER, &own, e) && !young(e)).map(IoError::failure);
    let new = status(input, &planned, told.as_ref());
    report(ctx, &cluster, &own, &about, &new).await?;
    match failure {
        Some(error) => Err(error),
        None => Ok(Some(look_again(planned.look_again, &settings))),
    }
}

async fn blind(ctx: &Context, own: &Own, live: &Value, error: IoError, now: Timestamp) -> IoError {
    pass::blind(ctx, CONTROLLER, own, live, ConditionType::CLUSTER, error, now).await
}

/// Observes once, then plans and carries out until there is nothing left to write. The answers to writes are taken in, so
/// that later rounds build on them.
async fn observe_and_apply(
    ctx: &Context,
    settings: &Settings,
    cluster: &Cluster,
    now: Timestamp,
) -> Result<(ClusterPlan, Snapshot, Option<IoError>), IoError> {
    let mut snapshot = observe_cluster(&ctx.io, cluster).await?;
    let tenant = ask_tenant(ctx, settings, cluster, &mut snapshot, now).await;
    let mut carried = Carried::default();
    let mut planned = ClusterPlan::default();
    for _ in 0..ROUNDS {
        planned = plan(Input { cluster, observed: &snapshot.observed, settings, now });
        if planned.plan.is_empty() || !carried.goes_on() {
            break;
        }
        carried = carry_out(
            &ctx.io,
            tenant.as_ref(),
            &mut snapshot,
            &planned.plan,
            labels::MANAGER_CLUSTER,
            settings.clocks(now),
        )
        .await;
        if cluster.metadata.deletion_timestamp.is_some() {
            // What a deletion did shows only when it is read again.
            break;
        }
    }
    let failure = carried.failure.or_else(|| snapshot.unread.clone());
    Ok((planned, snapshot, failure))
}

/// Asks the tenant's API, if a pod is there that its Service sends anybody to.
async fn ask_tenant(
    ctx: &Context,
    settings: &Settings,
    cluster: &Cluster,
    snapshot: &mut Snapshot,
    now: Timestamp,
) -> Option<Io> {
    let input = Input { cluster, observed: &snapshot.observed, settings, now };
    // One that is protected is held, and serves on.
    if cluster.metadata.deletion_timestamp.is_some() && !cluster.spec.deletion.protected {
        return None;
    }
    let name = cluster.metadata.name.as_deref().unwrap_or_default();
    let home = names::control_plane_namespace(cluster.metadata.namespace.as_deref().unwrap_or_default(), name);
    let up = workload::pods_of(input.observed, &home, labels::COMPONENT, names::APISERVER)
        .any(|(_, p)| workload::pod_ready(p));
    let (host, port) = endpoint(input).filter(|_| up)?;
    let key = probe_key(input);
    let told = cluster.status.as_ref().and_then(|s| s.version.as_deref());
    let api = input.observed.get(&ObjectKey::namespaced(Kind::Deployment, home.clone(), names::APISERVER));
    let image = api.and_then(workload::image_of).and_then(|i| i.rsplit_once(":v")).map(|(_, v)| v);
    let want_version = told.is_none() || told != image;
    let ca = ObjectKey::namespaced(Kind::Secret, home, names::ca(name));
    let Some(target) = tenant_target(snapshot, &ca, &host, port) else {
        snapshot.observed.api = ApiProbe::Unable(format!("{ca} is not there"));
        return None;
    };
    let (probe, tenant) =
        probe_tenant(&ctx.io, &ctx.connect, target, &key, want_version, ctx.tenant_calls.clone(), settings.clocks(now))
            .await;
    snapshot.observed.api = probe;
    tenant
}

async fn report(
    ctx: &Context,
    cluster: &Cluster,
    own: &Own,
    about: &ObjectReference,
    new: &ClusterStatus,
) -> Result<(), IoError> {
    let old = cluster.status.as_ref();
    pass::measure(ctx, own, &new.conditions, new.certificates.as_ref());
    if write_status(&ctx.io, own, old, new).await? {
        let before = old.map(|s| s.conditions.as_slice()).unwrap_or_default();
        ctx.io.patiently(ctx.events.transitions(about, before, &new.conditions)).await;
    }
    Ok(())
}
