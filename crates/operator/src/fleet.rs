//! What reconciles and the one who gives turns tell each other ([`crate::turns`]).

use berth_api::cluster::{TurnState, TurnStatus};
use berth_plan::fleet::{Memory, TenantId};
use berth_plan::observed::Turns;
use futures::{Stream, stream};
use parking_lot::Mutex;
use std::collections::HashMap;
use tokio::sync::{Notify, broadcast};

/// The one who gives turns, as reconciles see it.
#[derive(Debug)]
pub struct Fleet {
    pub(crate) news: Notify,
    pub(crate) memory: Mutex<Memory>,
    tenants: Mutex<HashMap<TenantId, Tenant>>,
    pub(crate) changes: broadcast::Sender<TenantId>,
}

#[derive(Debug, Default)]
struct Tenant {
    /// Reconciles that may have read its turn.
    reconciles: usize,
    /// Its turn is being taken back.
    revoked: bool,
    /// What its status said last, and of which version of the spec.
    said: Option<(TurnStatus, Option<i64>)>,
}

impl Default for Fleet {
    fn default() -> Self {
        let (changes, _) = broadcast::channel(1024);
        Self { news: Notify::new(), memory: Mutex::default(), tenants: Mutex::default(), changes }
    }
}

/// Until it is dropped, the turn of that tenant is not taken back.
#[derive(Debug)]
pub struct Reading<'a> {
    fleet: &'a Fleet,
    id: TenantId,
}

/// Until it is dropped, reconciles of that tenant see no turn.
#[derive(Debug)]
pub(crate) struct Revoked<'a>(Reading<'a>);

impl Fleet {
    /// A reconcile of that tenant begins to read.
    pub fn begin(&self, id: TenantId) -> Reading<'_> {
        self.tenants.lock().entry(id.clone()).or_default().reconciles += 1;
        Reading { fleet: self, id }
    }

    /// What a reconcile is to know of the fleet.
    pub fn turns(&self, id: &TenantId) -> Turns {
        let revoked = self.tenants.lock().get(id).is_some_and(|tenant| tenant.revoked);
        Turns::Ordered { answer: self.memory.lock().told.get(id).cloned(), revoked }
    }

    /// A tenant is gone.
    pub fn gone(&self, id: &TenantId) {
        self.says(id, None, None);
        self.forget(id);
    }

    /// Nobody needs to know of a tenant that says nothing.
    fn forget(&self, id: &TenantId) {
        self.tenants.lock().retain(|of, t| of != id || t.reconciles > 0 || t.revoked || t.said.is_some());
    }

    /// What a tenant's status says now, and of which generation.
    pub fn says(&self, id: &TenantId, status: Option<&TurnStatus>, generation: Option<i64>) {
        let now = status.map(|status| (status.clone(), generation));
        let before = std::mem::replace(&mut self.tenants.lock().entry(id.clone()).or_default().said, now.clone());
        let what = |said: &Option<(TurnStatus, Option<i64>)>| {
            said.as_ref().map(|(turn, generation)| (turn.to.clone(), turn.state, turn.came_back, *generation))
        };
        let is_at_rest = |said: &Option<(TurnStatus, Option<i64>)>| {
            said.as_ref().is_none_or(|(turn, _)| matches!(turn.state, TurnState::Succeeded))
        };
        if what(&before) != what(&now) && !(is_at_rest(&before) && is_at_rest(&now)) {
            self.news.notify_one();
        }
    }

    /// Tenants that are told something else than before.
    pub(crate) fn changes(&self) -> impl Stream<Item = TenantId> + Send + use<> {
        stream::unfold(self.changes.subscribe(), async |mut changes| {
            loop {
                match changes.recv().await {
                    Ok(id) => return Some((id, changes)),
                    // Those who were missed learn of it when they look next.
                    Err(broadcast::error::RecvError::Lagged(_)) => {}
                    Err(broadcast::error::RecvError::Closed) => return None,
                }
            }
        })
    }

    /// From now on reconciles see no turn of it. None: one is under way that may have.
    pub(crate) fn revoke(&self, id: &TenantId) -> Option<Revoked<'_>> {
        let mut all = self.tenants.lock();
        let tenant = all.entry(id.clone()).or_default();
        (tenant.reconciles == 0).then(|| {
            tenant.revoked = true;
            tenant.reconciles += 1;
            Revoked(Reading { fleet: self, id: id.clone() })
        })
    }
}

impl Drop for Reading<'_> {
    fn drop(&mut self) {
        if let Some(tenant) = self.fleet.tenants.lock().get_mut(&self.id) {
            tenant.reconciles = tenant.reconciles.saturating_sub(1);
        }
        self.fleet.forget(&self.id);
    }
}

impl Drop for Revoked<'_> {
    fn drop(&mut self) {
        let Reading { fleet, id } = &self.0;
        if let Some(tenant) = fleet.tenants.lock().get_mut(id) {
            tenant.revoked = false;
        }
    }
}
