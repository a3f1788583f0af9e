//! All objects of one kind as a watch tells of them, by what is read of each.

use k8s_openapi::Metadata;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::runtime::watcher::Event;
use std::collections::BTreeMap;

/// An object's namespace and name.
pub(crate) type Key = (String, String);

/// Facts that have the UID of their object.
pub(crate) trait Identified {
    fn uid(&self) -> &str;
}

impl Identified for crate::facts::ServiceFacts {
    fn uid(&self) -> &str {
        &self.uid
    }
}

impl Identified for crate::facts::SliceFacts {
    fn uid(&self) -> &str {
        &self.uid
    }
}

/// All of them.
#[derive(Clone, Debug)]
pub(crate) struct Kept<F> {
    all: BTreeMap<Key, F>,
    /// While the watch lists what is there: what it listed so far. Until it is done, what was known counts.
    listed: BTreeMap<Key, F>,
    is_complete: bool,
}

impl<F> Default for Kept<F> {
    fn default() -> Self {
        Self { all: BTreeMap::new(), listed: BTreeMap::new(), is_complete: false }
    }
}

impl<F: Identified> Kept<F> {
    /// What the watch tells.
    pub(crate) fn see<K>(&mut self, event: &Event<K>)
    where
        K: Metadata<Ty = ObjectMeta>,
        for<'k> F: From<&'k K>,
    {
        match event {
            Event::Init => self.listed.clear(),
            Event::InitApply(object) => drop(self.listed.insert(key(object), object.into())),
            Event::InitDone => {
                self.all = std::mem::take(&mut self.listed);
                self.is_complete = true;
            }
            Event::Apply(object) => drop(self.all.insert(key(object), object.into())),
            Event::Delete(object) => {
                // One of its name that is there since is another object.
                let (key, gone) = (key(object), F::from(object));
                if self.all.get(&key).is_some_and(|known| known.uid() == gone.uid()) {
                    self.all.remove(&key);
                }
            }
        }
    }

    /// Whether all that is there was listed once.
    pub(crate) fn is_complete(&self) -> bool {
        self.is_complete
    }

    /// What counts now.
    pub(crate) fn all(&self) -> &BTreeMap<Key, F> {
        &self.all
    }
}

fn key<K: Metadata<Ty = ObjectMeta>>(object: &K) -> Key {
    let metadata = object.metadata();
    (metadata.namespace.clone().unwrap_or_default(), metadata.name.clone().unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::facts::ServiceFacts;
    use k8s_openapi::api::core::v1::Service;
    use serde_json::json;

    fn service(name: &str, uid: &str) -> Service {
        serde_json::from_value(json!({"metadata": {"namespace": "n", "name": name, "uid": uid}})).unwrap()
    }

    fn known(kept: &Kept<ServiceFacts>) -> Vec<(&str, &str)> {
        kept.all().iter().map(|((_, name), facts)| (name.as_str(), facts.uid.as_str())).collect()
    }

    #[test]
    fn what_was_known_counts_until_a_list_is_complete() {
        let mut kept = Kept::<ServiceFacts>::default();
        kept.see::<Service>(&Event::Init);
        kept.see(&Event::InitApply(service("a", "1")));
        kept.see(&Event::InitApply(service("b", "2")));
        assert!(!kept.is_complete() && kept.all().is_empty(), "half a list is none");
        kept.see::<Service>(&Event::InitDone);
        assert!(kept.is_complete());
        assert_eq!(known(&kept), [("a", "1"), ("b", "2")]);
        // The watch is away, begins anew, breaks off, and begins again.
        kept.see::<Service>(&Event::Init);
        kept.see(&Event::InitApply(service("z", "9")));
        kept.see::<Service>(&Event::Init);
        kept.see(&Event::InitApply(service("b", "2")));
        assert_eq!(known(&kept), [("a", "1"), ("b", "2")]);
        kept.see::<Service>(&Event::InitDone);
        assert_eq!(known(&kept), [("b", "2")], "what is gone meanwhile, and what never came");
        assert!(kept.is_complete());
    }

    #[test]
    fn a_deletion_that_comes_late_takes_no_new_one_away() {
        let mut kept = Kept::<ServiceFacts>::default();
        kept.see::<Service>(&Event::InitDone);
        kept.see(&Event::Apply(service("a", "1")));
        kept.see(&Event::Apply(service("a", "2")));
        kept.see(&Event::Delete(service("a", "1")));
        assert_eq!(known(&kept), [("a", "2")]);
        kept.see(&Event::Delete(service("a", "2")));
        kept.see(&Event::Delete(service("a", "2")));
        assert!(known(&kept).is_empty());
    }
}
