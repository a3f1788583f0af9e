//! What all controllers do: observe (reads) → validate and plan (pure) → apply (writes) → status (pure, one write). A
//! [`Controller`] says only what differs.

use super::idle::{Idle, IdleObjects};
use super::report::{self, Report};
use super::watches::{self, Watches};
use crate::context::Context;
use crate::panics::catch_panic;
use berth_api::labels;
use berth_kubeio::{
    Applied, CallEtcd, ErrorKind, Executor, Io, IoError, ResourceRef, Snapshot, patch_finalizers, write_status,
};
use berth_plan::fleet::TenantId;
use berth_plan::{Input, MetaCluster, Outcome, Planner};
use berth_render::{Kind, ObjectKey};
use futures::{StreamExt, TryStreamExt};
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::NamespaceResourceScope;
use kube::Resource;
use kube::api::{ObjectMeta, PartialObjectMeta};
use kube::core::object::HasStatus;
use kube::runtime::controller::{self, Action};
use kube::runtime::reflector::ObjectRef;
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::convert::Infallible;
use std::fmt::Debug;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::{Instant, timeout, timeout_at};
use tokio_util::sync::CancellationToken;

/// Rounds of planning and applying in one reconcile. Each round makes what the one before gave the answers for; a tenant
/// takes four.
const ROUNDS: usize = 8;

/// When an object is observed again whose deletions are under way, if nothing happens.
const SOON: SignedDuration = SignedDuration::from_secs(1);

/// The API server announces each write; one reconcile for several that come within a moment is enough.
const DEBOUNCE: Duration = Duration::from_millis(50);

/// How long one reconcile may keep others from running. It can be cut off anywhere: what it wrote is seen by the next one. Calls that
/// hang end it earlier, by deadlines of their own (ADR 17).
const DEADLINE: Duration = Duration::from_secs(45);

/// The object to reconcile, as watches know it.
pub(super) type Request<C> = ObjectRef<PartialObjectMeta<C>>;

/// What was observed.
pub(super) struct Observation<L> {
    pub(super) snapshot: Snapshot,
    /// The connection to the tenant's API, if it answered.
    pub(super) tenant: Option<Io>,
    /// What calls it, if it is an etcd that can be asked.
    pub(super) etcd: Option<CallEtcd>,
    /// What to check while the object is idle. None: it cannot be idle.
    pub(super) idle_check: Option<L>,
}

/// What an observation comes to.
pub(super) type Observed<L> = Result<Observation<L>, IoError>;

/// A custom resource that the operator reconciles.
pub(super) trait Controller:
    Resource<DynamicType = (), Scope = NamespaceResourceScope>
    + HasStatus<Status: PartialEq + Serialize + DeserializeOwned + Send + Sync>
    + DeserializeOwned
    + Clone
    + Debug
    + Send
    + Sync
    + 'static
{
    /// Its name in metrics and logs.
    const NAME: &'static str;
    /// Its row in the table of kinds.
    const KIND: Kind;
    /// The field manager of what it applies.
    const MANAGER: &'static str;
    /// The label of its children.
    const CHILDREN: &'static str;
    /// Whether plans depend on the meta cluster's addresses: then a change of these reconciles every object.
    const USES_ADDRESSES: bool = false;
    /// Whether its plans depend on the order of the fleet.
    const TAKES_TURNS: bool = false;
    /// Whether requests of its pods may follow usage.
    const IS_SIZED: bool = false;
    /// What decides.
    type Planner: Planner<Object = Self, Status = <Self as HasStatus>::Status>;
    /// What no watch reports of an idle object, and what it was.
    type IdleCheck: Send + Sync;

    /// Which kinds of children are watched.
    fn watches(watches: Watches<Self>) -> Watches<Self>;

    /// The object that a child belongs to, by its labels.
    fn owner(child: &ObjectMeta) -> Option<Request<Self>>;

    /// Reads all that the plan looks at.
    fn observe(
        ctx: &Context,
        object: &Self,
        meta: &Arc<MetaCluster>,
        now: Timestamp,
    ) -> impl Future<Output = Observed<Self::IdleCheck>> + Send;

    /// A status was written, or is as it was.
    fn said(_ctx: &Context, _object: &Self, _status: &Self::Status) {}

    /// Runs the idle check. True: nothing has changed.
    fn is_unchanged(_check: &Self::IdleCheck, _ctx: &Context, _now: Timestamp) -> impl Future<Output = bool> + Send {
        std::future::ready(false)
    }
}

