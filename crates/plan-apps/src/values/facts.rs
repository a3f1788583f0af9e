//! What a template of values knows of a tenant.

use berth_api::Cluster;
use berth_api::version::Version;
use berth_plan::networks::cluster_dns;
use kube_core::ResourceExt as _;
use serde::Serialize;
use std::collections::BTreeMap;

/// What a template may use, under the name `cluster`. The page on apps lists it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct TenantFacts {
    /// Namespace of the `Cluster`.
    pub namespace: String,
    /// Its name.
    pub name: String,
    /// Its labels.
    pub labels: BTreeMap<String, String>,
    /// The Kubernetes version that the API reports, without `v`. None: it has not answered yet.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
    /// The minor version whose APIs are served, such as `1.36`: the older one while the API emulates that.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub minor: Option<String>,
    /// Where the tenant's nodes reach the API. None: it has no address yet.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub endpoint: Option<EndpointFacts>,
    /// Its networks.
    pub network: NetworkFacts,
    /// Registry, with a path if there is one, that has upstream's images for it. Empty: upstream's own.
    pub image_registry: String,
}

/// Where an API is.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct EndpointFacts {
    /// Name or address.
    pub host: String,
    /// Port.
    pub port: i32,
}

/// Networks of a tenant, by the names that its spec has for them.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct NetworkFacts {
    /// Of Services: one or two.
    #[serde(rename = "serviceCIDRs")]
    pub service_cidrs: Vec<String>,
    /// Of pods: one or two.
    #[serde(rename = "podCIDRs")]
    pub pod_cidrs: Vec<String>,
    /// Of nodes. Empty: not said.
    #[serde(rename = "nodeCIDRs")]
    pub node_cidrs: Vec<String>,
    /// Such as `cluster.local`.
    pub dns_domain: String,
    /// Address of the Service of the tenant's DNS.
    pub dns_address: String,
}

impl TenantFacts {
    /// Of a tenant as its `Cluster` tells. `registry`: the operator's.
    pub fn of(cluster: &Cluster, registry: &str) -> Self {
        let (spec, status) = (&cluster.spec, cluster.status.clone().unwrap_or_default());
        let network = &spec.network;
        let published = |name: &str| status.endpoints.iter().find(|endpoint| endpoint.name == name);
        let endpoint = published("nodes").or_else(|| published("admin"));
        let minor = status.version.as_ref().and_then(|version| version.parse::<Version>().ok());
        Self {
            namespace: cluster.namespace().unwrap_or_default(),
            name: cluster.name_any(),
            labels: cluster.labels().clone(),
            minor: status.emulated_version.or(minor.map(|version| version.minor().to_string())),
            version: status.version,
            endpoint: endpoint.map(|at| EndpointFacts { host: at.host.clone(), port: at.port }),
            network: NetworkFacts {
                dns_address: cluster_dns(&network.service_cidrs).unwrap_or_default(),
                service_cidrs: network.service_cidrs.clone(),
                pod_cidrs: network.pod_cidrs.clone(),
                node_cidrs: network.node_cidrs.clone(),
                dns_domain: network.dns_domain.clone(),
            },
            image_registry: spec.images.registry.clone().unwrap_or_else(|| registry.to_owned()),
        }
    }

    /// Fields that are not known yet.
    pub(super) fn unknown(&self) -> impl Iterator<Item = &'static str> {
        let fields = [
            ("version", self.version.is_none()),
            ("minor", self.minor.is_none()),
            ("endpoint", self.endpoint.is_none()),
        ];
        fields.into_iter().filter_map(|(field, is_unknown)| is_unknown.then_some(field))
    }
}
