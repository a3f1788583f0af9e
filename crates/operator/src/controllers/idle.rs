//! What is remembered of idle objects, so that one to which nothing happened costs next to nothing.
//!
//! A reconcile that found nothing to write and nothing to say leaves a check behind: what no watch reports, and what it was. As long as
//! no watch has announced anything since, only that is asked. The same answers mean the same plan and the same status, since both are
//! pure functions. So memory saves work and decides nothing: whatever differs or cannot be asked, and a quarter of an hour, lead to a
//! reconcile that reads everything.

use super::driver::{Controller, Request};
use berth_plan::MetaCluster;
use parking_lot::Mutex;
use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// When everything is read again: drift that no check sees is found by then, such as of the published kubeconfig.
const EVERYTHING: Duration = Duration::from_mins(13);

/// How much later that is for some, in seconds, so that those which were created together are not all due together.
const SPREAD: u64 = 120;

/// An idle object.
pub(super) struct Idle<L> {
    pub(super) check: L,
    /// How often it is checked.
    pub(super) every: Duration,
    /// When everything is to be read.
    until: Instant,
    meta: Arc<MetaCluster>,
}

impl<L> Idle<L> {
    /// `due`: when time alone changes the plan.
    pub(super) fn new(
        check: L,
        of: &impl Hash,
        every: Duration,
        due: Option<Duration>,
        meta: &Arc<MetaCluster>,
    ) -> Self {
        let mut state = DefaultHasher::new();
        of.hash(&mut state);
        let longest = EVERYTHING + Duration::from_secs(state.finish() % SPREAD);
        let until = Instant::now() + due.map_or(longest, |due| due.min(longest));
        Self { check, every, until, meta: meta.clone() }
    }
}

/// All idle objects of a controller.
pub(super) struct IdleObjects<C: Controller>(Mutex<HashMap<Request<C>, State<C::IdleCheck>>>);

enum State<L> {
    /// A reconcile is under way, and nothing was announced since it began.
    Reconciling,
    Idle(Arc<Idle<L>>),
}

impl<C: Controller> Default for IdleObjects<C> {
    fn default() -> Self {
        Self(Mutex::default())
    }
}

impl<C: Controller> IdleObjects<C> {
    /// Something happened to it, or to a child of it; or it is gone.
    pub(super) fn invalidate(&self, of: &Request<C>) {
        self.0.lock().remove(of);
    }

    /// The object, if it is idle and the meta cluster is as it was.
    pub(super) fn get(&self, of: &Request<C>, meta: &Arc<MetaCluster>) -> Option<Arc<Idle<C::IdleCheck>>> {
        match self.0.lock().get(of) {
            Some(State::Idle(idle)) if Arc::ptr_eq(&idle.meta, meta) && Instant::now() < idle.until => {
                Some(idle.clone())
            }
            _ => None,
        }
    }

    /// A reconcile begins to read.
    pub(super) fn begin(&self, of: &Request<C>) {
        self.0.lock().insert(of.clone(), State::Reconciling);
    }

    /// It found nothing to do. Ignored if an event came since `begin`.
    pub(super) fn set_idle(&self, of: &Request<C>, idle: Idle<C::IdleCheck>) {
        if let Some(state @ State::Reconciling) = self.0.lock().get_mut(of) {
            *state = State::Idle(Arc::new(idle));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::controllers::etcd_cluster::IdleCheck;
    use berth_api::EtcdCluster;
    use kube::runtime::reflector::ObjectRef;

    const MINUTE: Duration = Duration::from_mins(1);

    fn idle(due: Option<Duration>, meta: &Arc<MetaCluster>) -> Idle<IdleCheck> {
        Idle::new(IdleCheck::of_nothing(), &"etcd", MINUTE, due, meta)
    }

    #[test]
    fn what_is_announced_while_it_is_reconciled_or_at_rest_counts_more_than_memory() {
        let (idle_objects, meta) = (IdleObjects::<EtcdCluster>::default(), Arc::default());
        let of = ObjectRef::new("etcd").within("acme");
        let is_idle = || idle_objects.get(&of, &meta).is_some();
        idle_objects.set_idle(&of, idle(None, &meta));
        assert!(!is_idle(), "no reconcile began");
        idle_objects.begin(&of);
        assert!(!is_idle());
        idle_objects.set_idle(&of, idle(None, &meta));
        assert!(is_idle());
        idle_objects.invalidate(&of);
        assert!(!is_idle());
        idle_objects.begin(&of);
        idle_objects.invalidate(&of);
        idle_objects.set_idle(&of, idle(None, &meta));
        assert!(!is_idle(), "it may have been announced after it was read");
        assert!(idle_objects.0.lock().is_empty(), "what is gone is forgotten");
    }

    #[test]
    fn everything_is_read_when_it_is_due_and_where_the_meta_cluster_is_another() {
        let (idle_objects, meta) = (IdleObjects::<EtcdCluster>::default(), Arc::default());
        let of = ObjectRef::new("etcd").within("acme");
        idle_objects.begin(&of);
        idle_objects.set_idle(&of, idle(Some(Duration::ZERO), &meta));
        assert!(idle_objects.get(&of, &meta).is_none());
        idle_objects.begin(&of);
        idle_objects.set_idle(&of, idle(Some(MINUTE), &meta));
        assert!(idle_objects.get(&of, &meta).is_some());
        assert!(idle_objects.get(&of, &Arc::default()).is_none());
        let longest = idle(None, &meta).until - Instant::now();
        assert!(longest <= Duration::from_mins(15) && longest > Duration::from_mins(12), "{longest:?}");
    }
}
