//! One node of a cluster: its names and files. Pure, as [`Layout`] is.
//!
//! The first node has the cluster's own directory and network namespace, and the control plane runs there too. Each further
//! one has a directory of the same shape below that, and a namespace of its own.

use std::path::PathBuf;

use crate::{layout::Layout, paths};

/// The most nodes that a cluster can have.
pub const MAX_NODES: u8 = 4;

/// The node beside the control plane.
pub(crate) const FIRST: u8 = 1;

/// Where a node's files are and what its parts are called.
#[derive(Clone, Debug)]
pub(crate) struct Node {
    /// From 1 on.
    pub(crate) number: u8,
    cluster: Layout,
}

impl Layout {
    /// One of the cluster's nodes.
    pub(crate) fn node(&self, number: u8) -> Node {
        Node { number, cluster: self.clone() }
    }

    /// The first `count` nodes.
    pub(crate) fn nodes(&self, count: u8) -> Vec<Node> {
        (FIRST..=count).map(|number| self.node(number)).collect()
    }

    /// Every node that the cluster could have: what is cleared, when nobody knows how many it was to have.
    pub(crate) fn possible_nodes(&self) -> Vec<Node> {
        self.nodes(MAX_NODES)
    }
}

impl Node {
    /// The node's name in Kubernetes.
    pub(crate) fn name(&self) -> String {
        format!("{}-{}", self.cluster.name, self.number)
    }

    /// Whether it is one that comes and goes without the control plane.
    pub(crate) fn is_further(&self) -> bool {
        self.number != FIRST
    }

    /// What one of its processes, or a file that names one, is called.
    pub(crate) fn component(&self, base: &str) -> String {
        if self.is_further() { format!("{base}-{}", self.number) } else { base.to_owned() }
    }

    /// The names of its processes.
    pub(crate) fn components(&self) -> [String; 4] {
        ["containerd", "kubelet", "kube-proxy", "kube-router"].map(|base| self.component(base))
    }

    /// What of it survives a reboot.
    pub(crate) fn dir(&self) -> PathBuf {
        if self.is_further() { self.cluster.dir.join(self.part()) } else { self.cluster.dir.clone() }
    }

    /// The name of its network namespace and of its CNI network. A dot, since no cluster's name has one: node 2 of `demo`
    /// must not be what the cluster `demo-n2` is called.
    pub(crate) fn scope(&self) -> String {
        let cluster = self.cluster.scope();
        if self.is_further() { format!("{cluster}.{}", self.part()) } else { cluster }
    }

    /// The CNI network of a meta-plugin, which attaches to the node's own and to others. libcni keeps results by name, so it has its own.
    pub(crate) fn meta_network(&self) -> String {
        format!("{}.networks", self.scope())
    }

    pub(crate) fn netns(&self) -> PathBuf {
        PathBuf::from(paths::NETNS_DIR).join(self.scope())
    }

    /// Its part of each cgroup hierarchy, in which its containers are. The first node's holds those of all others.
    pub(crate) fn cgroup(&self) -> String {
        let cluster = self.cluster.scope();
        if self.is_further() { format!("{cluster}/{}", self.part()) } else { cluster }
    }

    /// A further node's link, as it is called in the first node's namespace, where it is a port of the bridge.
    pub(crate) fn port(&self) -> String {
        format!("node{}", self.number)
    }

    /// The environment variable by which a further node's processes are told from the rest of the cluster's.
    pub(crate) fn marker(&self) -> Option<(&'static str, String)> {
        self.is_further().then(|| ("BERTH_DEVCLUSTER_NODE", self.dir().to_string_lossy().into_owned()))
    }

    pub(crate) fn config(&self, file: &str) -> PathBuf {
        self.dir().join("config").join(file)
    }

    pub(crate) fn kubelet(&self) -> PathBuf {
        self.dir().join("kubelet")
    }

    /// containerd's content and snapshots.
    pub(crate) fn containerd(&self) -> PathBuf {
        self.dir().join("containerd")
    }

    /// Where kubelet keeps the logs of containers.
    pub(crate) fn pod_logs(&self) -> PathBuf {
        self.dir().join("podlogs")
    }

    /// Which pod addresses are taken.
    pub(crate) fn address_leases(&self) -> PathBuf {
        self.dir().join("cni")
    }

    /// Which networks its pods are attached to. It outlives them: kubelet has what a loss of power ended detached after the next start.
    pub(crate) fn attachments(&self) -> PathBuf {
        self.dir().join("attachments")
    }

    /// Which image archives were imported.
    pub(crate) fn imported(&self) -> PathBuf {
        self.dir().join("imported")
    }

    /// Where it counts as being, in a cluster of several nodes.
    pub(crate) fn zone(&self) -> String {
        format!("zone-{}", self.number)
    }

    fn part(&self) -> String {
        format!("n{}", self.number)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_node_has_the_clusters_own_names() {
        let layout = Layout { name: "demo".to_owned(), dir: "/state/demo".into() };
        let node = layout.node(FIRST);
        assert_eq!(
            (node.name().as_str(), node.scope().as_str(), node.cgroup().as_str()),
            ("demo-1", "berth-demo", "berth-demo")
        );
        assert_eq!(node.component("kubelet"), "kubelet");
        assert_eq!(node.kubelet(), PathBuf::from("/state/demo/kubelet"));
        assert_eq!(node.netns(), layout.netns());
        assert_eq!(node.marker(), None);
    }

    #[test]
    fn a_further_node_shares_nothing_with_another_node_or_cluster() {
        let layout = Layout { name: "demo".to_owned(), dir: "/state/demo".into() };
        let node = layout.node(2);
        assert_eq!((node.name().as_str(), node.cgroup().as_str()), ("demo-2", "berth-demo/n2"));
        assert_eq!(node.component("kubelet"), "kubelet-2");
        assert_eq!(node.kubelet(), PathBuf::from("/state/demo/n2/kubelet"));
        assert_eq!(node.marker().unwrap().1, "/state/demo/n2");
        let neighbour = Layout { name: "demo-n2".to_owned(), dir: "/state/demo-n2".into() };
        assert_ne!(node.netns(), neighbour.netns());
        assert_eq!(layout.nodes(3).iter().map(|n| n.number).collect::<Vec<_>>(), [1, 2, 3]);
        assert!(layout.nodes(0).is_empty());
    }
}
