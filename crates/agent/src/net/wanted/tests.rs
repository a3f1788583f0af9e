//! Rules are asked as the kernel asks them.

use berth_contract::vpc::Route as Routed;

use super::*;

const ETH0: u32 = 2;
const NET1: u32 = 3;

fn ip(text: &str) -> IpAddr {
    text.parse().unwrap()
}

fn cidr(text: &str) -> Cidr {
    text.parse().unwrap()
}

fn kernel() -> Kernel {
    let address = |interface, text| Address { interface, address: cidr(text) };
    let route = |dst, interface, via: Option<&str>| Route {
        via: via.map(ip),
        scope: if via.is_some() { 0 } else { Route::LINK },
        ..Route::on_link(Family::of(cidr(dst).address), MAIN, cidr(dst), interface)
    };
    Kernel {
        interface: NET1,
        addresses: vec![
            address(1, "127.0.0.1/8"),
            address(ETH0, "10.244.1.5/24"),
            address(ETH0, "fd10:244::5/64"),
            address(NET1, "172.20.0.2/24"),
            address(NET1, "fe80::1/64"),
        ],
        routes: vec![
            route("0.0.0.0/0", ETH0, Some("10.244.1.1")),
            route("10.244.1.0/24", ETH0, None),
            route("172.20.0.0/24", NET1, None),
            route("0.0.0.0/0", NET1, Some("172.20.0.1")),
            route("::/0", NET1, Some("fe80::2")),
        ],
        rules: vec![],
        families: Family::ALL.into(),
    }
}

fn net() -> Net {
    let open = |to, port, protocol| Open { to: cidr(to), port, end_port: None, protocol };
    Net {
        interface: "net1".to_owned(),
        closed: ["10.96.0.0/12", "10.244.0.0/16", "fd10::/16"].map(cidr).into(),
        open: vec![
            open("10.96.1.2/32", Some(2379), Some(Protocol::Tcp)),
            open("10.96.0.10/32", Some(53), Some(Protocol::Udp)),
            open("10.100.0.0/16", None, None),
            Open { end_port: Some(8999), ..open("10.101.0.0/16", Some(8000), None) },
            open("fd10::2/128", Some(2379), Some(Protocol::Tcp)),
        ],
        routes: vec![Routed { dst: cidr("10.50.7.7/16"), via: ip("172.20.0.1") }],
        slots: vec![cidr("172.20.0.2/24"), cidr("172.20.0.3/24")],
        virtual_ip: Some(ip("172.20.0.10")),
        ..Net::default()
    }
}

/// A packet that the kernel looks up a route for.
#[derive(Clone, Copy)]
struct Flow {
    received: &'static str,
    from: Option<IpAddr>,
    to: IpAddr,
    protocol: u8,
    source_port: u16,
    port: u16,
    uid: u32,
}

fn sent(to: &str, protocol: u8, port: u16) -> Flow {
    Flow { received: "lo", from: None, to: ip(to), protocol, source_port: 40000, port, uid: 65532 }
}

fn answer(from: &str, to: &str) -> Flow {
    Flow { from: Some(ip(from)), source_port: PORT, ..sent(to, TCP, 40000) }
}

impl Flow {
    fn matches(&self, rule: &Rule) -> bool {
        let within = |network: Option<Cidr>, address: Option<IpAddr>| {
            network.is_none_or(|network| address.is_some_and(|address| network.contains(address)))
        };
        let ports = |range: Option<(u16, u16)>, port| range.is_none_or(|(first, last)| (first..=last).contains(&port));
        let all = rule.iif.as_deref().is_none_or(|iif| iif == self.received)
            && within(rule.from, self.from)
            && within(rule.to, Some(self.to))
            && rule.protocol.is_none_or(|protocol| protocol == self.protocol)
            && ports(rule.source_ports, self.source_port)
            && ports(rule.ports, self.port)
            && rule.uid.is_none_or(|uid| uid == self.uid);
        all != rule.not
    }

    /// What becomes of it with these rules.
    fn led(&self, wanted: &Wanted) -> &'static str {
        for rule in wanted.rules.iter().filter(|rule| rule.family == Family::of(self.to) && self.matches(rule)) {
            let Action::Lookup(table) = rule.action else { return "prohibited" };
            let routes = wanted.routes.iter().filter(|r| r.table == table && r.dst.contains(self.to));
            match routes.max_by_key(|route| (route.dst.prefix, std::cmp::Reverse(route.metric))) {
                Some(route) if route.kind == Route::PROHIBIT => return "prohibited",
                Some(route) if route.interface == Some(NET1) => return "net1",
                Some(_) => return "eth0",
                None => {}
            }
        }
        "main"
    }
}

