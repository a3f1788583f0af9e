//! Zones of `spec.addons.coreDNS.zones`: what of them CoreDNS would not start with, or what would take the tenant's own names away, is refused.
//! What goes on is parsed, so nothing of it is syntax of a Corefile.

use super::facts::cluster_dns;
use berth_api::cluster::{DnsZone, Network};
use ipnet::IpNet;
use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};

const PORT: u16 = 53;

/// As many as CoreDNS' plugin `forward` takes.
const MOST_SERVERS: usize = 15;

/// What of the zones is answered elsewhere.
#[derive(Debug, Default)]
pub(super) struct Zones {
    /// The servers of each.
    pub(super) all: BTreeMap<String, Vec<SocketAddr>>,
    /// Why others are refused that have names of the tenant's own: without them CoreDNS answers these, as it should.
    pub(super) left_out: Vec<String>,
}

/// Judges the zones. Err: what is refused, with the way out. One that is mistyped may be answered elsewhere now, so it is not left out.
pub(super) fn zones(asked: &[DnsZone], network: &Network) -> Result<Zones, String> {
    let dns = cluster_dns(&network.service_cidrs).and_then(|address| address.parse().ok());
    let Zones { mut all, mut left_out } = Zones::default();
    for (at, zone) in asked.iter().enumerate() {
        let field = format!("spec.addons.coreDNS.zones[{at}]");
        let name = zone.name.to_ascii_lowercase();
        if !is_name(&name) {
            return Err(format!("{field}.name: must be a DNS name without a dot at its end, such as corp.example"));
        }
        if let Some(own) = own(&name, network) {
            left_out.push(format!("{field}.name: {name} has names of the tenant's own {own}. Name another zone"));
            continue;
        }
        if zone.servers.is_empty() || zone.servers.len() > MOST_SERVERS {
            return Err(format!("{field}.servers: list 1 to {MOST_SERVERS} servers"));
        }
        let servers = zone.servers.iter().enumerate();
        let servers = servers.map(|(n, text)| server(text, dns).map_err(|why| format!("{field}.servers[{n}]: {why}")));
        if all.insert(name.clone(), servers.collect::<Result<_, _>>()?).is_some() {
            return Err(format!("{field}.name: {name} is listed twice. List all of its servers once"));
        }
    }
    Ok(Zones { all, left_out })
}

fn is_name(name: &str) -> bool {
    let plain = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'_';
    let is_label = |label: &str| {
        let (first, last) = (label.bytes().next(), label.bytes().next_back());
        label.len() <= 63
            && label.bytes().all(|b| plain(b) || b == b'-')
            && [first, last].into_iter().all(|end| end.is_some_and(plain))
    };
    name.len() <= 253 && name.split('.').all(is_label)
}

/// Whether it is that zone, or below it.
fn is_within(name: &str, zone: &str) -> bool {
    name.strip_suffix(zone).is_some_and(|rest| rest.is_empty() || rest.ends_with('.'))
}

/// What of the tenant's own has names in that zone: its domain, or addresses of Services.
fn own(name: &str, network: &Network) -> Option<String> {
    let domain = network.dns_domain.to_ascii_lowercase();
    if is_within(&domain, name) || is_within(name, &domain) {
        return Some(format!("zone {domain}"));
    }
    let addresses = addresses(name);
    let mut services = network.service_cidrs.iter().filter_map(|range| range.parse::<IpNet>().ok());
    let own = services.find(|range| addresses.iter().any(|all| all.contains(range) || range.contains(all)))?;
    Some(format!("Services, {own}"))
}

/// The addresses that have their names in a zone: those of 10.96.0.0/16 in `96.10.in-addr.arpa`.
fn addresses(zone: &str) -> Vec<IpNet> {
    let octets =
        digits(zone, "in-addr.arpa", |label| label.parse::<u8>().ok().filter(|octet| octet.to_string() == label));
    let nibbles = digits(zone, "ip6.arpa", |label| u8::from_str_radix(label, 16).ok().filter(|_| label.len() == 1));
    let v4 = octets.and_then(|octets| {
        let mut all = [0; 4];
        all.iter_mut().zip(&octets).for_each(|(to, octet)| *to = *octet);
        IpNet::new(all.into(), u8::try_from(octets.len().min(4) * 8).ok()?).ok()
    });
    let v6 = nibbles.and_then(|nibbles| {
        let mut all = [0; 16];
        for (at, nibble) in nibbles.iter().take(32).enumerate() {
            all[at / 2] |= if at % 2 == 0 { nibble << 4 } else { *nibble };
        }
        IpNet::new(all.into(), u8::try_from(nibbles.len().min(32) * 4).ok()?).ok()
    });
    v4.into_iter().chain(v6).collect()
}