/// Runs a controller until `stop`; reconciles that are under way end first.
pub(super) async fn run<C: Controller>(ctx: Arc<Context>, stop: CancellationToken) {
    let client = (**ctx.io.client()).clone();
    let idle_objects = Arc::new(IdleObjects::<C>::default());
    let (run, invalidated) = (idle_objects.clone(), idle_objects.clone());
    let (objects, reader) = watches::own::<C>(client.clone());
    let objects = objects.inspect_ok(move |meta| invalidated.invalidate(&ObjectRef::from_obj(meta)));
    let config = controller::Config::default().debounce(DEBOUNCE).concurrency(ctx.concurrency);
    let controller = kube::runtime::Controller::for_stream(objects, reader.clone())
        .with_config(config)
        .trigger_backoff(watches::Backoff::none());
    let (tenants, watched) = (ctx.metrics.tenants.clone(), idle_objects.clone());
    let settings = ctx.settings.clone();
    let watches = Watches { controller, client, idle_objects: watched, objects: reader, tenants, settings };
    let mut all = C::watches(watches).controller;
    if C::USES_ADDRESSES {
        all = all.reconcile_all_on(ctx.address_changes());
    }
    if C::TAKES_TURNS {
        let told = idle_objects.clone();
        let object = move |id: TenantId| ObjectRef::new(&id.name).within(&id.namespace);
        let changes = ctx.fleet.changes().map(object).inspect(move |of| told.invalidate(of));
        all = all.reconcile_on(changes);
    }
    if C::IS_SIZED {
        let told = idle_objects.clone();
        let object = |of: ObjectKey| ObjectRef::new(&of.name).within(of.namespace.as_deref().unwrap_or_default());
        let changes = ctx.sizes.changes(C::KIND).map(object).inspect(move |of| told.invalidate(of));
        all = all.reconcile_on(changes);
    }
    let stream = all.graceful_shutdown_on(stop.cancelled_owned()).run(
        move |meta: Arc<PartialObjectMeta<C>>, ctx: Arc<Context>| {
            let idle_objects = run.clone();
            async move {
                let key = ResourceRef::of(C::KIND, &*meta).key;
                Ok(report::run(&ctx, C::NAME, &key, reconcile(&ctx, &meta, &idle_objects)).await)
            }
        },
        |_, error: &Infallible, _| -> Action { match *error {} },
        ctx.clone(),
    );
    watches::drain(&ctx, &idle_objects, stream).await;
}

/// One that takes too long is cut off.
async fn within<T>(deadline: Instant, work: impl Future<Output = Result<T, IoError>>) -> Result<T, IoError> {
    timeout_at(deadline, work).await.unwrap_or_else(|_| {
        let message = format!("not done within {DEADLINE:?}; Berth cancelled it and retries");
        Err(IoError { kind: ErrorKind::Transient, what: "reconcile".into(), message, in_tenant: false })
    })
}

/// One reconcile of one object: only the check, if it is idle.
pub(super) async fn reconcile<C: Controller>(
    ctx: &Context,
    meta: &PartialObjectMeta<C>,
    idle_objects: &IdleObjects<C>,
) -> Result<Action, IoError> {
    let of = ObjectRef::from_obj(meta);
    if let Some(idle) = idle_objects.get(&of, &ctx.meta())
        && timeout(DEADLINE, C::is_unchanged(&idle.check, ctx, ctx.now())).await.unwrap_or(false)
    {
        return Ok(Action::requeue(idle.every));
    }
    idle_objects.begin(&of);
    let next = reconcile_fully(ctx, meta, idle_objects).await;
    if next.as_ref().is_ok_and(|next| *next == Action::await_change()) {
        idle_objects.invalidate(&of);
    }
    next
}

