//! How each tenant is, as its status says it: what alerts are made from.

use super::apps::{self, InstallationMetrics};
use super::registration;
use berth_render::{Kind, ObjectKey};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use parking_lot::Mutex;
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;
use serde::de::DeserializeOwned;
use serde_json::Value;
use std::collections::BTreeMap;

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
#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ObjectLabels {
    /// `Cluster` or `EtcdCluster`.
    kind: &'static str,
    namespace: String,
    name: String,
}

impl From<&ObjectKey> for ObjectLabels {
    fn from(key: &ObjectKey) -> Self {
        let namespace = key.namespace.clone().unwrap_or_default();
        Self { kind: key.kind.name(), namespace, name: key.name.clone() }
    }
}

/// The times in a status that people want to be woken for: where they are, and the metric with its description.
const TIMES: [(&str, &str, &str); 4] = [
    (
        "/lastVerifiedTime",
        "backup_taken_timestamp_seconds",
        "When the newest proven backup of a schedule was taken, in seconds since 1970",
    ),
    (
        "/recovery/begun",
        "recovery_timestamp_seconds",
        "When Berth last began to restore an etcd by itself, in seconds since 1970",
    ),
    ("/restoredAt", "restored_timestamp_seconds", "When an EtcdRestore was done, in seconds since 1970"),
    (
        "/certificates/nextExpiry",
        "certificate_expiry_timestamp_seconds",
        "When the first certificate of an object ends, in seconds since 1970",
    ),
];

/// What a status says that people want to be woken for.
#[derive(Clone, Debug)]
struct TenantMetrics {
    /// Type, reason, and the number of the status.
    conditions: Vec<(String, String, i64)>,
    /// In the order of [`TIMES`].
    times: [Option<Time>; TIMES.len()],
    /// Of an `AppInstallation`.
    app: Option<InstallationMetrics>,
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
    all: Mutex<BTreeMap<ObjectKey, TenantMetrics>>,
    orphans: Mutex<Option<Orphans>>,
}

impl std::fmt::Debug for Tenants {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Tenants").field("all", &self.all).finish_non_exhaustive()
    }
}

impl Tenants {
    /// Takes in a status, and returns its conditions.
    pub fn say(&self, key: &ObjectKey, status: &Value) -> Vec<Condition> {
        let all: Vec<Condition> = part(status, "/conditions").unwrap_or_default();
        let conditions = all.iter().map(|c| (c.type_.clone(), c.reason.clone(), number(&c.status))).collect();
        let times = TIMES.map(|(path, ..)| part(status, path));
        self.all
            .lock()
            .insert(key.clone(), TenantMetrics { conditions, times, app: InstallationMetrics::of(key, status) });
        all
    }

    /// Forgets an object that is gone.
    pub fn forget(&self, key: &ObjectKey) {
        self.all.lock().remove(key);
    }

    /// Says whom to ask for control planes without a `Cluster`.
    pub fn orphans_from(&self, source: impl Fn() -> Vec<Orphan> + Send + Sync + 'static) {
        *self.orphans.lock() = Some(Box::new(source));
    }

    /// Adds what is known now to a registry.
    pub(super) fn register(&self, registry: &mut Registry) {
        let conditions: Family<ConditionLabels, Gauge> = Family::default();
        let times: [Family<ObjectLabels, Gauge>; TIMES.len()] = Default::default();
        let all = self.all.lock();
        for (key, said) in all.iter() {
            let object = ObjectLabels::from(key);
            for (condition, reason, value) in &said.conditions {
                let ObjectLabels { kind, namespace, name } = object.clone();
                let (condition, reason) = (condition.clone(), reason.clone());
                let labels = ConditionLabels { kind, namespace, name, condition, reason };
                conditions.get_or_create(&labels).set(*value);
            }
            for (family, time) in times.iter().zip(&said.times) {
                if let Some(time) = time {
                    family.get_or_create(&object).set(time.0.as_second());
                }
            }
        }
        let clusters = all.iter().filter(|(key, _)| key.kind == Kind::Cluster);
        registration::register(clusters.flat_map(|(_, said)| &said.conditions), registry);
        apps::register(all.iter().filter_map(|(key, said)| Some((key, said.app.as_ref()?))), registry);
        drop(all);
        let without: Family<Orphan, Gauge> = Family::default();
        for orphan in self.orphans.lock().as_ref().map(|known| known()).unwrap_or_default() {
            without.get_or_create(&orphan).set(1);
        }
        let what = "1 for each control-plane namespace whose Cluster does not exist";
        registry.register("control_plane_without_cluster", what, without);
        registry.register("condition", "A condition of an object: 1 true, 0 false, -1 unknown", conditions);
        for ((_, name, what), family) in TIMES.into_iter().zip(times) {
            registry.register(name, what, family);
        }
    }
}

/// What a metric says of a condition with this status.
fn number(status: &str) -> i64 {
    match status {
        "True" => 1,
        "False" => 0,
        _ => -1,
    }
}

/// A part of a status, if it is there and can be read.
pub(crate) fn part<T: DeserializeOwned>(value: &Value, path: &str) -> Option<T> {
    value.pointer(path).cloned().and_then(|part| serde_json::from_value(part).ok())
}
