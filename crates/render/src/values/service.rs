//! Values of the apiserver's Service.

use std::collections::BTreeMap;

use serde::Serialize;

use super::Meta;

/// Everything the template of the Service `kube-apiserver` may ask for.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct ApiServerServiceValues {
    /// Namespace, labels.
    pub meta: Meta,
    /// How the API is published.
    pub service_type: ServiceType,
    /// The Service's port, 6443 by default. Pods always listen on 6443.
    pub port: i32,
    /// Annotations for whoever implements load balancers. Checked against the operator's policy before.
    pub annotations: BTreeMap<String, String>,
    /// `spec.loadBalancerClass`; immutable once set.
    pub load_balancer_class: Option<String>,
    /// `spec.loadBalancerSourceRanges`: CIDRs.
    pub load_balancer_source_ranges: Vec<String>,
    /// A preset port on every node; none: the meta cluster picks one.
    pub node_port: Option<i32>,
}

/// The Service's type.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub enum ServiceType {
    /// Reachable inside the meta cluster only.
    #[default]
    ClusterIP,
    /// A port on every node of the meta cluster.
    NodePort,
    /// An address from the meta cluster's load balancer.
    LoadBalancer,
}