/// The labels of a zone within `root`, from there down; none of one above it. None: it is neither, or no address has such a name.
fn digits(zone: &str, root: &str, digit: impl Fn(&str) -> Option<u8>) -> Option<Vec<u8>> {
    if is_within(root, zone) {
        return Some(vec![]);
    }
    zone.strip_suffix(root)?.strip_suffix('.')?.rsplit('.').map(digit).collect()
}

fn server(text: &str, dns: Option<IpAddr>) -> Result<SocketAddr, String> {
    let plain = text.parse::<IpAddr>().map(|address| SocketAddr::new(address, PORT));
    let Ok(server) = plain.or_else(|_| text.parse::<SocketAddr>()) else {
        return Err("must be an IP address, or one with a port, such as 192.0.2.53:5353 or [2001:db8::53]:5353".into());
    };
    let ip = server.ip().to_canonical();
    if dns == Some(ip) || ip.is_loopback() || ip.is_unspecified() {
        return Err(format!("CoreDNS would ask itself at {ip}. Name the server that has the zone"));
    }
    let broadcast = matches!(ip, IpAddr::V4(v4) if v4.is_broadcast());
    if ip.is_multicast() || broadcast || server.port() == 0 {
        return Err(format!("no DNS server answers at {server}. Name the server that has the zone"));
    }
    // A scope is of one machine.
    Ok(SocketAddr::new(server.ip(), server.port()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn network(services: &str) -> Network {
        Network { service_cidrs: vec![services.into()], dns_domain: "cluster.local".into(), ..Network::default() }
    }

    /// The zones, if none is refused.
    fn zones(asked: &[DnsZone], network: &Network) -> Result<BTreeMap<String, Vec<SocketAddr>>, String> {
        let Zones { all, left_out } = super::zones(asked, network)?;
        if left_out.is_empty() { Ok(all) } else { Err(left_out.join(". ")) }
    }

    fn zone(name: &str, servers: &[&str]) -> DnsZone {
        DnsZone { name: name.into(), servers: servers.iter().map(|s| (*s).to_owned()).collect() }
    }

    #[test]
    fn zones_are_parsed() {
        let asked = [
            zone("Corp.Example", &["192.0.2.53", "192.0.2.54:5353"]),
            zone("_tcp.b", &["2001:db8::53", "[2001:db8::54]:5353"]),
            zone("10.in-addr.arpa", &["192.0.2.53"]),
            // It ends as the tenant's own does.
            zone("mycluster.local", &["192.0.2.53"]),
        ];
        let zones = zones(&asked, &network("172.16.0.0/16")).unwrap();
        let all: Vec<_> = zones
            .iter()
            .map(|(name, all)| (name.as_str(), all.iter().map(ToString::to_string).collect::<Vec<_>>()))
            .collect();
        let of = |servers: &[&str]| servers.iter().map(|s| (*s).to_owned()).collect::<Vec<_>>();
        assert_eq!(
            all,
            [
                ("10.in-addr.arpa", of(&["192.0.2.53:53"])),
                ("_tcp.b", of(&["[2001:db8::53]:53", "[2001:db8::54]:5353"])),
                ("corp.example", of(&["192.0.2.53:53", "192.0.2.54:5353"])),
                ("mycluster.local", of(&["192.0.2.53:53"])),
            ]
        );
    }

    #[test]
    fn only_zones_with_names_of_the_tenants_own_are_left_out() {
        let asked = |more: DnsZone| {
            let good: &[&str] = &["192.0.2.53"];
            [zone("97.10.in-addr.arpa", good), zone("corp.example", good), zone("local", &[]), more]
        };
        let network = network("10.96.0.0/12");
        let Zones { all, left_out } = super::zones(&asked(zone("a.example", &["192.0.2.54"])), &network).unwrap();
        assert_eq!(all.keys().collect::<Vec<_>>(), ["a.example", "corp.example"]);
        assert_eq!(left_out.len(), 2);
        assert!(left_out[1].starts_with("spec.addons.coreDNS.zones[2].name: local has names"), "{left_out:?}");
        // A zone that is mistyped may be one that is answered now.
        for mistyped in [zone("a.example.", &["192.0.2.54"]), zone("a.example", &["dns.example"])] {
            let why = super::zones(&asked(mistyped), &network).unwrap_err();
            assert!(why.starts_with("spec.addons.coreDNS.zones[3]."), "{why}");
        }
    }

    #[test]
    fn names_of_other_addresses_may_be_asked_elsewhere() {
        // Beside the Services, of the other family, and such as no address has.
        for name in [
            "95.10.in-addr.arpa",
            "112.10.in-addr.arpa",
            "0.10.in-addr.arpa",
            "1.in-addr.arpa",
            "ip6.arpa",
            "8.b.d.0.1.0.0.2.ip6.arpa",
            "0-25.0.96.10.in-addr.arpa",
            "096.10.in-addr.arpa",
            "my-in-addr.arpa",
        ] {
            let found = zones(&[zone(name, &["192.0.2.53"])], &network("10.96.0.0/12"));
            assert!(found.is_ok(), "{name}: {found:?}");
        }
    }

    #[test]
    fn what_would_break_coredns_or_the_tenants_own_names_is_refused() {
        let good: &[&str] = &["192.0.2.53"];
        let many = vec!["192.0.2.53"; 16];
        let long = ["a".repeat(64), "a.".repeat(127) + "a"];
        let names = [
            "",
            ".",
            "corp.example.",
            ".corp",
            "a..b",
            "-a",
            "a-",
            "a b",
            "a{",
            "a}",
            "a\nb",
            "a\"",
            "a#b",
            "a:53",
            "a/24",
            "*.a",
            "ä.example",
            "a,b",
            "$(id)",
            "a;b",
            &long[0],
            &long[1],
        ];
        for name in names {
            let why = zones(&[zone(name, good)], &network("10.96.0.0/12")).unwrap_err();
            assert!(why.starts_with("spec.addons.coreDNS.zones[0].name: must be a DNS name"), "{name:?}: {why}");
        }
        let own = [
            "cluster.local",
            "Cluster.Local",
            "local",
            "svc.cluster.local",
            "a.b.cluster.local",
            "arpa",
            "in-addr.arpa",
            "10.in-addr.arpa",
            "10.0.96.10.in-addr.arpa",
            // Names of other Services.
            "96.10.in-addr.arpa",
            "111.10.in-addr.arpa",
            "7.0.97.10.in-addr.arpa",
            "1.7.0.97.10.in-addr.arpa",
        ];
        for name in own {
            let why = zones(&[zone(name, good)], &network("10.96.0.0/12")).unwrap_err();
            let own = if name.ends_with("arpa") { "Services, 10.96.0.0/12. Name" } else { "zone cluster.local. Name" };
            assert!(why.contains(&format!("has names of the tenant's own {own}")), "{name:?}: {why}");
        }
        for name in [
            "ip6.arpa",
            "8.b.d.0.1.0.0.2.ip6.arpa",
            "f.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.8.b.d.0.1.0.0.2.ip6.arpa",
        ] {
            let why = zones(&[zone(name, good)], &network("2001:db8::/92")).unwrap_err();
            assert!(why.contains("has names of the tenant's own Services, 2001:db8::/92."), "{name:?}: {why}");
        }
        let mut two = network("10.96.0.0/12");
        two.service_cidrs.push("2001:db8::/108".into());
        let why = zones(&[zone("8.b.d.0.1.0.0.2.ip6.arpa", good)], &two).unwrap_err();
        assert!(why.contains("own Services, 2001:db8::/108."), "of each family: {why}");
        for (servers, says) in [
            (&[][..], "servers: list 1 to 15"),
            (&many, "servers: list 1 to 15"),
            (&["192.0.2.53", ""], "servers[1]: must be an IP address"),
            (&["dns.example"], "servers[0]: must be an IP address"),
            (&["192.0.2.53:"], "must be an IP address"),
            (&["192.0.2.53:99999"], "must be an IP address"),
            (&["192.0.2.0/24"], "must be an IP address"),
            (&["2001:db8::53:5353:1:2:3:4:5"], "must be an IP address"),
            (&["[2001:db8::53]"], "must be an IP address"),
            (&["192.0.2.53 }"], "must be an IP address"),
            (&["192.0.2.53\n}"], "must be an IP address"),
            (&["tls://192.0.2.53"], "must be an IP address"),
            (&["/etc/resolv.conf"], "must be an IP address"),
            (&["192.000.2.53"], "must be an IP address"),
            (&["127.0.0.1"], "would ask itself"),
            (&["::1"], "would ask itself"),
            (&["::ffff:127.0.0.1"], "would ask itself"),
            (&["0.0.0.0:5353"], "would ask itself"),
            (&["10.96.0.10"], "would ask itself at 10.96.0.10"),
            (&["::ffff:10.96.0.10"], "would ask itself at 10.96.0.10"),
            (&["224.0.0.251"], "no DNS server answers"),
            (&["255.255.255.255"], "no DNS server answers"),
            (&["192.0.2.53:0"], "no DNS server answers"),
        ] {
            let why = zones(&[zone("corp.example", servers)], &network("10.96.0.0/12")).unwrap_err();
            assert!(why.contains(says), "{servers:?}: {why}");
        }
        let twice = zones(&[zone("a.example", good), zone("A.example", good)], &network("10.96.0.0/12")).unwrap_err();
        assert!(twice.starts_with("spec.addons.coreDNS.zones[1].name: a.example is listed twice"), "{twice}");
    }
}
