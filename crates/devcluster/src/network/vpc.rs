//! The network namespaces of VPCs, and their ports in those of nodes.

use std::{fs, net::Ipv4Addr, path::Path};

use anyhow::Result;

use super::{forward, ip, links, unplug};
use crate::{
    layout::Layout,
    node::Node,
    paths::NETNS_DIR,
    vpc::{self, Vpc},
};

/// The bridge, whose own address is the router's.
const BRIDGE: &str = "br-vpc";

/// A machine's link, as it is called in its own namespace.
const LINK: &str = "eth0";

/// Makes a VPC's namespace with its bridge and router, or completes what is there.
pub(crate) fn ensure(vpc: &Vpc) -> Result<()> {
    let scope = vpc.netns();
    if !vpc.netns_path().exists() {
        ip(None, &format!("netns add {scope}"))?;
    }
    if !links(Some(&scope))?.iter().any(|link| link == BRIDGE) {
        // Its hardware address is its own, and not that of the port with the lowest: neighbours remember it.
        ip(Some(&scope), &format!("link add {BRIDGE} address 0a:be:01:00:00:01 type bridge"))?;
    }
    let (router, bits) = (vpc.router(), vpc.subnet().prefix_len());
    ip(Some(&scope), &format!("link set lo up\naddr replace {router}/{bits} dev {BRIDGE}\nlink set {BRIDGE} up\n"))?;
    forward(&vpc.netns_path())
}

/// Makes the VPC's port in a node's namespace. It has no address: the node itself is not in the VPC.
pub(crate) fn connect(vpc: &Vpc, node: &Node) -> Result<()> {
    let master = vpc.master();
    attach(vpc, &node.scope(), &format!("node{}", node.number), &master)?;
    ip(Some(&node.scope()), &format!("link set {master} addrgenmode none\nlink set {master} up\n"))
}

/// A link from a port of the VPC's bridge into a namespace; it is not up there yet.
pub(crate) fn attach(vpc: &Vpc, scope: &str, port: &str, link: &str) -> Result<()> {
    let own = vpc.netns();
    if !links(Some(scope))?.iter().any(|name| name == link) {
        unplug(&own, port)?;
        ip(Some(&own), &format!("link add {port} type veth peer name {link} netns {scope}"))?;
    }
    ip(Some(&own), &format!("link set {port} master {BRIDGE} up"))
}

/// Makes the namespace of a machine in the VPC, and its link. Whatever is not in the subnet is reached through the router.
pub(crate) fn connect_machine(vpc: &Vpc, scope: &str, port: &str, address: Ipv4Addr) -> Result<()> {
    let netns = Path::new(NETNS_DIR).join(scope);
    if !netns.exists() {
        ip(None, &format!("netns add {scope}"))?;
    }
    attach(vpc, scope, port, LINK)?;
    let (router, bits) = (vpc.router(), vpc.subnet().prefix_len());
    ip(
        Some(scope),
        &format!(
            "link set lo up\naddr replace {address}/{bits} dev {LINK}\nlink set {LINK} up\n\
             route replace default via {router} dev {LINK}\n"
        ),
    )?;
    forward(&netns)
}

/// Pulls a machine's plug.
pub(crate) fn disconnect_machine(vpc: &Vpc, port: &str) -> Result<()> {
    unplug(&vpc.netns(), port)
}

/// Sends packets for a range to a machine in the VPC.
pub(crate) fn route(vpc: &Vpc, range: &str, via: Ipv4Addr) -> Result<()> {
    ip(Some(&vpc.netns()), &format!("route replace {range} via {via} dev {BRIDGE}"))
}

/// Removes every VPC's namespace that a cluster has, and with it its ports.
pub(crate) fn remove_all(layout: &Layout) -> Result<()> {
    let prefix = vpc::scope_prefix(layout);
    let Ok(entries) = fs::read_dir(Path::new(NETNS_DIR)) else { return Ok(()) };
    for name in entries.flatten().filter_map(|entry| entry.file_name().into_string().ok()) {
        if name.starts_with(&prefix) {
            ip(None, &format!("netns del {name}"))?;
        }
    }
    Ok(())
}
