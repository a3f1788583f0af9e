//! Which rules and routes the pod's network is to have. A pure function of the configuration and of what the kernel has.
//!
//! Everything that this machine sends, and everything that it receives for another one, goes through the kernel's rules from low
//! preference to high. The table `local` comes first: it has the pod's own addresses, so what is received for them is not affected.
//!
//! | preference | what | where to |
//! |---|---|---|
//! | 1000 | received for somebody else | prohibited: nothing is forwarded |
//! | 1100, 1200 | answers from a VPC address: from port 6443, and the kernel's own | [`VPC`], or nowhere |
//! | 1300, 1400 | answers from another address, the same | [`OTHERS`] |
//! | 2000 | what is open of the closed ranges | [`OTHERS`] |
//! | 3000 | the rest of the closed ranges | prohibited |
//! | 4000, 4100 | sockets that are bound to an address | as for answers |
//! | 4200 | subnet and routes of the VPC | [`VPC`] |
//! | 4300 | everything else | [`OTHERS`], then as the network plugins left it; IPv6 prohibited |
//!
//! With `rules: Interface` closed ranges are left to what limits eth0, but never go over the VPC, and nothing is forwarded to or from
//! its interface.
//!
//! The kernel's own answers (ICMP, resets) and its check of where a packet should have come from (`rp_filter`) have the uid 0; the
//! API server has another one.

use std::net::IpAddr;

use berth_contract::vpc::{Cidr, Net, Open, Protocol, Rules};

use super::netlink::{Action, Address, Family, Route, Rule};

/// Routes over the VPC's interface.
pub(super) const VPC: u32 = 26443;
/// The main table's routes over all other interfaces: what a network plugin puts into the main table for the VPC leads nothing away.
pub(super) const OTHERS: u32 = 26444;
/// The kernel's main table.
pub(super) const MAIN: u32 = 254;

/// Where clouds have their metadata; closed whatever the file says, unless it opens them.
const METADATA: [&str; 2] = ["169.254.169.254/32", "fd00:ec2::254/128"];
/// Of the API server.
const PORT: u16 = 6443;
const TCP: u8 = 6;
/// Last of all metrics.
const LAST: u32 = u32::MAX;

/// What the kernel has that counts.
#[derive(Clone, Debug, Default)]
pub(super) struct Kernel {
    /// Index of the VPC's interface.
    pub(super) interface: u32,
    pub(super) addresses: Vec<Address>,
    /// Those of the main table, and of ours.
    pub(super) routes: Vec<Route>,
    /// Ours.
    pub(super) rules: Vec<Rule>,
    /// Of which it has rules at all: it may be built or started without IPv6.
    pub(super) families: Vec<Family>,
}

/// What it is to have.
#[derive(Debug, Default, PartialEq)]
pub(super) struct Wanted {
    pub(super) rules: Vec<Rule>,
    /// Those without a gateway first: gateways are looked for in them.
    pub(super) routes: Vec<Route>,
}

impl Wanted {
    pub(super) fn is_nothing(&self) -> bool {
        self.rules.is_empty() && self.routes.is_empty()
    }
}

/// `own` is the pod's address in the VPC, with the prefix of the subnet.
pub(super) fn wanted(net: &Net, own: Cidr, kernel: &Kernel) -> Wanted {
    let mut rules = Vec::new();
    for family in kernel.families.iter().copied() {
        let family = Rulebook { net, own, kernel, family };
        family.rules(|preference, rule| rules.push(Rule { preference: preference + shape(&rule), ..rule }));
    }
    rules.sort();
    rules.dedup();
    let mut routes = others(kernel);
    routes.extend(vpc(net, own, kernel.interface));
    routes.sort_by_key(|route| route.via.is_some());
    Wanted { rules, routes }
}

/// Which parts a rule has, as a number: rules of one preference have the same, or the kernel would delete another one than it is told.
fn shape(rule: &Rule) -> u32 {
    let parts = [
        rule.iif.is_some(),
        rule.from.is_some(),
        rule.to.is_some(),
        rule.protocol.is_some(),
        rule.source_ports.is_some(),
        rule.ports.is_some(),
    ];
    parts.into_iter().fold(0, |number, part| number * 2 + u32::from(part))
}

struct Rulebook<'a> {
    net: &'a Net,
    own: Cidr,
    kernel: &'a Kernel,
    family: Family,
}

