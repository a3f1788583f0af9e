//! Values of kube-apiserver.

use serde::Serialize;

use super::{Meta, Workload};

/// Everything the apiserver's templates may ask for.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct ApiServerValues {
    /// Namespace, labels.
    pub meta: Meta,
    /// Pods. `replicas` counts the whole component, also when every slot is a workload of its own.
    pub workload: Workload,
    /// None: one Deployment `kube-apiserver` with `workload.replicas` pods. Some(n): a StatefulSet `kube-apiserver-<n>` of at most one pod,
    /// for one VPC address; render once per slot and drop the repeated PodDisruptionBudget by its key.
    pub slot: Option<usize>,
    /// Of a tenant with a VPC.
    pub vpc: VpcSlot,
    /// `--advertise-address`: an address of the API. What the tenant's `kubernetes` Service points to is not taken from it.
    pub advertise_address: String,
    /// `--service-cluster-ip-range`: one or two CIDRs.
    pub service_cidrs: Vec<String>,
    /// The `kubernetes` Service's DNS domain, such as `cluster.local`.
    pub dns_domain: String,
    /// How to reach etcd.
    pub etcd: EtcdAccess,
    /// Names of the Secrets.
    pub secrets: ApiServerSecrets,
    /// `--service-account-issuer`, at least one: the first signs, all are accepted.
    pub service_account_issuers: Vec<String>,
    /// JWT authenticators in the upstream shape of `AuthenticationConfiguration.jwt[]`.
    pub jwt: Vec<serde_json::Value>,
    /// What the spec says of auditing.
    pub audit: AuditValues,
    /// Variables of a proxy to the outside, such as `HTTPS_PROXY`. Empty: none.
    pub proxy: Vec<Variable>,
    /// Configuration of admission plugins, in the upstream shape of `AdmissionConfiguration.plugins[]`. Empty: no file is given.
    pub admission: Vec<serde_json::Value>,
    /// Plugins of `admission` that are off by default.
    pub admission_enables: Vec<String>,
    /// PEM of certificates that are trusted beside those of the image. None: only those.
    pub trusted_ca: Option<String>,
}

/// What the spec says of auditing.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct AuditValues {
    /// The policy, whole. None: the templates' own.
    pub policy: Option<serde_json::Value>,
    /// The Secret whose key `kubeconfig` says where events go, beside the log. None: nowhere.
    pub webhook: Option<String>,
}

/// A variable of a container's environment.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Variable {
    /// Its name.
    pub name: String,
    /// What it is.
    pub value: String,
}

/// A place in the VPC. Empty without one.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct VpcSlot {
    /// Name of the interface.
    pub interface: String,
    /// Of a slot: its address with the prefix length, such as `172.20.0.2/24`. Empty: the provider chooses addresses.
    pub address: String,
    /// Whether the slot has its pod: a spare has none while nobody needs it.
    pub runs: bool,
    /// Whether the container `vpc` holds the pod's network: the namespace must let it.
    pub sidecar: bool,
    /// Image of that container: the platform's agent, whatever registry the spec asks for, since it is root there. Sets that do not read it
    /// take `workload.agent_image`.
    pub image: String,
}

/// How a component reaches etcd.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct EtcdAccess {
    /// `https://<member>.<namespace>.svc:2379` of every member, by names that `host_aliases` resolve.
    pub endpoints: Vec<String>,
    /// The client certificate's Secret: `ca.crt`, `tls.crt`, `tls.key`.
    pub client_secret: String,
}

/// Names of the Secrets that the apiserver mounts.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct ApiServerSecrets {
    /// `<cluster>-ca`; only `tls.crt` is mounted.
    pub ca: String,
    /// `<cluster>-proxy`; only `tls.crt` is mounted.
    pub front_proxy_ca: String,
    /// `<cluster>-sa`: `tls.crt` is the public key, `tls.key` the private one.
    pub service_account: String,
    /// `kube-apiserver-pki`: `apiserver`, `apiserver-kubelet-client` and `front-proxy-client`, each `.crt` and `.key`.
    pub pki: String,
    /// `kube-apiserver-encryption`: `encryption.yaml`.
    pub encryption: String,
}
