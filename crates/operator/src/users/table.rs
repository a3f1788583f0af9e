//! Whom to visit, and whose status to write. A pure table: whoever asks brings the time. What is in it came from reads, and decides nothing but
//! where to look; statuses are written from it, and only once all that matters was looked at.

mod facts;
mod told;

use berth_api::ClusterAccess;
use berth_plan::fleet::TenantId;
use berth_plan_cluster::users::{AccessId, Outcome, reaches, selects};
use berth_render::{Kind, ObjectKey};
use jiff::{SignedDuration, Timestamp};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::{Duration, Instant};

pub(crate) use facts::{Due, Facts, Heard, Visited};

/// What is in a tenant is looked at so often where nothing happens: reconciles come that often.
const VERIFY: Duration = Duration::from_mins(10);

/// So long a status waits for tenants that are being looked at.
const PATIENCE: Duration = Duration::from_secs(3);

/// Likewise after the operator began: until then all is looked at once.
const PATIENCE_AT_FIRST: Duration = Duration::from_secs(30);

/// A status is not written more often.
const QUIET: Duration = Duration::from_millis(300);

/// So many tenants are visited at once where the last visit did not do all: they may be slow, and the others' rights end in time.
const IN_DOUBT_AT_ONCE: usize = 48;

/// Nobody looks more often.
const SHORTEST: Duration = Duration::from_millis(50);

/// After a failure; twice as long after each further one, up to [`SELDOM`].
pub(crate) const AGAIN: SignedDuration = SignedDuration::from_secs(2);
const SELDOM: SignedDuration = SignedDuration::from_secs(60);

#[derive(Debug)]
struct Tenant {
    facts: Facts,
    /// None: not known yet.
    recorded: Option<BTreeSet<AccessId>>,
    outcomes: BTreeMap<AccessId, Outcome>,
    dirty: bool,
    running: bool,
    visited: Option<Instant>,
    again: Option<Timestamp>,
    failures: u32,
}

impl Tenant {
    fn new(facts: Facts) -> Self {
        let (recorded, outcomes, visited, again) = (None, BTreeMap::new(), None, None);
        Self { facts, recorded, outcomes, dirty: false, running: false, visited, again, failures: 0 }
    }
}

#[derive(Debug)]
struct Access {
    heard: Heard,
    /// As it was read last. None: not yet, or this build cannot read it.
    object: Option<Arc<ClusterAccess>>,
    /// Since when there is something to be said.
    dirty: Option<Instant>,
    tended: Option<Instant>,
    tending: bool,
    again: Option<Timestamp>,
}

/// All of it.
#[derive(Debug, Default)]
pub(crate) struct Table {
    began: Option<Instant>,
    platform: Option<String>,
    /// All `ClusterAccess`es were heard of once.
    listed: bool,
    accesses: BTreeMap<ObjectKey, Access>,
    tenants: BTreeMap<TenantId, Tenant>,
}

fn key_of(id: &AccessId) -> ObjectKey {
    ObjectKey::namespaced(Kind::ClusterAccess, &*id.namespace, &*id.name)
}

impl Table {
    /// Now it begins. `all`: all `Cluster`s. Whom a reconcile has met already is known better.
    pub(crate) fn begin(&mut self, platform: Option<String>, all: Vec<(TenantId, Facts)>, now: Instant) {
        (self.began, self.platform) = (Some(now), platform);
        for (id, facts) in all {
            self.tenants.entry(id).or_insert_with(|| Tenant::new(facts));
        }
    }

    /// The operator's namespace.
    pub(crate) fn platform(&self) -> Option<&str> {
        self.platform.as_deref()
    }

