//! What a decision about a restore is made from, as it was observed.

use super::decide::{RestoreEntry, RestoreView};
use crate::health::Health;
use crate::subject::Subject;
use berth_api::etcd_bootstrap::{BootstrapState, Record};
use berth_api::etcd_cluster::EtcdCluster;
use berth_api::restore::RestoreRequest;
use berth_api::{labels, names};
use berth_plan::observed::label;
use berth_plan::workload::{pods_of, taken_up};
use berth_render::{Binary, Kind};

/// What an `EtcdRestore` asks of it.
pub(crate) fn request(etcd: &EtcdCluster) -> Option<RestoreRequest> {
    let text = etcd.metadata.annotations.as_ref()?.get(labels::RESTORE_REQUEST)?;
    serde_json::from_str(text).ok()
}

/// The view of a reconcile.
pub(crate) fn view_restore<'a>(
    s: &Subject<'a>,
    health: &Health,
    request: Option<&'a RestoreRequest>,
) -> RestoreView<'a> {
    RestoreView {
        now: s.now,
        request,
        is_formed: s.record.bootstrap.state == BootstrapState::Established,
        obstacle: obstacle(s),
        clients_stopped: s.etcd.spec.clients_stopped,
        has_cluster: berth_plan::etcd_home::is_tenants(s.etcd),
        serves: health.quorum == Some(true),
        is_down: is_down(s),
        is_up: health.all_ready() && health.cluster_id.is_some(),
        target: names::etcd::member(s.name, 0),
        entry: entry(&s.record),
    }
}

/// The record with what a step writes.
pub(crate) fn take(record: &mut Record, entry: &RestoreEntry) {
    let RestoreEntry { epoch, serial, replicas, members, operation } = entry.clone();
    record.founders.get_or_insert(record.replicas);
    let bootstrap = &mut record.bootstrap;
    (bootstrap.epoch, bootstrap.serial, bootstrap.members) = (epoch, serial, members);
    bootstrap.restored = epoch > 1;
    (record.replicas, record.operation) = (replicas, operation);
    // A change of the version ends with it.
    record.next = None;
}

fn entry(record: &Record) -> RestoreEntry {
    let bootstrap = &record.bootstrap;
    RestoreEntry {
        epoch: bootstrap.epoch,
        serial: bootstrap.serial,
        replicas: record.replicas,
        members: bootstrap.members.clone(),
        operation: record.operation.clone(),
    }
}

/// The StatefulSet's controller knows that there are to be none.
fn is_down(s: &Subject<'_>) -> bool {
    let none = pods_of(s.observed, s.namespace, labels::ETCD_CLUSTER, s.name).next().is_none();
    let set = s.get(Kind::StatefulSet, s.name);
    none && set.is_none_or(|set| {
        let counts =
            ["/spec/replicas", "/status/replicas"].map(|at| set.pointer(at).and_then(serde_json::Value::as_i64));
        taken_up(set) && counts[0] == Some(0) && counts[1].unwrap_or_default() == 0
    })
}

/// Volumes of other members hold what must not run again, and the guards of earlier builds do not set it aside.
fn obstacle(s: &Subject<'_>) -> Option<String> {
    let sets_aside = s.templates().is_none_or(|set| set.reads(Binary::Etcd.folder(), "restored"));
    let claims = s.observed.of_kind(Kind::PersistentVolumeClaim, s.namespace);
    let of_others = claims.filter(|(key, claim)| {
        let ordinal = key.name.strip_prefix("data-").and_then(|member| names::etcd::ordinal(s.name, member));
        label(claim, labels::ETCD_CLUSTER) == Some(s.name) && ordinal.is_some_and(|ordinal| ordinal > 0)
    });
    let others: Vec<_> = of_others.map(|(key, _)| key.name.clone()).collect();
    (!sets_aside && !others.is_empty()).then(|| {
        format!(
            "this etcd was made by an earlier version of Berth, whose agent does not set data of an earlier epoch aside: with the volumes of several members ({}) it is not restored. Set spec.replicas (spec.etcd.replicas of its Cluster) to 1 first",
            others.join(", ")
        )
    })
}
