//! What gateways told, of all tenants: in memory alone. What it leads to is recorded with the tenant.

mod covered;

use crate::waking::Waking;
use berth_api::calls::{Told, Used};
use berth_api::gateway::ClusterName;
use berth_api::hibernation::HibernationStatus;
use berth_plan::fleet::TenantId;
use berth_plan::heard::{Call, Heard as Of, Uses};
use covered::Covered;
use jiff::{SignedDuration, Timestamp};
use parking_lot::Mutex;
use std::collections::{BTreeMap, BTreeSet};

pub(crate) use covered::Pods;

/// Streams open, and lists come, within so long after an operator began: nobody says before that use is unknown.
const BEGINS: SignedDuration = SignedDuration::from_mins(1);

/// All of it.
#[derive(Debug)]
pub struct Heard(Mutex<Now>);

/// A connection to a replica.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Stream {
    replica: String,
    /// One that was opened later has a higher number.
    number: u64,
}

#[derive(Debug)]
struct Now {
    began: Option<Timestamp>,
    /// Replicas that run. None: not known yet.
    pods: Option<Pods>,
    covered: Covered,
    streams: BTreeMap<String, OfReplica>,
    opened: u64,
    /// When each tenant was used, the last time.
    last: BTreeMap<TenantId, Timestamp>,
    waking: Waking,
}

#[derive(Debug, Default)]
struct OfReplica {
    number: u64,
    /// It has said all that it knows.
    has_told: bool,
    using: BTreeSet<TenantId>,
}

impl Heard {
    /// `most`: tenants that connections wake at once.
    pub(crate) fn new(most: usize) -> Self {
        let (streams, last, waking) = (BTreeMap::new(), BTreeMap::new(), Waking::new(most));
        let covered = Covered::default();
        Self(Mutex::new(Now { began: None, pods: None, covered, streams, opened: 0, last, waking }))
    }

    /// From now on it is listened.
    pub(crate) fn begins(&self, now: Timestamp) {
        let mut all = self.0.lock();
        // What ended before nobody has heard.
        (all.began, all.pods, all.covered) = (Some(now), None, Covered::default());
    }

    /// These replicas run.
    pub(crate) fn pods(&self, now: Timestamp, pods: Pods) {
        let mut all = self.0.lock();
        let before = all.pods.take().unwrap_or_default();
        all.covered.runs(&before, &pods, now);
        all.pods = Some(pods);
        all.looks();
    }

    /// A connection to that replica.
    pub(crate) fn opens(&self, replica: &str) -> Stream {
        let mut all = self.0.lock();
        all.opened += 1;
        let number = all.opened;
        let before = all.streams.insert(replica.to_owned(), OfReplica { number, ..OfReplica::default() });
        drop(before);
        Stream { replica: replica.to_owned(), number }
    }

    /// What a replica says. Returns who is to be looked at.
    pub(crate) fn hears(&self, from: &Stream, told: Told, now: Timestamp) -> Vec<TenantId> {
        let mut all = self.0.lock();
        if all.streams.get(&from.replica).is_none_or(|stream| stream.number != from.number) {
            return vec![];
        }
        match told {
            Told::Called(cluster) => all.waking.called(&id(cluster), now),
            Told::Used(used) => {
                all.uses(&from.replica, used, now);
                vec![]
            }
            Told::Over => {
                all.covered.is_over(&from.replica);
                vec![]
            }
            Told::Other(_) => vec![],
        }
    }

    /// That connection is over. Who used tenants may do so still, or not.
    pub(crate) fn lost(&self, stream: &Stream, now: Timestamp) {
        let mut all = self.0.lock();
        if all.streams.get(&stream.replica).is_some_and(|of| of.number == stream.number)
            && let Some(of) = all.streams.remove(&stream.replica)
        {
            for tenant in of.using {
                all.used(tenant, now);
            }
            let runs = all.pods.as_ref().is_none_or(|pods| pods.contains_key(&stream.replica));
            all.covered.loses(&stream.replica, runs, now);
        }
    }

