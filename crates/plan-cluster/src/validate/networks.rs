//! Networks of a tenant: what the components would not start with, and what would never serve.

use berth_api::cluster::Network;
use berth_api::conditions::Reason;
use berth_plan::meta_cluster::MetaCluster;
use berth_plan::model::State;
use ipnet::IpNet;

/// What to do about networks that cannot serve; nothing is created for them.
pub(crate) const NETWORK_IS_IMMUTABLE: &str = "spec.network is immutable: set spec.deletion.protected to false, delete this Cluster, and create it with other networks";

/// Ranges whose addresses no pod or Service can have.
const RESERVED: &[(&str, &str)] = &[
    ("0.0.0.0/8", "unspecified"),
    ("127.0.0.0/8", "loopback"),
    ("169.254.0.0/16", "link-local"),
    ("224.0.0.0/4", "multicast"),
    ("240.0.0.0/4", "reserved"),
    ("::/128", "unspecified"),
    ("::1/128", "loopback"),
    ("::ffff:0:0/96", "IPv4-mapped"),
    ("fe80::/10", "link-local"),
    ("ff00::/8", "multicast"),
];

/// The reserved range that a network has addresses of.
fn reserved(net: &IpNet) -> Option<&'static (&'static str, &'static str)> {
    let overlaps = |range: IpNet| range.contains(net) || net.contains(&range);
    RESERVED.iter().find(|(range, _)| range.parse().is_ok_and(overlaps))
}

fn parsed(field: &str, list: &[String]) -> Result<Vec<IpNet>, String> {
    list.iter()
        .map(|c| {
            let net: IpNet = c
                .parse()
                .map_err(|_| format!("spec.network.{field}: {c} is not in CIDR notation, such as 10.112.0.0/16"))?;
            if net.trunc() == net {
                Ok(net)
            } else {
                Err(format!("spec.network.{field}: {c} has host bits set, unlike {}", net.trunc()))
            }
        })
        .collect()
}

/// Networks that the API server or the controller-manager would not start with.
pub(crate) fn networks(network: &Network) -> Result<(), String> {
    let services = parsed("serviceCIDRs", &network.service_cidrs)?;
    let pods = parsed("podCIDRs", &network.pod_cidrs)?;
    for s in &services {
        let (low, high) = if s.addr().is_ipv4() { (12, 28) } else { (108, 120) };
        if !(low..=high).contains(&s.prefix_len()) {
            return Err(format!(
                "spec.network.serviceCIDRs: the prefix length of {s} must be between /{low} and /{high}"
            ));
        }
    }
    for p in &pods {
        let (low, high) = if p.addr().is_ipv4() { (8, 24) } else { (48, 64) };
        if !(low..=high).contains(&p.prefix_len()) {
            return Err(format!(
                "spec.network.podCIDRs: the prefix length of {p} must be between /{low} and /{high}, since each node gets a part of it"
            ));
        }
        if let Some(s) = services.iter().find(|s| s.contains(p) || p.contains(*s)) {
            return Err(format!("spec.network: podCIDRs {p} and serviceCIDRs {s} overlap"));
        }
    }
    Ok(())
}

/// Networks with which everything starts, and nothing is ever served. Judged here and not by the CRD, because a tenant that an earlier
/// build made with such networks runs on, and its `Cluster` can be restored from a backup.
pub(crate) fn can_serve(network: &Network) -> Result<(), String> {
    let services = parsed("serviceCIDRs", &network.service_cidrs)?;
    let pods = parsed("podCIDRs", &network.pod_cidrs)?;
    for (field, nets) in [("serviceCIDRs", &services), ("podCIDRs", &pods)] {
        if let Some((net, (range, what))) = nets.iter().find_map(|net| Some((net, reserved(net)?))) {
            return Err(format!(
                "spec.network.{field}: {net} overlaps {range} ({what}), whose addresses no pod and no Service can have"
            ));
        }
    }
    let family = |net: &IpNet| if net.addr().is_ipv4() { "IPv4" } else { "IPv6" };
    match services.iter().find(|s| pods.iter().all(|p| family(p) != family(s))) {
        Some(s) => Err(format!(
            "spec.network: serviceCIDRs has an {family} network ({s}) and podCIDRs has none, so Services with {family} addresses would have no endpoints",
            family = family(s)
        )),
        None => Ok(()),
    }
}

/// Whether the networks of a tenant that is not made yet keep off the meta cluster's: its API server would take the one for the
/// other. Networks never change, so a tenant that has a namespace is not judged again; one whose networks cannot be judged gets none.
pub(crate) fn disjoint_from_meta(network: &Network, meta: &MetaCluster) -> Result<(), State> {
    let meta = meta.addresses.as_ref().map_err(|why| without_ranges(why))?;
    for (field, cidr) in all_of(network) {
        if let Some((whose, range)) = cidr.parse().ok().and_then(|net| meta.overlap(net)) {
            return Err(State::blocked(
                Reason::InvalidSpec,
                format!(
                    "spec.network.{field}: {cidr} overlaps {range}, where the meta cluster has its {whose}. {NETWORK_IS_IMMUTABLE}"
                ),
            ));
        }
    }
    Ok(())
}

