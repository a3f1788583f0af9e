//! What all controllers do: observe (reads) → validate and plan (pure) → apply (writes) → status (pure, one write). A
//! [`Controller`] says only what differs.

use super::report::{self, Report};
use super::rest::{Rest, Rests};
use super::watches::{self, Watches};
use crate::context::Context;
use berth_api::labels;
use berth_kubeio::{Applied, Executor, Io, IoError, Kindred, Own, Snapshot, patch_finalizers, write_status};
use berth_plan::{Failure, MetaCluster, Observed, Plan, Settings};
use berth_render::Kind;
use futures::TryStreamExt;
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::NamespaceResourceScope;
use k8s_openapi::api::core::v1::ObjectReference;
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
pub(super) type Trigger<C> = ObjectRef<PartialObjectMeta<C>>;

/// What was observed.
pub(super) struct Observation<L> {
    pub(super) snapshot: Snapshot,
    /// The connection to the tenant's API, if it answered.
    pub(super) tenant: Option<Io>,
    /// What a look asks, as long as nothing is written. None: it cannot be at rest.
    pub(super) look: Option<L>,
}

/// A custom resource that the operator reconciles.
pub(super) trait Controller:
    Resource<DynamicType = (), Scope = NamespaceResourceScope>
    + HasStatus<Status: PartialEq + Serialize + Send + Sync>
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
    /// A plan, with what the status needs beside it.
    type Planned: Send + Sync;
    /// What no watch tells of an object at rest, and what it was.
    type Look: Send + Sync;

    /// Which kinds of children are watched.
    fn watches(watches: Watches<Self>) -> Watches<Self>;

    /// The object that a child belongs to, by its labels.
    fn owner(child: &ObjectMeta) -> Option<Trigger<Self>>;

    /// Reads all that the plan looks at.
    fn observe(
        ctx: &Context,
        object: &Self,
        meta: &Arc<MetaCluster>,
        now: Timestamp,
    ) -> impl Future<Output = Result<Observation<Self::Look>, IoError>> + Send;

    /// Pure: what is to be done.
    fn plan(seen: Seen<'_, Self>) -> Self::Planned;

    /// What follows from a plan.
    fn outcome(planned: &Self::Planned) -> Outcome<'_>;

    /// Pure: the status. `failure`: what went wrong, if people are to know.
    fn new_status(seen: Seen<'_, Self>, planned: &Self::Planned, failure: Option<&Failure>) -> Self::Status;

    /// Asks. True: all is as it was.
    fn finds_nothing_new(look: &Self::Look, ctx: &Context, now: Timestamp) -> impl Future<Output = bool> + Send;
}

/// What follows from a plan.
#[derive(Debug)]
pub(super) struct Outcome<'a> {
    pub(super) plan: &'a Plan,
    /// When to look again if nothing happens.
    pub(super) look_again: Option<SignedDuration>,
    /// When time alone makes another plan.
    pub(super) due: Option<SignedDuration>,
}

/// What a plan and a status are made from.
#[derive(Debug)]
pub(super) struct Seen<'a, C> {
    pub(super) object: &'a C,
    pub(super) observed: &'a Observed,
    pub(super) settings: &'a Settings,
    pub(super) now: Timestamp,
}

/// Runs a controller until `stop`; reconciles that are under way end first.
pub(super) async fn run<C: Controller>(ctx: Arc<Context>, stop: CancellationToken) {
    let client = (**ctx.io.client()).clone();
    let rests = Arc::new(Rests::<C>::default());
    let (run, disturbed) = (rests.clone(), rests.clone());
    let (objects, reader) = watches::own::<C>(client.clone());
    let objects = objects.inspect_ok(move |meta| disturbed.disturb(&ObjectRef::from_obj(meta)));
    let config = controller::Config::default().debounce(DEBOUNCE).concurrency(ctx.concurrency);
    let all = kube::runtime::Controller::for_stream(objects, reader)
        .with_config(config)
        .trigger_backoff(watches::Backoff::none());
    let all = C::watches(Watches::new(all, client, rests.clone())).done();
    let stream = all.graceful_shutdown_on(stop.cancelled_owned()).run(
        move |meta: Arc<PartialObjectMeta<C>>, ctx: Arc<Context>| {
            let rests = run.clone();
            async move {
                let about = meta.object_ref(&());
                Ok(report::run(&ctx, C::NAME, &about, reconcile(&ctx, &meta, &about, &rests)).await)
            }
        },
        |_, error: &Infallible, _| -> Action { match *error {} },
        ctx.clone(),
    );
    watches::drain(&ctx, &rests, stream).await;
}

/// One that takes too long is cut off.
async fn within<T>(deadline: Instant, work: impl Future<Output = Result<T, IoError>>) -> Result<T, IoError> {
    timeout_at(deadline, work).await.unwrap_or_else(|_| {
        let message = format!("not done within {DEADLINE:?}; Berth cancelled it and retries");
        Err(IoError { kind: Kindred::Transient, what: "reconcile".into(), message })
    })
}

/// One reconcile of one object: a look, if it is at rest, and all of it if it is not.
pub(super) async fn reconcile<C: Controller>(
    ctx: &Context,
    meta: &PartialObjectMeta<C>,
    about: &ObjectReference,
    rests: &Rests<C>,
) -> Result<Action, IoError> {
    let of = ObjectRef::from_obj(meta);
    if let Some(rest) = rests.at_rest(&of, &ctx.meta())
        && timeout(DEADLINE, C::finds_nothing_new(&rest.look, ctx, ctx.now())).await.unwrap_or(false)
    {
        return Ok(Action::requeue(rest.every));
    }
    rests.begin(&of);
    let next = reconcile_fully(ctx, meta, about, rests).await;
    if next.as_ref().is_ok_and(|next| *next == Action::await_change()) {
        rests.disturb(&of);
    }
    next
}

