//! What was found in tenants that matters to their next minor, so that an idle one is looked into once an hour.
//!
//! It may hold a change back for a moment longer than need be. What lets one begin is not older than a minute.

use crate::memory::uid;
use berth_api::Cluster;
use berth_plan::asked::{Facts, Look};
use jiff::{SignedDuration, Timestamp};
use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::sync::Arc;

/// By the UIDs of `Cluster`s.
#[derive(Debug)]
pub struct Looks {
    all: Mutex<BTreeMap<String, Arc<Facts>>>,
    /// How old they may be while nobody asks for the next minor.
    rest: SignedDuration,
    /// How old they may be where it begins, or is held back by what was found.
    soon: SignedDuration,
}

impl Default for Looks {
    fn default() -> Self {
        // A reconcile that reads everything comes each quarter of an hour.
        Self::every(SignedDuration::from_mins(50), SignedDuration::from_secs(55))
    }
}

impl Looks {
    /// They are renewed where they are older: `rest` while nobody asks for the next minor, `soon` where it begins or is held back.
    pub fn every(rest: SignedDuration, soon: SignedDuration) -> Self {
        Self { all: Mutex::default(), rest, soon }
    }

    /// What was found last.
    pub(crate) fn get(&self, of: &Cluster) -> Look {
        let uid = uid(of);
        self.all.lock().get(uid).cloned().map_or(Look::NotYet, Look::Taken)
    }

    /// Keeps it. What nobody has renewed for long is of a `Cluster` that is gone.
    pub(crate) fn put(&self, of: &Cluster, facts: Arc<Facts>) {
        let forgotten = facts.at.checked_sub(SignedDuration::from_hours(6)).unwrap_or(Timestamp::MIN);
        let mut all = self.all.lock();
        all.retain(|_, facts| facts.at > forgotten);
        all.insert(of.metadata.uid.clone().unwrap_or_default(), facts);
    }

    /// Whether that is new enough. `begins`: a change depends on it.
    pub(crate) fn is_fresh(&self, look: &Look, begins: bool, now: Timestamp) -> bool {
        let Look::Taken(facts) = look else { return false };
        // Of a clock that was set back, too.
        now.duration_since(facts.at).abs() < if begins { self.soon } else { self.rest }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_renewed_by_the_hour_and_by_the_minute_where_a_change_depends_on_it() {
        let looks = Looks::default();
        let at: Timestamp = "2026-01-01T00:00:00Z".parse().unwrap();
        let facts = Facts { at, servers: BTreeMap::new(), services_down: Ok(BTreeMap::new()), admission: Ok(()) };
        let cluster: Cluster = serde_json::from_value(serde_json::json!({
            "apiVersion": "berth.dev/v1alpha1", "kind": "Cluster", "metadata": {"name": "a", "uid": "u"}, "spec": {"version": "1.36.3"},
        }))
        .unwrap();
        assert_eq!(looks.get(&cluster), Look::NotYet);
        looks.put(&cluster, facts.into());
        let look = looks.get(&cluster);
        for (minutes, begins, fresh) in
            [(0, true, true), (1, true, false), (1, false, true), (51, false, false), (-51, false, false)]
        {
            assert_eq!(looks.is_fresh(&look, begins, at + SignedDuration::from_mins(minutes)), fresh, "{minutes}");
        }
        assert!(!looks.is_fresh(&Look::NotYet, false, at));
    }
}
