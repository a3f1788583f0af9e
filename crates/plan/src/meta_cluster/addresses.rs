//! The addresses of the meta cluster: what a tenant's API server must not reach, and what a tenant's networks must not overlap.

use berth_api::proxy::ALWAYS;
use ipnet::IpNet;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// Address ranges of the meta cluster.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MetaRanges {
    /// Of its pods.
    pub pods: Vec<IpNet>,
    /// Of its Services.
    pub services: Vec<IpNet>,
    /// Of its nodes.
    pub nodes: Vec<IpNet>,
    /// Of its API servers.
    pub api_servers: Vec<IpNet>,
}

/// Where clouds answer with a machine's credentials or a pod's, and other addresses that mean the machine itself. Link-local covers
/// 169.254.169.254 of most clouds, and what AWS, Scaleway and Tencent have beside it.
pub const METADATA: [&str; 12] = [
    "169.254.0.0/16",
    "fe80::/10",
    // Alibaba, Azure's host, Oracle's older cloud.
    "100.100.100.200/32",
    "168.63.129.16/32",
    "192.0.0.192/32",
    // Over IPv6: AWS, EKS Pod Identity, Google, Oracle, Alibaba, Akamai, Scaleway.
    "fd00:ec2::254/128",
    "fd00:ec2::23/128",
    "fd20:ce::254/128",
    "fd00:c1::a9fe:a9fe/128",
    "fd00:100::100:200/128",
    "fd00:a9fe:a9fe::1/128",
    "fd00:42::42/128",
];

/// Networks that are nobody's on the Internet: RFC 1918, carriers' NAT (RFC 6598), and unique local addresses (RFC 4193).
pub const PRIVATE: [&str; 5] = ["10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16", "100.64.0.0/10", "fc00::/7"];

/// Networks that are nobody's on the Internet either, and that some sites use as private ones: benchmarks (RFC 2544), the former class E, and
/// those that lead to IPv4 by whatever gateway the site has: 6to4 (RFC 3056), and NAT64 by a prefix of its own (RFC 8215).
pub const SPECIAL: [&str; 4] = ["198.18.0.0/15", "240.0.0.0/4", "2002::/16", "64:ff9b:1::/48"];

/// What API servers of new releases reach without a proxy, beside what is the tenant's own: nodes are dialled by addresses in private networks, and
/// cloud metadata is closed, and by a proxy would be that of another machine.
pub fn direct() -> Vec<String> {
    ALWAYS.into_iter().chain(PRIVATE).chain(METADATA).map(str::to_owned).collect()
}

/// What is closed to a pod beside the meta cluster and cloud metadata.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Closed {
    /// Nothing.
    Nothing,
    /// [`PRIVATE`].
    Private,
    /// [`PRIVATE`] and [`SPECIAL`].
    Special,
}

