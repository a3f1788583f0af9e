//! What triggers reconciles: watches of a controller's own objects and of their children, and what becomes of their errors.

use super::driver::{Controller, Request};
use super::idle::IdleObjects;
use super::report;
use super::status_changes::{StatusWatched, status_changes};
use crate::context::Context;
use crate::metrics::{Orphan, Tenants};
use berth_kubeio::IoError;
use berth_plan::Settings;
use berth_render::ObjectKey;
use futures::{Stream, StreamExt, TryStreamExt, stream};
use k8s_openapi::api::core::v1::Namespace;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::api::PartialObjectMeta;
use kube::runtime::reflector::store::Writer;
use kube::runtime::reflector::{ObjectRef, Store, reflector};
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

/// Objects in one answer to a list: whoever may write objects of a kind makes each as large as an API server lets them, and an answer is
/// held as a whole.
const PAGE: u32 = 50;

/// How everything is watched.
fn in_pages() -> watcher::Config {
    watcher::Config::default().page_size(PAGE)
}

/// Changes of a controller's own objects that people make, by metadata alone, and the store of all of them.
pub(super) fn own<C: Controller>(
    client: Client,
) -> (impl Stream<Item = watcher::Result<PartialObjectMeta<C>>> + Send, Store<PartialObjectMeta<C>>) {
    let writer = Writer::<PartialObjectMeta<C>>::default();
    let reader = writer.as_reader();
    let all = watcher(Api::<PartialObjectMeta<C>>::all(client), in_pages());
    let all = reflector(writer, all.modify(|o| shrink(&mut o.metadata)).backoff(Backoff::for_watches()));
    (whole_lists(all).predicate_filter(by_people, PredicateConfig::default()), reader)
}

/// What was touched; of a list once it is whole. In a second one, after a watch that was too old, the store takes over only at its end, and a
/// new object whose page came much earlier would be looked up and not found.
fn whole_lists<K>(
    events: impl Stream<Item = watcher::Result<watcher::Event<K>>>,
) -> impl Stream<Item = watcher::Result<K>> {
    use watcher::Event;
    let ready = |listed: &mut Vec<K>, event: watcher::Result<Event<K>>| {
        let ready = match event {
            Ok(Event::Init) => {
                listed.clear();
                vec![]
            }
            Ok(Event::InitApply(object)) => {
                listed.push(object);
                vec![]
            }
            Ok(Event::InitDone) => std::mem::take(listed).into_iter().map(Ok).collect(),
            Ok(Event::Apply(object) | Event::Delete(object)) => vec![Ok(object)],
            Err(error) => vec![Err(error)],
        };
        std::future::ready(Some(stream::iter(ready)))
    };
    events.scan(vec![], ready).flatten()
}

/// Of what a team may make as large as it likes only whether it changed is kept, and labels of Berth's, which say whose child it is.
fn shrink(metadata: &mut ObjectMeta) {
    (metadata.managed_fields, metadata.owner_references) = (None, None);
    let mut labels = metadata.labels.take().unwrap_or_default();
    let mut hash = DefaultHasher::new();
    (&labels, metadata.annotations.take(), metadata.finalizers.take()).hash(&mut hash);
    labels.retain(|key, _| key.starts_with("berth.dev/"));
    metadata.labels = Some(labels);
    metadata.annotations = Some([(String::new(), hash.finish().to_string())].into());
}

/// What people change in an object. Its status is the operator's own, and no reason to reconcile it again.
fn by_people<K: Resource>(object: &K) -> Option<u64> {
    use predicates::{annotations, finalizers, generation, labels};
    generation.combine(annotations).combine(labels).combine(finalizers).hash_property(object)
}

