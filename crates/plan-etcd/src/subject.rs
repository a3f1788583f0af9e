//! An `EtcdCluster` with what several stages need to know of it, computed once for a plan.

use berth_api::etcd_bootstrap::{OperationKind, Phase, Record, Release};
use berth_api::etcd_cluster::EtcdCluster;
use berth_api::version::Version;
use berth_api::{labels, names};
use berth_plan::etcd_home::name_of;
use berth_plan::object_meta::{annotation, label};
use berth_plan::observed::{ListedMember, MemberProbe, Observed, RaisedAlarm};
use berth_plan::settings::Settings;
use berth_plan::{Action, EtcdCall, RunLevel};
use berth_render::values::Meta;
use berth_render::{Binary, Catalog, Kind, ObjectKey, TemplateSet};
use jiff::Timestamp;
use serde_json::Value;
use std::collections::BTreeMap;

/// What a plan for an `EtcdCluster` is made from.
pub type Input<'a> = berth_plan::Input<'a, EtcdCluster>;

/// An `EtcdCluster` with what every stage needs to know of it.
#[derive(Clone, Debug)]
pub(super) struct Subject<'a> {
    pub(crate) etcd: &'a EtcdCluster,
    pub(crate) observed: &'a Observed,
    pub(crate) settings: &'a Settings,
    pub(crate) now: Timestamp,
    pub(crate) name: &'a str,
    pub(crate) namespace: &'a str,
    /// What the members run with, or will.
    pub(crate) record: Record,
}

impl<'a> Subject<'a> {
    pub(super) fn new(input: Input<'a>, record: Record) -> Self {
        let Input { object: etcd, observed, settings, now } = input;
        let (name, namespace) = name_of(etcd);
        Self { etcd, observed, settings, now, name, namespace, record }
    }

    pub(super) fn key(&self, kind: Kind, name: impl Into<String>) -> ObjectKey {
        ObjectKey::namespaced(kind, self.namespace, name)
    }

    pub(super) fn secret(&self, name: impl Into<String>) -> ObjectKey {
        self.key(Kind::Secret, name)
    }

    pub(super) fn get(&self, kind: Kind, name: &str) -> Option<&'a Value> {
        self.observed.get(&self.key(kind, name)).filter(|o| is_ours(o, self.name))
    }

    /// Labels of everything. No UID: it changes when a restored `EtcdCluster` takes its members over, and that must roll
    /// nothing. For the same reason nothing has an owner reference, by which it would be collected as garbage.
    pub(super) fn labels(&self) -> BTreeMap<String, String> {
        BTreeMap::from([
            (labels::MANAGED_BY.to_owned(), labels::MANAGED_BY_VALUE.to_owned()),
            (labels::ETCD_CLUSTER.to_owned(), self.name.to_owned()),
        ])
    }

    pub(super) fn meta(&self) -> Meta {
        Meta { namespace: self.namespace.to_owned(), labels: self.labels(), ..Meta::default() }
    }

    /// Names of the members that run, or will.
    pub(super) fn members(&self) -> Vec<String> {
        (0..self.record.replicas).map(|i| names::etcd::member(self.name, i)).collect()
    }

    /// How many members have an address and are named in certificates: one that is being added gets them before it has a pod.
    pub(super) fn addressed(&self) -> i32 {
        let added = self.record.under_way(OperationKind::Grow);
        let added = added.and_then(|o| names::etcd::ordinal(self.name, &o.target));
        added.map_or(self.record.replicas, |ordinal| self.record.replicas.max(ordinal.saturating_add(1)))
    }

    /// The cluster ID on record, of this epoch.
    pub(super) fn cluster_id(&self) -> Option<&'a str> {
        let status = self.etcd.status.as_ref()?;
        let is_of_this_epoch = status.epoch.is_none_or(|epoch| epoch == self.record.bootstrap.epoch);
        status.cluster_id.as_deref().filter(|_| is_of_this_epoch)
    }

    /// Whether it is being restored.
    pub(super) fn is_restored(&self) -> bool {
        self.record.under_way(OperationKind::Restore).is_some()
    }

    /// Whether it sleeps, or is about to.
    pub(super) fn sleeps(&self) -> bool {
        self.record.under_way(OperationKind::Sleep).is_some() && !self.run_level().runs_etcd()
    }

    /// Whether its members start after a sleep, as they were.
    pub(super) fn wakes(&self) -> bool {
        self.record.under_way(OperationKind::Sleep).is_some_and(|operation| operation.phase == Phase::Start)
    }

    /// What of it is to run.
    pub(super) fn run_level(&self) -> RunLevel {
        RunLevel::during(self.record.operation.as_ref())
    }

    /// Whether Berth changes what runs: `spec.paused` is false, and the pinned templates are at hand.
    pub(super) fn acts(&self) -> bool {
        !self.etcd.spec.paused && self.templates().is_some()
    }

    /// Whether its members get another version.
    pub(super) fn is_upgraded(&self) -> bool {
        self.record.under_way(OperationKind::Upgrade).is_some()
    }

    /// Members whose names are in all pods.
    pub(super) fn founders(&self) -> i32 {
        self.record.founders.unwrap_or(self.record.replicas)
    }

    /// Whether the members' guard lets one join a running cluster: it comes with templates that tell it who the members are.
    pub(super) fn can_join(&self) -> bool {
        self.templates().is_some_and(|set| set.reads(Binary::Etcd.folder(), "journal"))
    }

    /// The template set that the members are pinned to, if it is at hand.
    pub(super) fn templates(&self) -> Option<&TemplateSet> {
        self.templates_of(&self.record.release())
    }

    /// The template set of a release, if it is at hand.
    pub(super) fn templates_of(&self, release: &Release) -> Option<&TemplateSet> {
        let is_it = |set: &&TemplateSet| set.digest() == release.templates;
        let builtin = Catalog::builtin().etcd(release.version.minor()).filter(is_it);
        builtin.or_else(|| [&self.observed.pinned, &self.observed.pinned_next].into_iter().flatten().find(is_it))
    }

    /// A member's pod.
    pub(super) fn pod(&self, member: &str) -> Option<&'a Value> {
        self.observed.get(&self.key(Kind::Pod, member)).filter(|p| label(p, labels::ETCD_CLUSTER) == Some(self.name))
    }

    /// What a member said, if it answered.
    pub(super) fn said(&self, member: &str) -> Option<&'a MemberProbe> {
        self.observed.etcd.as_ref()?.members.get(member)?.as_ref().ok()
    }

    /// What those said who answered.
    pub(super) fn answers(&self) -> impl Iterator<Item = &'a MemberProbe> + use<'a> {
        self.observed.etcd.iter().flat_map(|probe| probe.members.values()).flatten()
    }

    /// Members as etcd lists them. None: no quorum answered.
    pub(super) fn listed(&self) -> Option<&'a Vec<ListedMember>> {
        self.observed.etcd.as_ref()?.list.as_ref()
    }

    /// Alarms that are raised.
    pub(super) fn alarms(&self) -> &'a [RaisedAlarm] {
        self.observed.etcd.as_ref().map_or(&[], |probe| &probe.alarms)
    }

    /// Its own objects of a kind, by their label.
    pub(super) fn children(&self, kind: Kind) -> impl Iterator<Item = (&'a ObjectKey, &'a Value)> + use<'a> {
        children(self.etcd, self.observed, kind)
    }
}