fn own() -> Cidr {
    cidr("172.20.0.2/24")
}

#[test]
fn connections_are_led_where_they_may_go() {
    let wanted = wanted(&net(), own(), &kernel());
    let from = |from: &str, flow: Flow| Flow { from: Some(ip(from)), ..flow };
    let kernels = |flow: Flow| Flow { uid: 0, source_port: 0, ..flow };
    let received = |received, to: &str| Flow { received, from: Some(ip("172.20.0.99")), ..sent(to, TCP, 443) };
    for (what, flow, led) in [
        ("etcd", sent("10.96.1.2", TCP, 2379), "eth0"),
        ("etcd's other port", sent("10.96.1.2", TCP, 2380), "prohibited"),
        ("etcd by another protocol", sent("10.96.1.2", 17, 2379), "prohibited"),
        ("DNS", sent("10.96.0.10", 17, 53), "eth0"),
        ("the meta API", sent("10.96.0.1", TCP, 443), "prohibited"),
        ("metadata, though the file does not name it", sent("169.254.169.254", TCP, 80), "prohibited"),
        ("an open range", sent("10.100.3.4", 132, 5), "eth0"),
        ("an open port", sent("10.101.3.4", TCP, 8999), "eth0"),
        ("the next one", sent("10.101.3.4", TCP, 9000), "prohibited"),
        ("a node", sent("172.20.0.99", TCP, 10250), "net1"),
        ("behind a router of the VPC", sent("10.50.3.4", TCP, 443), "net1"),
        ("anywhere else", sent("8.8.8.8", TCP, 443), "eth0"),
        ("an answer in the VPC", answer("172.20.0.2", "172.20.0.99"), "net1"),
        ("an answer from the virtual IP", answer("172.20.0.10", "10.50.0.1"), "net1"),
        ("an answer to a VPC that has a closed range, too", answer("172.20.0.2", "10.96.0.1"), "prohibited"),
        ("an answer to where no route leads", answer("172.20.0.2", "8.8.8.8"), "prohibited"),
        ("an answer to a pod of the meta cluster", answer("10.244.1.5", "10.244.7.7"), "eth0"),
        ("an answer from outside to what is behind the VPC, too", answer("10.244.1.5", "10.50.0.1"), "eth0"),
        ("a socket bound to eth0's address", from("10.244.1.5", sent("10.96.0.1", TCP, 443)), "prohibited"),
        ("a socket bound to the VPC's address", from("172.20.0.2", sent("10.96.0.1", TCP, 443)), "prohibited"),
        ("a socket bound to it, to elsewhere", from("172.20.0.2", sent("8.8.8.8", TCP, 443)), "prohibited"),
        ("the kernel's own answer", kernels(answer("10.244.1.5", "10.244.1.1")), "eth0"),
        ("the kernel's own answer in the VPC", kernels(answer("172.20.0.2", "172.20.0.99")), "net1"),
        ("forwarded", received("net1", "10.96.1.2"), "prohibited"),
        ("forwarded to where the API server may go", received("net1", "8.8.8.8"), "prohibited"),
        ("forwarded into the VPC", received("eth0", "172.20.0.99"), "prohibited"),
        ("etcd over IPv6", sent("fd10::2", TCP, 2379), "prohibited"),
        ("a closed range over IPv6", sent("fd10::1", TCP, 443), "prohibited"),
        ("the VPC's IPv6", sent("2001:db8::1", TCP, 443), "prohibited"),
        ("an answer from the VPC's IPv6", answer("fe80::1", "fe80::2"), "prohibited"),
        ("forwarded IPv6", received("net1", "2001:db8::1"), "prohibited"),
    ] {
        assert_eq!(flow.led(&wanted), led, "{what}");
    }
}

