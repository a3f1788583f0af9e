//! Values of the components that talk to the apiserver: controller-manager and scheduler.

use serde::Serialize;

use super::{Meta, Workload};

/// How a component reaches the tenant's apiserver.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct ApiAccess {
    /// `https://kube-apiserver.<namespace>.svc:<port>`, by a name that `host_aliases` resolve.
    pub server: String,
}

/// Everything that templates of components which talk to the apiserver may ask for.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct ApiClientValues {
    /// Namespace, labels.
    pub meta: Meta,
    /// Pods.
    pub workload: Workload,
    /// `--cluster-name`: the name of the `Cluster`.
    pub cluster_name: String,
    /// The apiserver.
    pub api: ApiAccess,
    /// `--service-cluster-ip-range`: one or two CIDRs.
    pub service_cidrs: Vec<String>,
    /// `--cluster-cidr`: none, one or two CIDRs. None: nodes get no CIDRs.
    pub pod_cidrs: Vec<String>,
    /// Names of the Secrets.
    pub secrets: ApiClientSecrets,
}

/// Names of the Secrets that such a component may mount.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct ApiClientSecrets {
    /// `<cluster>-ca`; with its key, who mounts it signs kubelet certificates.
    pub ca: String,
    /// `<cluster>-proxy`; only `tls.crt` is mounted.
    pub front_proxy_ca: String,
    /// `<cluster>-sa`; `tls.key` signs service account tokens.
    pub service_account: String,
    /// Its own certificates: `client.crt`, `client.key`, `server.crt`, `server.key`.
    pub pki: String,
    /// `client.crt` and `client.key` of `berth-approve`, which runs in a container of its own beside the controller-manager.
    pub approver: String,
}
