//! `ClusterRevision`s as they are there, and as they are to be.

use crate::ours::{is_ours, owner_labels};
use crate::record::Pin;
use berth_api::cluster::default_issuer;
use berth_api::conditions::shortened;
use berth_api::revision::{
    ClusterRevisionSpec, ClusterRevisionStatus, Release, RevisionCause, RevisionOutcome as Outcome,
};
use berth_api::text::printable;
use berth_api::{Cluster, labels, names};
use berth_plan::object_meta::{deleting, label};
use berth_plan::observed::Observed;
use berth_render::{Kind, ObjectKey};
use kube_core::ResourceExt;
use serde_json::{Value, json};
use std::collections::BTreeMap;

/// How many are kept, beside the last that succeeded.
pub(super) const KEPT: usize = 10;

/// A revision, as it was read.
#[derive(Clone, Debug)]
pub(super) struct Revision<'a> {
    pub(super) key: &'a ObjectKey,
    pub(super) live: &'a Value,
    pub(super) number: i64,
    /// None: this build cannot read it.
    pub(super) spec: Option<ClusterRevisionSpec>,
    pub(super) status: ClusterRevisionStatus,
}

impl Revision<'_> {
    pub(super) fn release(&self) -> Option<&Release> {
        self.spec.as_ref().map(|spec| &spec.release)
    }

    /// The release as the spec asked for it, and the copy of an audit webhook's Secret that it ran with.
    pub(super) fn asked(&self, cluster: &Cluster) -> Option<(Release, Option<&String>)> {
        let spec = self.spec.as_ref()?;
        let asked = spec.asked(&cluster.spec.network.dns_domain);
        Some((plain(cluster, asked), spec.release.audit_copy.as_ref()))
    }

    pub(super) fn version(&self) -> Option<&String> {
        self.release().map(|release| &release.version)
    }

    /// It changed nothing but the templates.
    pub(super) fn is_by_templates(&self) -> bool {
        self.spec.as_ref().is_some_and(|spec| spec.cause == RevisionCause::Templates)
    }

    /// Somebody asks for it once more, by that value of the annotation.
    pub(super) fn is_asked_again(&self, roll: Option<&String>) -> bool {
        roll.is_some() && self.spec.as_ref().is_some_and(|spec| spec.roll.as_ref() != roll)
    }

    pub(super) fn failed(&self) -> bool {
        matches!(self.status.outcome, Some(Outcome::RolledBack | Outcome::Held))
    }

    pub(super) fn succeeded(&self) -> bool {
        self.status.outcome == Some(Outcome::Succeeded) && self.spec.is_some()
    }

    pub(super) fn pin(&self) -> Option<Pin> {
        Some(self.spec.as_ref()?.pin.clone())
    }

    /// Its labels are Berth's.
    pub(super) fn is_labelled(&self, cluster: &Cluster) -> bool {
        labels_of(cluster).iter().all(|(key, value)| label(self.live, key) == Some(value))
    }

    /// Its object with that status. The spec is written as it is there: it is immutable, whatever this build would make of it.
    pub(super) fn with(&self, cluster: &Cluster, status: &ClusterRevisionStatus) -> Value {
        object(cluster, self.key, &self.live["spec"], status)
    }
}

/// The release without a list that says what none does.
pub(super) fn plain(cluster: &Cluster, mut release: Release) -> Release {
    let own = &mut release.api_server.service_account_issuers;
    if *own == [default_issuer(&cluster.spec.network.dns_domain)] {
        own.clear();
    }
    release
}

/// All of a tenant, the oldest first.
pub(super) fn all<'a>(observed: &'a Observed, cp_namespace: &str) -> Vec<Revision<'a>> {
    let of_tenant =
        |key: &ObjectKey| key.kind == Kind::ClusterRevision && key.namespace.as_deref() == Some(cp_namespace);
    let mut all: Vec<_> = observed
        .objects
        .iter()
        .filter(|(key, live)| of_tenant(key) && is_ours(live) && !deleting(live))
        .filter_map(|(key, live)| {
            // By its name: what is in it may be what no build of ours wrote.
            let number = key.name.strip_prefix("revision-")?.parse().ok()?;
            let spec = serde_json::from_value::<ClusterRevisionSpec>(live["spec"].clone()).ok();
            let status = serde_json::from_value(live["status"].clone()).unwrap_or_default();
            Some(Revision { key, live, number, spec: spec.filter(|spec| spec.number == number), status })
        })
        .collect();
    all.sort_by_key(|revision| revision.number);
    all
}

/// A new one.
pub(super) fn new(
    cluster: &Cluster,
    cp_namespace: &str,
    spec: &ClusterRevisionSpec,
    status: &ClusterRevisionStatus,
) -> Value {
    let key = ObjectKey::namespaced(Kind::ClusterRevision, cp_namespace, names::revision(spec.number));
    object(cluster, &key, &json!(spec), status)
}

fn object(cluster: &Cluster, key: &ObjectKey, spec: &Value, status: &ClusterRevisionStatus) -> Value {
    let labels = labels_of(cluster);
    json!({
        "apiVersion": Kind::ClusterRevision.api_version(), "kind": Kind::ClusterRevision.name(),
        "metadata": {"name": key.name, "namespace": key.namespace, "labels": labels},
        "spec": spec, "status": status,
    })
}

fn labels_of(cluster: &Cluster) -> BTreeMap<String, String> {
    let meta = &cluster.metadata;
    owner_labels(meta.namespace.as_deref().unwrap_or_default(), meta.name.as_deref().unwrap_or_default())
}

/// What changed from the newest one.
pub(super) fn cause(wanted: &Release, all: &[Revision<'_>]) -> RevisionCause {
    let before = all.iter().any(|r| r.succeeded() && r.release() == Some(wanted));
    let newest = all.iter().rev().find_map(Revision::release);
    match newest {
        None => RevisionCause::Creation,
        Some(newest) if before && newest != wanted => RevisionCause::Rollback,
        Some(newest) if newest.version != wanted.version => RevisionCause::Upgrade,
        Some(_) => RevisionCause::Configuration,
    }
}

/// What a person said of the change.
pub(super) fn change_cause(cluster: &Cluster) -> Option<String> {
    let text = cluster.annotations().get(labels::CHANGE_CAUSE)?;
    Some(text.chars().take(256).collect()).filter(|text: &String| !text.is_empty())
}

/// The annotation that asks once more, if it means this generation.
pub(crate) fn roll(cluster: &Cluster) -> Option<String> {
    let text = cluster.annotations().get(labels::ROLL).filter(|text| text.len() <= 64)?;
    let generation = cluster.metadata.generation?.to_string();
    let suffix = text.strip_prefix(&generation)?;
    (suffix.is_empty() || suffix.starts_with('-')).then(|| text.clone())
}

/// A message that fits a status, whatever it quotes.
pub(super) fn short(message: &str) -> String {
    shortened(&printable(message), 1000)
}