#[test]
fn ipv6_of_the_meta_cluster_goes_over_eth0() {
    let mut kernel = kernel();
    let default = Route { via: Some(ip("fe80::9")), ..Route::on_link(Family::V6, MAIN, cidr("::/0"), ETH0) };
    kernel.routes.push(default);
    let wanted = wanted(&net(), own(), &kernel);
    for (flow, led) in [
        (sent("fd10::2", TCP, 2379), "eth0"),
        (sent("fd10::2", TCP, 2380), "prohibited"),
        (sent("2001:db8::1", TCP, 443), "eth0"),
        (answer("fd10:244::5", "fd10::1"), "eth0"),
        (sent("fd00:ec2::254", TCP, 80), "prohibited"),
    ] {
        assert_eq!(flow.led(&wanted), led, "{}", flow.to);
    }
}

#[test]
fn a_kernel_without_ipv6_gets_no_rules_of_it() {
    let kernel = Kernel { families: vec![Family::V4], ..kernel() };
    let wanted = wanted(&net(), own(), &kernel);
    assert!(wanted.rules.iter().all(|rule| rule.family == Family::V4));
    assert_eq!(sent("10.96.0.1", TCP, 443).led(&wanted), "prohibited");
}

#[test]
fn a_default_route_takes_what_is_not_closed() {
    let routes = vec![Routed { dst: cidr("0.0.0.0/0"), via: ip("172.20.0.1") }];
    let mut net = Net { routes, ..net() };
    let all = wanted(&net, own(), &kernel());
    for (flow, led) in [
        (sent("8.8.8.8", TCP, 443), "net1"),
        (sent("10.96.0.1", TCP, 443), "prohibited"),
        (sent("10.96.1.2", TCP, 2379), "eth0"),
        (answer("172.20.0.2", "8.8.8.8"), "net1"),
        // Somebody in the VPC who has such an address gets an answer; nothing is begun there.
        (answer("172.20.0.2", "10.96.0.1"), "net1"),
        (answer("10.244.1.5", "8.8.8.8"), "eth0"),
    ] {
        assert_eq!(flow.led(&all), led, "{}", flow.to);
    }
    net.rules = Rules::Interface;
    let interface = wanted(&net, own(), &kernel());
    let forwarded = |received, to: &str| Flow { received, ..sent(to, TCP, 443) };
    for (flow, led) in [
        (sent("8.8.8.8", TCP, 443), "net1"),
        (sent("10.96.0.1", TCP, 443), "eth0"),
        (sent("169.254.169.254", TCP, 80), "eth0"),
        (answer("10.244.1.5", "8.8.8.8"), "eth0"),
        (forwarded("net1", "10.96.1.2"), "prohibited"),
        (forwarded("eth0", "172.20.0.99"), "prohibited"),
        (sent("2001:db8::1", TCP, 443), "main"),
    ] {
        assert_eq!(flow.led(&interface), led, "{} received at {}", flow.to, flow.received);
    }
}

/// The kernel deletes the first rule that has all the parts that it is told.
#[test]
fn rules_of_one_preference_have_the_same_parts() {
    for rules in [Rules::All, Rules::Interface] {
        let wanted = wanted(&Net { rules, ..net() }, own(), &kernel());
        for (n, rule) in wanted.rules.iter().enumerate() {
            for other in
                wanted.rules.iter().skip(n + 1).filter(|o| (o.family, o.preference) == (rule.family, rule.preference))
            {
                assert_eq!((shape(rule), rule.uid), (shape(other), other.uid), "{rule} and {other}");
                assert_ne!(rule, other);
            }
        }
        assert!(wanted.rules.is_sorted());
    }
}

#[test]
fn routes_of_the_vpc_have_its_address_and_those_of_others_stay_as_they_are() {
    let wanted = wanted(&net(), own(), &kernel());
    let table = |table| wanted.routes.iter().filter(move |route| route.table == table).collect::<Vec<_>>();
    let vpc = table(VPC);
    assert_eq!(vpc.len(), 3, "{vpc:?}");
    assert!(vpc.iter().filter(|r| r.kind == Route::UNICAST).all(|r| r.source == Some(ip("172.20.0.2"))));
    assert!(vpc.iter().any(|r| r.dst == cidr("10.50.0.0/16") && r.via == Some(ip("172.20.0.1"))));
    assert_eq!(table(OTHERS).len(), 2, "the VPC's own are not among them");
    let gateways = wanted.routes.iter().position(|route| route.via.is_some()).unwrap();
    assert!(
        wanted.routes[gateways..].iter().all(|route| route.via.is_some()),
        "gateways are found in what comes before"
    );
}
