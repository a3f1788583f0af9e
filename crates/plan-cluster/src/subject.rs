//! A `Cluster` with what several stages need to know of it, computed once for a plan.

use super::components::Workloads;
use super::endpoint::{Endpoint, server_handed_out};
use super::ours::{is_ours, owner_labels};
use super::planned::Input;
use super::record::Pin;
use super::release::Release;
use super::sleep::state::Sleep;
use berth_api::cluster::{Cluster, ClusterStatus};
use berth_api::etcd_bootstrap::OperationKind;
use berth_api::hibernation::SleepState;
use berth_api::{EtcdCluster, labels, names};
use berth_plan::RunLevel;
use berth_plan::observed::Observed;
use berth_plan::settings::Settings;
use berth_plan::workload;
use berth_render::values::Meta;
use berth_render::{Binary, Catalog, Distribution, KUBERNETES, Kind, ObjectKey, TemplateSet};
use jiff::Timestamp;
use serde_json::Value;
use std::collections::BTreeMap;

/// The subject of a plan.
#[derive(Clone, Debug)]
pub(crate) struct Tenant<'a> {
    pub(crate) cluster: &'a Cluster,
    pub(crate) observed: &'a Observed,
    pub(crate) settings: &'a Settings,
    /// The programs that it consists of.
    pub(crate) distribution: &'static Distribution,
    pub(crate) now: Timestamp,
    pub(crate) name: &'a str,
    pub(crate) namespace: &'a str,
    pub(crate) uid: &'a str,
    /// The control-plane namespace.
    pub(crate) cp_namespace: String,
    /// Version, templates and agent that the tenant is (to be) rendered with; the spec stage sets it.
    pub(crate) release: Release,
    /// What the spec asks for is refused, and what runs goes on: nothing begins that cannot be undone.
    pub(crate) refused: bool,
    /// The copy of the audit webhook's Secret that the release is recorded with.
    pub(crate) audit_copy: Option<String>,
    /// Where the API is.
    pub(crate) endpoint: Endpoint,
    /// The `EtcdCluster`, if it is there and Berth's.
    pub(crate) etcd: Option<EtcdCluster>,
    /// What of it is to run.
    pub(crate) run_level: RunLevel,
    /// Whether it sleeps.
    pub(crate) sleep: Sleep,
}

impl<'a> Tenant<'a> {
    /// A pod of a Job of that component which has not ended.
    pub(crate) fn pod_at_work(&self, component: &str) -> Option<String> {
        let works = |pod: &Value| !matches!(pod["status"]["phase"].as_str(), Some("Succeeded" | "Failed"));
        let mut pods = workload::pods_of(self.observed, &self.cp_namespace, labels::COMPONENT, component);
        pods.find(|(_, pod)| works(pod)).map(|(key, _)| key.name.clone())
    }

    pub(crate) fn new(input: Input<'a>) -> Self {
        let Input { object: cluster, observed, settings, now } = input;
        let name = cluster.metadata.name.as_deref().unwrap_or_default();
        let namespace = cluster.metadata.namespace.as_deref().unwrap_or_default();
        let uid = cluster.metadata.uid.as_deref().unwrap_or_default();
        let cp_namespace = names::control_plane_namespace(namespace, name);
        let service = observed.get(&ObjectKey::namespaced(Kind::Service, &*cp_namespace, names::APISERVER));
        let handed_out = server_handed_out(observed, &cp_namespace);
        let endpoint = Endpoint::seen(
            cluster,
            service.filter(|s| is_ours(s)),
            handed_out,
            &observed.meta,
            (settings, &cp_namespace, observed.host_is_of.as_ref()),
        );
        let etcd = observed.get(&ObjectKey::namespaced(Kind::EtcdCluster, &*cp_namespace, names::ETCD));
        let etcd = etcd.filter(|e| is_ours(e)).and_then(|e| serde_json::from_value::<EtcdCluster>(e.clone()).ok());
        let operation = etcd.as_ref().and_then(|etcd| etcd.status.as_ref()?.operation.as_ref());
        // When etcd sleeps follows from when the tenant does, not the other way round.
        let operation = operation.filter(|operation| operation.kind != OperationKind::Sleep);
        let run_level = RunLevel::during(operation);
        Self {
            cluster,
            observed,
            settings,
            distribution: &KUBERNETES,
            now,
            name,
            namespace,
            uid,
            cp_namespace,
            release: Release::default(),
            refused: false,
            audit_copy: None,
            endpoint,
            etcd,
            run_level,
            sleep: Sleep::default(),
        }
    }

    pub(super) fn key(&self, kind: Kind, name: impl Into<String>) -> ObjectKey {
        ObjectKey::namespaced(kind, self.cp_namespace.clone(), name)
    }

    pub(super) fn secret(&self, name: impl Into<String>) -> ObjectKey {
        self.key(Kind::Secret, name)
    }

    pub(super) fn get(&self, kind: Kind, name: &str) -> Option<&'a Value> {
        self.observed.get(&self.key(kind, name))
    }

    /// What runs a component's pods.
    pub(super) fn workloads(&self, binary: Binary) -> Workloads<'a> {
        Workloads::seen(self.cluster, self.observed, &self.cp_namespace, binary)
    }

    /// Whether Berth acts on it: `spec.paused` is false.
    pub(super) fn acts(&self) -> bool {
        !self.cluster.spec.paused
    }

    /// Nothing of a release can go on: Berth does not act, or no component runs. While it sleeps a release is held, as by a window.
    pub(super) fn stands_still(&self) -> bool {
        let is_awake = self.sleep.state() == SleepState::Awake;
        !self.acts() || (is_awake && !self.run_level.runs_clients())
    }

    /// Nothing of it is made yet.
    pub(super) fn is_new(&self) -> bool {
        let named = self.cluster.status.as_ref().and_then(|status| status.control_plane_namespace.as_ref());
        self.live_namespace().is_none() && named.is_none()
    }

    /// The control-plane namespace, if it is there.
    pub(super) fn live_namespace(&self) -> Option<&'a Value> {
        self.observed.get(&ObjectKey::cluster(Kind::Namespace, self.cp_namespace.clone()))
    }

    /// Labels of everything in the control-plane namespace. The UID is on the namespace alone: it changes when a
    /// restored `Cluster` adopts its control plane, and that must roll nothing.
    pub(super) fn labels(&self) -> BTreeMap<String, String> {
        owner_labels(self.namespace, self.name)
    }

    pub(super) fn meta(&self) -> Meta {
        Meta { namespace: self.cp_namespace.clone(), labels: self.labels(), pod_labels: self.labels() }
    }

    pub(super) fn status(&self) -> ClusterStatus {
        self.cluster.status.clone().unwrap_or_default()
    }
}

impl Tenant<'_> {
    /// Version, templates and agent of all that is no component.
    pub(super) fn pin(&self) -> &Pin {
        &self.release.pin
    }

    /// The template set that the tenant is pinned to, if it is at hand.
    pub(super) fn templates(&self) -> Option<&TemplateSet> {
        self.templates_of(self.pin())
    }

    /// The template set of a pin, if it is at hand.
    pub(super) fn templates_of(&self, pin: &Pin) -> Option<&TemplateSet> {
        let is_it = |set: &&TemplateSet| set.digest() == pin.templates;
        let builtin = Catalog::builtin().kubernetes(pin.version.minor()).filter(is_it);
        let kept = || self.observed.pinned_before.iter().find(is_it);
        let stored =
            || [&self.observed.pinned, &self.observed.pinned_next].into_iter().flatten().find(is_it).or_else(kept);
        builtin.or_else(stored)
    }
}