/// What of a kind carries the cluster's label.
pub(crate) fn children<'a>(
    etcd: &'a EtcdCluster,
    observed: &'a Observed,
    kind: Kind,
) -> impl Iterator<Item = (&'a ObjectKey, &'a Value)> {
    let (name, namespace) = name_of(etcd);
    observed.of_kind(kind, namespace).filter(move |(_, o)| label(o, labels::ETCD_CLUSTER) == Some(name))
}

/// True if it belongs to the `EtcdCluster` of that name. One that names another owner is that owner's; one of Berth's that
/// names none has lost its label, which is repaired.
pub(crate) fn is_ours(object: &Value, name: &str) -> bool {
    match (label(object, labels::ETCD_CLUSTER), label(object, labels::CLUSTER_NAME)) {
        (Some(owner), _) => owner == name,
        (None, Some(_)) => false,
        (None, None) => {
            label(object, labels::MANAGED_BY) == Some(labels::MANAGED_BY_VALUE)
                || annotation(object, labels::APPLIED_DIGEST).is_some()
        }
    }
}

/// How a person calls `etcdctl`: in a member's pod, where the server's certificate is also a client's.
pub(crate) fn etcdctl(s: &Subject<'_>, pod: &str, command: &str) -> String {
    let (namespace, pki) = (s.namespace, "/etc/kubernetes/pki/etcd/server");
    format!(
        "kubectl -n {namespace} exec {pod} -c etcd -- etcdctl --endpoints=https://127.0.0.1:2379 --cacert={pki}/ca.crt --cert={pki}/tls.crt --key={pki}/tls.key {command}"
    )
}

/// What is done to the databases. Who leads is no change of members, and needs no record.
pub(crate) fn told(s: &Subject<'_>, via: String, call: EtcdCall) -> Action {
    let etcd = s.key(Kind::EtcdCluster, s.name);
    match call {
        EtcdCall::Change(change) => Action::ChangeMembers { etcd, via, change },
        EtcdCall::Maintain(what) => Action::Maintain { etcd, via, what },
    }
}

/// The version of the template that a pod was made from.
pub(crate) fn pod_version(pod: &Value) -> Option<Version> {
    label(pod, labels::VERSION)?.parse().ok()
}