    /// A reconcile has looked at it. `recorded`: by whom something is there, if that could be read. True: somebody is to be visited.
    pub(crate) fn met(
        &mut self,
        id: &TenantId,
        facts: Facts,
        recorded: Option<BTreeSet<AccessId>>,
        now: Instant,
    ) -> bool {
        let is_new = !self.tenants.contains_key(id);
        let tenant = self.tenants.entry(id.clone()).or_insert_with(|| Tenant::new(facts.clone()));
        let is_other = is_new || tenant.facts.differ(&facts) || tenant.recorded.is_none();
        let labels_differ = tenant.facts.labels != facts.labels;
        tenant.facts = facts;
        // From then on visits know it, of which one may have ended since this was read.
        if tenant.recorded.is_none() {
            tenant.recorded = recorded;
        }
        let is_old = tenant.facts.target.is_some() && tenant.visited.is_none_or(|at| now.duration_since(at) > VERIFY);
        if !is_other && !is_old {
            return false;
        }
        let is_concerned = self.is_concerned(id);
        if let Some(tenant) = self.tenants.get_mut(id).filter(|_| is_concerned) {
            tenant.dirty = true;
        }
        if is_new || labels_differ {
            self.is_said_of(id, now);
        }
        is_concerned || is_new || labels_differ
    }

    /// Whether there is anything to do for it.
    fn is_concerned(&self, id: &TenantId) -> bool {
        let Some(tenant) = self.tenants.get(id) else { return false };
        let is_recorded = tenant.recorded.as_ref().is_none_or(|all| !all.is_empty());
        is_recorded
            || tenant.facts.restored
            || !tenant.outcomes.is_empty()
            || self.accesses.values().any(|access| self.means(access, id, tenant))
    }

    fn means(&self, access: &Access, id: &TenantId, tenant: &Tenant) -> bool {
        let selects = |object: &Arc<ClusterAccess>| selects(object, id, &tenant.facts.labels, self.platform());
        !tenant.facts.ends && access.object.as_ref().is_some_and(selects)
    }

    /// Who may mean that tenant has something else to say.
    fn is_said_of(&mut self, id: &TenantId, now: Instant) {
        let Self { accesses, platform, .. } = self;
        for access in accesses.values_mut() {
            let may = access.object.as_ref().is_some_and(|object| reaches(object, &id.namespace, platform.as_deref()));
            if may {
                access.dirty.get_or_insert(now);
            }
        }
    }

    /// A `Cluster` is gone.
    pub(crate) fn cluster_gone(&mut self, id: &TenantId, now: Instant) {
        if self.tenants.remove(id).is_some() {
            self.is_said_of(id, now);
        }
    }

    /// A watch tells of it.
    pub(crate) fn heard(&mut self, key: ObjectKey, heard: Heard, now: Instant) {
        if let Some(known) = self.accesses.get(&key)
            && known.heard.uid != heard.uid
        {
            self.gone(&key);
        }
        match self.accesses.get_mut(&key) {
            Some(known) if known.heard == heard => {}
            Some(known) => {
                known.heard = heard;
                // The old one is what tenants are visited for; it is read again at once.
                (known.dirty, known.tended) = (Some(now), None);
            }
            None => {
                let access =
                    Access { heard, object: None, dirty: Some(now), tended: None, tending: false, again: None };
                self.accesses.insert(key, access);
            }
        }
    }

    /// These are all.
    pub(crate) fn listed(&mut self, all: &BTreeSet<ObjectKey>) {
        self.listed = true;
        let gone: Vec<ObjectKey> = self.accesses.keys().filter(|key| !all.contains(key)).cloned().collect();
        for key in gone {
            self.gone(&key);
        }
        // By whom something is recorded that is not there any more.
        for tenant in self.tenants.values_mut() {
            tenant.dirty |= tenant.recorded.iter().flatten().any(|id| !all.contains(&key_of(id)));
        }
    }

    /// It is not there any more.
    pub(crate) fn gone(&mut self, key: &ObjectKey) {
        self.visit_all_of(key);
        self.accesses.remove(key);
    }

    /// Whom it concerns is visited.
    fn visit_all_of(&mut self, key: &ObjectKey) {
        let Some(access) = self.accesses.get(key) else { return };
        let of = |tenant: &Tenant| {
            tenant.outcomes.keys().chain(tenant.recorded.iter().flatten()).any(|id| key_of(id) == *key)
        };
        let concerned: Vec<TenantId> = self
            .tenants
            .iter()
            .filter(|(id, tenant)| of(tenant) || self.means(access, id, tenant))
            .map(|(id, _)| id.clone())
            .collect();
        for id in concerned {
            if let Some(tenant) = self.tenants.get_mut(&id) {
                tenant.dirty = true;
            }
        }
    }

