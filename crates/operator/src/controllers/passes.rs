//! When an object gets a pass: after news of it, when its last pass asked for another one, and when it is its turn.
//!
//! What comes in while an object waits for its turn is seen by the pass that it waits for. [`Controller`](kube::runtime::Controller)
//! counts it as news all the same, since for it that pass is under way: where many wait, half of all passes would be for nothing.

use super::driver::{Controller, Trigger};
use super::report;
use crate::context::Context;
use berth_kubeio::{IoError, Turns};
use berth_render::ObjectKey;
use k8s_openapi::api::core::v1::ObjectReference;
use kube::Resource;
use kube::api::PartialObjectMeta;
use kube::runtime::controller::Action;
use kube::runtime::reflector::ObjectRef;
use std::collections::HashMap;
use std::convert::Infallible;
use std::hash::Hash;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};
use tokio_util::sync::CancellationToken;

/// When to look again if nothing happens. None: never, it is gone.
pub(super) type Next = Option<Duration>;

/// The passes of one controller.
pub(super) struct Passes<C: Controller> {
    turns: Turns,
    wakes: Wakes<Trigger<C>>,
}

impl<C: Controller> Passes<C> {
    /// With that many at once.
    pub(super) fn new(at_once: u16) -> Arc<Self> {
        Arc::new(Self { turns: Turns::new(at_once.into()), wakes: Wakes::default() })
    }

    /// Something happened to it.
    pub(super) fn news(&self, object: &PartialObjectMeta<C>) {
        self.wakes.news(&ObjectRef::from_obj(object));
    }

    /// Something happened to a child of it.
    pub(super) fn woken(&self, object: &Trigger<C>) {
        self.wakes.news(object);
    }

    /// It is gone, and its last pass has not seen that: nothing is remembered of it.
    pub(super) fn forget(&self, ctx: &Context, namespace: &str, name: &str) {
        self.wakes.forget(&ObjectRef::new(name).within(namespace));
        ctx.backoff.forget(&(C::NAME, namespace.to_owned(), name.to_owned()));
        report::gone(ctx, &ObjectKey::namespaced(C::KIND, namespace, name));
    }

    /// When to begin no pass any more: those that wait for their turn do not get it.
    pub(super) fn end(self: &Arc<Self>, stop: CancellationToken) -> impl Future<Output = ()> + use<C> {
        let passes = self.clone();
        async move {
            stop.cancelled().await;
            passes.turns.close();
        }
    }

    /// Waits for a turn and runs `one` in it, if there is a reason to.
    pub(super) async fn reconcile<F>(
        self: Arc<Self>,
        meta: Arc<PartialObjectMeta<C>>,
        ctx: Arc<Context>,
        one: impl FnOnce(Context, Arc<PartialObjectMeta<C>>, ObjectReference) -> F,
    ) -> Result<Action, Infallible>
    where
        F: Future<Output = Result<Next, IoError>>,
    {
        let of = ObjectRef::from_obj(&*meta);
        if let Some(rest) = self.wakes.rest(&of, Instant::now()) {
            return Ok(Action::requeue(rest));
        }
        let Some(turn) = self.turns.take().await else { return Ok(Action::await_change()) };
        self.wakes.begin(of.clone(), Instant::now());
        let (ctx, about) = (ctx.in_turn(&turn), meta.object_ref(&()));
        // Boxed, so that those who wait for their turn are small.
        let next = report::run(&ctx, C::NAME, &about, Box::pin(one(ctx.clone(), meta, about.clone()))).await;
        self.wakes.end(&of, next, Instant::now());
        Ok(next.map_or_else(Action::await_change, Action::requeue))
    }
}

/// What happened to objects since their last pass began.
#[derive(Debug)]
struct Wakes<R>(Mutex<HashMap<R, Wake>>);

#[derive(Debug)]
struct Wake {
    news: bool,
    /// When the next pass is due without news.
    due: Instant,
}

impl<R> Default for Wakes<R> {
    fn default() -> Self {
        Self(Mutex::default())
    }
}

