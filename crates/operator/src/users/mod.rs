//! What reconciles tell of tenants, and what is known of `ClusterAccess`es: whom to visit for the rights of people. [`crate::visits`] does.

pub(crate) mod table;

use berth_api::hibernation::SleepState;
use berth_api::{Cluster, names};
use berth_kubeio::{Snapshot, TenantTarget};
use berth_plan::fleet::TenantId;
use berth_plan_cluster::users::{Record, serves_nobody, stored, waking_since};
use berth_render::{Kind, ObjectKey};
use kube::ResourceExt as _;
use parking_lot::Mutex;
use serde_json::Value;
use std::sync::Arc;
use std::time::Instant;
use table::{Facts, Table};
use tokio::sync::Notify;

/// What reconciles tell of tenants, and what is known of `ClusterAccess`es.
#[derive(Debug, Default)]
pub struct Users {
    pub(crate) table: Mutex<Table>,
    pub(crate) news: Notify,
}

impl Users {
    /// A reconcile of that `Cluster` has looked at it. `target`: its API, if that answered.
    pub(crate) fn met(&self, cluster: &Cluster, snapshot: &Snapshot, target: Option<Arc<TenantTarget>>) {
        let id = TenantId { namespace: cluster.namespace().unwrap_or_default(), name: cluster.name_any() };
        let home = names::control_plane_namespace(&id.namespace, &id.name);
        let observed = &snapshot.observed;
        let record = stored(observed, &home);
        // One that cannot be read may say anything.
        let record = Record::read(record).ok().filter(|_| !observed.denied);
        let given = record.as_ref().map(Record::given_by);
        let etcd = observed.get(&ObjectKey::namespaced(Kind::EtcdCluster, &*home, names::ETCD));
        let epoch = etcd.and_then(|etcd| etcd.pointer("/status/epoch")).and_then(Value::as_i64).unwrap_or_default();
        let hibernation = cluster.status.as_ref().and_then(|status| status.hibernation.as_ref());
        let facts = Facts {
            labels: cluster.labels().clone(),
            asleep: hibernation.is_some_and(|h| h.state != SleepState::Awake),
            ends: cluster.metadata.deletion_timestamp.is_some() && serves_nobody(observed, &home),
            paused: cluster.spec.paused,
            epoch,
            restored: record.is_some_and(|record| !record.was_looked_for(epoch)),
            wakes: waking_since(observed, &home),
            target,
        };
        if self.table.lock().met(&id, facts, given, Instant::now()) {
            self.news.notify_one();
        }
    }

    /// The UID of a `ClusterAccess` that was heard of.
    pub(crate) fn uid(&self, key: &ObjectKey) -> Option<String> {
        self.table.lock().uid(key)
    }

    /// A `Cluster` is gone.
    pub(crate) fn gone(&self, id: &TenantId) {
        self.table.lock().cluster_gone(id, Instant::now());
        self.news.notify_one();
    }
}
