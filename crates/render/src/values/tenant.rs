//! Values of what Berth keeps inside a tenant, one struct per set of objects.

use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};

use serde::Serialize;
use serde_json::{Map, Value};

/// Who may do what: the tenant's admins, API servers as clients of kubelets, and what decides kubelets' certificates.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct AccessValues {
    /// The group of the certificates in handed-out kubeconfigs.
    pub admin_group: String,
    /// The user that API servers are to kubelets.
    pub kubelet_client: String,
    /// The user of `berth-approve`.
    pub approver: String,
}

/// The backends of the tenant's `kubernetes` Service.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct EndpointValues {
    /// Addresses of one family that clients inside the tenant reach.
    pub addresses: Vec<IpAddr>,
    /// `IPv4` or `IPv6`.
    pub family: String,
    /// The port there.
    pub port: i32,
}

/// The tenant's DNS.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct CoreDnsValues {
    /// Image of CoreDNS.
    pub image: String,
    /// Pods: those that are asked for, or those of a new one.
    pub replicas: i32,
    /// Such as `cluster.local`.
    pub dns_domain: String,
    /// Address of its Service.
    pub cluster_dns: String,
    /// What no template knows, so that it counts for tenants of earlier ones, too.
    #[serde(skip)]
    pub asked: AskedOfCoreDns,
}

/// What is asked for beside the templates.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AskedOfCoreDns {
    /// Whether the number of pods is asked for. If not, it is left to others once the Deployment is there.
    pub replicas: bool,
    /// `ResourceRequirements` of the container.
    pub resources: Option<Value>,
    /// Zones with the servers that answer them, in the order of their names.
    pub zones: BTreeMap<String, Vec<SocketAddr>>,
}

/// kube-proxy on the tenant's nodes.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct KubeProxyValues {
    /// Image of kube-proxy.
    pub image: String,
    /// `host:port` where nodes reach the API; IPv6 addresses in brackets.
    pub endpoint: String,
    /// None, one or two CIDRs, joined by a comma.
    pub pod_cidrs: String,
    /// `iptables` or `nftables`.
    pub mode: String,
    /// What the user sets of `clientConnection`.
    pub client_connection: Map<String, Value>,
    /// What else the user sets.
    pub config: Map<String, Value>,
}

/// Rights of whoever installs apps.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct AppsValues {
    /// The user.
    pub user: String,
}

/// Rights of the platform's Argo CD.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct ArgoCdValues {
    /// The user.
    pub user: String,
}

/// What leads pods to an API that is found by its name.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct ApiProxyValues {
    /// Image of `berth-api-proxy`.
    pub image: String,
    /// `address:port` where Service `kubernetes` leads; IPv6 addresses in brackets.
    pub listen: String,
    /// `host:port` of the API, or of the gateway's port for names; IPv6 addresses in brackets.
    pub to: String,
    /// The name that the gateway is told. Empty: there is no gateway between.
    pub name: String,
}

/// What `kubeadm join` reads.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct JoinValues {
    /// `host:port` where nodes reach the API; IPv6 addresses in brackets.
    pub endpoint: String,
    /// The certificate of the tenant's CA: PEM in base64.
    pub ca: String,
    /// Name of the `Cluster`.
    pub cluster_name: String,
    /// The Kubernetes version that the API servers run, without `v`.
    pub version: String,
    /// One or two CIDRs, joined by a comma.
    pub service_cidrs: String,
    /// None, one or two CIDRs, joined by a comma.
    pub pod_cidrs: String,
    /// Such as `cluster.local`.
    pub dns_domain: String,
    /// Address of the Service of the tenant's DNS, in the first Service CIDR.
    pub cluster_dns: String,
    /// What the user sets of kubelet's configuration.
    pub kubelet: Map<String, Value>,
    /// Whether kube-controller-manager approves client certificates of machines that join: nothing else beside it does.
    pub controller_manager_approves: bool,
}
