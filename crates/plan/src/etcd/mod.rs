//! The plan for an `EtcdCluster`: one function a stage, in the order in which its members come up.
//!
//! The driver observes [`OBSERVED`] (everything labelled with the cluster's name), asks the members at [`endpoints`] once
//! one of their pods runs, and then plans and carries out until nothing is left to write.

mod deletion;
mod health;
mod members;
mod pace;
mod pki;
mod record;
mod roll;
mod services;
pub mod status;
pub(crate) mod unread;
mod validate;

#[cfg(test)]
pub(crate) mod tests;

use crate::disown::disown;
use crate::model::{Action, Plan, Stage, StageId, State};
use crate::observed::{self, Observed, annotation, deleting, label};
use crate::settings::Settings;
use berth_api::conditions::Reason;
use berth_api::etcd_bootstrap::Record;
use berth_api::etcd_cluster::{EtcdCluster, EtcdEndpoint};
use berth_api::{labels, names};
use berth_render::{Catalog, Kind, ObjectKey, TemplateSet, values::Meta};
use jiff::{SignedDuration, Timestamp};
use serde_json::Value;
use std::collections::BTreeMap;

pub use health::{Health, Member};
pub use record::pinned_templates;
pub(crate) use record::running;

/// Kinds that a plan looks at, in the `EtcdCluster`'s namespace, by the label `berth.dev/etcd-cluster`. What has one of the
/// names that a plan owns must be there too, whatever its labels, so that somebody else's object is seen.
pub const OBSERVED: [Kind; 7] = [
    Kind::PodDisruptionBudget,
    Kind::Secret,
    Kind::ConfigMap,
    Kind::PersistentVolumeClaim,
    Kind::Service,
    Kind::StatefulSet,
    Kind::Pod,
];

/// What a plan for an `EtcdCluster` is made from.
#[derive(Clone, Copy, Debug)]
pub struct Input<'a> {
    /// The `EtcdCluster` as it was read.
    pub etcd: &'a EtcdCluster,
    /// What was observed for it.
    pub observed: &'a Observed,
    /// The operator's configuration.
    pub settings: &'a Settings,
    /// The time of this pass.
    pub now: Timestamp,
}

/// A plan, and what the status needs beside it.
#[derive(Clone, Debug, Default)]
pub struct EtcdPlan {
    /// What to do.
    pub plan: Plan,
    /// Look again after this long, even if nothing happens: how the members are, no watch tells.
    pub look_again: Option<SignedDuration>,
    /// After this long the plan is another one by time alone: a certificate is to be renewed.
    pub due: Option<SignedDuration>,
    /// When the first certificate ends.
    pub next_expiry: Option<Timestamp>,
    /// CAs that come to their end.
    pub warnings: Vec<String>,
    /// The message for fields that are set and that the pinned templates do not read.
    pub unread: Option<String>,
    /// Where the members are reached; empty until every one of them has an address.
    pub endpoints: Vec<EtcdEndpoint>,
    /// What the members run with. None: nothing can be made of the spec, or it is being deleted.
    pub record: Option<Record>,
    /// How the members are.
    pub health: Health,
}

/// An `EtcdCluster` with what every stage needs to know of it.
#[derive(Clone, Debug)]
pub(crate) struct Subject<'a> {
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
    fn new(input: Input<'a>, record: Record) -> Self {
        let Input { etcd, observed, settings, now } = input;
        let (name, namespace) = name_of(etcd);
        Self { etcd, observed, settings, now, name, namespace, record }
    }

    fn key(&self, kind: Kind, name: impl Into<String>) -> ObjectKey {
        ObjectKey::namespaced(kind, self.namespace, name)
    }

    fn secret(&self, name: impl Into<String>) -> ObjectKey {
        self.key(Kind::Secret, name)
    }

    fn get(&self, kind: Kind, name: &str) -> Option<&'a Value> {
        self.observed.get(&self.key(kind, name)).filter(|o| is_ours(o, self.name))
    }

    /// Labels of everything. No UID: it changes when a restored `EtcdCluster` takes its members over, and that must roll
    /// nothing. For the same reason nothing has an owner reference, by which it would be collected as garbage.
    fn labels(&self) -> BTreeMap<String, String> {
        BTreeMap::from([
            (labels::MANAGED_BY.to_owned(), labels::MANAGED_BY_VALUE.to_owned()),
            (labels::ETCD_CLUSTER.to_owned(), self.name.to_owned()),
        ])
    }

    fn meta(&self) -> Meta {
        Meta { namespace: self.namespace.to_owned(), labels: self.labels(), ..Meta::default() }
    }

    /// Names of the members that run, or will.
    fn members(&self) -> Vec<String> {
        (0..self.record.replicas).map(|i| names::etcd::member(self.name, i)).collect()
    }

    /// The template set that the members are pinned to, if it is at hand.
    fn templates(&self) -> Option<&TemplateSet> {
        let digest = &self.record.templates;
        let builtin = Catalog::builtin().etcd(self.record.version.minor()).filter(|s| s.digest() == *digest);
        builtin.or_else(|| self.observed.pinned.as_ref().filter(|s| s.digest() == *digest))
    }

    /// A member's pod.
    fn pod(&self, member: &str) -> Option<&'a Value> {
        self.observed.get(&self.key(Kind::Pod, member)).filter(|p| label(p, labels::ETCD_CLUSTER) == Some(self.name))
    }
}

