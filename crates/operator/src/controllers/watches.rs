//! What triggers reconciles: watches of a controller's own objects and of their children, and what becomes of their errors.

use super::driver::{Controller, Request};
use super::idle::IdleObjects;
use super::report;
use super::status_changes::{StatusWatched, status_changes};
use crate::context::Context;
use crate::metrics::{Orphan, Tenants};
use berth_kubeio::IoError;
use berth_render::ObjectKey;
use futures::{Stream, StreamExt};
use k8s_openapi::api::core::v1::Namespace;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::api::PartialObjectMeta;
use kube::runtime::reflector::{ObjectRef, Store, reflector, store::Writer};
use kube::runtime::watcher::{self, watcher};
use kube::runtime::{Predicate, PredicateConfig, WatchStreamExt, controller, predicates, utils};
use kube::{Api, Client, Resource};
use serde::de::DeserializeOwned;
use std::collections::HashMap;
use std::fmt::Debug;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::pin::pin;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Changes of a controller's own objects that people make, by metadata alone, and the store of all of them.
///
/// They are listed in one page: in a second list, after a watch that was too old, the store takes over only at its end, and a new
/// object whose page came much earlier would be looked up and not found.
pub(super) fn own<C: Controller>(
    client: Client,
) -> (impl Stream<Item = watcher::Result<PartialObjectMeta<C>>> + Send, Store<PartialObjectMeta<C>>) {
    let writer = Writer::<PartialObjectMeta<C>>::default();
    let reader = writer.as_reader();
    let config = watcher::Config { page_size: None, ..watcher::Config::default() };
    let all = watcher(Api::<PartialObjectMeta<C>>::all(client), config);
    let all = reflector(writer, all.modify(|o| shrink(&mut o.metadata)).backoff(Backoff::for_watches()));
    (all.touched_objects().predicate_filter(by_people, PredicateConfig::default()), reader)
}

/// Of annotations only whether they changed is kept: a team may have hundreds of KiB of them on each object.
fn shrink(metadata: &mut ObjectMeta) {
    metadata.managed_fields = None;
    if let Some(annotations) = metadata.annotations.take() {
        let mut hash = DefaultHasher::new();
        annotations.hash(&mut hash);
        metadata.annotations = Some([(String::new(), hash.finish().to_string())].into());
    }
}

/// What people change in an object. Its status is the operator's own, and no reason to reconcile it again.
fn by_people<K: Resource>(object: &K) -> Option<u64> {
    use predicates::{annotations, finalizers, generation, labels};
    generation.combine(annotations).combine(labels).combine(finalizers).hash_property(object)
}

/// A controller to which watches of children are added.
pub(super) struct Watches<C: Controller> {
    controller: kube::runtime::Controller<PartialObjectMeta<C>>,
    client: Client,
    idle_objects: Arc<IdleObjects<C>>,
    objects: Store<PartialObjectMeta<C>>,
    tenants: Arc<Tenants>,
}

impl<C: Controller> Watches<C> {
    pub(super) fn new(
        controller: kube::runtime::Controller<PartialObjectMeta<C>>,
        client: Client,
        idle_objects: Arc<IdleObjects<C>>,
        objects: Store<PartialObjectMeta<C>>,
        tenants: Arc<Tenants>,
    ) -> Self {
        Self { controller, client, idle_objects, objects, tenants }
    }

    /// All changes of namespaces, by metadata alone: of those that are children; and, once one is being deleted, for all objects in it.
    /// Children whose object does not exist are counted.
    pub(super) fn namespaces(mut self) -> Self {
        let all = watcher(Api::<PartialObjectMeta<Namespace>>::all(self.client.clone()), watcher::Config::default());
        let all = all.modify(|o| o.metadata.managed_fields = None).backoff(Backoff::for_watches());
        let writer = Writer::<PartialObjectMeta<Namespace>>::default();
        let (namespaces, owners) = (writer.as_reader(), self.objects.clone());
        self.tenants.orphans_from(move || orphans::<C>(&namespaces.state(), &owners));
        let all = reflector(writer, all);
        let (idle_objects, objects) = (self.idle_objects.clone(), self.objects.clone());
        let concerned = move |namespace: PartialObjectMeta<Namespace>| -> Vec<Request<C>> {
            let ends = namespace.metadata.deletion_timestamp.is_some();
            let inside =
                objects.state().into_iter().filter(|o| ends && o.metadata.namespace == namespace.metadata.name);
            let mut concerned: Vec<Request<C>> = inside.map(|object| ObjectRef::from_obj(&*object)).collect();
            concerned.extend(C::owner(namespace.meta()));
            for object in &concerned {
                idle_objects.invalidate(object);
            }
            concerned
        };
        self.controller = self.controller.watches_stream(all.touched_objects(), concerned);
        self
    }

    /// All changes of a kind of children, by metadata alone; those of a status tell by their resourceVersion.
    pub(super) fn metadata<K>(self) -> Self
    where
        K: Resource<DynamicType = ()> + Clone + DeserializeOwned + Debug + Send + Sync + 'static,
    {
        let api = Api::<PartialObjectMeta<K>>::all(self.client.clone());
        let all = watcher(api, watcher::Config::default().labels(C::CHILDREN));
        let all = all.modify(|o| o.metadata.managed_fields = None).backoff(Backoff::for_watches());
        self.with(all.touched_objects())
    }