impl<R: Hash + Eq + Clone> Wakes<R> {
    fn with<T>(&self, f: impl FnOnce(&mut HashMap<R, Wake>) -> T) -> T {
        f(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// One that had no pass has one in any case.
    fn news(&self, of: &R) {
        self.with(|all| {
            if let Some(wake) = all.get_mut(of) {
                wake.news = true;
            }
        });
    }

    /// How long there is no reason for a pass. None: there is one.
    fn rest(&self, of: &R, now: Instant) -> Option<Duration> {
        self.with(|all| all.get(of).filter(|w| !w.news && w.due > now).map(|w| w.due - now))
    }

    /// From here on a pass looks at it; should it be cut off, the next one is due.
    fn begin(&self, of: R, now: Instant) {
        self.with(|all| all.insert(of, Wake { news: false, due: now }));
    }

    fn forget(&self, of: &R) {
        self.with(|all| _ = all.remove(of));
    }

    /// Its pass has ended. What is gone is forgotten.
    fn end(&self, of: &R, next: Next, now: Instant) {
        self.with(|all| match (next, all.get_mut(of)) {
            (Some(next), Some(wake)) => wake.due = now + next,
            _ => drop(all.remove(of)),
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::controllers::tests::context;
    use crate::controllers::watches;
    use berth_api::Cluster;
    use berth_kubeio::Kindred;
    use futures::stream;
    use kube::runtime::{controller, watcher};
    use serde_json::json;

    const MINUTE: Duration = Duration::from_mins(1);

    #[test]
    fn what_came_while_it_waited_is_seen_by_the_pass_it_waited_for() {
        let (wakes, now) = (Wakes::default(), Instant::now());
        wakes.news(&1);
        assert_eq!(wakes.rest(&1, now), None, "the first pass needs no reason");
        wakes.begin(1, now);
        assert_eq!(wakes.rest(&1, now), None, "a pass that was cut off is made again");
        wakes.end(&1, Some(MINUTE), now);
        assert_eq!(wakes.rest(&1, now), Some(MINUTE));
        wakes.news(&1);
        assert_eq!(wakes.rest(&1, now), None);
        wakes.begin(1, now);
        wakes.end(&1, Some(MINUTE), now);
        assert_eq!(wakes.rest(&1, now), Some(MINUTE), "seen");
    }

    #[test]
    fn what_came_during_a_pass_and_what_is_due_are_reasons() {
        let (wakes, now) = (Wakes::default(), Instant::now());
        wakes.begin(1, now);
        wakes.news(&1);
        wakes.end(&1, Some(MINUTE), now);
        assert_eq!(wakes.rest(&1, now), None, "it may have come after the read");
        wakes.begin(1, now);
        wakes.end(&1, Some(MINUTE), now);
        assert_eq!(wakes.rest(&1, now + MINUTE), None);
    }

    #[tokio::test]
    async fn what_is_gone_without_a_pass_is_forgotten() {
        let ctx = Arc::new(context(|line, _| unreachable!("{line}")));
        let passes = Passes::<Cluster>::new(1);
        for name in ["acme", "other"] {
            let meta: PartialObjectMeta<Cluster> =
                serde_json::from_value(json!({"metadata": {"name": name, "namespace": "team"}})).unwrap();
            let fails =
                async |_, _, _| Err(IoError { kind: Kindred::Other, what: String::new(), message: String::new() });
            passes.clone().reconcile(Arc::new(meta), ctx.clone(), fails).await.unwrap();
            let expiry = serde_json::from_value(json!("2026-01-01T00:00:00Z")).unwrap();
            ctx.metrics.tenants.say("Cluster", "team", name, &[], Some(&expiry));
        }
        let not_found = ObjectRef::<Cluster>::new("acme").within("team").erase();
        let item: Result<(), _> =
            Err(controller::Error::<Infallible, watcher::Error>::ObjectNotFound(Box::new(not_found)));
        watches::drain(&ctx, &passes, stream::iter([item])).await;
        let remembered = |name: &str| {
            let of = ObjectRef::new(name).within("team");
            let failures = ctx.backoff.failures(&("cluster", "team".to_owned(), name.to_owned()));
            let told = ctx.metrics.text().contains(&format!("name=\"{name}\""));
            (passes.wakes.with(|all| all.contains_key(&of)), failures, told)
        };
        assert_eq!((remembered("acme"), remembered("other")), ((false, 0, false), (true, 1, true)));
    }

    #[test]
    fn what_is_gone_is_forgotten() {
        let (wakes, now) = (Wakes::default(), Instant::now());
        wakes.begin(1, now);
        wakes.end(&1, None, now);
        wakes.news(&1);
        assert_eq!((wakes.rest(&1, now), wakes.with(|all| all.len())), (None, 0));
    }
}
