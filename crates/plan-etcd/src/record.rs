//! What the members run with and what their data is bound to.
//!
//! It is decided once, and then read from what is there: the status, the `StatefulSet` and the bootstrap `ConfigMap` each hold
//! it, so that the loss of any one of them (a backup restores no status; `Retain` leaves no `StatefulSet`) changes nothing.

use super::subject::{children, is_ours};
use super::validate;
use crate::procedures::{sleep, upgrade};
use crate::subject::Input;
use berth_api::common::AgentDelivery;
use berth_api::conditions::Reason;
use berth_api::etcd_bootstrap::{
    Bootstrap, BootstrapState, FailedVersion, MemberRecord, Operation, Record, Release, keys,
};
use berth_api::etcd_cluster::{EtcdCluster, EtcdClusterStatus};
use berth_api::helpers::Amounts;
use berth_api::version::Version;
use berth_api::{labels, names};
use berth_plan::etcd_home::name_of;
use berth_plan::model::State;
use berth_plan::object_meta::{annotation, deleting};
use berth_plan::observed::Observed;
use berth_plan::workload::{pod_ready, version_of, waits_for};
use berth_render::{Catalog, Kind, ObjectKey, relocated};
use serde::{Deserialize, Deserializer};
use std::ops::RangeInclusive;

/// Numbers of members that there can be; the CRD allows the odd ones, and between two of them is one more.
pub(super) const REPLICAS: RangeInclusive<i32> = 1..=5;

/// What one source says; sources may be damaged, so every field is optional.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct RecordSource {
    #[serde(rename = "clusterUID")]
    cluster_uid: Option<String>,
    epoch: Option<i64>,
    state: Option<BootstrapState>,
    joined: Vec<String>,
    #[serde(deserialize_with = "if_one")]
    version: Option<Version>,
    replicas: Option<i32>,
    templates: Option<String>,
    agent_image: Option<String>,
    /// Goes with the image of the same source.
    agent_delivery: Option<AgentDelivery>,
    /// Likewise.
    helper_resources: Option<Amounts>,
    founders: Option<i32>,
    /// This and what follows count whole, with the replicas: those of the highest epoch and serial.
    serial: i64,
    members: Vec<MemberRecord>,
    operation: Option<Operation>,
    next: Option<Release>,
    failed: Option<FailedVersion>,
}

impl RecordSource {
    /// Without what cannot be: another source knows better, and nothing that is written beside the members may cost the operator,
    /// and so other tenants, more than it should.
    fn credible(self) -> Self {
        Self {
            cluster_uid: self.cluster_uid.filter(|u| is_uid(u)),
            // Between two odd numbers of members is a change of them.
            replicas: self.replicas.filter(|n| REPLICAS.contains(n) && (self.serial > 0 || n % 2 == 1)),
            templates: self.templates.filter(|d| is_digest(d)),
            agent_image: self.agent_image.filter(|i| is_image(i)),
            ..self
        }
    }
}

/// Part of etcd's token and of the markers on volumes.
fn is_uid(text: &str) -> bool {
    (1..=64).contains(&text.len()) && text.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-')
}

/// What is no version costs only itself, not the rest of its source.
fn if_one<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Version>, D::Error> {
    Ok(Option::<String>::deserialize(deserializer)?.and_then(|text| text.parse().ok()))
}

/// SHA-256 in hexadecimal.
fn is_digest(text: &str) -> bool {
    text.len() == 64 && text.bytes().all(|b| b.is_ascii_hexdigit())
}

/// Not what an image is called, but what fits into a pod.
fn is_image(text: &str) -> bool {
    (1..=1024).contains(&text.len()) && text.bytes().all(|b| b.is_ascii_graphic())
}

fn parse(text: Option<&str>) -> RecordSource {
    text.and_then(|t| serde_json::from_str(t).ok()).unwrap_or_default()
}