/// Objects that people changed, and those that are gone.
fn changed_or_gone<K: Resource + 'static>(
    events: impl Stream<Item = watcher::Result<watcher::Event<K>>>,
) -> impl Stream<Item = watcher::Result<K>> {
    let marked = events.map_ok(|event| match event {
        watcher::Event::Delete(mut object) => {
            // Else it looks as it did before it was gone, and nobody would hear of that.
            object.meta_mut().generation = None;
            watcher::Event::Delete(object)
        }
        event => event,
    });
    marked.touched_objects().predicate_filter(by_people, PredicateConfig::default())
}

/// A controller to which watches of children are added.
pub(super) struct Watches<C: Controller> {
    pub(super) controller: kube::runtime::Controller<PartialObjectMeta<C>>,
    pub(super) client: Client,
    pub(super) idle_objects: Arc<IdleObjects<C>>,
    pub(super) objects: Store<PartialObjectMeta<C>>,
    pub(super) tenants: Arc<Tenants>,
    pub(super) settings: Arc<Settings>,
}

impl<C: Controller> Watches<C> {
    /// All changes of namespaces, by metadata alone: of those that are children; and, once one is being deleted, for all objects in it.
    /// Children whose object does not exist are counted.
    pub(super) fn namespaces(mut self) -> Self {
        let all = watcher(Api::<PartialObjectMeta<Namespace>>::all(self.client.clone()), in_pages());
        let all = all.modify(|o| shrink(&mut o.metadata)).backoff(Backoff::for_watches());
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

    /// What people change in objects of a kind of which a controller's own objects mean some: all that mean it are reconciled.
    pub(super) fn on<K>(self, means: impl Fn(&ObjectMeta, &ObjectMeta) -> bool + Send + Sync + 'static) -> Self
    where
        K: Resource<DynamicType = ()> + Clone + DeserializeOwned + Debug + Send + Sync + 'static,
    {
        let all = watcher(Api::<PartialObjectMeta<K>>::all(self.client.clone()), in_pages());
        let all = all.modify(|o| o.metadata.managed_fields = None).backoff(Backoff::for_watches());
        self.meant(changed_or_gone(all), means)
    }

    /// Likewise, what matters of a kind of which much does not.
    pub(super) fn on_status<K: StatusWatched>(
        self,
        means: impl Fn(&ObjectMeta, &ObjectMeta) -> bool + Send + Sync + 'static,
    ) -> Self {
        let all = watcher(Api::all(self.client.clone()), in_pages());
        self.meant(status_changes::<K>(all.backoff(Backoff::for_watches())), means)
    }

    fn meant<K>(
        mut self,
        others: impl Stream<Item = watcher::Result<K>> + Send + 'static,
        means: impl Fn(&ObjectMeta, &ObjectMeta) -> bool + Send + Sync + 'static,
    ) -> Self
    where
        K: Resource<DynamicType = ()> + Clone + DeserializeOwned + Debug + Send + 'static,
    {
        let (idle_objects, objects) = (self.idle_objects.clone(), self.objects.clone());
        let concerned = move |other: K| -> Vec<Request<C>> {
            let all = objects.state().into_iter().filter(|own| means(&own.metadata, other.meta()));
            let concerned: Vec<Request<C>> = all.map(|object| ObjectRef::from_obj(&*object)).collect();
            for object in &concerned {
                idle_objects.invalidate(object);
            }
            concerned
        };
        self.controller = self.controller.watches_stream(others, concerned);
        self
    }

    /// All changes of a kind of children, by metadata alone; those of a status tell by their resourceVersion.
    pub(super) fn metadata<K>(self) -> Self
    where
        K: Resource<DynamicType = ()> + Clone + DeserializeOwned + Debug + Send + Sync + 'static,
    {
        let api = Api::<PartialObjectMeta<K>>::all(self.client.clone());
        let all = watcher(api, in_pages().labels(C::CHILDREN));
        let all = all.modify(|o| o.metadata.managed_fields = None).backoff(Backoff::for_watches());
        self.with(all.touched_objects())
    }

    /// As [`Watches::metadata`], of a kind that the API server may not have. Until it has it, nothing is said: plans say so.
    pub(super) fn optional<K>(self) -> Self
    where
        K: Resource<DynamicType = ()> + Clone + DeserializeOwned + Debug + Send + Sync + 'static,
    {
        let api = Api::<PartialObjectMeta<K>>::all(self.client.clone());
        let all = watcher(api, in_pages().labels(C::CHILDREN));
        let all = all.modify(|o| o.metadata.managed_fields = None).backoff(Backoff::for_a_kind_to_come());
        self.with(all.touched_objects().filter(|event| std::future::ready(!is_not_there(event))))
    }

    /// Changes of a kind whose status changes many times before it matters: those that matter.
    pub(super) fn status<K: StatusWatched>(self) -> Self {
        let all = watcher(Api::all(self.client.clone()), in_pages().labels(C::CHILDREN));
        self.with(status_changes::<K>(all.backoff(Backoff::for_watches())))
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

/// The API server does not have the kind.
fn is_not_there<K>(event: &watcher::Result<K>) -> bool {
    let Err(watcher::Error::InitialListFailed(error) | watcher::Error::WatchStartFailed(error)) = event else {
        return false;
    };
    matches!(error, kube::Error::Api(status) if status.code == 404)
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

    /// A kind that comes is nothing to hurry for, and one that does not costs a call each time.
    fn for_a_kind_to_come() -> Self {
        Self { most: Duration::from_secs(30), ..Self::for_watches() }
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
                let key = ObjectKey::namespaced(C::KIND, of.namespace.unwrap_or_default(), of.name);
                idle_objects
                    .invalidate(&ObjectRef::new(&key.name).within(key.namespace.as_deref().unwrap_or_default()));
                report::gone(ctx, &key);
                ctx.backoff.forget(&key);
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
    use berth_api::Cluster;
    use http::{Request, Response};
    use kube::client::Body;
    use serde_json::json;
    use std::convert::Infallible;
    use std::sync::Mutex;
    use watcher::Event;

    /// What was asked for: `limit`, and the form.
    type Asked = Arc<Mutex<Vec<(String, String)>>>;

    /// An API server with so many `Cluster`s, each with 250 KiB of annotations, labels and finalizers, and what it was asked for.
    fn with_clusters(count: usize) -> (Client, Asked) {
        let asked = Arc::new(Mutex::new(vec![]));
        let seen = asked.clone();
        let service = tower::service_fn(move |request: Request<Body>| {
            let query = request.uri().query().unwrap_or_default().to_owned();
            let value = |key: &str| {
                let mut pairs = query.split('&').filter_map(|pair| pair.split_once('='));
                pairs.find(|(name, _)| *name == key).map(|(_, value)| value.to_owned())
            };
            let watches = value("watch").is_some();
            let limit = value("limit").unwrap_or_default();
            let from: usize = value("continue").and_then(|token| token.parse().ok()).unwrap_or_default();
            let to = count.min(from + limit.parse().unwrap_or(count));
            if !watches {
                let form = request.headers()["accept"].to_str().unwrap().to_owned();
                seen.lock().unwrap().push((limit, form));
            }
            let one = |n: usize| {
                json!({"metadata": {"name": format!("c{n}"), "namespace": "team", "resourceVersion": "7",
                "annotations": {"large": "x".repeat(250 << 10)}, "labels": {"large": "x".repeat(250 << 10)},
                    "finalizers": ["x".repeat(250 << 10)]}})
            };
            let next = if to < count { to.to_string() } else { String::new() };
            async move {
                if watches {
                    std::future::pending::<()>().await;
                }
                let list = json!({
                    "apiVersion": "meta.k8s.io/v1", "kind": "PartialObjectMetadataList",
                    "metadata": {"resourceVersion": "7", "continue": next}, "items": (from..to).map(one).collect::<Vec<_>>(),
                });
                Ok::<_, Infallible>(Response::new(Body::from(list.to_string().into_bytes())))
            }
        });
        (Client::new(service, "default"), asked)
    }

    #[tokio::test]
    async fn all_are_listed_in_pages_by_metadata_alone_and_little_of_it_is_kept() {
        let (client, asked) = with_clusters(120);
        let (stream, store) = own::<Cluster>(client);
        let told: Vec<_> = stream.take(120).map(|told| told.unwrap().metadata.name.unwrap()).collect().await;
        assert_eq!((told.len(), &*told[0], &*told[119]), (120, "c0", "c119"));
        for (limit, form) in asked.lock().unwrap().iter() {
            assert!(limit == "50" && form.contains("as=PartialObjectMetadataList"), "{limit} {form}");
        }
        assert_eq!((asked.lock().unwrap().len(), store.len()), (3, 120));
        let kept = serde_json::to_string(&store.state().iter().map(|o| &o.metadata).collect::<Vec<_>>()).unwrap();
        assert!(kept.len() < 120 * 200, "{}", kept.len());
    }

    #[test]
    fn a_change_of_what_is_not_kept_is_seen() {
        let object = |field: &str, value: &str| {
            let mut metadata =
                json!({"name": "c", "namespace": "team", "generation": 1, "labels": {"berth.dev/wave": "5"}});
            metadata[field] = if field == "finalizers" { json!([value]) } else { json!({"example.com/a": value}) };
            let mut object: PartialObjectMeta<Cluster> = serde_json::from_value(json!({"metadata": metadata})).unwrap();
            shrink(&mut object.metadata);
            object
        };
        for field in ["labels", "annotations", "finalizers"] {
            assert_ne!(by_people(&object(field, "b")), by_people(&object(field, "c")), "{field}");
            assert_eq!(by_people(&object(field, "b")), by_people(&object(field, "b")), "{field}");
        }
        assert_eq!(object("annotations", "b").metadata.labels.unwrap()["berth.dev/wave"], "5");
    }

    #[tokio::test]
    async fn what_is_gone_is_told_though_nothing_of_it_changed() {
        let metadata = json!({"name": "c", "namespace": "team", "uid": "u", "generation": 1, "resourceVersion": "1"});
        let object: PartialObjectMeta<Cluster> = serde_json::from_value(json!({"metadata": metadata})).unwrap();
        let events = [Event::Apply(object.clone()), Event::Apply(object.clone()), Event::Delete(object)];
        let told: Vec<_> = changed_or_gone(stream::iter(events.map(Ok))).collect().await;
        assert_eq!(told.len(), 2, "{told:?}");
    }

    #[tokio::test]
    async fn of_a_list_nothing_is_told_before_the_store_has_all_of_it() {
        let listed = |names: [&'static str; 2]| {
            [Event::Init].into_iter().chain(names.map(Event::InitApply)).chain([Event::InitDone]).map(Ok)
        };
        let broken = [Ok(Event::Init), Ok(Event::InitApply("x")), Err(watcher::Error::NoResourceVersion)];
        let events = listed(["a", "b"]).chain([Ok(Event::Apply("c"))]).chain(broken).chain(listed(["d", "e"]));
        // How many events were taken in when each object was told.
        let taken = std::cell::Cell::new(0);
        let counted = stream::iter(events.inspect(|_| taken.set(taken.get() + 1)));
        let told: Vec<_> = whole_lists(counted).map(|told| (told.ok(), taken.get())).collect().await;
        assert_eq!(told, [(Some("a"), 4), (Some("b"), 4), (Some("c"), 5), (None, 8), (Some("d"), 12), (Some("e"), 12)]);
    }

    #[test]
    fn the_same_is_said_once_a_minute() {
        let (mut recent, now) = (RecentWarnings::default(), Instant::now());
        assert!(recent.is_new("a", now) && recent.is_new("b", now) && !recent.is_new("a", now));
        assert!(recent.is_new("a", now + RecentWarnings::AGAIN));
    }
}
