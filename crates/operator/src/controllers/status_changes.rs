//! Changes of pods, workloads and apps: their status changes many times before it matters to anybody.

use berth_api::{App, AppInstallation};
use berth_kubeio::slim;
use berth_plan::{apps, workload};
use berth_render::Kind;
use futures::{Stream, StreamExt};
use k8s_openapi::api::apps::v1::{Deployment, StatefulSet};
use k8s_openapi::api::core::v1::Pod;
use kube::Resource;
use kube::api::ObjectMeta;
use kube::runtime::reflector::ObjectRef;
use kube::runtime::watcher;
use serde::de::Error;
use serde::{Deserialize, Deserializer};
use serde_json::Value;
use std::borrow::Cow;
use std::collections::HashMap;
use std::fmt::Debug;
use std::marker::PhantomData;

/// A kind that is watched so.
pub(super) trait StatusWatched:
    Resource<DynamicType = (), Scope = kube::core::NamespaceResourceScope> + Clone + Debug + Send + 'static
{
    const KIND: Kind;

    /// What decisions take from one, as one number. [`apps::NOTHING`]: nothing, so that it is not told of.
    fn fingerprint(object: &Value) -> u64 {
        workload::fingerprint(object)
    }
}

impl StatusWatched for Pod {
    const KIND: Kind = Kind::Pod;
}

impl StatusWatched for Deployment {
    const KIND: Kind = Kind::Deployment;
}

impl StatusWatched for StatefulSet {
    const KIND: Kind = Kind::StatefulSet;
}

impl StatusWatched for App {
    const KIND: Kind = Kind::App;

    fn fingerprint(object: &Value) -> u64 {
        apps::fingerprint(object)
    }
}

impl StatusWatched for AppInstallation {
    const KIND: Kind = Kind::AppInstallation;

    fn fingerprint(object: &Value) -> u64 {
        apps::fingerprint(object)
    }
}

/// Whose object it is, and what decisions take from it: nothing else is kept.
#[derive(Clone, Debug)]
pub(super) struct Digest<K> {
    pub(super) metadata: ObjectMeta,
    fingerprint: u64,
    kind: PhantomData<fn() -> K>,
}

impl<'de, K: StatusWatched> Deserialize<'de> for Digest<K> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let mut object = slim::read(K::KIND, deserializer)?;
        // Items of a list come without it.
        object["kind"] = K::KIND.name().into();
        let fingerprint = K::fingerprint(&object);
        let metadata = serde_json::from_value(object["metadata"].take()).map_err(D::Error::custom)?;
        Ok(Self { metadata, fingerprint, kind: PhantomData })
    }
}

impl<K: StatusWatched> Resource for Digest<K> {
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

/// Of the events of a watch, the objects whose fingerprint is another than before, and those that are gone.
pub(super) fn status_changes<K: StatusWatched>(
    events: impl Stream<Item = watcher::Result<watcher::Event<Digest<K>>>> + Send,
) -> impl Stream<Item = watcher::Result<Digest<K>>> + Send {
    let mut known = HashMap::new();
    events.filter_map(move |event| std::future::ready(event.map(|e| changed(&mut known, e)).transpose()))
}

/// The object of an event, if it matters. After a new list nothing is known.
fn changed<K: StatusWatched>(
    known: &mut HashMap<ObjectRef<Digest<K>>, u64>,
    event: watcher::Event<Digest<K>>,
) -> Option<Digest<K>> {
    match event {
        watcher::Event::Apply(object) | watcher::Event::InitApply(object) => {
            let before = known.insert(ObjectRef::from_obj(&object), object.fingerprint);
            (before.unwrap_or(apps::NOTHING) != object.fingerprint).then_some(object)
        }
        watcher::Event::Delete(object) => {
            let before = known.remove(&ObjectRef::from_obj(&object));
            (before != Some(apps::NOTHING)).then_some(object)
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

    fn pod(version: &str, started: Option<&str>) -> Digest<Pod> {
        let state = started.map_or(json!({}), |at| json!({"running": {"startedAt": at}}));
        let pod = json!({
            "metadata": {"name": "p", "namespace": "n", "resourceVersion": version},
            "status": {"containerStatuses": [{"name": "c", "ready": false, "state": state}]},
        });
        serde_json::from_str(&pod.to_string()).unwrap()
    }

    #[test]
    fn an_update_that_matters_to_nobody_is_left_out() {
        let mut known = HashMap::new();
        let mut heard = |event| changed(&mut known, event).is_some();
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
    fn of_an_app_that_nobody_has_to_have_nothing_is_told() {
        let mut known = HashMap::new();
        let mut heard = |event| changed(&mut known, event).is_some();
        let app = |generation: i64, required: bool| -> Digest<App> {
            let app = json!({
                "metadata": {"name": "a", "namespace": "n", "generation": generation}, "spec": {"required": required},
            });
            serde_json::from_str(&app.to_string()).unwrap()
        };
        assert!(!heard(Event::Apply(app(1, false))) && !heard(Event::Apply(app(2, false))));
        assert!(heard(Event::Apply(app(3, true))) && heard(Event::Apply(app(4, true))));
        assert!(heard(Event::Apply(app(5, false))), "it no longer counts");
        assert!(!heard(Event::Delete(app(5, false))));
        assert!(heard(Event::Apply(app(1, true))) && heard(Event::Delete(app(1, true))));
    }

    #[test]
    fn an_event_of_a_watch_and_an_item_of_a_list_are_the_same() {
        let of = |text: &str| serde_json::from_str::<Digest<Deployment>>(text).unwrap().fingerprint;
        let item = r#"{"metadata": {"name": "d", "generation": 2}, "status": {"availableReplicas": 1}}"#;
        let event = r#"{"kind": "Deployment", "apiVersion": "apps/v1", "metadata": {"name": "d", "generation": 2},
            "status": {"availableReplicas": 1}}"#;
        assert_eq!(of(item), of(event));
    }
}