/// Everything that is known, in the order of trust.
fn sources(etcd: &EtcdCluster, status: Option<&EtcdClusterStatus>, observed: &Observed) -> Vec<RecordSource> {
    let (name, namespace) = name_of(etcd);
    let get = |kind, name_: &str| {
        let key = ObjectKey::namespaced(kind, namespace, name_);
        observed.get(&key).filter(|o| is_ours(o, name))
    };
    let mut all = vec![];
    let status = status.cloned().unwrap_or_default();
    let formed = status.cluster_id.is_some();
    let agent = RecordSource {
        agent_delivery: status.templates.as_ref().map(|t| t.agent_delivery),
        agent_image: status.templates.as_ref().map(|t| t.agent_image.clone()),
        helper_resources: status.templates.as_ref().and_then(|t| t.helper_resources.clone()),
        ..RecordSource::default()
    };
    // First what only the operator can write. It never changes, so it cannot be stale; but for the agent, until there are members.
    all.push(RecordSource {
        cluster_uid: status.identity,
        epoch: status.epoch,
        state: formed.then_some(BootstrapState::Established),
        templates: status.templates.map(|t| t.digest),
        ..if formed { agent.clone() } else { RecordSource::default() }
    });
    let set = get(Kind::StatefulSet, name);
    let has_set = set.is_some();
    if let Some(set) = set {
        all.push(parse(annotation(set, labels::ETCD_RECORD)));
        all.push(RecordSource { version: version_of(set), ..RecordSource::default() });
    }
    all.push(agent);
    if let Some(map) = get(Kind::ConfigMap, &names::etcd::bootstrap(name)) {
        let noted = parse(annotation(map, labels::ETCD_RECORD));
        // Written before the StatefulSet: the end of a change of the version may be here alone, and goes with its templates and agent.
        // Without members that know of them they were those of a StatefulSet that is gone: new pods may start with newer ones.
        let is_live = has_set || formed;
        all.push(if is_live {
            noted
        } else {
            RecordSource { templates: None, agent_image: None, agent_delivery: None, helper_resources: None, ..noted }
        });
        // Without what changes under way: that is in the annotation alone.
        let data = |key: &str| map.pointer("/data")?.get(key)?.as_str();
        let members = data(keys::INITIAL_CLUSTER).map(|m| m.split(',').count());
        all.push(RecordSource {
            replicas: members.and_then(|n| i32::try_from(n).ok()),
            serial: 0,
            ..parse(data(keys::BOOTSTRAP))
        });
    }
    if formed {
        let members = i32::try_from(status.members.len()).ok().filter(|n| *n > 0);
        let version = status.version.and_then(|v| v.parse().ok());
        all.push(RecordSource { version, replicas: members, ..RecordSource::default() });
    }
    all.into_iter().map(RecordSource::credible).collect()
}

/// What members run with, if there are any or ever were; fields that nothing says anything about are as asked for.
pub fn running(etcd: &EtcdCluster, observed: &Observed) -> Option<Record> {
    merge(etcd, &sources(etcd, etcd.status.as_ref(), observed))
}

/// What is written beside the members, whatever the status says.
pub(crate) fn written(etcd: &EtcdCluster, observed: &Observed) -> Option<Record> {
    merge(etcd, &sources(etcd, None, observed))
}

fn merge(etcd: &EtcdCluster, all: &[RecordSource]) -> Option<Record> {
    // Identity is what makes a cluster: without it there never was one.
    let identity = all.iter().find_map(|s| s.cluster_uid.clone())?;
    let epoch = all.iter().filter_map(|s| s.epoch).max().unwrap_or(1);
    // The first of the newest.
    let journal = all.iter().rev().filter(|s| s.serial > 0 && s.epoch == Some(epoch)).max_by_key(|s| s.serial);
    // The version changes with the journal; where there is none, the order of trust counts.
    let pinned = || journal.into_iter().chain(all);
    let version = pinned().find_map(|s| s.version).or_else(|| etcd.spec.version.parse().ok())?;
    let agent = pinned().find(|s| s.agent_image.is_some());
    let replicas = journal.and_then(|s| s.replicas).or_else(|| all.iter().find_map(|s| s.replicas));
    let replicas = replicas.unwrap_or(etcd.spec.replicas);
    let seen = |member: &String| all.iter().any(|s| s.joined.contains(member));
    Some(Record {
        bootstrap: Bootstrap {
            cluster_uid: identity,
            epoch,
            state: all.iter().filter_map(|s| s.state).max().unwrap_or_default(),
            restored: epoch > 1,
            joined: (0..replicas).map(|i| names::etcd::member(name_of(etcd).0, i)).filter(seen).collect(),
            serial: journal.map(|s| s.serial).unwrap_or_default(),
            members: journal.map(|s| s.members.clone()).unwrap_or_default(),
            keep_old_data: None,
        },
        founders: journal.and_then(|s| s.founders),
        operation: journal.and_then(|s| s.operation.clone()),
        next: journal.and_then(|s| s.next.clone()),
        failed: journal.and_then(|s| s.failed.clone()),
        replicas,
        templates: pinned().find_map(|s| s.templates.clone()).unwrap_or_else(|| builtin(version)),
        agent_image: agent.and_then(|s| s.agent_image.clone()).unwrap_or_default(),
        agent_delivery: agent.and_then(|s| s.agent_delivery).unwrap_or_default(),
        helper_resources: agent.and_then(|s| s.helper_resources.clone()),
        version,
    })
}

