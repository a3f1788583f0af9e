//! What the world sees: one watch per kind, kept in one map.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use anyhow::{Result, ensure};
use futures::StreamExt as _;
use kube::api::{ApiResource, DynamicObject};
use kube::discovery::{Discovery, Scope, verbs};
use kube::runtime::WatchStreamExt as _;
use kube::runtime::utils::Backoff;
use kube::runtime::watcher::{self, Event};
use kube::{Api, Client, ResourceExt as _};
use tokio::sync::{Notify, watch};
use tokio::task::JoinSet;

/// Between attempts of a watch: tests stop API servers, and wait for the world when they are back.
#[derive(Clone, Debug)]
struct Short;

impl Iterator for Short {
    type Item = Duration;

    fn next(&mut self) -> Option<Duration> {
        Some(Duration::from_millis(500))
    }
}

impl Backoff for Short {
    fn reset(&mut self) {}
}

/// `(kind.group, namespace, name)`.
type Key = (String, String, String);

/// All watched objects by kind, namespace and name.
pub(super) struct Store {
    held: Mutex<Held>,
    changed: Notify,
    kinds: Vec<ApiResource>,
}

/// `Kind.group`, the name of a kind within the store.
pub(super) fn kind_of(resource: &ApiResource) -> String {
    kind_name(&resource.group, &resource.kind)
}

/// Likewise, from the parts.
pub(super) fn kind_name(group: &str, kind: &str) -> String {
    if group.is_empty() { kind.to_owned() } else { format!("{kind}.{group}") }
}

impl Store {
    /// Discovers the kinds and waits until each was listed once.
    pub(super) async fn start(client: &Client, tasks: &mut JoinSet<()>) -> Result<Arc<Self>> {
        let kinds = watched_kinds(client).await?;
        let store = Arc::new(Self { held: Mutex::default(), changed: Notify::new(), kinds: kinds.clone() });
        let (listed, mut count) = watch::channel(0_usize);
        for kind in &kinds {
            tasks.spawn(follow(client.clone(), kind.clone(), store.clone(), listed.clone()));
        }
        let all = count.wait_for(|n| *n >= kinds.len());
        ensure!(tokio::time::timeout(Duration::from_secs(30), all).await.is_ok(), "the world could not list its kinds");
        Ok(store)
    }

    /// Waits for a change since the last call.
    pub(super) async fn changed(&self) {
        self.changed.notified().await;
    }

    /// Makes [`Store::changed`] return.
    pub(super) fn wake(&self) {
        self.changed.notify_one();
    }

    /// How to address a kind of the store.
    pub(super) fn resource(&self, kind: &str) -> Option<&ApiResource> {
        self.kinds.iter().find(|k| kind_of(k) == kind)
    }

    /// All objects of a kind.
    pub(super) fn of_kind(&self, kind: &str) -> Vec<Arc<DynamicObject>> {
        self.lock().objects.iter().filter(|((k, ..), _)| k == kind).map(|(_, o)| o.clone()).collect()
    }

    /// All objects with their kinds.
    pub(super) fn all(&self) -> Vec<(String, Arc<DynamicObject>)> {
        self.lock().objects.iter().map(|((kind, ..), o)| (kind.clone(), o.clone())).collect()
    }

    /// Keeps an object unless a later version of it is there, or its end was seen already.
    pub(super) fn put(&self, kind: &str, object: DynamicObject) {
        self.lock().put(key(kind, &object), object);
    }

    fn remove(&self, kind: &str, object: &DynamicObject) {
        let key = key(kind, object);
        let mut held = self.lock();
        held.gone.extend(object.uid());
        if held.objects.get(&key).is_some_and(|old| old.uid() == object.uid()) {
            held.objects.remove(&key);
        }
    }

    fn replace(&self, kind: &str, listed: Vec<DynamicObject>) {
        let mut held = self.lock();
        held.objects.retain(|(k, ..), _| k != kind);
        for object in listed {
            held.put(key(kind, &object), object);
        }
    }

    fn lock(&self) -> MutexGuard<'_, Held> {
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The map, and the UIDs whose end was seen: the answer to a write may come later than that.
#[derive(Default)]
struct Held {
    objects: BTreeMap<Key, Arc<DynamicObject>>,
    gone: BTreeSet<String>,
}

impl Held {
    fn put(&mut self, key: Key, object: DynamicObject) {
        let ended = object.uid().is_some_and(|uid| self.gone.contains(&uid));
        let newer = self.objects.get(&key).is_none_or(|old| version(old) <= version(&object));
        if newer && !ended {
            self.objects.insert(key, Arc::new(object));
        }
    }
}

fn key(kind: &str, object: &DynamicObject) -> Key {
    (kind.to_owned(), object.namespace().unwrap_or_default(), object.name_any())
}

fn version(object: &DynamicObject) -> u64 {
    object.metadata.resource_version.as_deref().and_then(|v| v.parse().ok()).unwrap_or(0)
}

/// Namespaced kinds that Berth may own, and namespaces. Kinds that others write all the time are left out.
async fn watched_kinds(client: &Client) -> Result<Vec<ApiResource>> {
    let discovery = Discovery::new(client.clone()).run_aggregated().await?;
    let quiet = |kind: &ApiResource| {
        !matches!(&*kind.kind, "Event" | "Lease" | "Endpoints" | "PodTemplate" | "ReplicationController" | "DaemonSet")
    };
    let wanted = |group: &str| {
        matches!(group, "" | "apps" | "batch" | "policy" | "networking.k8s.io" | "rbac.authorization.k8s.io")
            || (group.contains('.') && !group.ends_with(".k8s.io"))
    };
    let groups = discovery.groups().filter(|g| wanted(g.name()));
    let resources = groups.flat_map(kube::discovery::ApiGroup::recommended_resources);
    Ok(resources
        .filter(|(kind, cap)| cap.scope == Scope::Namespaced || kind.kind == "Namespace")
        .filter(|(kind, cap)| {
            quiet(kind) && cap.supports_operation(verbs::WATCH) && cap.supports_operation(verbs::LIST)
        })
        .map(|(kind, _)| kind)
        .collect())
}

async fn follow(client: Client, resource: ApiResource, store: Arc<Store>, listed: watch::Sender<usize>) {
    let kind = kind_of(&resource);
    let api = Api::<DynamicObject>::all_with(client, &resource);
    let mut events = watcher::watcher(api, watcher::Config::default()).backoff(Short).boxed();
    let (mut fresh, mut first) = (Vec::new(), true);
    while let Some(event) = events.next().await {
        match event {
            Ok(Event::Init) => fresh.clear(),
            Ok(Event::InitApply(object)) => fresh.push(object),
            Ok(Event::InitDone) => {
                store.replace(&kind, std::mem::take(&mut fresh));
                if std::mem::take(&mut first) {
                    listed.send_modify(|n| *n += 1);
                }
            }
            Ok(Event::Apply(object)) => store.put(&kind, object),
            Ok(Event::Delete(object)) => store.remove(&kind, &object),
            Err(error) => tracing::debug!(kind, %error, "the world's watch broke"),
        }
        store.wake();
    }
}
