//! What all components have in common.

use std::collections::BTreeMap;

pub use berth_api::common::{AntiAffinity, Placement};

use berth_api::{common::AgentDelivery, version::Version};
use k8s_openapi::api::core::v1::ResourceRequirements;
use serde::Serialize;

/// Where the objects of one tenant live, and what all of them carry. Applied by [`crate::finish`], not by templates.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Meta {
    /// The namespace of every namespaced object.
    pub namespace: String,
    /// Put on every object, not on pods; a template's own labels win.
    pub labels: BTreeMap<String, String>,
    /// Put on every pod template beside the template's own. Constant over the life of a tenant, so no UID that an adoption
    /// changes: another label here rolls every pod.
    pub pod_labels: BTreeMap<String, String>,
}

/// The part of a component that is about its pods.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Workload {
    /// Pods of this component, over all of its Deployments. From 2 on there is a PodDisruptionBudget.
    pub replicas: i32,
    /// The version that the image holds.
    pub version: Version,
    /// The component's image, by tag or digest.
    pub image: String,
    /// The image of `berth-agent`, for the gate that the component starts behind. Part of the tenant's revision.
    pub agent_image: String,
    /// How it gets into the pod. Part of the tenant's revision.
    pub agent_delivery: AgentDelivery,
    /// Secrets of type `kubernetes.io/dockerconfigjson` in the same namespace.
    pub image_pull_secrets: Vec<String>,
    /// UID, GID and fsGroup of the pods: distinct per tenant, never 0.
    pub run_as_user: i64,
    /// Laid over the template's default requests, entry by entry. CPU limits are only set if asked for.
    pub resources: Option<ResourceRequirements>,
    /// Likewise of each container beside the component: one after the other is laid over the template's.
    pub helpers: Vec<ResourceRequirements>,
    /// Requests that the component's pods begin with instead, as far as limits allow; the annotation `berth.dev/requests` of the object then has
    /// those that they replace. It is no value of templates.
    #[serde(skip)]
    pub sized: BTreeMap<String, String>,
    /// Where the pods may run.
    pub placement: Placement,
    /// Names that the pods resolve without DNS.
    pub host_aliases: Vec<HostAlias>,
    /// Extra annotations of the pods (for networks).
    pub pod_annotations: BTreeMap<String, String>,
    /// Short name to digest of what the pods read only at start (Secrets; rendered ConfigMaps are added by themselves). Each becomes
    /// the annotation `checksum.berth.dev/<name>` of the pod template, so that a change rolls the pods.
    pub checksums: BTreeMap<String, String>,
    /// Appended to the command line as they come, after every flag of the template.
    pub extra_args: Vec<ExtraArg>,
}

/// A flag from a field of the spec, or one that the user asked for, see [`crate::extra_args`].
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct ExtraArg {
    /// Without dashes.
    pub name: String,
    /// Printed as `--name=value`.
    pub value: String,
}

/// One line of a pod's `/etc/hosts`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct HostAlias {
    /// An IPv4 or IPv6 address.
    pub ip: String,
    /// The names that stand for it.
    pub hostnames: Vec<String>,
}
