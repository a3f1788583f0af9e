//! The command lines of the cluster's processes. Pure, but for finding the binaries.

use std::path::Path;

use anyhow::Result;

use crate::{
    binaries,
    layout::Layout,
    node::{FIRST, Node},
    pki::ADMIN,
    process::Spec,
    s3,
    slot::Slot,
    state::State,
    versions::{CONTAINERD, ETCD, KUBE_ROUTER, KUBERNETES},
};

/// etcd, the API server and every node's containerd: they need nobody, and everything else needs them.
pub(crate) fn first(layout: &Layout, slot: Slot, nodes: u8) -> Result<Vec<Spec>> {
    let mut all = vec![etcd(layout)?, apiserver(layout, slot)?];
    for node in layout.nodes(nodes) {
        all.push(containerd(&node)?);
    }
    Ok(all)
}

/// What is there beside Kubernetes.
pub(crate) fn beside(layout: &Layout, state: &State) -> Result<Vec<Spec>> {
    if state.s3 { Ok(vec![s3::spec(layout, state.slot)?]) } else { Ok(vec![]) }
}

/// What ends, rather than waits, when the API does not answer yet.
pub(crate) fn second(layout: &Layout, state: &State) -> Result<Vec<Spec>> {
    let mut all = vec![controller_manager(layout, state.slot)?, scheduler(layout)?];
    for node in layout.nodes(state.nodes) {
        all.extend(agents(layout, state, &node)?);
    }
    Ok(all)
}

/// What joins a node to the cluster, once its containerd answers.
pub(crate) fn agents(layout: &Layout, state: &State, node: &Node) -> Result<Vec<Spec>> {
    let mut all = vec![kubelet(layout, state.slot, state.nodes, node)?, kube_proxy(layout, state.slot, node)?];
    if state.network_policies {
        all.push(kube_router(layout, state.slot, node)?);
    }
    Ok(all)
}

fn etcd(layout: &Layout) -> Result<Spec> {
    let flags = vec![
        flag("name", "meta"),
        path_flag("data-dir", &layout.etcd()),
        flag("listen-client-urls", "http://127.0.0.1:2379"),
        flag("advertise-client-urls", "http://127.0.0.1:2379"),
        flag("listen-peer-urls", "http://127.0.0.1:2380"),
        flag("initial-advertise-peer-urls", "http://127.0.0.1:2380"),
        flag("initial-cluster", "meta=http://127.0.0.1:2380"),
        flag("quota-backend-bytes", "4294967296"),
        // A test fixture: it survives its processes, not the machine's power. Etcds of tenants never run so.
        "--unsafe-no-fsync".to_owned(),
    ];
    Ok(spec("etcd", &binaries::path("etcd", ETCD, "etcd")?, flags))
}

fn apiserver(layout: &Layout, slot: Slot) -> Result<Spec> {
    let flags = vec![
        flag("etcd-servers", "http://127.0.0.1:2379"),
        flag("secure-port", "6443"),
        flag("advertise-address", slot.node_address()),
        flag("service-cluster-ip-range", slot.service_cidr()),
        path_flag("tls-cert-file", &layout.pki("apiserver.crt")),
        path_flag("tls-private-key-file", &layout.pki("apiserver.key")),
        path_flag("client-ca-file", &layout.pki("ca.crt")),
        path_flag("kubelet-client-certificate", &layout.pki("apiserver-kubelet-client.crt")),
        path_flag("kubelet-client-key", &layout.pki("apiserver-kubelet-client.key")),
        path_flag("kubelet-certificate-authority", &layout.pki("ca.crt")),
        flag("kubelet-preferred-address-types", "InternalIP"),
        flag("service-account-issuer", "https://kubernetes.default.svc.cluster.local"),
        path_flag("service-account-key-file", &layout.pki("sa.pub")),
        path_flag("service-account-signing-key-file", &layout.pki("sa.key")),
        flag("authorization-mode", "Node,RBAC"),
        flag("enable-admission-plugins", "NodeRestriction"),
        flag("allow-privileged", "true"),
        path_flag("requestheader-client-ca-file", &layout.pki("front-proxy-ca.crt")),
        flag("requestheader-allowed-names", "front-proxy-client"),
        flag("requestheader-username-headers", "X-Remote-User"),
        flag("requestheader-group-headers", "X-Remote-Group"),
        flag("requestheader-extra-headers-prefix", "X-Remote-Extra-"),
        path_flag("proxy-client-cert-file", &layout.pki("front-proxy-client.crt")),
        path_flag("proxy-client-key-file", &layout.pki("front-proxy-client.key")),
        path_flag("audit-policy-file", &layout.config("audit-policy.json")),
        path_flag("audit-log-path", &layout.audit_log()),
        flag("audit-log-maxsize", "2000"),
        flag("audit-log-maxbackup", "1"),
        flag("profiling", "false"),
    ];
    Ok(spec("kube-apiserver", &kubernetes("kube-apiserver")?, flags))
}