/// Name and namespace.
fn name_of(etcd: &EtcdCluster) -> (&str, &str) {
    let m = &etcd.metadata;
    (m.name.as_deref().unwrap_or_default(), m.namespace.as_deref().unwrap_or_default())
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

/// Where the members are reached, from what was observed; empty until every one of them has an address.
pub fn endpoints(etcd: &EtcdCluster, observed: &Observed) -> Vec<EtcdEndpoint> {
    let (name, namespace) = name_of(etcd);
    let replicas = record::running(etcd, observed).map_or(etcd.spec.replicas, |r| r.replicas);
    services::endpoints(observed, namespace, name, replicas)
}

/// True if a member's pod runs, so that asking the members makes sense.
pub fn worth_asking(etcd: &EtcdCluster, observed: &Observed) -> bool {
    let (name, namespace) = name_of(etcd);
    crate::workload::pods_of(observed, namespace, labels::ETCD_CLUSTER, name)
        .any(|(_, p)| crate::workload::pod_running(p))
}

/// Members without a pod although their `StatefulSet` was taken up: something may refuse it.
pub fn absent(etcd: &EtcdCluster, observed: &Observed) -> Vec<String> {
    let (name, namespace) = name_of(etcd);
    let Some(set) = observed.get(&ObjectKey::namespaced(Kind::StatefulSet, namespace, name)) else { return vec![] };
    // Of one that comes to its end nobody waits for pods.
    let leaving = etcd.metadata.deletion_timestamp.is_some() || deleting(set);
    let replicas = set.pointer("/spec/replicas").and_then(Value::as_i64);
    let replicas = replicas.and_then(|n| i32::try_from(n).ok()).filter(|n| record::REPLICAS.contains(n));
    let wanted = replicas.filter(|_| crate::workload::taken_up(set) && !leaving).unwrap_or_default();
    let members = (0..wanted).map(|i| names::etcd::member(name, i));
    members.filter(|m| observed.get(&ObjectKey::namespaced(Kind::Pod, namespace, m.as_str())).is_none()).collect()
}

/// The plan for an `EtcdCluster`.
pub fn plan(input: Input<'_>) -> EtcdPlan {
    if input.etcd.metadata.deletion_timestamp.is_some() {
        return deletion::plan(input);
    }
    let mut out = EtcdPlan::default();
    let (spec, record) = validate::stage(input);
    out.plan.stages.push(spec);
    let Some(record) = record else {
        out.look_again = Some(pace::SLOW);
        return out;
    };
    let s = Subject::new(input, record);
    if s.templates().is_some() {
        out.plan.stages.push(services::stage(&s));
    }
    out.endpoints = services::endpoints(s.observed, s.namespace, s.name, s.record.replicas);
    let pki = pki::stage(&s, &mut out);
    out.health = health::judge(&s);
    let etcd = members::stage(&s, &out);
    out.plan.stages.extend([pki, etcd]);
    disown(&mut out.plan, s.observed, |o| is_ours(o, s.name));
    if s.etcd.spec.paused {
        out.plan.stages.iter_mut().for_each(|stage| stage.actions.clear());
    } else if out.plan.stages.iter().all(|stage| !matches!(stage.state, State::Waiting { .. })) {
        out.plan.prune = prune(&s);
    }
    out.unread = unread::message(&s);
    out.look_again = Some(pace::of(&s, &out));
    out.record = Some(s.record);
    out
}

/// Certificates of clients that are no longer named. Nothing else of ours can be left over.
fn prune(s: &Subject<'_>) -> Vec<Action> {
    let named = |secret: &Value| {
        label(secret, labels::ETCD_CLIENT).is_none_or(|c| s.etcd.spec.clients.iter().any(|n| n.name == c))
    };
    s.observed
        .of_kind(Kind::Secret, s.namespace)
        .filter(|(_, o)| label(o, labels::ETCD_CLUSTER) == Some(s.name) && !named(o) && !observed::deleting(o))
        .map(|(key, o)| Action::delete(key, o, None))
        .collect()
}

/// What a stage is not done with, as the status says it: the members' own stage needs no name in an `EtcdCluster`.
pub(crate) fn sentence(stage: &Stage) -> Option<(Reason, String)> {
    match stage.id {
        StageId::Etcd => stage.state.sentence(),
        StageId::Endpoint => stage.state.sentence().map(|(reason, text)| (reason, format!("services: {text}"))),
        _ => stage.sentence(),
    }
}
