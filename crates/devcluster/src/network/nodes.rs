//! The network namespaces of a cluster's further nodes: ports of the first node's bridge, and routes between their pods.

use std::{fmt::Write, net::Ipv4Addr, path::Path};

use anyhow::Result;

use super::{forward, ip, links, unplug};
use crate::{
    layout::Layout,
    node::{FIRST, Node},
    paths::NETNS_DIR,
    slot::Slot,
};

/// A node's link, as it is called in its own namespace.
const LINK: &str = "eth0";

/// Makes the namespace of every further node, or completes what is there, and the routes of all.
pub(crate) fn ensure(layout: &Layout, slot: Slot, nodes: u8) -> Result<()> {
    if nodes < 2 {
        return Ok(());
    }
    let first = layout.node(FIRST);
    // A bridge takes over the lowest address of its ports, unless it was given one: it must not change with a port.
    let address = format!("link set br-node address {}\n", hardware_address(FIRST));
    ip(Some(&first.scope()), &(address + &routes(slot, FIRST, nodes, "br-node")))?;
    (FIRST + 1..=nodes).try_for_each(|number| connect(layout, slot, nodes, &layout.node(number)))
}

/// Makes one further node's namespace and its link, or completes them.
pub(crate) fn connect(layout: &Layout, slot: Slot, nodes: u8, node: &Node) -> Result<()> {
    let (scope, port, first) = (node.scope(), node.port(), layout.scope());
    if !node.netns().exists() {
        ip(None, &format!("netns add {scope}"))?;
    }
    if !links(Some(&scope))?.iter().any(|link| link == LINK) {
        disconnect(layout, node)?;
        let hardware = hardware_address(node.number);
        ip(Some(&first), &format!("link add {port} type veth peer name {LINK} address {hardware} netns {scope}"))?;
    }
    ip(Some(&first), &format!("link set {port} master br-node up"))?;
    ip(Some(&scope), &link_up(slot, slot.address_of_node(node.number), &slot.host_subnet()))?;
    ip(Some(&scope), &routes(slot, node.number, nodes, LINK))?;
    forward(&node.netns())
}

/// Makes the namespace of a machine beside the cluster, and its link. Everything of the cluster is reached through the first node.
pub(crate) fn connect_machine(layout: &Layout, slot: Slot, scope: &str, port: &str, address: Ipv4Addr) -> Result<()> {
    let first = layout.scope();
    if !Path::new(NETNS_DIR).join(scope).exists() {
        ip(None, &format!("netns add {scope}"))?;
    }
    if !links(Some(scope))?.iter().any(|link| link == LINK) {
        ip(Some(&first), &format!("link add {port} type veth peer name {LINK} netns {scope}"))?;
    }
    ip(Some(&first), &format!("link set {port} master br-node up"))?;
    ip(Some(scope), &link_up(slot, address, &slot.range()))?;
    forward(&Path::new(NETNS_DIR).join(scope))
}

/// Pure: a link with its address, and what is reached through the first node, as `ip` commands.
fn link_up(slot: Slot, address: Ipv4Addr, reached: &str) -> String {
    format!(
        "link set lo up\n\
         addr replace {address}/24 dev {LINK}\n\
         link set {LINK} up\n\
         route replace default via {void} dev {LINK} onlink\n\
         route replace {reached} via {gateway} dev {LINK}\n",
        void = slot.void_address(),
        gateway = slot.node_address(),
    )
}

/// Sends packets for a range to another machine on the same link.
pub(crate) fn route(scope: &str, range: &str, via: Ipv4Addr) -> Result<()> {
    ip(Some(scope), &format!("route replace {range} via {via} dev {LINK}"))
}

/// Pulls a machine's plug: nobody hears from it any more, not even that its connections end.
pub(crate) fn disconnect_machine(layout: &Layout, port: &str) -> Result<()> {
    unplug(&layout.scope(), port)
}

/// Removes a machine's namespace, and with it its link. The processes in it must be gone.
pub(crate) fn remove_machine(scope: &str) -> Result<()> {
    if Path::new(NETNS_DIR).join(scope).exists() {
        ip(None, &format!("netns del {scope}"))?;
    }
    Ok(())
}

/// Pulls a node's plug: nobody hears from it any more, not even that its connections end.
pub(crate) fn disconnect(layout: &Layout, node: &Node) -> Result<()> {
    unplug(&layout.scope(), &node.port())
}

/// Removes a further node's link and namespace. The processes in it must be gone.
pub(crate) fn remove(layout: &Layout, node: &Node) -> Result<()> {
    disconnect(layout, node)?;
    if node.netns().exists() {
        ip(None, &format!("netns del {}", node.scope()))?;
    }
    Ok(())
}

/// Pure: the routes of one node to the pods of all others, as `ip` commands.
fn routes(slot: Slot, own: u8, nodes: u8, link: &str) -> String {
    let mut commands = String::new();
    for number in (FIRST..=nodes).filter(|number| *number != own) {
        let (pods, node) = (slot.pod_cidr_of_node(number), slot.address_of_node(number));
        let _ = writeln!(commands, "route replace {pods} via {node} dev {link}");
    }
    commands
}

/// A node that comes back has the address that its neighbours remember. Each cluster's bridge is its own, so these need
/// not differ between clusters.
fn hardware_address(number: u8) -> String {
    format!("0a:be:00:00:00:{number:02x}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_node_has_a_route_to_the_pods_of_every_other() {
        let slot: Slot = serde_json::from_str("3").unwrap();
        assert_eq!(
            routes(slot, 2, 3, "eth0"),
            "route replace 10.211.64.0/24 via 10.211.0.1 dev eth0\n\
             route replace 10.211.66.0/24 via 10.211.0.3 dev eth0\n"
        );
        assert_eq!(routes(slot, 1, 1, "br-node"), "");
    }
}