impl MetaRanges {
    /// All ranges with what they are, as an error message names them.
    fn named(&self) -> impl Iterator<Item = (&'static str, IpNet)> + '_ {
        let of = |what: &'static str, nets: &[IpNet]| nets.iter().map(|n| (what, *n)).collect::<Vec<_>>();
        let parts = [
            of("pods", &self.pods),
            of("Services", &self.services),
            of("nodes", &self.nodes),
            of("API servers", &self.api_servers),
        ];
        parts.into_iter().flatten()
    }

    /// What shares an address with `net`: whose it is, and the range.
    pub fn overlap(&self, net: IpNet) -> Option<(&'static str, IpNet)> {
        self.named().find(|(_, n)| n.contains(&net) || net.contains(n))
    }

    /// Whose address it is, and in what range, if it is not for tenants. That of a node is: their ports lead to Services.
    pub fn own(&self, address: IpAddr) -> Option<(&'static str, IpNet)> {
        let of_a_node = self.nodes.iter().any(|n| n.contains(&address));
        self.named().find(|(_, n)| !of_a_node && n.contains(&address))
    }

    /// Everything in `within` that a pod must not reach, sorted, nothing twice: the meta cluster, cloud metadata, and what is closed beside
    /// them; and what leads there by a gateway between IPv6 and IPv4. None: nothing of `within` is left.
    pub fn forbidden(&self, within: IpNet, closed: Closed) -> Option<Vec<IpNet>> {
        let mut all: Vec<IpNet> = self.named().map(|(_, n)| n).chain(metadata()).collect();
        if closed >= Closed::Private {
            all.extend(parsed(&PRIVATE));
        }
        if closed >= Closed::Special {
            all.extend(parsed(&SPECIAL));
        }
        all.extend(all.clone().into_iter().flat_map(translated));
        let all = IpNet::aggregate(&all);
        if all.iter().any(|n| n.contains(&within)) {
            return None;
        }
        let mut all: Vec<IpNet> = all.into_iter().filter(|n| within.contains(n)).collect();
        all.sort_unstable();
        Some(all)
    }
}

/// The prefix under which a NAT64 gateway translates to IPv4 (RFC 6052).
const NAT64: Ipv6Addr = Ipv6Addr::new(0x64, 0xff9b, 0, 0, 0, 0, 0, 0);

/// The prefix under which 6to4 embeds an IPv4 address (RFC 3056), which comes right after it.
const SIX_TO_FOUR: u16 = 0x2002;

/// The IPv6 forms of an IPv4 network, where there is a NAT64 gateway, or one of 6to4.
fn translated(net: IpNet) -> impl Iterator<Item = IpNet> {
    let IpNet::V4(net) = net else { return [None; 2].into_iter().flatten() };
    let (embedded, len) = (u128::from(net.network().to_bits()), net.prefix_len());
    let form = |bits: u128, len: u8| IpNet::new(Ipv6Addr::from_bits(bits).into(), len).ok();
    let six_to_four = u128::from(SIX_TO_FOUR) << 112 | embedded << 80;
    [form(NAT64.to_bits() | embedded, 96 + len), form(six_to_four, 16 + len)].into_iter().flatten()
}

/// The IPv4 address that an IPv6 one leads to, if it embeds one (`::ffff:0:0/96`, NAT64, 6to4); any other as it is.
pub fn reached(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V6(v6) if v6.segments()[..6] == NAT64.segments()[..6] => {
            let [.., a, b, c, d] = v6.octets();
            Ipv4Addr::new(a, b, c, d).into()
        }
        IpAddr::V6(v6) if v6.segments()[0] == SIX_TO_FOUR => {
            let [_, _, a, b, c, d, ..] = v6.octets();
            Ipv4Addr::new(a, b, c, d).into()
        }
        other => other,
    }
}

fn parsed(all: &'static [&str]) -> impl Iterator<Item = IpNet> {
    all.iter().filter_map(|m| m.parse().ok())
}

fn metadata() -> impl Iterator<Item = IpNet> {
    parsed(&METADATA)
}

/// Whether it is one of [`METADATA`].
pub fn is_metadata(address: IpAddr) -> bool {
    metadata().any(|n| n.contains(&address))
}

