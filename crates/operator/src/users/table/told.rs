//! What is known of a `ClusterAccess` in all tenants, and of all of them together.

use super::{Access, Table};
use berth_api::cluster_access::AccessState;
use berth_plan::fleet::TenantId;
use berth_plan_cluster::users::{AccessId, Outcome, missing, reaches};
use berth_render::ObjectKey;
use std::collections::BTreeMap;

/// Among the counts: not taken back in a tenant that sleeps.
const IN_A_SLEEPER: &str = "NotRevokedAsleep";

/// What is to be said of a `ClusterAccess`.
#[derive(Clone, Debug, Default)]
pub(crate) struct Told {
    /// How it is in each tenant.
    pub(crate) all: Vec<(TenantId, Outcome)>,
    /// `Cluster`s that it names and that are not there.
    pub(crate) missing: Vec<TenantId>,
    /// Whether something of it is in a tenant, or may be.
    pub(crate) is_held: bool,
    /// Whether a tenant is being visited that it may be about.
    pub(crate) settles: bool,
}

impl Table {
    /// Whether it is deleted, and something of it may be in that tenant, whatever it means now.
    pub(super) fn is_held_by_all(&self, access: &Access, id: &TenantId) -> bool {
        let deleted = access.object.as_ref().filter(|object| object.metadata.deletion_timestamp.is_some());
        deleted.is_some_and(|object| reaches(object, &id.namespace, self.platform()))
    }

    /// What is to be said of it.
    pub(crate) fn told(&self, key: &ObjectKey) -> Told {
        let Some(access) = self.accesses.get(key) else { return Told::default() };
        let Some(object) = &access.object else { return Told { is_held: true, ..Told::default() } };
        let id = AccessId::of(object);
        let mut told = Told::default();
        for (of, tenant) in self.tenants.iter().filter(|(_, tenant)| !tenant.facts.ends) {
            let means = object.metadata.deletion_timestamp.is_none() && self.means(access, of, tenant);
            if let Some(outcome) = tenant.outcomes.get(&id) {
                told.all.push((of.clone(), outcome.clone()));
            } else if means && (tenant.visited.is_none() || tenant.dirty || tenant.running) {
                let message = "it was not looked at yet".to_owned();
                told.all.push((of.clone(), Outcome { state: AccessState::Waiting, message }));
            } else if tenant.recorded.is_none() && self.is_held_by_all(access, of) {
                let message = "what was given there is not known yet".to_owned();
                told.all.push((of.clone(), Outcome { state: AccessState::NotRevoked, message }));
            }
            let may = reaches(object, &of.namespace, self.platform());
            let is_there = tenant.recorded.as_ref().map_or(may, |all| all.contains(&id));
            let settles = may && (tenant.running || (tenant.dirty && (means || is_there)));
            told.settles |= settles;
            told.is_held |= is_there || settles;
        }
        told.missing = missing(object, |id| self.tenants.get(id).is_some_and(|tenant| !tenant.facts.ends));
        told
    }

    /// How many there are in each state. What ended in one that sleeps is used by nobody, and counts for itself.
    pub(crate) fn counts(&self) -> BTreeMap<&'static str, i64> {
        let mut counts: BTreeMap<&'static str, i64> = AccessState::ALL.map(|state| (state.as_str(), 0)).into();
        counts.insert(IN_A_SLEEPER, 0);
        for tenant in self.tenants.values().filter(|tenant| !tenant.facts.ends) {
            for outcome in tenant.outcomes.values() {
                let sleeps = tenant.facts.asleep && outcome.state == AccessState::NotRevoked;
                *counts.entry(if sleeps { IN_A_SLEEPER } else { outcome.state.as_str() }).or_default() += 1;
            }
        }
        counts
    }
}