fn builtin(version: Version) -> String {
    Catalog::builtin().etcd(version.minor()).map(berth_render::TemplateSet::digest).unwrap_or_default()
}

/// What the members run with, or what new ones will. Err: there is no such version, or volumes are there of which nothing says whose
/// they are.
pub(crate) fn of(input: Input<'_>) -> Result<Record, State> {
    let Input { object: etcd, observed, settings, .. } = input;
    if let Some(mut record) = running(etcd, observed) {
        upgrade::pick_up(input, &mut record);
        sleep::pick_up(name_of(etcd).0, &mut record);
        if record.agent_image.is_empty() || agent_image_is_missing(input, &record) {
            record.agent_image.clone_from(&settings.agent_image);
            record.agent_delivery = settings.agent_delivery;
        }
        return Ok(record);
    }
    let (name, namespace) = name_of(etcd);
    match children(etcd, observed, Kind::PersistentVolumeClaim).next() {
        Some((key, v)) if deleting(v) => Err(State::waiting(format!("the deletion of {key} of an earlier etcd"))),
        Some((key, _)) => Err(State::blocked(
            Reason::ForeignData,
            format!(
                "{key} has the data of an earlier etcd, and ConfigMap {namespace}/{}, which says whose data it is, is gone. Restore the ConfigMap from a backup; or, if nobody needs the data, delete the PersistentVolumeClaims. Until then no member starts",
                names::etcd::bootstrap(name)
            ),
        )),
        None => {
            let version = validate::supported(&etcd.spec.version)?;
            validate::volumes(&etcd.spec)?;
            Ok(Record {
                bootstrap: Bootstrap {
                    cluster_uid: etcd.metadata.uid.clone().unwrap_or_default(),
                    epoch: 1,
                    ..Bootstrap::default()
                },
                version,
                replicas: etcd.spec.replicas,
                templates: builtin(version),
                agent_image: settings.agent_image.clone(),
                agent_delivery: settings.agent_delivery,
                helper_resources: settings.helpers.resources.clone(),
                ..Record::default()
            })
        }
    }
}

/// Whether pods cannot get the agent's image, and no member ever came up with it: a mistake in the chart's values is mended with
/// them.
fn agent_image_is_missing(input: Input<'_>, record: &Record) -> bool {
    let Input { object: etcd, observed, .. } = input;
    let registry = etcd.spec.images.registry.as_ref();
    let agent = registry.map_or_else(|| record.agent_image.clone(), |r| relocated(r, &record.agent_image));
    let pods = || children(etcd, observed, Kind::Pod);
    record.bootstrap.state == BootstrapState::Bootstrapping
        && record.bootstrap.joined.is_empty()
        && pods().any(|(_, pod)| waits_for(pod, &agent))
        && !pods().any(|(_, pod)| pod_ready(pod))
}

/// The `ConfigMap` with the template set that the members are pinned to, if there are members: to be read into
/// [`Observed::pinned`] unless that set is built in.
pub fn pinned_templates(etcd: &EtcdCluster, observed: &Observed) -> Option<ObjectKey> {
    Some(kept(etcd, &running(etcd, observed)?.templates))
}

/// Likewise of the version that the members are getting: for [`Observed::pinned_next`].
pub fn pinned_next_templates(etcd: &EtcdCluster, observed: &Observed) -> Option<ObjectKey> {
    Some(kept(etcd, &running(etcd, observed)?.next?.templates))
}

fn kept(etcd: &EtcdCluster, digest: &str) -> ObjectKey {
    let (name, namespace) = name_of(etcd);
    ObjectKey::namespaced(Kind::ConfigMap, namespace, names::etcd::templates(name, digest))
}