async fn reconcile_fully<C: Controller>(
    ctx: &Context,
    meta: &PartialObjectMeta<C>,
    about: &ObjectReference,
    rests: &Rests<C>,
) -> Result<Action, IoError> {
    let deadline = Instant::now() + DEADLINE;
    let own = Own::of(C::KIND, meta);
    let Some(live) = within(deadline, ctx.io.get(&own.key)).await? else { return Ok(report::gone(ctx, &own.key)) };
    let mut report = Report { ctx, controller: C::NAME, own, live, now: ctx.now() };
    let mut object: C = match serde_json::from_value(report.live.clone()) {
        Ok(object) => object,
        Err(error) => return report.unreadable(&error).await,
    };
    report.own = Own::of(C::KIND, &object);
    let finalizers = object.meta().finalizers.clone().unwrap_or_default();
    let held = finalizers.iter().any(|f| f == labels::FINALIZER);
    match (object.meta().deletion_timestamp.is_some(), held) {
        (true, false) => return Ok(report::gone(ctx, &report.own.key)),
        (false, false) => {
            let all = [finalizers.as_slice(), &[labels::FINALIZER.to_owned()]].concat();
            match patch_finalizers(&ctx.io, &report.own, &all).await {
                Ok(written) => object = serde_json::from_value(written).unwrap_or(object),
                Err(error) => return Err(report.failed(error).await),
            }
        }
        _ => {}
    }
    report.own = Own::of(C::KIND, &object);
    let meta_cluster = ctx.meta();
    let applied = within(deadline, observe_and_apply(ctx, &meta_cluster, &object, report.now));
    let applied = report::caught(applied).await;
    let Reconciled { planned, snapshot, look, failure, observe_again } = match applied {
        Ok(reconciled) => reconciled,
        Err(error) => return Err(report.failed(error).await),
    };
    let Outcome { plan, look_again, due } = C::outcome(&planned);
    if plan.finished && failure.is_none() {
        let left: Vec<String> = finalizers.into_iter().filter(|f| f != labels::FINALIZER).collect();
        return match patch_finalizers(&ctx.io, &report.own, &left).await {
            Err(error) if error.kind != Kindred::NotFound => Err(report.failed(error).await),
            _ => Ok(report::gone(ctx, &report.own.key)),
        };
    }
    // A namespace that could not be looked into is not news either, unless it stays so.
    let failure = failure.or_else(|| snapshot.denied.clone());
    let young = snapshot.rights_are_young(report.now);
    if snapshot.denied.is_some() && young {
        // A right in a namespace that was made a moment ago is on its way.
        return failure.map_or(Ok(Action::await_change()), Err);
    }
    // That is not so where the team is.
    let on_its_way = |e: &IoError| e.kind == Kindred::Forbidden && snapshot.unread.is_none() && young;
    let said = failure.as_ref().filter(|e| !report.is_brief(e) && !on_its_way(e)).map(IoError::failure);
    let seen = Seen { object: &object, observed: &snapshot.observed, settings: &ctx.settings, now: report.now };
    let new = C::new_status(seen, &planned, said.as_ref());
    let new_conditions = report.measure(&new);
    let told = write_status(&ctx.io, &report.own, object.status(), &new).await?;
    if told {
        let old_conditions = report.old_conditions();
        ctx.events.transitions(about, &old_conditions, &new_conditions).await;
    }
    if let Some(error) = failure {
        return Err(error);
    }
    let wait = |due: Option<SignedDuration>| due.and_then(|d| Duration::try_from(d).ok());
    let soon = observe_again.then_some(SOON);
    let next = report::look_again([look_again, due, soon].into_iter().flatten().min(), &meta_cluster);
    let settled = plan.is_empty() && !told && plan.stages.iter().all(|s| s.state.is_done());
    if let Some(look) = look.filter(|_| settled) {
        let of = ObjectRef::from_obj(meta);
        rests.settle(&of, Rest::new(look, &of, next, wait(due), &meta_cluster));
    }
    Ok(Action::requeue(next))
}

/// How a reconcile went.
struct Reconciled<C: Controller> {
    /// The last plan.
    planned: C::Planned,
    /// What was observed, with the answers to writes.
    snapshot: Snapshot,
    /// None: something was written, or it cannot be at rest.
    look: Option<C::Look>,
    failure: Option<IoError>,
    observe_again: bool,
}

/// Observes once, then plans and applies until there is nothing left to write. The answers to writes are taken in, so that
/// later rounds build on them.
async fn observe_and_apply<C: Controller>(
    ctx: &Context,
    meta: &Arc<MetaCluster>,
    object: &C,
    now: Timestamp,
) -> Result<Reconciled<C>, IoError> {
    let Observation { mut snapshot, tenant, look } = C::observe(ctx, object, meta, now).await?;
    let mut executor = Executor::new(&ctx.io, tenant.as_ref(), C::MANAGER, meta.clocks(now));
    let mut applied = Applied::default();
    let mut round = 0;
    loop {
        let planned = C::plan(Seen { object, observed: &snapshot.observed, settings: &ctx.settings, now });
        let plan = C::outcome(&planned).plan;
        let done = plan.is_empty() || !applied.goes_on();
        round += 1;
        if !done {
            applied = executor.apply(&mut snapshot, plan).await;
        }
        if done || round == ROUNDS {
            let look = look.filter(|_| !executor.wrote());
            let Applied { failure, observe_again, .. } = applied;
            let failure = failure.or_else(|| snapshot.unread.clone());
            return Ok(Reconciled { planned, snapshot, look, failure, observe_again });
        }
    }
}