fn controller_manager(layout: &Layout, slot: Slot) -> Result<Spec> {
    let mut flags = kubeconfigs(layout, "controller-manager");
    flags.extend([
        path_flag("service-account-private-key-file", &layout.pki("sa.key")),
        path_flag("root-ca-file", &layout.pki("ca.crt")),
        path_flag("cluster-signing-cert-file", &layout.pki("ca.crt")),
        path_flag("cluster-signing-key-file", &layout.pki("ca.key")),
        flag("use-service-account-credentials", "true"),
        flag("allocate-node-cidrs", "true"),
        flag("cluster-cidr", slot.pod_cidr()),
        flag("service-cluster-ip-range", slot.service_cidr()),
        // With the default of 20 a second it takes five seconds to ask for the tokens of all of its controllers.
        flag("kube-api-qps", 100),
        flag("kube-api-burst", 200),
        flag("leader-elect", "false"),
        flag("profiling", "false"),
    ]);
    Ok(spec("kube-controller-manager", &kubernetes("kube-controller-manager")?, flags))
}

fn scheduler(layout: &Layout) -> Result<Spec> {
    let mut flags = kubeconfigs(layout, "scheduler");
    flags.extend([flag("leader-elect", "false"), flag("profiling", "false")]);
    Ok(spec("kube-scheduler", &kubernetes("kube-scheduler")?, flags))
}

pub(crate) fn containerd(node: &Node) -> Result<Spec> {
    let binary = binaries::path("containerd", CONTAINERD, "containerd")?;
    let config = node.config("containerd.toml");
    // containerd looks for its shim beside itself as well as in PATH.
    Ok(spec_on(node, "containerd", &binary, vec!["--config".to_owned(), config.to_string_lossy().into_owned()]))
}

fn kubelet(layout: &Layout, slot: Slot, nodes: u8, node: &Node) -> Result<Spec> {
    let mut flags = vec![
        path_flag("config", &node.config("kubelet.json")),
        path_flag("kubeconfig", &layout.kubeconfig(&node.component("kubelet"))),
        path_flag("root-dir", &node.kubelet()),
        path_flag("cert-dir", &node.kubelet().join("pki")),
        flag("hostname-override", node.name()),
        flag("node-ip", slot.address_of_node(node.number)),
        flag("v", 2),
    ];
    // One node alone is in no zone, as it always was.
    if nodes > 1 {
        flags.push(flag("node-labels", format!("topology.kubernetes.io/zone={}", node.zone())));
    }
    Ok(spec_on(node, "kubelet", &kubernetes("kubelet")?, flags))
}

fn kube_proxy(layout: &Layout, slot: Slot, node: &Node) -> Result<Spec> {
    let flags = vec![
        path_flag("kubeconfig", &layout.kubeconfig("kube-proxy")),
        flag("proxy-mode", "nftables"),
        flag("cluster-cidr", slot.pod_cidr()),
        flag("hostname-override", node.name()),
        flag("conntrack-max-per-core", 0),
    ];
    Ok(spec_on(node, "kube-proxy", &kubernetes("kube-proxy")?, flags))
}

/// Of it the controller of NetworkPolicies alone: the network itself is the bridge plugin's and kube-proxy's.
fn kube_router(layout: &Layout, slot: Slot, node: &Node) -> Result<Spec> {
    let flags = vec![
        path_flag("kubeconfig", &layout.kubeconfig(ADMIN)),
        flag("run-firewall", "true"),
        flag("run-router", "false"),
        flag("run-service-proxy", "false"),
        flag("run-loadbalancer", "false"),
        flag("enable-cni", "false"),
        flag("hostname-override", node.name()),
        flag("service-cluster-ip-range", slot.service_cidr()),
        flag("health-port", 0),
        flag("v", 1),
    ];
    Ok(spec_on(node, "kube-router", &binaries::path("kube-router", KUBE_ROUTER, "kube-router")?, flags))
}

fn kubernetes(name: &str) -> Result<std::path::PathBuf> {
    binaries::path("kubernetes", KUBERNETES, name)
}

fn kubeconfigs(layout: &Layout, user: &str) -> Vec<String> {
    ["kubeconfig", "authentication-kubeconfig", "authorization-kubeconfig"]
        .map(|name| path_flag(name, &layout.kubeconfig(user)))
        .to_vec()
}

fn flag(name: &str, value: impl std::fmt::Display) -> String {
    format!("--{name}={value}")
}

fn path_flag(name: &str, value: &Path) -> String {
    flag(name, value.display())
}

/// A process of the control plane, which is in the first node's namespace.
fn spec(name: &str, binary: &Path, flags: Vec<String>) -> Spec {
    let mut argv = vec![binary.to_string_lossy().into_owned()];
    argv.extend(flags);
    Spec { name: name.to_owned(), node: FIRST, argv }
}

fn spec_on(node: &Node, name: &str, binary: &Path, flags: Vec<String>) -> Spec {
    Spec { node: node.number, ..spec(&node.component(name), binary, flags) }
}