    /// What is recorded there holds up the end of any `ClusterAccess`. A `Cluster` that ended before anybody met it is found to be gone.
    fn visit_who_is_unknown(&mut self) {
        for tenant in self.tenants.values_mut() {
            tenant.dirty |= tenant.recorded.is_none();
        }
    }

    /// It was read. True: tenants are visited first, since it is otherwise than before, or was told of anew while that is still done.
    pub(crate) fn read(&mut self, key: &ObjectKey, object: Option<Arc<ClusterAccess>>, now: Instant) -> bool {
        let Some(access) = self.accesses.get(key) else { return true };
        let what = |object: &Arc<ClusterAccess>| {
            let meta = &object.metadata;
            let held = meta.finalizers.as_ref().is_some_and(|all| !all.is_empty());
            (meta.uid.clone(), meta.generation, meta.deletion_timestamp.is_some(), held)
        };
        if access.object.as_ref().map(what) == object.as_ref().map(what) {
            let waits = access.tended.is_none() && self.is_unsettled(access);
            if let Some(access) = self.accesses.get_mut(key).filter(|_| waits) {
                access.dirty = Some(now);
            }
            return waits;
        }
        self.visit_all_of(key);
        if object.as_ref().is_some_and(|object| object.metadata.deletion_timestamp.is_some()) {
            self.visit_who_is_unknown();
        }
        if let Some(access) = self.accesses.get_mut(key) {
            access.again = object.as_ref().and_then(|object| object.spec.expires_at.as_ref()?.time());
            access.object = object;
            access.dirty = Some(now);
        }
        self.visit_all_of(key);
        true
    }

    /// Whom to visit now, at most so many. Those that failed come last, and leave room for others.
    pub(crate) fn due(&mut self, now: Timestamp, most: usize) -> Vec<Due> {
        if !self.listed {
            return vec![];
        }
        let is_due = |tenant: &Tenant| !tenant.running && (tenant.dirty || tenant.again.is_some_and(|at| at <= now));
        let mut all: Vec<(u32, TenantId)> = self
            .tenants
            .iter()
            .filter(|(_, tenant)| is_due(tenant))
            .map(|(id, tenant)| (tenant.failures, id.clone()))
            .collect();
        all.sort();
        let in_doubt = self.tenants.values().filter(|tenant| tenant.running && tenant.failures > 0).count();
        let healthy = all.iter().take_while(|(failures, _)| *failures == 0).count();
        let most = most.min(healthy + IN_DOUBT_AT_ONCE.saturating_sub(in_doubt));
        let due: Vec<TenantId> = all.into_iter().take(most).map(|(_, id)| id).collect();
        due.into_iter().filter_map(|id| self.begins(id)).collect()
    }

    fn begins(&mut self, id: TenantId) -> Option<Due> {
        let tenant = self.tenants.get(&id)?;
        let selecting = self.accesses.iter().filter(|(_, access)| self.means(access, &id, tenant));
        let selecting: BTreeSet<ObjectKey> = selecting.map(|(key, _)| key.clone()).collect();
        let recorded = tenant.facts.restored || tenant.recorded.as_ref().is_none_or(|all| !all.is_empty());
        let facts = tenant.facts.clone();
        let tenant = self.tenants.get_mut(&id)?;
        (tenant.running, tenant.dirty, tenant.again) = (true, false, None);
        Some(Due { id, facts, selecting, recorded })
    }

    /// A visit ended. None: by a failure of the meta cluster.
    pub(crate) fn visited(&mut self, id: &TenantId, visited: Option<Visited>, now: Timestamp, at: Instant) {
        let Some(tenant) = self.tenants.get_mut(id) else { return };
        tenant.running = false;
        let again = visited.as_ref().is_none_or(|visited| visited.again);
        tenant.failures = if again { tenant.failures.saturating_add(1) } else { 0 };
        let pause = AGAIN.checked_mul(1 << tenant.failures.saturating_sub(1).min(6)).unwrap_or(SELDOM).min(SELDOM);
        tenant.again = again.then(|| now.checked_add(pause).unwrap_or(now));
        let Some(Visited { recorded, outcomes, until, again: _ }) = visited else { return };
        tenant.again = [tenant.again, until].into_iter().flatten().min();
        tenant.visited = Some(at);
        let before = std::mem::replace(&mut tenant.outcomes, outcomes.clone());
        let held = std::mem::replace(&mut tenant.recorded, recorded.clone()).unwrap_or_default();
        let recorded = recorded.unwrap_or_default();
        let differs = |id: &&AccessId| {
            let id: &AccessId = id;
            before.get(id) != outcomes.get(id) || held.contains(id) != recorded.contains(id)
        };
        let all: BTreeSet<&AccessId> = before.keys().chain(outcomes.keys()).chain(&held).chain(&recorded).collect();
        for id in all.into_iter().filter(differs) {
            if let Some(access) = self.accesses.get_mut(&key_of(id)) {
                access.dirty.get_or_insert(at);
            }
        }
    }