async fn reconcile_fully<C: Controller>(
    ctx: &Context,
    meta: &PartialObjectMeta<C>,
    idle_objects: &IdleObjects<C>,
) -> Result<Action, IoError> {
    let deadline = Instant::now() + DEADLINE;
    // Until its status is written, what it has read of its turn stays true.
    let resource = ResourceRef::of(C::KIND, meta);
    let _reading = C::TAKES_TURNS.then(|| ctx.fleet.begin(TenantId::from(&resource.key)));
    let Some(live) = within(deadline, ctx.io.get(&resource.key)).await? else {
        return Ok(report::gone(ctx, &resource.key));
    };
    let mut report = Report { ctx, resource, live, now: ctx.now() };
    let mut object: C = match serde_json::from_value(report.live.clone()) {
        Ok(object) => object,
        Err(error) => return report.unreadable(&error).await,
    };
    report.resource = ResourceRef::of(C::KIND, &object);
    let finalizers = object.meta().finalizers.clone().unwrap_or_default();
    let held = finalizers.iter().any(|f| f == labels::FINALIZER);
    match (object.meta().deletion_timestamp.is_some(), held) {
        (true, false) => return Ok(report::gone(ctx, &report.resource.key)),
        (false, false) => {
            let all = [finalizers.as_slice(), &[labels::FINALIZER.to_owned()]].concat();
            match patch_finalizers(&ctx.io, &report.resource, &all).await {
                Ok(written) => object = serde_json::from_value(written).unwrap_or(object),
                Err(error) => return Err(report.failed(error).await),
            }
        }
        _ => {}
    }
    report.resource = ResourceRef::of(C::KIND, &object);
    let meta_cluster = ctx.meta();
    let applied = within(deadline, observe_and_apply(ctx, &meta_cluster, &object, report.now));
    let applied = catch_panic(applied).await;
    let Reconciled { planned, snapshot, idle_check, failure, observe_again, removed } = match applied {
        Ok(reconciled) => reconciled,
        Err(error) => return Err(report.failed(error).await),
    };
    ctx.events.removed(&meta.object_ref(&()), removed).await;
    let Outcome { plan, requeue_after, due } = C::Planner::outcome(&planned);
    report.tell_platform(&plan.for_platform);
    if plan.finished && failure.is_none() {
        let left: Vec<String> = finalizers.into_iter().filter(|f| f != labels::FINALIZER).collect();
        return match patch_finalizers(&ctx.io, &report.resource, &left).await {
            Err(error) if error.kind != ErrorKind::NotFound => Err(report.failed(error).await),
            _ => Ok(report::gone(ctx, &report.resource.key)),
        };
    }
    // A namespace that could not be read is not reported either, unless it stays so.
    let failure = failure.or_else(|| snapshot.denied.clone());
    let recent = snapshot.rights_are_recent(report.now);
    if snapshot.denied.is_some() && recent {
        // The API server may not know yet a right in a namespace that was made a moment ago.
        return failure.map_or(Ok(Action::await_change()), Err);
    }
    // In the team's namespace the operator's rights do not appear late.
    let awaits_rights = |e: &IoError| e.kind == ErrorKind::Forbidden && snapshot.unread.is_none() && recent;
    let reported = failure.as_ref().filter(|e| !report.is_brief(e) && !awaits_rights(e)).map(IoError::failure);
    let input = Input { object: &object, observed: &snapshot.observed, settings: &ctx.settings, now: report.now };
    let new = C::Planner::status(input, &planned, reported.as_ref());
    let new_conditions = report.measure(&new);
    let status_changed = write_status(&ctx.io, &report.resource, object.status(), &new).await?;
    C::said(ctx, &object, &new);
    if status_changed {
        let old_conditions = report.old_conditions();
        ctx.events.transitions(&meta.object_ref(&()), &old_conditions, &new_conditions).await;
    }
    if let Some(error) = failure {
        return Err(error);
    }
    let wait = |due: Option<SignedDuration>| due.and_then(|d| Duration::try_from(d).ok());
    let soon = observe_again.then_some(SOON);
    let next = report::requeue_after([requeue_after, due, soon].into_iter().flatten().min(), &meta_cluster);
    let settled = plan.is_empty() && !status_changed && plan.stages.iter().all(|s| s.state.is_done());
    if let Some(idle_check) = idle_check.filter(|_| settled) {
        let of = ObjectRef::from_obj(meta);
        idle_objects.set_idle(&of, Idle::new(idle_check, &of, next, wait(due), &meta_cluster));
    }
    Ok(Action::requeue(next))
}

/// A plan, with what the status needs beside it.
type PlannedBy<C> = <<C as Controller>::Planner as Planner>::Planned;

/// How a reconcile went.
struct Reconciled<C: Controller> {
    /// The last plan.
    planned: PlannedBy<C>,
    /// What was observed, with the answers to writes.
    snapshot: Snapshot,
    /// None: something was written, or it cannot be idle.
    idle_check: Option<C::IdleCheck>,
    failure: Option<IoError>,
    observe_again: bool,
    /// What was taken away that others had added, for people.
    removed: Vec<String>,
}

/// Observes once, then plans and applies until there is nothing left to write. The answers to writes are taken in, so that
/// later rounds build on them.
async fn observe_and_apply<C: Controller>(
    ctx: &Context,
    meta: &Arc<MetaCluster>,
    object: &C,
    now: Timestamp,
) -> Result<Reconciled<C>, IoError> {
    let Observation { mut snapshot, tenant, etcd, idle_check } = C::observe(ctx, object, meta, now).await?;
    let mut executor = Executor::new(&ctx.io, tenant.as_ref(), C::MANAGER, meta.clocks(now)).with_etcd(etcd.as_ref());
    let mut applied = Applied::default();
    let mut round = 0;
    loop {
        let planned = C::Planner::plan(Input { object, observed: &snapshot.observed, settings: &ctx.settings, now });
        let plan = C::Planner::outcome(&planned).plan;
        let done = plan.is_empty() || !applied.can_continue();
        round += 1;
        if !done {
            applied = executor.apply(&mut snapshot, plan).await;
        }
        if done || round == ROUNDS {
            let idle_check = idle_check.filter(|_| !executor.wrote());
            let Applied { failure, observe_again, .. } = applied;
            let failure = failure.or_else(|| snapshot.unread.clone());
            let removed = executor.removed();
            return Ok(Reconciled { planned, snapshot, idle_check, failure, observe_again, removed });
        }
    }
}
