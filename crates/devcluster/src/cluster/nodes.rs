//! The nodes of a cluster.

use std::{net::Ipv4Addr, path::PathBuf};

use anyhow::{Result, bail};

use super::{Cluster, lock, power};
use crate::{
    deps, images,
    layout::RunDir,
    node::Node,
    worker::{Record, Worker},
};

impl Cluster {
    /// The names of its nodes, in the order of their numbers, which are from 1 on.
    pub fn nodes(&self) -> Vec<String> {
        self.layout.nodes(self.nodes).iter().map(Node::name).collect()
    }

    /// Where a node keeps the logs of its containers, by its number.
    pub fn pod_logs(&self, number: u8) -> Option<PathBuf> {
        let nodes = self.layout.nodes(self.nodes);
        nodes.iter().find(|node| node.number == number).map(Node::pod_logs)
    }

    /// A node's address, by its number: kubelet and NodePorts.
    pub fn node_address(&self, number: u8) -> Ipv4Addr {
        self.slot.address_of_node(number)
    }

    /// Cuts the power of one node, from the second on: its link is gone, then every process, pods included. Its files stay.
    /// The node is off until [`Cluster::start_node`], or until the whole cluster is started again.
    pub fn kill_node(&self, number: u8) -> Result<()> {
        deps::check_root()?;
        let _lock = lock(&self.layout)?;
        power::off(&self.layout, number)
    }

    /// Starts a node that was killed, with the same address, images and volumes. It is not waited for until it is ready.
    pub fn start_node(&self, number: u8) -> Result<()> {
        deps::check_root()?;
        let _lock = lock(&self.layout)?;
        power::on(&self.layout, number)
    }

    /// A machine by its name, in a VPC or else beside the cluster, with containerd and these images. It can become a node of another control
    /// plane, by [`Worker::join`]. One that runs is left as it is; one that was killed is started, and its kubelet if it has joined.
    pub fn add_worker(&self, name: &str, vpc: Option<&str>, images: &[PathBuf]) -> Result<Worker> {
        deps::check_root()?;
        let _lock = lock(&self.layout)?;
        // Before anything is written for a VPC that is not there.
        let in_vpc = vpc.map(|vpc| self.vpc(vpc)).transpose()?;
        let record = Record::of(&self.layout, name, vpc)?;
        let worker = Worker::new(&self.layout, self.slot, name, &record, in_vpc)?;
        worker.start(images)?;
        Ok(worker)
    }

    /// A machine that was added, whether or not it runs.
    pub fn find_worker(&self, name: &str) -> Result<Worker> {
        let Some(record) = Record::read(&self.layout, name)? else {
            bail!("there is no machine `{name}`: `devcluster worker add {name}` adds one");
        };
        let vpc = record.vpc.as_deref().map(|vpc| self.vpc(vpc)).transpose()?;
        Worker::new(&self.layout, self.slot, name, &record, vpc)
    }

    /// Imports image archives on every node, replacing images of the same name.
    pub fn load_images(&self, archives: &[PathBuf]) -> Result<()> {
        // The image would be missing there for good.
        if let Some(off) = self.killed_nodes().first() {
            bail!("node {off} is off: start it before images are loaded");
        }
        let run = RunDir::new(self.slot);
        (1..=self.nodes).try_for_each(|number| images::import(&run.containerd_socket(number), archives))
    }

    /// The names of the nodes whose power is off.
    pub(super) fn killed_nodes(&self) -> Vec<String> {
        power::killed(&self.layout, &RunDir::new(self.slot), self.nodes).iter().map(Node::name).collect()
    }
}
