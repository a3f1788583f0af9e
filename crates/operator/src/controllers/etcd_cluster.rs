//! The `EtcdCluster` controller. It knows nothing of `Cluster`.

use super::news::news;
use super::pass::{self, PassError, Patience, changes, drain, look_again};
use super::passes::{Next, Passes};
use crate::context::Context;
use berth_api::conditions::ConditionType;
use berth_api::{EtcdCluster, labels, names};
use berth_etcdio::{Credential, EtcdTarget};
use berth_kubeio::{
    Carried, IoError, Kindred, Own, Snapshot, carry_out, observe_etcd, patch_finalizers, refused, write_status,
};
use berth_pki::Clocks;
use berth_plan::Settings;
use berth_plan::etcd::{EtcdPlan, Input, absent, endpoints, plan, status::status, worth_asking};
use berth_render::{Kind, ObjectKey};
use futures::TryStreamExt;
use jiff::Timestamp;
use k8s_openapi::api::apps::v1::StatefulSet;
use k8s_openapi::api::core::v1::{ObjectReference, Pod, Service};
use kube::Api;
use kube::api::{ObjectMeta, PartialObjectMeta};
use kube::runtime::controller::{Action, Controller};
use kube::runtime::reflector::{ObjectRef, reflector, store::Writer};
use kube::runtime::{PredicateConfig, WatchStreamExt, controller, watcher};
use serde_json::Value;
use std::sync::Arc;
use std::time::Duration;
use tokio_util::sync::CancellationToken;

type Meta = PartialObjectMeta<EtcdCluster>;

/// Its name in metrics and logs.
const CONTROLLER: &str = "etcdcluster";

/// Rounds of planning and carrying out in one pass.
const ROUNDS: usize = 8;

/// Runs until `stop`; passes that are under way end first.
pub async fn run(ctx: Arc<Context>, stop: CancellationToken) {
    let client = ctx.io.client().clone();
    let passes = Passes::<EtcdCluster>::new(CONTROLLER, Kind::EtcdCluster, ctx.concurrency);
    let (heard, run) = (passes.clone(), passes.clone());
    let writer = Writer::<Meta>::default();
    let reader = writer.as_reader();
    let etcds = watcher(Api::<Meta>::all(client.clone()), pass::in_one_page());
    let etcds = reflector(writer, etcds.modify(|o| o.metadata.managed_fields = None).backoff(Patience::watch()))
        .touched_objects()
        .predicate_filter(pass::asked, PredicateConfig::default())
        .inspect_ok(move |meta| heard.news(meta));
    let label = labels::ETCD_CLUSTER;
    let config = controller::Config::default().debounce(pass::CALM);
    let stream = Controller::for_stream(etcds, reader)
        .with_config(config)
        .trigger_backoff(Patience::controller())
        .watches_stream(changes::<Service>(client.clone(), label), passes.woken_by(owner))
        .watches_stream(news::<StatefulSet>(client.clone(), label), passes.woken_by(owner))
        .watches_stream(news::<Pod>(client, label), passes.woken_by(owner))
        .graceful_shutdown_on(passes.end(stop))
        .run(
            move |meta, ctx| run.clone().reconcile(meta, ctx, one),
            |_, _: &PassError, _| Action::requeue(Duration::from_secs(5)),
            ctx.clone(),
        );
    drain(CONTROLLER, &ctx, &passes, stream).await;
}

fn owner(meta: &ObjectMeta) -> Option<ObjectRef<Meta>> {
    let name = meta.labels.as_ref()?.get(labels::ETCD_CLUSTER)?;
    Some(ObjectRef::new(name).within(meta.namespace.as_deref()?))
}