/// The networks of Services and pods, each with its field.
pub(crate) fn all_of(network: &Network) -> impl Iterator<Item = (&'static str, &String)> {
    let services = network.service_cidrs.iter().map(|cidr| ("serviceCIDRs", cidr));
    services.chain(network.pod_cidrs.iter().map(|cidr| ("podCIDRs", cidr)))
}

/// What is awaited as long as nobody knows what a tenant has to be kept off.
pub(crate) fn without_ranges(why: &str) -> State {
    State::waiting(format!("the meta cluster's address ranges, from which NetworkPolicies keep tenants: {why}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    fn judged(network: &Value) -> Result<(), String> {
        let network: Network = serde_json::from_value(network.clone()).unwrap();
        networks(&network).and_then(|()| can_serve(&network))
    }

    #[test]
    fn networks_that_can_never_serve_are_refused_by_field_and_range() {
        for (network, said) in [
            (
                json!({"podCIDRs": ["127.0.0.0/8"]}),
                "podCIDRs: 127.0.0.0/8 overlaps 127.0.0.0/8 (loopback), whose addresses",
            ),
            (json!({"podCIDRs": ["224.0.0.0/8"]}), "podCIDRs: 224.0.0.0/8 overlaps 224.0.0.0/4 (multicast)"),
            (json!({"serviceCIDRs": ["127.1.0.0/16"]}), "serviceCIDRs: 127.1.0.0/16 overlaps 127.0.0.0/8 (loopback)"),
            (
                json!({"serviceCIDRs": ["169.254.0.0/16"]}),
                "serviceCIDRs: 169.254.0.0/16 overlaps 169.254.0.0/16 (link-local)",
            ),
            (
                json!({"serviceCIDRs": ["169.254.32.0/20"]}),
                "serviceCIDRs: 169.254.32.0/20 overlaps 169.254.0.0/16 (link-local)",
            ),
            (json!({"podCIDRs": ["0.0.0.0/8"]}), "podCIDRs: 0.0.0.0/8 overlaps 0.0.0.0/8 (unspecified)"),
            (json!({"podCIDRs": ["240.0.0.0/16"]}), "podCIDRs: 240.0.0.0/16 overlaps 240.0.0.0/4 (reserved)"),
            (json!({"podCIDRs": ["255.255.0.0/16"]}), "podCIDRs: 255.255.0.0/16 overlaps 240.0.0.0/4 (reserved)"),
            (
                json!({"podCIDRs": ["10.160.0.0/16", "fe80::/64"]}),
                "podCIDRs: fe80::/64 overlaps fe80::/10 (link-local)",
            ),
            (json!({"podCIDRs": ["10.160.0.0/16", "ff00::/56"]}), "podCIDRs: ff00::/56 overlaps ff00::/8 (multicast)"),
            (json!({"podCIDRs": ["10.160.0.0/16", "::/64"]}), "podCIDRs: ::/64 overlaps ::/128 (unspecified)"),
            (json!({"serviceCIDRs": ["::/112"]}), "serviceCIDRs: ::/112 overlaps ::/128 (unspecified)"),
            (json!({"serviceCIDRs": ["::ffff:10.112.0.0/112"]}), "overlaps ::ffff:0:0/96 (IPv4-mapped)"),
            (
                json!({"serviceCIDRs": ["fd00:1::/108"]}),
                "spec.network: serviceCIDRs has an IPv6 network (fd00:1::/108) and podCIDRs has none",
            ),
            (json!({"podCIDRs": ["fd00:160::/56"]}), "serviceCIDRs has an IPv4 network (10.112.0.0/16)"),
            (json!({"serviceCIDRs": ["10.112.0.0/16", "fd00:1::/112"]}), "(fd00:1::/112) and podCIDRs has none"),
            // A prefix that is too small for its use, or too large for the API server.
            (json!({"serviceCIDRs": ["10.112.0.0/29"]}), "must be between /12 and /28"),
            (json!({"serviceCIDRs": ["10.0.0.0/11"]}), "must be between /12 and /28"),
            (json!({"serviceCIDRs": ["fd00:1::/107"], "podCIDRs": ["fd00:2::/56"]}), "between /108 and /120"),
            (json!({"podCIDRs": ["10.160.0.0/25"]}), "must be between /8 and /24"),
            (json!({"podCIDRs": ["fd00:2::/65"], "serviceCIDRs": ["fd00:1::/112"]}), "between /48 and /64"),
        ] {
            let why = judged(&network).expect_err(&network.to_string());
            assert!(why.contains(said), "{network}: {why}");
        }
    }

    #[test]
    fn networks_that_serve_are_taken() {
        for network in [
            json!({}),
            json!({"serviceCIDRs": ["10.112.0.0/28"], "podCIDRs": ["10.160.0.0/24"]}),
            json!({"serviceCIDRs": ["fd00:1::/108"], "podCIDRs": ["fd00:2::/48"]}),
            json!({"serviceCIDRs": ["fd00:1::/120"], "podCIDRs": ["10.160.0.0/16", "fd00:2::/64"]}),
            json!({"serviceCIDRs": ["10.112.0.0/16", "fd00:1::/112"], "podCIDRs": ["fd00:2::/56", "10.160.0.0/16"]}),
            json!({"serviceCIDRs": ["100.64.0.0/16"], "podCIDRs": ["192.0.0.0/16"]}),
        ] {
            assert_eq!(judged(&network), Ok(()), "{network}");
        }
    }
}
