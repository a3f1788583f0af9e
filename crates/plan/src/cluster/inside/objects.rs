//! What Berth keeps inside every tenant: rights of its admins and of the API server, and where the API is.

use crate::cluster::pki;
use berth_api::{labels, names};
use berth_render::{Kind, Object, ObjectKey};
use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use std::net::IpAddr;

const KUBELET_API_ADMIN: &str = "berth:kubelet-api-admin";
const STAMP: &str = "berth:cluster-admins";

/// The object that is written last and carries the digest of all: reading this one tells that nothing is to be written.
pub(in crate::cluster) fn stamp_key() -> ObjectKey {
    ObjectKey::cluster(Kind::ClusterRoleBinding, STAMP)
}

/// Keys of all objects, in the order of [`all`].
pub(in crate::cluster) fn keys() -> [ObjectKey; 4] {
    [
        ObjectKey::cluster(Kind::ClusterRoleBinding, KUBELET_API_ADMIN),
        ObjectKey::namespaced(Kind::EndpointSlice, "default", "kubernetes"),
        ObjectKey::namespaced(Kind::Endpoints, "default", "kubernetes"),
        stamp_key(),
    ]
}

/// All objects, the stamp last, for an API at that address and port.
pub(super) fn all(advertised: (IpAddr, i32)) -> Option<Vec<Object>> {
    let mut values = vec![binding(
        KUBELET_API_ADMIN,
        "system:kubelet-api-admin",
        &json!({
            "apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": pki::KUBELET_CLIENT,
        }),
    )];
    values.extend(kubernetes_endpoints(advertised));
    values.push(binding(
        STAMP,
        "cluster-admin",
        &json!({
            "apiGroup": "rbac.authorization.k8s.io", "kind": "Group", "name": names::ADMIN_GROUP,
        }),
    ));
    let mut objects: Vec<Object> = values.into_iter().map(Object::new).collect::<Result<_, _>>().ok()?;
    let mut digest = Sha256::new();
    for object in &objects {
        digest.update(object.digest());
    }
    let digest = crate::observed::hex(&digest.finalize());
    let stamp = objects.pop()?.with_annotation(labels::APPLIED_DIGEST, &digest);
    objects.push(stamp);
    Some(objects)
}

fn binding(name: &str, role: &str, subject: &Value) -> Value {
    json!({
        "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRoleBinding",
        "metadata": {"name": name, "labels": {(labels::MANAGED_BY): labels::MANAGED_BY_VALUE}},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": role},
        "subjects": [subject],
    })
}

/// The backends of the tenant's `kubernetes` Service. The API server does not keep them itself: it knows the address of
/// its pod, and only Berth knows the one that nodes reach. Conformance compares the two objects.
fn kubernetes_endpoints((address, port): (IpAddr, i32)) -> [Value; 2] {
    let family = if address.is_ipv4() { "IPv4" } else { "IPv6" };
    let managed = json!({"name": "kubernetes", "namespace": "default"});
    let mut slice_meta = managed.clone();
    slice_meta["labels"] = json!({"kubernetes.io/service-name": "kubernetes"});
    let mut endpoints_meta = managed;
    endpoints_meta["labels"] = json!({"endpointslice.kubernetes.io/skip-mirror": "true"});
    [
        json!({
            "apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice", "metadata": slice_meta, "addressType": family,
            "endpoints": [{"addresses": [address], "conditions": {"ready": true}}],
            "ports": [{"name": "https", "port": port, "protocol": "TCP"}],
        }),
        json!({
            "apiVersion": "v1", "kind": "Endpoints", "metadata": endpoints_meta,
            "subsets": [{"addresses": [{"ip": address}], "ports": [{"name": "https", "port": port, "protocol": "TCP"}]}],
        }),
    ]
}
