//! How many nodes a tenant's pod networks have room for.

use berth_api::cluster::ClusterSpec;
use ipnet::IpNet;

/// Says which pod network has room for one node. kube-controller-manager gives each node a part of every pod network, a /24 or a /64 unless a
/// flag says otherwise.
pub(crate) fn room_for_one_node(spec: &ClusterSpec) -> Option<String> {
    let nets = spec.network.pod_cidrs.iter().filter_map(|cidr| cidr.parse::<IpNet>().ok());
    let mut of_nodes = nets.map(|net| (net, part(spec, &net)));
    let (net, part) = of_nodes.find(|(net, part)| net.prefix_len() >= *part)?;
    Some(format!(
        "spec.network.podCIDRs: {net} has room for one node, which gets a /{part} of it. Pods on a second one get no address, unless your network plugin has a range of its own. For more nodes create a Cluster with a larger network"
    ))
}

/// The prefix length of a node's part.
fn part(spec: &ClusterSpec, net: &IpNet) -> u8 {
    let (of_family, default) =
        if net.addr().is_ipv4() { ("node-cidr-mask-size-ipv4", 24) } else { ("node-cidr-mask-size-ipv6", 64) };
    let is_it = |name: &str| name == of_family || (name == "node-cidr-mask-size" && spec.network.pod_cidrs.len() == 1);
    let flags = spec.controller_manager.extra_args.iter().filter(|arg| is_it(&arg.name.replace('_', "-")));
    flags.filter_map(|arg| arg.value.parse().ok()).next_back().unwrap_or(default)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    fn said(network: &Value, flags: &Value) -> Option<String> {
        let spec = json!({"version": "1.36.3", "network": network, "controllerManager": {"extraArgs": flags}});
        let said = room_for_one_node(&serde_json::from_value(spec).unwrap())?;
        Some(said.split(" has room for one node").next().unwrap().to_owned())
    }

    #[test]
    fn the_network_that_is_too_small_is_named() {
        let flag = |name: &str, value: &str| json!([{"name": name, "value": value}]);
        let (four, six) = (json!({"podCIDRs": ["10.161.0.0/24"]}), json!(["10.160.0.0/16", "fd00:160::/64"]));
        let both = json!({"podCIDRs": six});
        let of = |cidr: &str| Some(format!("spec.network.podCIDRs: {cidr}"));
        for (network, flags, wanted) in [
            (json!({}), json!([]), None),
            (json!({"podCIDRs": ["10.161.0.0/23"]}), json!([]), None),
            (four.clone(), json!([]), of("10.161.0.0/24")),
            (both.clone(), json!([]), of("fd00:160::/64")),
            (four.clone(), flag("node-cidr-mask-size", "26"), None),
            (four.clone(), flag("node_cidr_mask_size", "26"), None),
            (four.clone(), flag("node-cidr-mask-size-ipv4", "26"), None),
            (four, flag("node-cidr-mask-size-ipv6", "80"), of("10.161.0.0/24")),
            (both.clone(), flag("node-cidr-mask-size-ipv6", "72"), None),
            (both, flag("node-cidr-mask-size-ipv4", "16"), of("10.160.0.0/16")),
        ] {
            assert_eq!(said(&network, &flags), wanted, "{network} {flags}");
        }
    }
}
