//! How each tenant is, as its status says it: what alerts are made from.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;
use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

/// A condition of one object.
#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ConditionLabels {
    /// `Cluster` or `EtcdCluster`.
    kind: &'static str,
    namespace: String,
    name: String,
    condition: String,
    reason: String,
}

/// One object.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, EncodeLabelSet)]
struct ObjectLabels {
    /// `Cluster` or `EtcdCluster`.
    kind: &'static str,
    namespace: String,
    name: String,
}

/// What a status says that people want to be woken for.
#[derive(Clone, Debug, Default)]
struct TenantMetrics {
    /// Type, reason, and 1, 0 or -1.
    conditions: Vec<(String, String, i64)>,
    expiry: Option<i64>,
    /// When the newest proven backup was taken.
    backup: Option<i64>,
    /// When the last recovery of an etcd began.
    recovery: Option<i64>,
    /// When a restore was done.
    restored: Option<i64>,
}

/// A control-plane namespace whose `Cluster` does not exist, and which that was.
#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub struct Orphan {
    /// The control-plane namespace.
    pub namespace: String,
    /// The namespace of the `Cluster`.
    pub cluster_namespace: String,
    /// Its name.
    pub cluster: String,
}

/// Who knows of orphans.
type Orphans = Box<dyn Fn() -> Vec<Orphan> + Send + Sync>;

/// The last status of every object that this process has looked at.
#[derive(Default)]
pub struct Tenants {
    all: Mutex<BTreeMap<ObjectLabels, TenantMetrics>>,
    orphans: Mutex<Option<Orphans>>,
}

impl std::fmt::Debug for Tenants {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Tenants").field("all", &self.all).finish_non_exhaustive()
    }
}

impl Tenants {
    /// Takes in a status. `expiry`: when the first certificate ends.
    pub fn say(
        &self,
        kind: &'static str,
        namespace: &str,
        name: &str,
        conditions: &[Condition],
        expiry: Option<&Time>,
    ) {
        let number = |c: &Condition| match c.status.as_str() {
            "True" => 1,
            "False" => 0,
            _ => -1,
        };
        let conditions = conditions.iter().map(|c| (c.type_.clone(), c.reason.clone(), number(c))).collect();
        let said = TenantMetrics { conditions, expiry: expiry.map(|t| t.0.as_second()), ..TenantMetrics::default() };
        self.all.lock().unwrap_or_else(PoisonError::into_inner).insert(labels(kind, namespace, name), said);
    }

    /// Takes in when the newest proven backup of a schedule was taken. Its status was taken in before.
    pub fn backed_up(&self, kind: &'static str, namespace: &str, name: &str, taken: &Time) {
        let mut all = self.all.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(said) = all.get_mut(&labels(kind, namespace, name)) {
            said.backup = Some(taken.0.as_second());
        }
    }

    /// Takes in when Berth began to restore an etcd by itself. Its status was taken in before.
    pub fn recovers(&self, kind: &'static str, namespace: &str, name: &str, begun: &Time) {
        let mut all = self.all.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(said) = all.get_mut(&labels(kind, namespace, name)) {
            said.recovery = Some(begun.0.as_second());
        }
    }

    /// Takes in when a restore was done. Its status was taken in before.
    pub fn restored(&self, kind: &'static str, namespace: &str, name: &str, at: &Time) {
        let mut all = self.all.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(said) = all.get_mut(&labels(kind, namespace, name)) {
            said.restored = Some(at.0.as_second());
        }
    }

    /// Forgets an object that is gone.
    pub fn forget(&self, kind: &'static str, namespace: &str, name: &str) {
        self.all.lock().unwrap_or_else(PoisonError::into_inner).remove(&labels(kind, namespace, name));
    }

    /// Says whom to ask for control planes without a `Cluster`.
    pub fn orphans_from(&self, source: impl Fn() -> Vec<Orphan> + Send + Sync + 'static) {
        *self.orphans.lock().unwrap_or_else(PoisonError::into_inner) = Some(Box::new(source));
    }

    /// Adds what is known now to a registry.
    pub(super) fn register(&self, registry: &mut Registry) {
        let conditions: Family<ConditionLabels, Gauge> = Family::default();
        let expiries: Family<ObjectLabels, Gauge> = Family::default();
        let backups: Family<ObjectLabels, Gauge> = Family::default();
        let recoveries: Family<ObjectLabels, Gauge> = Family::default();
        let restores: Family<ObjectLabels, Gauge> = Family::default();
        for (object, said) in self.all.lock().unwrap_or_else(PoisonError::into_inner).iter() {
            for (condition, reason, value) in &said.conditions {
                let ObjectLabels { kind, namespace, name } = object.clone();
                let (condition, reason) = (condition.clone(), reason.clone());
                let labels = ConditionLabels { kind, namespace, name, condition, reason };
                conditions.get_or_create(&labels).set(*value);
            }
            let times = [(&backups, said.backup), (&recoveries, said.recovery), (&restores, said.restored)];
            for (family, at) in times {
                if let Some(at) = at {
                    family.get_or_create(object).set(at);
                }
            }
            if let Some(expiry) = said.expiry {
                expiries.get_or_create(object).set(expiry);
            }
        }
        let without: Family<Orphan, Gauge> = Family::default();
        let orphans = self.orphans.lock().unwrap_or_else(PoisonError::into_inner);
        for orphan in orphans.as_ref().map(|known| known()).unwrap_or_default() {
            without.get_or_create(&orphan).set(1);
        }
        let what = "1 for each control-plane namespace whose Cluster does not exist";
        registry.register("control_plane_without_cluster", what, without);
        let what = "When the newest proven backup of a schedule was taken, in seconds since 1970";
        registry.register("backup_taken_timestamp_seconds", what, backups);
        let what = "When Berth last began to restore an etcd by itself, in seconds since 1970";
        registry.register("recovery_timestamp_seconds", what, recoveries);
        let what = "When an EtcdRestore was done, in seconds since 1970";
        registry.register("restored_timestamp_seconds", what, restores);
        registry.register("condition", "A condition of an object: 1 true, 0 false, -1 unknown", conditions);
        registry.register(
            "certificate_expiry_timestamp_seconds",
            "When the first certificate of an object ends, in seconds since 1970",
            expiries,
        );
    }
}

fn labels(kind: &'static str, namespace: &str, name: &str) -> ObjectLabels {
    ObjectLabels { kind, namespace: namespace.to_owned(), name: name.to_owned() }
}
