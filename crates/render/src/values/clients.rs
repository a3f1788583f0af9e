//! Values of the components that talk to the apiserver: controller-manager and scheduler.

use serde::Serialize;

use super::{Meta, Workload};

/// How a component reaches the tenant's apiserver.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct ApiAccess {
    /// `https://kube-apiserver.<namespace>.svc:<port>`, by a name that `host_aliases` resolve.
    pub server: String,
}

/// Everything the controller-manager's templates may ask for.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct ControllerManagerValues {
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
    pub secrets: ControllerManagerSecrets,
}

/// Names of the Secrets that the controller-manager mounts.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct ControllerManagerSecrets {
    /// `<cluster>-ca`, with its key: it signs kubelet certificates.
    pub ca: String,
    /// `<cluster>-proxy`; only `tls.crt` is mounted.
    pub front_proxy_ca: String,
    /// `<cluster>-sa`; `tls.key` signs service account tokens.
    pub service_account: String,
    /// `kube-controller-manager-pki`: `client.crt`, `client.key`, `server.crt`, `server.key`.
    pub pki: String,
}

/// Everything the scheduler's templates may ask for.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct SchedulerValues {
    /// Namespace, labels.
    pub meta: Meta,
    /// Pods.
    pub workload: Workload,
    /// The apiserver.
    pub api: ApiAccess,
    /// Names of the Secrets.
    pub secrets: SchedulerSecrets,
}

/// Names of the Secrets that the scheduler mounts.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct SchedulerSecrets {
    /// `<cluster>-ca`; only `tls.crt` is mounted.
    pub ca: String,
    /// `<cluster>-proxy`; only `tls.crt` is mounted.
    pub front_proxy_ca: String,
    /// `kube-scheduler-pki`: `client.crt`, `client.key`, `server.crt`, `server.key`.
    pub pki: String,
}