/// A network from text: in CIDR form, or one address.
pub fn network(text: &str) -> Option<IpNet> {
    let text = text.trim();
    text.parse::<IpNet>().map(|n| n.trunc()).ok().or_else(|| text.parse::<IpAddr>().ok().map(IpNet::from))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn nets(all: &[&str]) -> Vec<IpNet> {
        all.iter().map(|n| network(n).unwrap()).collect()
    }

    #[test]
    fn an_overlap_says_with_what() {
        let meta = MetaRanges { pods: nets(&["10.1.0.0/16"]), nodes: nets(&["192.168.0.7"]), ..MetaRanges::default() };
        assert_eq!(meta.overlap(network("10.1.128.0/17").unwrap()), Some(("pods", network("10.1.0.0/16").unwrap())));
        assert_eq!(meta.overlap(network("192.168.0.0/24").unwrap()).unwrap().0, "nodes");
        assert_eq!(meta.overlap(network("10.2.0.0/16").unwrap()), None);
        assert_eq!(meta.overlap(network("fd00::/64").unwrap()), None);
    }

    #[test]
    fn forbidden_ranges_are_merged_and_of_one_family() {
        let meta = MetaRanges {
            pods: nets(&["10.1.0.0/16", "fd00:1::/48"]),
            nodes: nets(&["10.1.2.3", "192.168.0.2", "192.168.0.3"]),
            ..MetaRanges::default()
        };
        let text = |within: &str| -> Vec<String> {
            meta.forbidden(network(within).unwrap(), Closed::Nothing).unwrap().iter().map(ToString::to_string).collect()
        };
        let clouds = ["100.100.100.200/32", "168.63.129.16/32", "169.254.0.0/16", "192.0.0.192/32"];
        assert_eq!(text("0.0.0.0/0"), [&["10.1.0.0/16"], &clouds[..], &["192.168.0.2/31"]].concat());
        let clouds = [
            "fd00:42::42/128",
            "fd00:c1::a9fe:a9fe/128",
            "fd00:100::100:200/128",
            "fd00:ec2::23/128",
            "fd00:ec2::254/128",
            "fd00:a9fe:a9fe::1/128",
            "fd20:ce::254/128",
            "fe80::/10",
        ];
        let translated = [
            "64:ff9b::a01:0/112",
            "64:ff9b::6464:64c8/128",
            "64:ff9b::a83f:8110/128",
            "64:ff9b::a9fe:0/112",
            "64:ff9b::c000:c0/128",
            "64:ff9b::c0a8:2/127",
        ];
        let six_to_four = [
            "2002:a01::/32",
            "2002:6464:64c8::/48",
            "2002:a83f:8110::/48",
            "2002:a9fe::/32",
            "2002:c000:c0::/48",
            "2002:c0a8:2::/47",
        ];
        assert_eq!(text("::/0"), [&translated[..], &six_to_four, &["fd00:1::/48"], &clouds[..]].concat());
    }

    #[test]
    fn what_lies_in_a_forbidden_range_is_forbidden_as_a_whole() {
        let meta = MetaRanges { pods: nets(&["10.1.0.0/16"]), ..MetaRanges::default() };
        let of = |within: &str, closed| meta.forbidden(network(within).unwrap(), closed);
        for inside in
            ["10.1.0.0/16", "10.1.2.0/24", "10.1.2.3", "169.254.169.254", "64:ff9b::a01:0/112", "2002:a01:203::1"]
        {
            assert_eq!(of(inside, Closed::Nothing), None, "{inside}");
        }
        assert_eq!(of("10.0.0.0/8", Closed::Nothing), Some(nets(&["10.1.0.0/16"])));
        assert_eq!(of("10.0.0.0/8", Closed::Private), None);
        for special in SPECIAL {
            assert!(of(special, Closed::Private).is_some() && of(special, Closed::Special).is_none(), "{special}");
        }
        let v4 = of("0.0.0.0/0", Closed::Special).unwrap();
        for private in ["10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16", "100.64.0.0/10"] {
            assert!(v4.contains(&network(private).unwrap()), "{private}");
        }
        let v6 = of("::/0", Closed::Private).unwrap();
        for closed in ["fc00::/7", "64:ff9b::a00:0/104", "2002:a00::/24"] {
            assert!(v6.contains(&network(closed).unwrap()), "{closed}");
        }
    }

    #[test]
    fn an_address_leads_to_the_one_that_it_embeds() {
        for (address, leads) in [
            ("::ffff:10.1.0.3", "10.1.0.3"),
            ("64:ff9b::10.1.0.3", "10.1.0.3"),
            ("2002:a01:3::1", "10.1.0.3"),
            ("2001:db8::1", "2001:db8::1"),
            ("203.0.113.9", "203.0.113.9"),
        ] {
            assert_eq!(reached(address.parse().unwrap()), leads.parse::<IpAddr>().unwrap(), "{address}");
        }
    }
}
