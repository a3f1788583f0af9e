//! The nodes of a cluster.

use std::{net::Ipv4Addr, path::PathBuf};

use anyhow::Result;

use super::Cluster;
use crate::{images, layout::RunDir, node::Node};

impl Cluster {
    /// The names of its nodes, in the order of their numbers, which are from 1 on.
    pub fn nodes(&self) -> Vec<String> {
        self.layout.nodes(self.nodes).iter().map(Node::name).collect()
    }

    /// A node's address, by its number: kubelet and NodePorts.
    pub fn node_address(&self, number: u8) -> Ipv4Addr {
        self.slot.address_of_node(number)
    }

    /// Imports image archives on every node, replacing images of the same name.
    pub fn load_images(&self, archives: &[PathBuf]) -> Result<()> {
        let run = RunDir::new(self.slot);
        (1..=self.nodes).try_for_each(|number| images::import(&run.containerd_socket(number), archives))
    }
}