/// One pass. Steps: observe (reads) → validate and plan (pure) → apply (writes) → status (pure, one write).
pub(super) async fn one(ctx: Context, meta: Arc<Meta>, about: ObjectReference) -> Result<Next, IoError> {
    let ctx = &ctx;
    let key = Own::of(Kind::EtcdCluster, &*meta).key;
    let Some(value) = ctx.io.get(&key).await? else { return Ok(pass::gone(ctx, &key)) };
    let now = ctx.now();
    let mut etcd: EtcdCluster = match serde_json::from_value(value.clone()) {
        Ok(etcd) => etcd,
        Err(error) => {
            let own = Own::of(Kind::EtcdCluster, &*meta);
            return pass::unreadable(ctx, &own, &value, ConditionType::ETCD_CLUSTER, &error, now).await;
        }
    };
    let finalizers = etcd.metadata.finalizers.clone().unwrap_or_default();
    let held = finalizers.iter().any(|f| f == labels::FINALIZER);
    match (etcd.metadata.deletion_timestamp.is_some(), held) {
        (true, false) => return Ok(pass::gone(ctx, &key)),
        (false, false) => {
            let all = [finalizers.as_slice(), &[labels::FINALIZER.to_owned()]].concat();
            let own = Own::of(Kind::EtcdCluster, &etcd);
            match patch_finalizers(&ctx.io, &own, &all).await {
                Ok(written) => etcd = serde_json::from_value(written).unwrap_or(etcd),
                Err(error) => return Err(blind(ctx, &own, &value, error, now).await),
            }
        }
        _ => {}
    }
    let own = Own::of(Kind::EtcdCluster, &etcd);
    let settings = ctx.settings();
    let (planned, snapshot, failure) = match pass::caught(observe_and_apply(ctx, &settings, &etcd, now)).await {
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
    let input = Input { etcd: &etcd, observed: &snapshot.observed, settings: &settings, now };
    let told = failure.as_ref().filter(|e| !pass::passing(ctx, CONTROLLER, &own, e)).map(IoError::failure);
    let new = status(input, &planned, told.as_ref());
    pass::measure(ctx, &own, &new.conditions, new.certificates.as_ref());
    if write_status(&ctx.io, &own, etcd.status.as_ref(), &new).await? {
        let before = etcd.status.as_ref().map(|s| s.conditions.as_slice()).unwrap_or_default();
        ctx.io.patiently(ctx.events.transitions(&about, before, &new.conditions)).await;
    }
    match failure {
        Some(error) => Err(error),
        None => Ok(Some(look_again(planned.look_again, &settings))),
    }
}

async fn blind(ctx: &Context, own: &Own, live: &Value, error: IoError, now: Timestamp) -> IoError {
    pass::blind(ctx, CONTROLLER, own, live, ConditionType::ETCD_CLUSTER, error, now).await
}

/// Observes once, then plans and carries out until there is nothing left to write.
async fn observe_and_apply(
    ctx: &Context,
    settings: &Settings,
    etcd: &EtcdCluster,
    now: Timestamp,
) -> Result<(EtcdPlan, Snapshot, Option<IoError>), IoError> {
    let mut snapshot = observe_etcd(&ctx.io, etcd).await?;
    ask_members(ctx, etcd, &mut snapshot, settings.clocks(now)).await;
    let own = Own::of(Kind::EtcdCluster, etcd).key;
    let missing = absent(etcd, &snapshot.observed);
    snapshot.observed.refused =
        refused(&ctx.io, own.namespace.as_deref().unwrap_or_default(), &own.name, missing, now).await;
    let mut carried = Carried::default();
    let mut planned = EtcdPlan::default();
    for _ in 0..ROUNDS {
        planned = plan(Input { etcd, observed: &snapshot.observed, settings, now });
        if planned.plan.is_empty() || !carried.goes_on() {
            break;
        }
        carried =
            carry_out(&ctx.io, None, &mut snapshot, &planned.plan, labels::MANAGER_ETCD, settings.clocks(now)).await;
        if etcd.metadata.deletion_timestamp.is_some() {
            break;
        }
    }
    Ok((planned, snapshot, carried.failure))
}

/// Asks the members, if one of them runs.
async fn ask_members(ctx: &Context, etcd: &EtcdCluster, snapshot: &mut Snapshot, clocks: Clocks) {
    if etcd.metadata.deletion_timestamp.is_some() || !worth_asking(etcd, &snapshot.observed) {
        return;
    }
    let own = Own::of(Kind::EtcdCluster, etcd).key;
    let ca = ObjectKey { kind: Kind::Secret, name: names::etcd::client_ca(&own.name), ..own };
    let (Some(cert), Some(key)) = (snapshot.secret(&ca, "tls.crt"), snapshot.secret(&ca, "tls.key")) else { return };
    let target = Credential::issue(cert, key, clocks)
        .and_then(|credential| EtcdTarget::new(&endpoints(etcd, &snapshot.observed), credential));
    match target {
        Ok(target) if !target.members.is_empty() => {
            snapshot.observed.etcd = Some(ctx.io.patiently((ctx.ask_etcd)(target)).await);
        }
        Ok(_) => {}
        Err(error) => tracing::warn!(%ca, %error, "cannot ask etcd"),
    }
}
