//! `ClusterRevision`: a release of a `Cluster` that ran, or was to run.

use crate::autoscaling::Autoscaling;
use crate::cluster::{ApiServer, Check, ComponentSpec, KeptIssuer, default_issuer, jwt_schema};
use crate::common::{AgentDelivery, Images, Resources, keys, resources_schema};
use crate::helpers::{Amounts, Helpers};
use crate::proxy::Proxy;
use crate::version::Version;
use crate::{Cluster, ClusterSpec};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube_derive::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;
use serde_with::skip_serializing_none;
use std::collections::BTreeMap;

/// A release of a `Cluster`: the part of its spec that runs, and what it is rendered with. Berth records one in the control-plane
/// namespace whenever that part changes, and goes back to the last that succeeded when a new one does not come up. The last ten are kept.
/// It is Berth's own record: nobody else writes it.
#[skip_serializing_none]
#[derive(CustomResource, Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "berth.dev",
    version = "v1alpha1",
    kind = "ClusterRevision",
    namespaced,
    status = "ClusterRevisionStatus",
    derive = "PartialEq",
    derive = "Default",
    category = "berth",
    crates(kube_core = "::kube_core"),
    printcolumn(name = "Version", type_ = "string", json_path = ".spec.release.version"),
    printcolumn(name = "Cause", type_ = "string", json_path = ".spec.cause"),
    printcolumn(name = "Outcome", type_ = "string", json_path = ".status.outcome"),
    printcolumn(name = "Change", type_ = "string", json_path = ".spec.changeCause"),
    printcolumn(name = "Age", type_ = "date", json_path = ".metadata.creationTimestamp")
)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-validations" = json!([
    {"rule": "self == oldSelf", "message": "spec of a ClusterRevision is immutable: it records what ran"}
])))]
pub struct ClusterRevisionSpec {
    /// Its number. The first is 1, and none is used twice.
    #[schemars(range(min = 1))]
    pub number: i64,
    /// What changed.
    pub cause: RevisionCause,
    /// The annotation `kubernetes.io/change-cause` of the `Cluster` when it was recorded, at most 256 characters of it.
    #[schemars(length(max = 256))]
    pub change_cause: Option<String>,
    /// The annotation `berth.dev/roll` that asked for the same release again.
    #[schemars(length(max = 64))]
    pub roll: Option<String>,
    /// `spec.upgrade.skipChecks` of the `Cluster` when it was recorded.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 7), extend("x-kubernetes-list-type" = "set"))]
    pub skip_checks: Vec<Check>,
    /// The part of the `Cluster`'s spec that runs.
    pub release: Release,
    /// What it is rendered with.
    pub pin: RevisionPin,
    /// Those of `release.apiServer.serviceAccountIssuers` that the `Cluster`'s spec did not list: they signed tokens before, or sign until all
    /// API servers accept the new first one.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 16), extend("x-kubernetes-list-type" = "atomic"))]
    pub kept_issuers: Vec<KeptIssuer>,
    /// Those of the spec's own `apiServer.serviceAccountIssuers` that signed tokens before and do not sign now: they are kept once the list does
    /// not have them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 16), extend("x-kubernetes-list-type" = "atomic"))]
    pub listed_issuers: Vec<KeptIssuer>,
}

impl ClusterRevisionSpec {
    /// The release as the spec of the `Cluster` asked for it, whose DNS domain this is.
    pub fn asked(&self, dns_domain: &str) -> Release {
        let mut release = Release { audit_copy: None, ..self.release.clone() };
        if self.kept_issuers.is_empty() {
            return release;
        }
        let issuers = &mut release.api_server.service_account_issuers;
        issuers.retain(|issuer| self.kept_issuers.iter().all(|kept| kept.issuer != *issuer));
        if *issuers == [default_issuer(dns_domain)] {
            issuers.clear();
        }
        release
    }
}

/// What changed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum RevisionCause {
    /// The tenant was created, or this is the first that an operator with revisions saw of it.
    #[default]
    Creation,
    /// Another version.
    Upgrade,
    /// Anything but the version.
    Configuration,
    /// A release that an earlier revision recorded.
    Rollback,
    /// Newer templates of the same version, by `spec.upgrade.templates`.
    Templates,
}

/// The part of the spec of a `Cluster` that runs.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Release {
    /// `spec.version`.
    #[schemars(length(max = 20), regex(pattern = r"^\d+\.\d+\.\d+$"))]
    pub version: String,
    /// `spec.replicas`.
    #[schemars(range(min = 1, max = 5))]
    pub replicas: i32,
    /// `spec.apiServer`.
    #[serde(default)]
    pub api_server: ApiServer,
    /// `spec.controllerManager`.
    #[serde(default)]
    pub controller_manager: ComponentSpec,
    /// `spec.scheduler`.
    #[serde(default)]
    pub scheduler: ComponentSpec,
    /// `spec.images`.
    #[serde(default, skip_serializing_if = "Images::is_default")]
    pub images: Images,
    /// `spec.helpers.resources`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "resources_schema")]
    pub helper_resources: Option<Resources>,
    /// `spec.proxy`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub proxy: Option<Proxy>,
    /// The Secret in the control-plane namespace that has what the Secret of `apiServer.audit.webhook` said. Its name tells nothing of what it
    /// holds. Absent: no webhook; or an earlier Berth recorded it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 63))]
    pub audit_copy: Option<String>,
}

