//! The add-on apiProxy: the address that each node has for it on `lo`, and where it leads to from there.

use berth_api::ClusterSpec;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use super::pods::Family;

/// Neither loopback nor link-local, which API servers refuse in endpoints, and nobody else's: of the class E.
const V4: (IpAddr, &str) = (IpAddr::V4(Ipv4Addr::new(240, 0, 0, 1)), "240.0.0.0/4");
/// The same: of the prefix that routers discard (RFC 6666).
const V6: (IpAddr, &str) = (IpAddr::V6(Ipv6Addr::new(0x100, 0, 0, 0, 0, 0, 0, 1)), "100::/64");

/// Where connections of pods go from there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Proxied {
    /// Host and port: the gateway's port for names, or the API's own.
    pub(crate) to: (String, i32),
    /// The name that the gateway is told. None: there is no gateway between.
    pub(crate) name: Option<String>,
}

/// Whether nodes have it.
pub(super) fn is_on(spec: &ClusterSpec) -> bool {
    spec.addons.api_proxy.is_on() && spec.vpc.is_none()
}

/// The address that nodes have for it unless another one is given, and the network that this has to be of: what is routed anywhere could be
/// where a kubelet finds the API.
fn default(spec: &ClusterSpec) -> (IpAddr, &'static str) {
    if Family::of_first(&spec.network.service_cidrs) == Some(Family::V6) { V6 } else { V4 }
}

/// What to do about an address that is refused.
pub(super) fn way_out(spec: &ClusterSpec) -> String {
    let (address, network) = default(spec);
    format!("Remove the field for {address}, or set another one of {network}")
}

/// The address for pods: without the add-on the one that is given, if any. With it, that or the default, or why it cannot be a node's own.
/// `api`: addresses at which the API itself is.
pub(super) fn address(spec: &ClusterSpec, given: Option<IpAddr>, api: &[IpAddr]) -> Result<Option<IpAddr>, String> {
    if !is_on(spec) {
        return Ok(given);
    }
    let (default, network) = default(spec);
    let address = given.unwrap_or(default);
    let is_in = |range: &str| range.parse::<ipnet::IpNet>().is_ok_and(|net| net.contains(&address));
    let of = &spec.network;
    let ranges = [("serviceCIDRs", &of.service_cidrs), ("podCIDRs", &of.pod_cidrs), ("nodeCIDRs", &of.node_cidrs)];
    let in_use = ranges.into_iter().find_map(|(field, ranges)| {
        Some(format!("in {} of spec.network.{field}", ranges.iter().find(|range| is_in(range))?))
    });
    let in_use = in_use.or_else(|| api.contains(&address).then(|| "where the API itself is".to_owned()));
    let in_use = in_use.or_else(|| (!is_in(network)).then(|| format!("not of {network}")));
    match (in_use, given) {
        (None, _) => Ok(Some(address)),
        (Some(whose), Some(_)) => Err(format!(
            "spec.endpoint.advertiseAddress: {address} is {whose}, and with spec.addons.apiProxy each node has this address for itself. {}",
            way_out(spec)
        )),
        (Some(whose), None) => Err(format!(
            "spec.addons.apiProxy: {address}, which each node gets for it, is {whose}. Set spec.endpoint.advertiseAddress to one of {network} that nothing else has"
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    fn said(network: &Value, given: Option<&str>) -> Result<Option<IpAddr>, String> {
        let spec = json!({"version": "1.36.3", "network": network, "addons": {"apiProxy": {"enabled": true}}});
        let api = ["192.0.2.7".parse().unwrap()];
        address(&serde_json::from_value(spec).unwrap(), given.map(|given| given.parse().unwrap()), &api)
    }

    #[test]
    fn a_node_gets_an_address_that_nothing_else_has() {
        let v4 = json!({
            "serviceCIDRs": ["10.96.0.0/16"], "podCIDRs": ["10.160.0.0/16"], "nodeCIDRs": ["198.51.100.0/24", "241.0.0.0/8"],
        });
        let v6 = json!({"serviceCIDRs": ["fd00:96::/108"], "podCIDRs": ["fd00:160::/56"]});
        for (network, given, is) in [
            (&v4, None, "240.0.0.1"),
            (&v6, None, "100::1"),
            (&v4, Some("240.7.0.1"), "240.7.0.1"),
            (&v6, Some("100::7:1"), "100::7:1"),
        ] {
            assert_eq!(said(network, given), Ok(Some(is.parse().unwrap())));
        }
        for (given, why) in [
            ("10.96.0.1", "10.96.0.1 is in 10.96.0.0/16 of spec.network.serviceCIDRs, and with"),
            ("10.160.7.1", "10.160.7.1 is in 10.160.0.0/16 of spec.network.podCIDRs, and with"),
            ("192.0.2.7", "192.0.2.7 is where the API itself is, and with"),
            ("198.51.100.7", "198.51.100.7 is in 198.51.100.0/24 of spec.network.nodeCIDRs, and with"),
            ("241.0.0.7", "241.0.0.7 is in 241.0.0.0/8 of spec.network.nodeCIDRs, and with"),
            ("203.0.113.7", "203.0.113.7 is not of 240.0.0.0/4, and with"),
            ("239.255.255.255", "239.255.255.255 is not of 240.0.0.0/4, and with"),
            ("100::7", "100::7 is not of 240.0.0.0/4, and with"),
        ] {
            let said = said(&v4, Some(given)).unwrap_err();
            assert!(said.starts_with(&format!("spec.endpoint.advertiseAddress: {why} ")), "{said}");
            let way_out = "itself. Remove the field for 240.0.0.1, or set another one of 240.0.0.0/4";
            assert!(said.ends_with(way_out), "{said}");
        }
        let of_another_network = said(&v6, Some("100:0:0:1::1")).unwrap_err();
        let way_out = "Remove the field for 100::1, or set another one of 100::/64";
        assert!(of_another_network.contains("is not of 100::/64") && of_another_network.ends_with(way_out));
        let class_e = json!({"serviceCIDRs": ["10.96.0.0/16"], "podCIDRs": ["240.0.0.0/8"]});
        let said = said(&class_e, None).unwrap_err();
        assert!(
            said.ends_with(
                "of spec.network.podCIDRs. Set spec.endpoint.advertiseAddress to one of 240.0.0.0/4 that nothing else has"
            ),
            "{said}"
        );
    }
}
