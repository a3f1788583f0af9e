//! What the table is told, and what it tells whoever visits.

use berth_kubeio::TenantTarget;
use berth_plan::fleet::TenantId;
use berth_plan_cluster::users::{AccessId, Outcome};
use berth_render::ObjectKey;
use jiff::Timestamp;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// What a reconcile found.
#[derive(Clone, Debug, Default)]
#[allow(clippy::struct_excessive_bools, reason = "facts that do not exclude each other")]
pub(crate) struct Facts {
    /// Labels of the `Cluster`.
    pub(crate) labels: BTreeMap<String, String>,
    /// It sleeps, or is about to.
    pub(crate) asleep: bool,
    /// The `Cluster` is being deleted, and serves nobody any more.
    pub(crate) ends: bool,
    /// `spec.paused`.
    pub(crate) paused: bool,
    /// Of its etcd.
    pub(crate) epoch: i64,
    /// Its etcd was restored, and nobody has looked yet what that brought back.
    pub(crate) restored: bool,
    /// Since when it wakes.
    pub(crate) wakes: Option<Timestamp>,
    /// Its API, if that answered.
    pub(crate) target: Option<Arc<TenantTarget>>,
}

impl Facts {
    pub(super) fn differ(&self, other: &Self) -> bool {
        let of = |facts: &Self| {
            let Self { asleep, ends, paused, epoch, restored, wakes, .. } = *facts;
            (asleep, ends, paused, epoch, restored, wakes, facts.target.is_some())
        };
        of(self) != of(other) || self.labels != other.labels
    }
}

/// What a watch tells of a `ClusterAccess`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Heard {
    pub(crate) uid: String,
    pub(crate) generation: i64,
    pub(crate) held: bool,
    pub(crate) ends: bool,
}

/// What a visit came to.
#[derive(Clone, Debug, Default)]
pub(crate) struct Visited {
    /// By whom something is there, or may be. None: nobody knows.
    pub(crate) recorded: Option<BTreeSet<AccessId>>,
    pub(crate) outcomes: BTreeMap<AccessId, Outcome>,
    /// When time alone changes something.
    pub(crate) until: Option<Timestamp>,
    /// It is to be tried again.
    pub(crate) again: bool,
}

/// Whom to visit.
#[derive(Clone, Debug)]
pub(crate) struct Due {
    pub(crate) id: TenantId,
    pub(crate) facts: Facts,
    /// `ClusterAccess`es that mean it.
    pub(crate) selecting: BTreeSet<ObjectKey>,
    /// Something is recorded, or may be.
    pub(crate) recorded: bool,
}
