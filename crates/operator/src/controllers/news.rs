//! News of pods and workloads: their status changes many times before it matters to anybody.

use super::pass::Patience;
use berth_kubeio::slim;
use berth_plan::workload;
use berth_render::Kind;
use futures::{Stream, StreamExt};
use k8s_openapi::api::apps::v1::{Deployment, StatefulSet};
use k8s_openapi::api::core::v1::Pod;
use kube::api::ObjectMeta;
use kube::runtime::WatchStreamExt;
use kube::runtime::reflector::ObjectRef;
use kube::runtime::watcher::{self, watcher};
use kube::{Api, Client, Resource};
use serde::de::Error;
use serde::{Deserialize, Deserializer};
use std::borrow::Cow;
use std::collections::HashMap;
use std::fmt::Debug;
use std::marker::PhantomData;

/// A kind whose news are heard.
pub(super) trait Newsworthy: Resource<DynamicType = (), Scope = kube::core::NamespaceResourceScope> {
    const KIND: Kind;
}

impl Newsworthy for Pod {
    const KIND: Kind = Kind::Pod;
}

impl Newsworthy for Deployment {
    const KIND: Kind = Kind::Deployment;
}

impl Newsworthy for StatefulSet {
    const KIND: Kind = Kind::StatefulSet;
}

/// Whose object it is, and what decisions take from it: nothing else is kept.
#[derive(Clone, Debug)]
pub(super) struct News<K> {
    pub(super) metadata: ObjectMeta,
    outlook: u64,
    kind: PhantomData<fn() -> K>,
}

impl<'de, K: Newsworthy> Deserialize<'de> for News<K> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let mut object = slim::read(K::KIND, deserializer)?;
        // Items of a list come without it.
        object["kind"] = K::KIND.name().into();
        let outlook = workload::outlook(&object);
        let metadata = serde_json::from_value(object["metadata"].take()).map_err(D::Error::custom)?;
        Ok(Self { metadata, outlook, kind: PhantomData })
    }
}

impl<K: Newsworthy> Resource for News<K> {
    type DynamicType = ();
    type Scope = K::Scope;

    fn kind((): &()) -> Cow<'_, str> {
        K::kind(&())
    }
    fn group((): &()) -> Cow<'_, str> {
        K::group(&())
    }
    fn version((): &()) -> Cow<'_, str> {
        K::version(&())
    }
    fn plural((): &()) -> Cow<'_, str> {
        K::plural(&())
    }
    fn meta(&self) -> &ObjectMeta {
        &self.metadata
    }
    fn meta_mut(&mut self) -> &mut ObjectMeta {
        &mut self.metadata
    }
}

/// News of all objects of a kind that carry a label.
pub(super) fn news<K>(
    client: Client,
    label: &str,
) -> impl Stream<Item = Result<News<K>, watcher::Error>> + Send + use<K>
where
    K: Newsworthy + Clone + Debug + Send + 'static,
{
    let api = Api::<News<K>>::all(client);
    let stream = watcher(api, watcher::Config::default().labels(label)).backoff(Patience::watch());
    let mut known = HashMap::new();
    stream.filter_map(move |event| std::future::ready(event.map(|e| told(&mut known, e)).transpose()))
}

/// The object of an event, if it is news. After a new list nothing is known.
fn told<K>(known: &mut HashMap<ObjectRef<News<K>>, u64>, event: watcher::Event<News<K>>) -> Option<News<K>>
where
    K: Newsworthy + Clone,
{
    match event {
        watcher::Event::Apply(object) | watcher::Event::InitApply(object) => {
            let before = known.insert(ObjectRef::from_obj(&object), object.outlook);
            (before != Some(object.outlook)).then_some(object)
        }
        watcher::Event::Delete(object) => {
            known.remove(&ObjectRef::from_obj(&object));
            Some(object)
        }
        watcher::Event::Init => {
            known.clear();
            None
        }
        watcher::Event::InitDone => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;
    use watcher::Event;

    fn pod(version: &str, started: Option<&str>) -> News<Pod> {
        let state = started.map_or(json!({}), |at| json!({"running": {"startedAt": at}}));
        let pod = json!({
            "metadata": {"name": "p", "namespace": "n", "resourceVersion": version},
            "status": {"containerStatuses": [{"name": "c", "ready": false, "state": state}]},
        });
        serde_json::from_str(&pod.to_string()).unwrap()
    }

    #[test]
    fn an_update_that_matters_to_nobody_is_no_news() {
        let mut known = HashMap::new();
        let mut heard = |event| told(&mut known, event).is_some();
        let started = Some("2026-01-01T00:00:00Z");
        assert!(heard(Event::Apply(pod("1", None))));
        assert!(!heard(Event::Apply(pod("2", None))));
        assert!(heard(Event::Apply(pod("3", started))));
        assert!(heard(Event::Delete(pod("3", started))));
        assert!(heard(Event::Apply(pod("3", started))));
        assert!(!heard(Event::Init));
        assert!(heard(Event::InitApply(pod("3", started))), "after a new list nothing is known");
    }

    #[test]
    fn an_event_of_a_watch_and_an_item_of_a_list_are_the_same() {
        let of = |text: &str| serde_json::from_str::<News<Deployment>>(text).unwrap().outlook;
        let item = r#"{"metadata": {"name": "d", "generation": 2}, "status": {"availableReplicas": 1}}"#;
        let event = r#"{"kind": "Deployment", "apiVersion": "apps/v1", "metadata": {"name": "d", "generation": 2},
            "status": {"availableReplicas": 1}}"#;
        assert_eq!(of(item), of(event));
    }
}
