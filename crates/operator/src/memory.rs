//! What was found in tenants a moment ago. It says what to look at again, and since when something is so; a new operator looks anew.

use jiff::{SignedDuration, Timestamp};
use kube::Resource;
use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::sync::Arc;

/// What nobody has renewed for so long is of a `Cluster` that is gone.
const FORGOTTEN: SignedDuration = SignedDuration::from_hours(1);

/// By the UIDs of objects, with when it was found.
#[derive(Debug)]
pub struct Memory<T>(Mutex<BTreeMap<String, (Timestamp, Arc<T>)>>);

impl<T> Default for Memory<T> {
    fn default() -> Self {
        Self(Mutex::default())
    }
}

impl<T> Memory<T> {
    /// What was found last.
    pub(crate) fn get(&self, of: &str) -> Option<Arc<T>> {
        self.0.lock().get(of).map(|(_, found)| found.clone())
    }

    /// It is over.
    pub(crate) fn forget(&self, of: &str) {
        self.0.lock().remove(of);
    }

    /// Keeps it.
    pub(crate) fn put(&self, of: &str, found: Arc<T>, now: Timestamp) {
        let mut all = self.0.lock();
        all.retain(|_, (at, _)| now.duration_since(*at).abs() < FORGOTTEN);
        all.insert(of.to_owned(), (now, found));
    }
}

impl Memory<Vec<String>> {
    /// Keeps what is told of an object now; returns what of it was not told before.
    pub(crate) fn news(&self, of: &str, told: &[String], now: Timestamp) -> Vec<String> {
        let before = self.get(of).unwrap_or_default();
        if told.is_empty() {
            self.forget(of);
        } else {
            self.put(of, Arc::new(told.to_vec()), now);
        }
        told.iter().filter(|one| !before.contains(one)).cloned().collect()
    }
}

/// By what it is remembered.
pub(crate) fn uid(of: &impl Resource) -> &str {
    of.meta().uid.as_deref().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_renewed_is_forgotten() {
        let (memory, now) = (Memory::default(), Timestamp::UNIX_EPOCH);
        memory.put("a", Arc::new(1), now);
        memory.put("b", Arc::new(2), now + SignedDuration::from_mins(59));
        assert_eq!((memory.get("a").as_deref(), memory.get("b").as_deref()), (Some(&1), Some(&2)));
        memory.put("b", Arc::new(3), now + SignedDuration::from_mins(61));
        assert_eq!((memory.get("a"), memory.get("b").as_deref()), (None, Some(&3)));
    }

    #[test]
    fn what_was_told_is_told_again_only_after_it_was_over() {
        let (memory, now) = (Memory::default(), Timestamp::UNIX_EPOCH);
        let said = |all: &[&str]| {
            let all: Vec<String> = all.iter().map(|&one| one.to_owned()).collect();
            memory.news("a", &all, now)
        };
        assert_eq!(said(&["node n1 is full"]), ["node n1 is full"]);
        assert_eq!(said(&["node n1 is full", "node n2 is away"]), ["node n2 is away"]);
        assert_eq!(said(&[]), [""; 0]);
        assert_eq!(said(&["node n1 is full"]), ["node n1 is full"]);
    }
}
