//! What is inside of a fresh cluster: cluster DNS, and the class of the local volumes.

use k8s_openapi::{api::core::v1::Node, jiff::Timestamp};
use serde_json::{Value, json};

use crate::{layout::Layout, slot::Slot, versions::COREDNS};

/// The class of the local volumes; the default class.
pub const STORAGE_CLASS: &str = "local";

/// All objects, in the order in which they are applied.
pub(crate) fn objects(slot: Slot) -> Vec<Value> {
    let mut all = dns(slot);
    all.push(json!({
        "apiVersion": "storage.k8s.io/v1",
        "kind": "StorageClass",
        "metadata": {
            "name": STORAGE_CLASS,
            "annotations": {"storageclass.kubernetes.io/is-default-class": "true"}
        },
        "provisioner": "kubernetes.io/no-provisioner",
        "volumeBindingMode": "WaitForFirstConsumer",
        "reclaimPolicy": "Delete"
    }));
    all
}

/// The nodes of a cluster of several, made before they register, so that each has the pod CIDR that its pods get their
/// addresses from. Who registers first would otherwise have the first range.
pub(crate) fn nodes(layout: &Layout, slot: Slot, count: u8) -> Vec<Value> {
    if count < 2 {
        return Vec::new();
    }
    let node = |number| {
        let cidr = slot.pod_cidr_of_node(number);
        json!({
            "apiVersion": "v1",
            "kind": "Node",
            "metadata": {"name": layout.node(number).name()},
            "spec": {"podCIDR": cidr, "podCIDRs": [cidr]}
        })
    };
    (1..=count).map(node).collect()
}

/// CoreDNS as kubeadm deploys it, but for `forward`: there is nothing outside to forward to, so other names do not exist.
fn dns(slot: Slot) -> Vec<Value> {
    let labels = json!({"k8s-app": "kube-dns"});
    // Two server blocks, since `template` in one block would answer before `kubernetes` is asked.
    let corefile = "\
cluster.local:53 in-addr.arpa:53 ip6.arpa:53 {
    errors
    health {
       lameduck 5s
    }
    ready
    kubernetes cluster.local in-addr.arpa ip6.arpa {
       pods insecure
       ttl 30
    }
    prometheus :9153
    cache 30 {
       disable success cluster.local
       disable denial cluster.local
    }
    reload
    loadbalance
}
.:53 {
    errors
    template ANY ANY {
       rcode NXDOMAIN
    }
}
";
    let metadata = |name: &str| json!({"name": name, "namespace": "kube-system", "labels": labels});
    let probe = |path: &str, port: u16| json!({"httpGet": {"path": path, "port": port}, "timeoutSeconds": 5});
    let mut liveness = probe("/health", 8080);
    liveness["initialDelaySeconds"] = json!(60);
    // kubelet waits for up to a whole period before the first probe; the default of 10 s would be most of a cluster's start.
    let mut readiness = probe("/ready", 8181);
    readiness["periodSeconds"] = json!(2);
    vec![
        json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": metadata("coredns")}),
        json!({
            "apiVersion": "rbac.authorization.k8s.io/v1",
            "kind": "ClusterRole",
            "metadata": {"name": "system:coredns"},
            "rules": [
                {
                    "apiGroups": [""],
                    "resources": ["endpoints", "services", "pods", "namespaces"],
                    "verbs": ["list", "watch"]
                },
                {"apiGroups": ["discovery.k8s.io"], "resources": ["endpointslices"], "verbs": ["list", "watch"]}
            ]
        }),
        json!({
            "apiVersion": "rbac.authorization.k8s.io/v1",
            "kind": "ClusterRoleBinding",
            "metadata": {"name": "system:coredns"},
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "system:coredns"},
            "subjects": [{"kind": "ServiceAccount", "name": "coredns", "namespace": "kube-system"}]
        }),
        json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata("coredns"), "data": {"Corefile": corefile}}),
        json!({
            "apiVersion": "v1",
            "kind": "Service",
            "metadata": metadata("kube-dns"),
            "spec": {
                "clusterIP": slot.dns_service().to_string(),
                "selector": labels,
                "ports": [
                    {"name": "dns", "port": 53, "protocol": "UDP", "targetPort": 53},
                    {"name": "dns-tcp", "port": 53, "protocol": "TCP", "targetPort": 53},
                    {"name": "metrics", "port": 9153, "protocol": "TCP", "targetPort": 9153}
                ]
            }
        }),
        json!({
            "apiVersion": "apps/v1",
            "kind": "Deployment",
            "metadata": metadata("coredns"),
            "spec": {
                "replicas": 1,
                "selector": {"matchLabels": labels},
                "template": {
                    "metadata": {"labels": labels},
                    "spec": {
                        "serviceAccountName": "coredns",
                        "priorityClassName": "system-cluster-critical",
                        "dnsPolicy": "Default",
                        "containers": [{
                            "name": "coredns",
                            "image": format!("registry.k8s.io/coredns/coredns:v{COREDNS}"),
                            "imagePullPolicy": "IfNotPresent",
                            "args": ["-conf", "/etc/coredns/Corefile"],
                            "resources": {"requests": {"cpu": "10m", "memory": "40Mi"}, "limits": {"memory": "170Mi"}},
                            "volumeMounts": [{"name": "config", "mountPath": "/etc/coredns", "readOnly": true}],
                            "ports": [
                                {"name": "dns", "containerPort": 53, "protocol": "UDP"},
                                {"name": "dns-tcp", "containerPort": 53, "protocol": "TCP"},
                                {"name": "metrics", "containerPort": 9153, "protocol": "TCP"}
                            ],
                            "securityContext": {
                                "allowPrivilegeEscalation": false,
                                "readOnlyRootFilesystem": true,
                                "capabilities": {"add": ["NET_BIND_SERVICE"], "drop": ["ALL"]}
                            },
                            "livenessProbe": liveness,
                            "startupProbe": {
                                "httpGet": {"path": "/ready", "port": 8181},
                                "periodSeconds": 1,
                                "failureThreshold": 120
                            },
                            "readinessProbe": readiness
                        }],
                        "volumes": [{
                            "name": "config",
                            "configMap": {"name": "coredns", "items": [{"key": "Corefile", "path": "Corefile"}]}
                        }]
                    }
                }
            }
        }),
    ]
}

/// Whether a node is ready for pods, and has said so since a moment: after a restart its old word means nothing.
pub(crate) fn node_is_ready(node: &Node, since: Timestamp) -> bool {
    let conditions = node.status.as_ref().and_then(|status| status.conditions.as_ref());
    conditions.is_some_and(|all| {
        all.iter().any(|condition| {
            condition.type_ == "Ready"
                && condition.status == "True"
                && condition.last_heartbeat_time.as_ref().is_some_and(|time| time.0 >= since)
        })
    })
}
