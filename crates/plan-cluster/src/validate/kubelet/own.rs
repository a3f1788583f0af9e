//! Fields that Berth sets: a node with other values would not be one of this tenant for long, or not one that its API server believes.

use super::fault::Fault;
use serde_json::{Map, Value};

/// Path, why it is Berth's, and the way out.
const OWN: &[(&str, &str)] = &[
    ("apiVersion", "Berth sets this field. Remove it"),
    ("kind", "Berth sets this field. Remove it"),
    (
        "authentication.x509",
        "Berth sets this field: API servers show kubelets a certificate of the tenant's CA, which kubeadm writes to that file. Remove it",
    ),
    (
        "authentication.anonymous",
        "Berth sets this field: whoever reaches a node would run commands in its pods. Remove it",
    ),
    ("authentication.webhook.enabled", "Berth sets this field: the tenant's API says who a token is. Remove it"),
    ("authorization.mode", "Berth sets this field: the tenant's RBAC says who may use a node. Remove it"),
    ("clusterDomain", "Berth sets this field, to spec.network.dnsDomain. Remove it"),
    (
        "rotateCertificates",
        "Berth sets this field: without, a node loses the API when its first certificate expires. Remove it",
    ),
    (
        "serverTLSBootstrap",
        "Berth sets this field: the API server accepts serving certificates of the tenant's CA alone, which kubelet asks for. Remove it",
    ),
    (
        "tlsCertFile",
        "cannot be set: the API server accepts serving certificates of the tenant's CA alone, which kubelet asks for. Remove it",
    ),
    (
        "tlsPrivateKeyFile",
        "cannot be set: the API server accepts serving certificates of the tenant's CA alone, which kubelet asks for. Remove it",
    ),
    (
        "providerID",
        "cannot be set: all nodes would have the same one. Remove it, and set it on each machine with kubeadm join --patches",
    ),
    (
        "podCIDR",
        "cannot be set: kube-controller-manager gives each node its own part of spec.network.podCIDRs. Remove it",
    ),
];

pub(super) fn faults(config: &Map<String, Value>) -> Vec<Fault> {
    let is_set = |path: &str| {
        let mut names = path.split('.');
        let first = names.next().and_then(|name| config.get(name));
        first.and_then(|value| names.try_fold(value, |at, name| at.get(name))).is_some()
    };
    OWN.iter().filter(|(path, _)| is_set(path)).map(|(path, why)| Fault::new(path, *why)).collect()
}

/// Whether what is set at a path is judged here alone.
pub(super) fn is_own(path: &str) -> bool {
    OWN.iter().any(|(own, _)| *own == path)
}
