//! Connections that wait for a tenant to wake: so many at most, and of each tenant so many.

use berth_contract::gateway::ClusterName;
use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::sync::Arc;
use tokio::sync::broadcast;

use crate::ended::Ended;
use crate::limits::MostHeld;

/// Tenants that are told of before whoever is told has to look at all.
const NEWS: usize = 256;

/// All of them.
#[derive(Debug)]
pub(crate) struct Held {
    most: MostHeld,
    all: Mutex<BTreeMap<ClusterName, usize>>,
    news: broadcast::Sender<ClusterName>,
}

/// The place of one, until this is dropped.
#[derive(Debug)]
pub(crate) struct Place {
    held: Arc<Held>,
    of: ClusterName,
}

impl Held {
    pub(crate) fn new(most: MostHeld) -> Arc<Self> {
        Arc::new(Self { most, all: Mutex::default(), news: broadcast::Sender::new(NEWS) })
    }

    /// For one more that calls that tenant.
    pub(crate) fn take(self: &Arc<Self>, of: &ClusterName) -> Result<Place, Ended> {
        let mut all = self.all.lock();
        let own = all.get(of).copied().unwrap_or_default();
        if own >= self.most.of_tenant || all.values().sum::<usize>() >= self.most.in_all {
            return Err(Ended::TooManyHeld);
        }
        all.insert(of.clone(), own + 1);
        drop(all);
        if own == 0 {
            // Nobody may listen.
            let _ = self.news.send(of.clone());
        }
        Ok(Place { held: self.clone(), of: of.clone() })
    }

    /// Tenants that are called from now on and were not a moment before.
    pub(crate) fn news(&self) -> broadcast::Receiver<ClusterName> {
        self.news.subscribe()
    }

    /// All that are called now.
    pub(crate) fn called(&self) -> Vec<ClusterName> {
        self.all.lock().keys().cloned().collect()
    }

    /// How many wait.
    pub(crate) fn len(&self) -> usize {
        self.all.lock().values().sum()
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut all = self.held.all.lock();
        if let Some(count) = all.get_mut(&self.of) {
            *count -= 1;
            if *count == 0 {
                all.remove(&self.of);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    fn named(name: &str) -> ClusterName {
        ClusterName { namespace: "team-a".to_owned(), name: name.to_owned() }
    }

    #[test]
    fn no_tenant_takes_the_places_of_another_and_all_together_have_a_bound() {
        let held = Held::new(MostHeld { in_all: 5, of_tenant: 2, how_long: Duration::ZERO });
        let take = |name: &str| held.take(&named(name));
        let mut news = held.news();
        let places: Vec<_> = (0..2).map(|_| take("flood").unwrap()).collect();
        for _ in 0..100 {
            assert_eq!(take("flood").unwrap_err(), Ended::TooManyHeld);
        }
        let (_a, _b, _c) = (take("acme").unwrap(), take("acme").unwrap(), take("other").unwrap());
        assert_eq!((take("other").unwrap_err(), take("last").unwrap_err()), (Ended::TooManyHeld, Ended::TooManyHeld));
        assert_eq!(held.len(), 5);
        drop(places);
        let _again = take("flood").unwrap();
        assert_eq!(held.called(), ["acme", "flood", "other"].map(named));
        let told: Vec<_> = std::iter::from_fn(|| news.try_recv().ok()).map(|of| of.name).collect();
        assert_eq!(told, ["flood", "acme", "other", "flood"], "each once, and again after nobody was there");
    }
}