    /// That tenant is gone.
    pub(crate) fn forget(&self, of: &TenantId) {
        let mut all = self.0.lock();
        all.last.remove(of);
        all.waking.gone(of);
        // A gateway that loses a tenant says no more of it.
        for stream in all.streams.values_mut() {
            stream.using.remove(of);
        }
    }

    /// Tenants that are called, and wait while others wake.
    pub(crate) fn waiting(&self, now: Timestamp) -> usize {
        self.0.lock().waking.waiting(now)
    }

    /// What a tenant's status says now. Returns who is to be looked at.
    pub(crate) fn says(&self, of: &TenantId, sleep: Option<&HibernationStatus>, now: Timestamp) -> Vec<TenantId> {
        self.0.lock().waking.says(of, sleep, now)
    }

    /// What is known of a tenant.
    pub(crate) fn of(&self, of: &TenantId, now: Timestamp) -> Of {
        let all = self.0.lock();
        Of { uses: all.known(of, now), call: all.waking.call(of, now).map(|(at, turn)| Call { at, turn }) }
    }
}

impl Now {
    fn uses(&mut self, replica: &str, used: Used, now: Timestamp) {
        // Whatever a gateway says: nobody ends for it.
        let ago = |seconds: u64| {
            let ago = SignedDuration::from_secs(i64::try_from(seconds).unwrap_or(i64::MAX));
            now.checked_sub(ago).unwrap_or(Timestamp::UNIX_EPOCH)
        };
        let Used { counts_for, tenants, more } = used;
        for of in tenants {
            let tenant = id(of.cluster);
            let last = if of.now { now } else { ago(of.ago) };
            self.used(tenant.clone(), last);
            if let Some(stream) = self.streams.get_mut(replica) {
                if of.now {
                    stream.using.insert(tenant);
                } else {
                    stream.using.remove(&tenant);
                }
            }
        }
        if let Some(stream) = self.streams.get_mut(replica).filter(|stream| !more && !stream.has_told) {
            stream.has_told = true;
            let again = self.pods.as_ref().and_then(|pods| pods.get(replica)).is_some_and(|again| *again);
            self.covered.tells(replica, ago(counts_for), again);
            self.looks();
        }
    }

    /// From the first time on that all tell, nothing is missed but what is known to be.
    fn looks(&mut self) {
        if self.missing().is_none() {
            self.covered.all_have_told();
        }
    }

    fn used(&mut self, tenant: TenantId, at: Timestamp) {
        let last = self.last.entry(tenant).or_insert(at);
        *last = (*last).max(at);
    }

    fn known(&self, of: &TenantId, now: Timestamp) -> Uses {
        let Some(began) = self.began else { return Uses::NotYet };
        match self.missing() {
            Some(_) if now.duration_since(began) < BEGINS => return Uses::NotYet,
            Some(why) => return Uses::Unknown(why),
            None => {}
        }
        let since = self.covered.since().unwrap_or(now);
        let is_used = self.streams.values().any(|stream| stream.using.contains(of));
        Uses::Known { since, last: self.last.get(of).copied(), now: is_used }
    }

    /// Why nobody knows who uses tenants.
    fn missing(&self) -> Option<String> {
        let Some(pods) = &self.pods else {
            return Some(
                "the operator cannot list the gateway's pods (its log says why), and does not know who uses the tenant"
                    .into(),
            );
        };
        if pods.is_empty() {
            return Some("no pod of berth-gateway runs, and nobody knows who uses the tenant".into());
        }
        let tells = |pod: &String| self.streams.get(pod).is_some_and(|stream| stream.has_told);
        let silent = pods.keys().find(|pod| !tells(pod))?;
        Some(format!("pod {silent} of berth-gateway does not tell who uses the tenant: the operator's log says why"))
    }
}

fn id(of: ClusterName) -> TenantId {
    TenantId { namespace: of.namespace, name: of.name }
}

#[cfg(test)]
mod tests;