    /// Changes of a kind whose status changes many times before it matters: those that matter.
    pub(super) fn status<K: StatusWatched>(self) -> Self {
        let all = watcher(Api::all(self.client.clone()), watcher::Config::default().labels(C::CHILDREN));
        self.with(status_changes::<K>(all.backoff(Backoff::for_watches())))
    }

    pub(super) fn done(self) -> kube::runtime::Controller<PartialObjectMeta<C>> {
        self.controller
    }

    fn with<K>(mut self, children: impl Stream<Item = watcher::Result<K>> + Send + 'static) -> Self
    where
        K: Resource<DynamicType = ()> + Clone + DeserializeOwned + Debug + Send + 'static,
    {
        let idle_objects = self.idle_objects.clone();
        let owner = move |child: K| -> Option<Request<C>> {
            let owner = C::owner(child.meta())?;
            idle_objects.invalidate(&owner);
            Some(owner)
        };
        self.controller = self.controller.watches_stream(children, owner);
        self
    }
}

/// Control-plane namespaces whose object does not exist. One that is ending is on its way out.
fn orphans<C: Controller>(
    namespaces: &[Arc<PartialObjectMeta<Namespace>>],
    objects: &Store<PartialObjectMeta<C>>,
) -> Vec<Orphan> {
    let staying = namespaces.iter().filter(|namespace| namespace.metadata.deletion_timestamp.is_none());
    let orphan = |namespace: &Arc<PartialObjectMeta<Namespace>>| {
        let owner = C::owner(&namespace.metadata).filter(|owner| objects.get(owner).is_none())?;
        Some(Orphan {
            namespace: namespace.metadata.name.clone()?,
            cluster_namespace: owner.namespace.unwrap_or_default(),
            cluster: owner.name,
        })
    };
    staying.filter_map(orphan).collect()
}

/// How long to wait after an error of a watch: doubled each time, from the beginning again once something came.
#[derive(Clone, Debug)]
pub(crate) struct Backoff {
    first: Duration,
    most: Duration,
    next: Duration,
}

impl Backoff {
    /// An API server that is back is to be noticed within seconds.
    pub(crate) fn for_watches() -> Self {
        let first = Duration::from_millis(200);
        Self { first, most: Duration::from_secs(5), next: first }
    }

    /// For a controller: none, since each watch has its own. One for all would add up: while it waits for the error of
    /// one watch, no other is heard, and each one's error would double it.
    pub(super) fn none() -> Self {
        Self { first: Duration::ZERO, most: Duration::ZERO, next: Duration::ZERO }
    }
}

impl Iterator for Backoff {
    type Item = Duration;

    fn next(&mut self) -> Option<Duration> {
        let now = self.next;
        self.next = (now * 2).min(self.most);
        Some(now)
    }
}

impl utils::Backoff for Backoff {
    fn reset(&mut self) {
        self.next = self.first;
    }
}

/// Drains a controller's stream. Errors of reconciles were reported there; those of watches are said here, and what is gone without a
/// reconcile of its own is forgotten. No reconcile of a namesake is harmed: the stream begins none before its item is taken from it.
pub(super) async fn drain<C: Controller, T, E: 'static>(
    ctx: &Context,
    idle_objects: &IdleObjects<C>,
    stream: impl Stream<Item = Result<T, controller::Error<E, watcher::Error>>>,
) {
    let mut recent = RecentWarnings::default();
    let mut stream = pin!(stream);
    while let Some(item) = stream.next().await {
        match item {
            Err(controller::Error::ObjectNotFound(of)) => {
                let namespace = of.namespace.unwrap_or_default();
                idle_objects.invalidate(&ObjectRef::new(&of.name).within(&namespace));
                report::gone(ctx, &ObjectKey::namespaced(C::KIND, &namespace, &of.name));
                ctx.backoff.forget(&(C::NAME, namespace, of.name));
            }
            Err(controller::Error::QueueError(error)) => {
                let error = IoError::from_watch(&error);
                ctx.failed(&error);
                if recent.is_new(&error.to_string(), Instant::now()) {
                    tracing::warn!(
                        controller = C::NAME,
                        %error,
                        "a watch failed: until it is back, changes are noticed late or not at all"
                    );
                }
            }
            _ => {}
        }
    }
}

/// What was logged lately, so that a watch that fails every few seconds fills no log.
#[derive(Debug, Default)]
struct RecentWarnings(HashMap<String, Instant>);

impl RecentWarnings {
    const AGAIN: Duration = Duration::from_mins(1);

    fn is_new(&mut self, text: &str, now: Instant) -> bool {
        self.0.retain(|_, at| now.duration_since(*at) < Self::AGAIN);
        if self.0.contains_key(text) {
            return false;
        }
        self.0.insert(text.to_owned(), now);
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_is_said_once_a_minute() {
        let (mut recent, now) = (RecentWarnings::default(), Instant::now());
        assert!(recent.is_new("a", now) && recent.is_new("b", now) && !recent.is_new("a", now));
        assert!(recent.is_new("a", now + RecentWarnings::AGAIN));
    }
}
