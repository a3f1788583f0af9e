//! The add-on apiProxy: the address that each node has for it on `lo`, and where it leads to from there.

use berth_api::ClusterSpec;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use super::pods::Family;

/// Neither loopback nor link-local, which API servers refuse in endpoints, and nobody else's: of the class E.
const V4: IpAddr = IpAddr::V4(Ipv4Addr::new(240, 0, 0, 1));
/// The same: of the prefix that routers discard (RFC 6666).
const V6: IpAddr = IpAddr::V6(Ipv6Addr::new(0x100, 0, 0, 0, 0, 0, 0, 1));

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

/// The address for pods: without the add-on the one that is given, if any. With it, that or the default, or why it cannot be a node's own.
/// `api`: addresses at which the API itself is.
pub(super) fn address(spec: &ClusterSpec, given: Option<IpAddr>, api: &[IpAddr]) -> Result<Option<IpAddr>, String> {
    if !is_on(spec) {
        return Ok(given);
    }
    let default = if Family::of_first(&spec.network.service_cidrs) == Some(Family::V6) { V6 } else { V4 };
    let address = given.unwrap_or(default);
    let ranges = [("serviceCIDRs", &spec.network.service_cidrs), ("podCIDRs", &spec.network.pod_cidrs)];
    let in_use = ranges.into_iter().find_map(|(field, ranges)| {
        let is_in = |range: &&String| range.parse::<ipnet::IpNet>().is_ok_and(|net| net.contains(&address));
        Some(format!("in {} of spec.network.{field}", ranges.iter().find(is_in)?))
    });
    let in_use = in_use.or_else(|| api.contains(&address).then(|| "where the API itself is".to_owned()));
    match (in_use, given) {
        (None, _) => Ok(Some(address)),
        (Some(whose), Some(_)) => Err(format!(
            "spec.endpoint.advertiseAddress: {address} is {whose}, and with spec.addons.apiProxy each node has this address for itself. Set one that nothing else has, or remove the field for {default}"
        )),
        (Some(whose), None) => Err(format!(
            "spec.addons.apiProxy: {address}, which each node gets for it, is {whose}. Set spec.endpoint.advertiseAddress to an address that nothing else has"
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
        let v4 = json!({"serviceCIDRs": ["10.96.0.0/16"], "podCIDRs": ["10.160.0.0/16"]});
        let v6 = json!({"serviceCIDRs": ["fd00:96::/108"], "podCIDRs": ["fd00:160::/56"]});
        for (network, given, is) in [
            (&v4, None, "240.0.0.1"),
            (&v6, None, "100::1"),
            (&v4, Some("240.7.0.1"), "240.7.0.1"),
            (&v6, Some("fd00:7::1"), "fd00:7::1"),
        ] {
            assert_eq!(said(network, given), Ok(Some(is.parse().unwrap())));
        }
        for (given, why) in [
            ("10.96.0.1", "10.96.0.1 is in 10.96.0.0/16 of spec.network.serviceCIDRs, and with"),
            ("10.160.7.1", "10.160.7.1 is in 10.160.0.0/16 of spec.network.podCIDRs, and with"),
            ("192.0.2.7", "192.0.2.7 is where the API itself is, and with"),
        ] {
            let said = said(&v4, Some(given)).unwrap_err();
            assert!(said.starts_with(&format!("spec.endpoint.advertiseAddress: {why} ")), "{said}");
            assert!(said.ends_with("or remove the field for 240.0.0.1"), "{said}");
        }
        let class_e = json!({"serviceCIDRs": ["10.96.0.0/16"], "podCIDRs": ["240.0.0.0/8"]});
        let said = said(&class_e, None).unwrap_err();
        assert!(
            said.ends_with(
                "of spec.network.podCIDRs. Set spec.endpoint.advertiseAddress to an address that nothing else has"
            ),
            "{said}"
        );
    }
}