impl Release {
    /// That of a spec.
    pub fn of(spec: &ClusterSpec) -> Self {
        Self {
            version: spec.version.clone(),
            replicas: spec.replicas,
            api_server: ApiServer { autoscaling: Autoscaling::default(), ..spec.api_server.clone() },
            controller_manager: as_released(&spec.controller_manager),
            scheduler: as_released(&spec.scheduler),
            images: spec.images.clone(),
            helper_resources: spec.helpers.resources.clone(),
            proxy: spec.proxy.clone(),
            audit_copy: None,
        }
    }

    /// The same, with as many of each component as `other` has.
    #[must_use]
    pub fn scaled_as(&self, other: &Self) -> Self {
        let mut scaled = Self { replicas: other.replicas, ..self.clone() };
        scaled.api_server.replicas = other.api_server.replicas;
        scaled.controller_manager.replicas = other.controller_manager.replicas;
        scaled.scheduler.replicas = other.scheduler.replicas;
        scaled
    }

    /// The same `Cluster` with this release in place of its own.
    #[must_use]
    pub fn put_into(&self, cluster: &Cluster) -> Cluster {
        let mut cluster = cluster.clone();
        let Self {
            version,
            replicas,
            api_server,
            controller_manager,
            scheduler,
            images,
            helper_resources,
            proxy,
            audit_copy: _,
        } = self.clone();
        let helpers = Helpers { resources: helper_resources, ..cluster.spec.helpers };
        // What follows usage is of no release.
        let (own, of_manager, of_scheduler) =
            (&cluster.spec.api_server, &cluster.spec.controller_manager, &cluster.spec.scheduler);
        let api_server = ApiServer { autoscaling: own.autoscaling.clone(), ..api_server };
        let controller_manager = ComponentSpec { autoscaling: of_manager.autoscaling.clone(), ..controller_manager };
        let scheduler = ComponentSpec { autoscaling: of_scheduler.autoscaling.clone(), ..scheduler };
        cluster.spec = ClusterSpec {
            version,
            replicas,
            proxy,
            api_server,
            controller_manager,
            scheduler,
            helpers,
            images,
            ..cluster.spec
        };
        cluster
    }
}

/// Without what follows usage: a change of it makes no release.
fn as_released(of: &ComponentSpec) -> ComponentSpec {
    ComponentSpec { autoscaling: Autoscaling::default(), ..of.clone() }
}

/// What a release is rendered with.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct RevisionPin {
    /// Kubernetes version.
    #[schemars(with = "String", length(max = 40))]
    pub version: Version,
    /// Digest of the templates, which the ConfigMap `templates-<its first 12 digits>` holds.
    #[schemars(length(max = 64))]
    pub templates: String,
    /// Image of the agent in the pods.
    #[schemars(length(max = 512))]
    pub agent_image: String,
    /// How the agent gets into the pods.
    pub agent_delivery: AgentDelivery,
    /// The chart's `helpers.resources`. None: it was not set.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub helper_resources: Option<Amounts>,
    /// The chart's `tenants.proxy`. None: it was not set.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub proxy: Option<Proxy>,
    /// What API servers reach without a proxy beside what is the tenant's own, by the operator that made the release. None: what the first one
    /// with a proxy had.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 256), inner(length(max = 253)))]
    pub no_proxy: Option<Vec<String>>,
    /// Issuers of all tenants: the chart's `authentication.jwt`, with the rules by which nobody gets a name of Kubernetes' or Berth's own.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "jwt_schema")]
    pub jwt: Vec<serde_json::Value>,
    /// Requests with which pods of components begin, by component: what those before had come to by `autoscaling` when the release was made.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(extend("maxProperties" = 3, "x-kubernetes-validations" = json!([keys("sizes")])))]
    pub sizes: BTreeMap<String, PinnedSize>,
}

/// What the container of a component requests when its pods begin.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PinnedSize {
    /// CPUs, such as `150m`.
    #[schemars(length(max = 32))]
    pub cpu: String,
    /// Memory, such as `384Mi`.
    #[schemars(length(max = 32))]
    pub memory: String,
    /// `resources` of the component when the release was made. With others its pods begin with those.
    pub resources: Option<Amounts>,
}

impl RevisionPin {
    /// Whether pods of the same version, with the same agent, are the same by both. What is reached without a proxy is no reason for a release, nor
    /// are sizes.
    pub fn renders_as(&self, other: &Self) -> bool {
        let of = |pin: &Self| (pin.templates.clone(), pin.helper_resources.clone(), pin.proxy.clone(), pin.jwt.clone());
        of(self) == of(other)
    }
}

/// How a revision came out. The operator alone writes it, with the spec; so there is no subresource.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ClusterRevisionStatus {
    /// Absent while it is rolled out.
    pub outcome: Option<RevisionOutcome>,
    /// Since when it has that outcome.
    #[schemars(with = "Option<Time>")]
    pub since: Option<Time>,
    /// When it was recorded.
    #[schemars(with = "Option<Time>")]
    pub started: Option<Time>,
    /// What failed.
    pub message: Option<String>,
    /// The tenant was not well when it was recorded: if it fails, that says nothing of the release.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub unwell: bool,
}

/// How a revision came out.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
pub enum RevisionOutcome {
    /// All components ran it for `spec.upgrade.soak`.
    Succeeded,
    /// It did not come up within `spec.upgrade.progressDeadline`, and Berth went back to the last that succeeded.
    RolledBack,
    /// It did not come up, and Berth did not go back; the condition says why.
    Held,
    /// The spec changed before it came up.
    Superseded,
}

impl std::fmt::Display for RevisionOutcome {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        std::fmt::Debug::fmt(self, f)
    }
}

impl std::fmt::Display for RevisionCause {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        std::fmt::Debug::fmt(self, f)
    }
}
