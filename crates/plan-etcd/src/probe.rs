//! What the operator asks about an etcd: its members, and which of them are missing.

use super::subject::children;
use super::{record, services};
use berth_api::etcd_cluster::{EtcdCluster, EtcdEndpoint};
use berth_api::names;
use berth_plan::etcd_home::name_of;
use berth_plan::object_meta::deleting;
use berth_plan::observed::Observed;
use berth_plan::workload::{pod_running, taken_up};
use berth_render::{Kind, ObjectKey};
use serde_json::Value;

/// Where the members are reached, from what was observed; empty until every one of them has an address.
pub fn endpoints(etcd: &EtcdCluster, observed: &Observed) -> Vec<EtcdEndpoint> {
    let replicas = record::running(etcd, observed).map_or(etcd.spec.replicas, |r| r.replicas);
    services::endpoints(etcd, observed, replicas)
}

/// True if a member's pod runs, so that asking the members makes sense.
pub fn can_probe(etcd: &EtcdCluster, observed: &Observed) -> bool {
    children(etcd, observed, Kind::Pod).any(|(_, pod)| pod_running(pod))
}

/// Members without a pod although their `StatefulSet` was taken up: something may refuse it.
pub fn missing_members(etcd: &EtcdCluster, observed: &Observed) -> Vec<String> {
    let (name, namespace) = name_of(etcd);
    let Some(set) = observed.get(&ObjectKey::namespaced(Kind::StatefulSet, namespace, name)) else { return vec![] };
    // Nobody waits for pods of one that is being deleted.
    let terminating = etcd.metadata.deletion_timestamp.is_some() || deleting(set);
    let replicas = set.pointer("/spec/replicas").and_then(Value::as_i64);
    let replicas = replicas.and_then(|n| i32::try_from(n).ok()).filter(|n| record::REPLICAS.contains(n));
    let wanted = replicas.filter(|_| taken_up(set) && !terminating).unwrap_or_default();
    let members = (0..wanted).map(|i| names::etcd::member(name, i));
    members.filter(|m| observed.get(&ObjectKey::namespaced(Kind::Pod, namespace, m.as_str())).is_none()).collect()
}
