//! Which field of a `Cluster` feeds which values of templates, and the message for fields that the pinned templates do not read.

use super::components;
use super::subject::Tenant;
use super::vpc;
use crate::unread::{self, Row, row};
use berth_render::{Binary, Catalog};
use std::sync::LazyLock;

const SERVICE: &str = "common/apiserver";

/// Every field of the spec.
pub(crate) static FIELDS: LazyLock<Vec<Row>> = LazyLock::new(|| {
    let (api, controllers) = (Binary::ApiServer.folder(), Binary::ControllerManager.folder());
    let mut all = vec![
        row("network.serviceCIDRs", &[(api, "service_cidrs"), (controllers, "service_cidrs")]),
        row("network.podCIDRs", &[(controllers, "pod_cidrs")]),
        row("network.dnsDomain", &[(api, "service_account_issuers")]),
        row("endpoint.type", &[(SERVICE, "service_type")]),
        row("endpoint.port", &[(SERVICE, "port")]),
        row("endpoint.service.annotations", &[(SERVICE, "annotations")]),
        row("endpoint.service.loadBalancerClass", &[(SERVICE, "load_balancer_class")]),
        row("endpoint.service.loadBalancerSourceRanges", &[(SERVICE, "load_balancer_source_ranges")]),
        row("apiServer.authentication.jwt", &[(api, "jwt")]),
        row("apiServer.serviceAccountIssuers", &[(api, "service_account_issuers")]),
        row("vpc.attachment", &[(api, "vpc.interface")]),
        row("vpc.addresses", &[(api, "vpc.address")]),
        row("vpc.virtualIP", &[(api, "vpc.sidecar")]),
        row("vpc.routes", &[(api, "vpc.sidecar")]),
        // Added to rendered pods.
        row("vpc.podAnnotations", &[]),
        row("vpc.podLabels", &[]),
        // In certificates and kubeconfigs.
        row("vpc.host", &[]),
        row("endpoint.host", &[]),
        row("endpoint.certSANs", &[]),
        // In NetworkPolicies.
        row("network.nodeCIDRs", &[]),
        // In the EtcdCluster.
        row("etcd", &[]),
        // Added to rendered pods.
        row("images.pullSecrets", &[]),
        // From templates of their own, which older tenants have too.
        row("addons", &[]),
        // What the planner does, or leaves.
        row("deletion", &[]),
        row("upgrade", &[]),
        row("paused", &[]),
    ];
    let (mut images, mut agents, mut replicas) = (vec![], vec![], vec![]);
    for component in components::ALL {
        let (field, folder) = (component.field(), component.binary.folder());
        images.push((folder, "workload.image"));
        agents.push((folder, "workload.agent_image"));
        replicas.push((folder, "derived.replicas"));
        all.push(row(&format!("{field}.replicas"), &[(folder, "derived.replicas")]));
        // Added to rendered pods.
        all.extend(["resources", "placement", "extraArgs"].map(|name| row(&format!("{field}.{name}"), &[])));
    }
    all.extend([row("version", &images), row("replicas", &replicas)]);
    all.push(row("images.registry", &[images, agents].concat()));
    all
});

/// The fields that have no effect, and the way out.
pub(super) fn message(t: &Tenant<'_>) -> Option<String> {
    let unread = |set| unread::fields(&FIELDS, &t.cluster.spec, set);
    let pinned = t.templates_of(t.release.target())?;
    let (fields, image) = (unread(pinned), vpc::image_unread(t, pinned));
    if fields.is_empty() && image.is_none() {
        return None;
    }
    let minor = t.pin().version.minor();
    let newer = Catalog::builtin().kubernetes(minor).filter(|set| unread(set).is_empty());
    let way_out = if newer.is_some() {
        format!("To apply, set spec.version to another patch version of {minor}, or spec.upgrade.templates to Newest")
    } else {
        let field = if fields.is_empty() { "spec.images.registry" } else { "the field" };
        format!("This operator has no templates for {minor} that use it: remove {field}")
    };
    match image {
        Some(image) if fields.is_empty() => Some(format!("{image}. {way_out}")),
        Some(image) => Some(format!("{}. {image}", unread::message(&fields, &way_out))),
        None => Some(unread::message(&fields, &way_out)),
    }
}