impl Rulebook<'_> {
    fn rules(&self, mut add: impl FnMut(u32, Rule)) {
        let all = self.net.rules == Rules::All;
        let sent = || Some("lo".to_owned());
        let lookup = |table| Rule::new(self.family, 0, Action::Lookup(table));
        let prohibit = || Rule::new(self.family, 0, Action::Prohibit);
        let answers = |rule| Rule { protocol: Some(TCP), source_ports: Some((PORT, PORT)), ..rule };
        let kernels = |rule| Rule { uid: Some(0), ..rule };

        if all {
            add(1000, Rule { not: true, iif: sent(), ..prohibit() });
        } else {
            add(1000, Rule { iif: Some(self.net.interface.clone()), ..prohibit() });
        }
        // The VPC has no IPv6: routers there may announce some, but nothing follows them.
        let inside = || if self.family == Family::V4 { lookup(VPC) } else { prohibit() };
        for (from, is_inside) in self.sources() {
            let (rule, at) = if is_inside { (inside(), 0) } else { (lookup(OTHERS), 1) };
            let rule = Rule { from: Some(from), ..rule };
            add(1100 + 200 * at, answers(rule.clone()));
            add(1200 + 200 * at, kernels(rule.clone()));
            add(4000 + 100 * at, rule);
        }
        let metadata = METADATA.iter().filter_map(|text| text.parse().ok());
        for to in self.net.closed.iter().copied().chain(metadata).filter(|to| self.has(to.address)) {
            add(3000, Rule { to: network(to), ..if all { prohibit() } else { lookup(OTHERS) } });
        }
        if all {
            for open in self.net.open.iter().filter(|open| self.has(open.to.address)) {
                add(2000, opened(open, lookup(OTHERS)));
            }
        }
        for to in self.vpc_networks() {
            if all {
                add(4200, Rule { to, ..lookup(VPC) });
            } else {
                // From elsewhere nothing is forwarded there.
                add(4200, Rule { to, iif: sent(), ..lookup(VPC) });
                add(4250, Rule { to, ..prohibit() });
            }
        }
        if all {
            add(4300, lookup(OTHERS));
            if self.family == Family::V6 {
                add(4400, prohibit());
            }
        }
    }

    fn has(&self, address: IpAddr) -> bool {
        Family::of(address) == self.family
    }

    /// The pod's addresses, and whether each is one in the VPC.
    fn sources(&self) -> impl Iterator<Item = (Cidr, bool)> {
        let vpc = [Some(self.own.address), self.net.virtual_ip].into_iter().flatten();
        let found = self.kernel.addresses.iter();
        let found = found.map(|one| (one.address.address, one.interface == self.kernel.interface));
        let all = found.filter(|(address, _)| !address.is_loopback()).chain(vpc.map(|address| (address, true)));
        all.filter(|(address, _)| self.has(*address)).map(|(address, inside)| (alone(address), inside))
    }

    /// Networks that are reached over the VPC's interface; None is everything.
    fn vpc_networks(&self) -> impl Iterator<Item = Option<Cidr>> {
        let all = std::iter::once(self.own).chain(self.net.routes.iter().map(|route| route.dst));
        all.filter(|network| self.has(network.address)).map(network)
    }
}

fn opened(open: &Open, rule: Rule) -> Rule {
    let protocol = match (open.protocol, open.port) {
        (Some(Protocol::Udp), _) => Some(17),
        (Some(Protocol::Sctp), _) => Some(132),
        (Some(Protocol::Tcp), _) | (None, Some(_)) => Some(TCP),
        (None, None) => None,
    };
    let ports = open.port.map(|first| (first, open.end_port.unwrap_or(first)));
    Rule { to: network(open.to), protocol, ports, ..rule }
}

/// One address as a network.
fn alone(address: IpAddr) -> Cidr {
    Cidr { address, prefix: if address.is_ipv4() { 32 } else { 128 } }
}

/// Without the bits beyond the prefix, since the kernel keeps none. None is everything.
fn network(cidr: Cidr) -> Option<Cidr> {
    (cidr.prefix > 0).then(|| masked(cidr))
}

fn masked(Cidr { address, prefix }: Cidr) -> Cidr {
    let address = match address {
        IpAddr::V4(v4) => {
            let mask = u32::MAX.checked_shl(32 - u32::from(prefix)).unwrap_or(0);
            IpAddr::from((v4.to_bits() & mask).to_be_bytes())
        }
        IpAddr::V6(v6) => {
            let mask = u128::MAX.checked_shl(128 - u32::from(prefix)).unwrap_or(0);
            IpAddr::from((v6.to_bits() & mask).to_be_bytes())
        }
    };
    Cidr { address, prefix }
}

/// What the main table has, but for the VPC's interface.
fn others(kernel: &Kernel) -> Vec<Route> {
    let main = kernel.routes.iter().filter(|route| route.table == MAIN && route.kind == Route::UNICAST);
    let others = main.filter(|route| route.interface != Some(kernel.interface) && !route.dst.address.is_loopback());
    // Where gateways are is known already.
    others.map(|route| Route { table: OTHERS, on_link: route.via.is_some(), ..route.clone() }).collect()
}

fn vpc(net: &Net, own: Cidr, interface: u32) -> Vec<Route> {
    let link = |dst| Route {
        source: Some(own.address),
        ..Route::on_link(Family::of(own.address), VPC, masked(dst), interface)
    };
    let routed = net.routes.iter().filter(|route| Family::of(route.dst.address) == Family::of(own.address));
    let routed = routed.map(|route| Route { via: Some(route.via), scope: 0, ..link(route.dst) });
    // What asks for a VPC address never leaves by another interface.
    let everything = Cidr { address: IpAddr::from([0; 4]), prefix: 0 };
    let end =
        Route { kind: Route::PROHIBIT, scope: 0, interface: None, source: None, metric: LAST, ..link(everything) };
    std::iter::once(link(own)).chain(routed).chain([end]).collect()
}

#[cfg(test)]
mod tests;