    /// Whose status is to be looked at now, at most so many.
    pub(crate) fn tendings(&mut self, now: Timestamp, at: Instant, most: usize) -> Vec<ObjectKey> {
        for access in self.accesses.values_mut().filter(|access| access.again.is_some_and(|again| again <= now)) {
            access.again = None;
            access.dirty.get_or_insert(at);
        }
        let due: Vec<ObjectKey> = self
            .accesses
            .iter()
            .filter(|(_, access)| self.is_to_tend(access, at))
            .map(|(key, _)| key.clone())
            .take(most)
            .collect();
        for key in &due {
            if let Some(access) = self.accesses.get_mut(key) {
                (access.tending, access.dirty) = (true, None);
            }
        }
        due
    }

    fn is_to_tend(&self, access: &Access, at: Instant) -> bool {
        let Some(dirty) = access.dirty.filter(|_| !access.tending) else { return false };
        if access.object.is_none() || access.tended.is_none() {
            return true;
        }
        let is_quiet = access.tended.is_none_or(|tended| at.duration_since(tended) >= QUIET);
        is_quiet && (at.duration_since(dirty) >= self.patience(at) || !self.is_unsettled(access))
    }

    fn patience(&self, at: Instant) -> Duration {
        let is_new = self.began.is_none_or(|began| at.duration_since(began) < PATIENCE_AT_FIRST);
        if is_new { PATIENCE_AT_FIRST } else { PATIENCE }
    }

    /// Whether a tenant that it means is being looked at.
    fn is_unsettled(&self, access: &Access) -> bool {
        let is_unsettled = |tenant: &Tenant| tenant.dirty || tenant.running || tenant.recorded.is_none();
        let concerns = |id: &TenantId, tenant: &Tenant| {
            self.means(access, id, tenant) || (tenant.recorded.is_none() && self.is_held_by_all(access, id))
        };
        !self.listed || self.tenants.iter().any(|(id, tenant)| is_unsettled(tenant) && concerns(id, tenant))
    }

    /// A status was written, or not. `again`: when it is to be looked at again, whatever happens.
    pub(crate) fn tended(&mut self, key: &ObjectKey, again: Option<SignedDuration>, now: Timestamp, at: Instant) {
        if let Some(access) = self.accesses.get_mut(key) {
            (access.tending, access.tended) = (false, Some(at));
            let again = again.map(|again| now.checked_add(again).unwrap_or(now));
            access.again = [access.again, again].into_iter().flatten().min();
        }
    }

    /// The UID of one that was heard of.
    pub(crate) fn uid(&self, key: &ObjectKey) -> Option<String> {
        self.accesses.get(key).map(|access| access.heard.uid.clone())
    }

    /// How long until time alone makes something due.
    pub(crate) fn until_next(&self, now: Timestamp, at: Instant) -> Option<Duration> {
        let tenants = self.tenants.values().filter(|tenant| !tenant.running).filter_map(|tenant| tenant.again);
        let accesses = self.accesses.values().filter(|access| !access.tending).filter_map(|access| access.again);
        let until = tenants.chain(accesses).min();
        let until = until.map(|until| Duration::try_from(until.duration_since(now)).unwrap_or_default());
        let waits = |access: &&Access| access.dirty.is_some() && !access.tending;
        let dirty = self.accesses.values().find(waits).map(|access| {
            let since = access.tended.map(|tended| at.duration_since(tended)).unwrap_or_default();
            QUIET.saturating_sub(since)
        });
        [until, dirty].into_iter().flatten().min().map(|pause| pause.max(SHORTEST))
    }
}

#[cfg(test)]
mod tests;
