//! What is remembered of objects at rest, so that looking at one to which nothing happened costs next to nothing.
//!
//! A reconcile that found nothing to write and nothing to say leaves a *look* behind: what no watch tells, and what it was. As long as
//! no watch has announced anything since, only that is asked. The same answers mean the same plan and the same status, since both are
//! pure functions. So memory saves work and decides nothing: whatever differs or cannot be asked, and a quarter of an hour, lead to a
//! reconcile that reads everything.

use super::driver::{Controller, Trigger};
use berth_plan::MetaCluster;
use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// When everything is read again: drift of what no look sees is found by then, such as of the published kubeconfig.
const EVERYTHING: Duration = Duration::from_mins(13);

/// How much later that is for some, in seconds, so that those which were created together are not all due together.
const SPREAD: u64 = 120;

/// An object at rest.
pub(super) struct Rest<L> {
    pub(super) look: L,
    /// How often it is looked at.
    pub(super) every: Duration,
    /// When everything is to be read.
    until: Instant,
    meta: Arc<MetaCluster>,
}

impl<L> Rest<L> {
    /// `due`: when time alone makes another plan.
    pub(super) fn new(
        look: L,
        of: &impl Hash,
        every: Duration,
        due: Option<Duration>,
        meta: &Arc<MetaCluster>,
    ) -> Self {
        let mut state = DefaultHasher::new();
        of.hash(&mut state);
        let longest = EVERYTHING + Duration::from_secs(state.finish() % SPREAD);
        let until = Instant::now() + due.map_or(longest, |due| due.min(longest));
        Self { look, every, until, meta: meta.clone() }
    }
}

/// All objects of a controller at rest.
pub(super) struct Rests<C: Controller>(Mutex<HashMap<Trigger<C>, State<C::Look>>>);

enum State<L> {
    /// A reconcile is under way, and nothing was announced since it began.
    Reconciling,
    AtRest(Arc<Rest<L>>),
}

impl<C: Controller> Default for Rests<C> {
    fn default() -> Self {
        Self(Mutex::default())
    }
}

impl<C: Controller> Rests<C> {
    fn with<T>(&self, f: impl FnOnce(&mut HashMap<Trigger<C>, State<C::Look>>) -> T) -> T {
        f(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Something happened to it, or to a child of it; or it is gone.
    pub(super) fn disturb(&self, of: &Trigger<C>) {
        self.with(|all| drop(all.remove(of)));
    }

    /// What to look at, if it is at rest and the meta cluster is as it was.
    pub(super) fn at_rest(&self, of: &Trigger<C>, meta: &Arc<MetaCluster>) -> Option<Arc<Rest<C::Look>>> {
        self.with(|all| match all.get(of) {
            Some(State::AtRest(rest)) if Arc::ptr_eq(&rest.meta, meta) && Instant::now() < rest.until => {
                Some(rest.clone())
            }
            _ => None,
        })
    }

    /// A reconcile begins to read.
    pub(super) fn begin(&self, of: &Trigger<C>) {
        self.with(|all| drop(all.insert(of.clone(), State::Reconciling)));
    }

    /// It found nothing to do. What was announced since it began counts more.
    pub(super) fn settle(&self, of: &Trigger<C>, rest: Rest<C::Look>) {
        self.with(|all| {
            if let Some(state @ State::Reconciling) = all.get_mut(of) {
                *state = State::AtRest(Arc::new(rest));
            }
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::controllers::etcd_cluster::Look;
    use berth_api::EtcdCluster;
    use kube::runtime::reflector::ObjectRef;

    const MINUTE: Duration = Duration::from_mins(1);

    fn rest(due: Option<Duration>, meta: &Arc<MetaCluster>) -> Rest<Look> {
        Rest::new(Look::of_nothing(), &"etcd", MINUTE, due, meta)
    }

    #[test]
    fn what_is_announced_while_it_is_reconciled_or_at_rest_counts_more_than_memory() {
        let (rests, meta) = (Rests::<EtcdCluster>::default(), Arc::default());
        let of = ObjectRef::new("etcd").within("acme");
        let at_rest = || rests.at_rest(&of, &meta).is_some();
        rests.settle(&of, rest(None, &meta));
        assert!(!at_rest(), "no reconcile began");
        rests.begin(&of);
        assert!(!at_rest());
        rests.settle(&of, rest(None, &meta));
        assert!(at_rest());
        rests.disturb(&of);
        assert!(!at_rest());
        rests.begin(&of);
        rests.disturb(&of);
        rests.settle(&of, rest(None, &meta));
        assert!(!at_rest(), "it may have been announced after it was read");
        assert!(rests.with(|all| all.is_empty()), "what is gone is forgotten");
    }

    #[test]
    fn everything_is_read_when_it_is_due_and_where_the_meta_cluster_is_another() {
        let (rests, meta) = (Rests::<EtcdCluster>::default(), Arc::default());
        let of = ObjectRef::new("etcd").within("acme");
        rests.begin(&of);
        rests.settle(&of, rest(Some(Duration::ZERO), &meta));
        assert!(rests.at_rest(&of, &meta).is_none());
        rests.begin(&of);
        rests.settle(&of, rest(Some(MINUTE), &meta));
        assert!(rests.at_rest(&of, &meta).is_some());
        assert!(rests.at_rest(&of, &Arc::default()).is_none());
        let longest = rest(None, &meta).until - Instant::now();
        assert!(longest <= Duration::from_mins(15) && longest > Duration::from_mins(12), "{longest:?}");
    }
}
