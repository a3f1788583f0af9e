//! What gets through. Each connection that must fail is one that succeeds without the sidecar.

use std::{
    net::SocketAddr,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    thread,
    time::{Duration, Instant},
};

use nix::sys::signal::Signal;
use serde_json::{Value, json};

use super::{namespace::Namespace, sidecar::Sidecar};

/// The pod, and what is at the other ends of its two interfaces.
struct Place {
    pod: Namespace,
    meta: Namespace,
    vpc: Namespace,
}

/// Addresses behind eth0, and some of them behind net1, too.
const META: [&str; 8] = [
    "10.96.1.2/32",
    "10.96.0.10/32",
    "10.96.0.1/32",
    "192.168.100.2/32",
    "169.254.169.254/32",
    "10.200.0.7/32",
    "8.8.8.8/32",
    "10.50.0.1/32",
];
const META_V6: [&str; 3] = ["fd10:96::2/128", "fd10:96::1/128", "2001:db8::8/128"];
const VPC: [&str; 3] = ["10.96.0.1/32", "8.8.8.8/32", "10.50.0.1/32"];

impl Place {
    /// As network plugins leave it, on a node that forwards.
    fn new() -> Self {
        let (pod, meta, vpc) = (Namespace::new("pod"), Namespace::new("meta"), Namespace::new("vpc"));
        pod.connect("eth0", &meta, "pod");
        pod.connect("net1", &vpc, "pod");
        for (command, namespace) in [
            ("addr add 10.244.1.5/24 dev eth0", &pod),
            ("addr add fd10:244::5/64 dev eth0 nodad", &pod),
            ("addr add 172.20.0.2/24 dev net1", &pod),
            ("addr add 10.244.1.1/24 dev pod", &meta),
            ("addr add fd10:244::1/64 dev pod nodad", &meta),
            ("addr add 172.20.0.1/24 dev pod", &vpc),
            ("addr add 172.20.0.99/24 dev pod", &vpc),
            ("route add default via 10.244.1.1 dev eth0", &pod),
            ("-6 route add default via fd10:244::1 dev eth0", &pod),
            ("route add default via 172.20.0.2 dev pod", &vpc),
            ("route add 172.20.0.0/24 via 10.244.1.5 dev pod", &meta),
        ] {
            namespace.ip(command);
        }
        for (addresses, namespace) in [(&META[..], &meta), (&META_V6, &meta), (&VPC, &vpc)] {
            for address in addresses {
                let nodad = if address.contains("::") { " nodad" } else { "" };
                namespace.ip(&format!("addr add {address} dev lo{nodad}"));
            }
        }
        pod.sysctl("ipv4/ip_forward", "1");
        for port in [53, 80, 443, 2379, 2380, 10250] {
            meta.listen(port, "meta");
            vpc.listen(port, "vpc");
        }
        pod.listen(6443, "pod");
        for at in ["10.96.0.10:53", "10.96.1.2:2379"] {
            meta.listen_udp(address(at), "meta");
        }
        let place = Self { pod, meta, vpc };
        // IPv6 takes a moment until it is there.
        let end = Instant::now() + Duration::from_secs(5);
        while place.dials("[2001:db8::8]:443") != "meta" && Instant::now() < end {}
        place
    }

    /// Who answers the API server.
    fn dials(&self, to: &str) -> String {
        said(match to.strip_prefix("udp ") {
            Some(to) => self.pod.ask(address(to)),
            None => self.pod.dial(address(to)),
        })
    }
}

fn address(text: &str) -> SocketAddr {
    text.parse().unwrap()
}

/// Nobody, if nobody does.
fn said(result: Result<String, String>) -> String {
    result.unwrap_or_else(|_| "nobody".to_owned())
}

fn config() -> Value {
    json!({
        "interface": "net1",
        "closed": ["10.96.0.0/12", "10.244.0.0/16", "10.200.0.0/16", "192.168.100.0/24", "fd10::/16"],
        "open": [
            {"to": "10.96.1.2/32", "port": 2379, "protocol": "TCP"},
            {"to": "10.96.0.10/32", "port": 53, "protocol": "UDP"},
            {"to": "10.200.0.0/16"},
            {"to": "fd10:96::2/128", "port": 2379, "protocol": "TCP"},
        ],
        "routes": [{"dst": "10.50.0.0/16", "via": "172.20.0.1"}],
        "slots": ["172.20.0.2/24"],
    })
}

fn with(key: &str, value: Value) -> Value {
    let mut config = config();
    config[key] = value;
    config
}

const FLAGS: [&str; 4] = ["--slot", "0", "--address", "172.20.0.2/24"];

/// What the API server dials: who answers without the sidecar, and with it.
const DIALLED: [(&str, &str, &str); 17] = [
    ("10.96.1.2:2379", "meta", "meta"),
    ("10.96.1.2:2380", "meta", "nobody"),
    ("udp 10.96.0.10:53", "meta", "meta"),
    ("10.96.0.10:53", "meta", "nobody"),
    ("udp 10.96.1.2:2379", "meta", "nobody"),
    ("10.96.0.1:443", "meta", "nobody"),
    ("10.244.1.1:10250", "meta", "nobody"),
    ("192.168.100.2:10250", "meta", "nobody"),
    ("169.254.169.254:80", "meta", "nobody"),
    ("10.200.0.7:80", "meta", "meta"),
    ("8.8.8.8:443", "meta", "meta"),
    ("172.20.0.99:10250", "vpc", "vpc"),
    ("10.50.0.1:443", "meta", "vpc"),
    ("[fd10:96::2]:2379", "meta", "meta"),
    ("[fd10:96::2]:2380", "meta", "nobody"),
    ("[fd10:96::1]:443", "meta", "nobody"),
    ("[2001:db8::8]:443", "meta", "meta"),
];

/// Who dials the API server, and where. Answers leave where they were asked.
const DIALLING: [(&str, &str, &str); 7] = [
    ("meta", "10.244.1.1", "10.244.1.5:6443"),
    ("meta", "192.168.100.2", "10.244.1.5:6443"),
    ("meta", "8.8.8.8", "10.244.1.5:6443"),
    ("meta", "10.50.0.1", "10.244.1.5:6443"),
    ("meta", "fd10:96::1", "[fd10:244::5]:6443"),
    ("vpc", "172.20.0.99", "172.20.0.2:6443"),
    ("vpc", "10.50.0.1", "172.20.0.2:6443"),
];

#[test]
fn what_is_not_open_is_closed() {
    let place = Place::new();
    for (to, without, _) in DIALLED {
        assert_eq!(place.dials(to), without, "{to}, without the sidecar");
    }
    // Through the pod, from either side to the other.
    let through = |from: &Namespace, to: &str| said(from.dial(address(to)));
    assert_eq!(through(&place.vpc, "10.96.1.2:2379"), "meta", "without the sidecar");
    assert_eq!(through(&place.vpc, "10.244.1.1:443"), "meta", "without the sidecar");
    assert_eq!(through(&place.meta, "172.20.0.99:443"), "vpc", "without the sidecar");

    let mut sidecar = Sidecar::new(&place.pod, &config(), &FLAGS);
    assert!(!sidecar.check().status.success(), "nothing is in place yet");
    sidecar.start_and_wait();
    // Nodes differ in how strictly they look at where packets come from.
    for strict in ["0", "2", "1"] {
        place.pod.sysctl("ipv4/conf/all/rp_filter", strict);
        for (to, _, with) in DIALLED {
            assert_eq!(place.dials(to), with, "{to}, rp_filter {strict}");
        }
        for (side, from, to) in DIALLING {
            let side = if side == "meta" { &place.meta } else { &place.vpc };
            let answer = side.dial_from(from.parse().unwrap(), address(to));
            assert_eq!(answer.as_deref(), Ok("pod"), "{from} to {to}, rp_filter {strict}");
        }
        for to in ["10.96.1.2:2379", "10.244.1.1:443", "10.200.0.7:80"] {
            assert_eq!(through(&place.vpc, to), "nobody", "a machine of the VPC through the pod to {to}");
        }
        assert_eq!(through(&place.meta, "172.20.0.99:443"), "nobody", "through the pod into the VPC");
        for (side, to) in [(&place.meta, "10.244.1.5:6444"), (&place.vpc, "172.20.0.2:6444")] {
            let error = side.dial(address(to)).unwrap_err();
            assert!(error.contains("refused"), "the kernel answers at {to} itself, rp_filter {strict}: {error}");
        }
    }
}

#[test]
fn a_default_route_leads_into_the_vpc_and_closed_ranges_do_not_follow_it() {
    let place = Place::new();
    let net = with("routes", json!([{"dst": "0.0.0.0/0", "via": "172.20.0.1"}]));
    Sidecar::new(&place.pod, &net, &FLAGS).start_and_wait();
    for (to, who) in [
        ("8.8.8.8:443", "vpc"),
        ("10.50.0.1:443", "vpc"),
        ("10.96.0.1:443", "nobody"),
        ("169.254.169.254:80", "nobody"),
        ("10.96.1.2:2379", "meta"),
        ("10.200.0.7:80", "meta"),
        ("[2001:db8::8]:443", "meta"),
    ] {
        assert_eq!(place.dials(to), who, "{to}");
    }
    for (side, from, to) in DIALLING {
        let side = if side == "meta" { &place.meta } else { &place.vpc };
        assert_eq!(side.dial_from(from.parse().unwrap(), address(to)).as_deref(), Ok("pod"), "{from} to {to}");
    }
    assert_eq!(place.vpc.dial_from("8.8.8.8".parse().unwrap(), address("172.20.0.2:6443")).as_deref(), Ok("pod"));
}

#[test]
fn what_a_network_plugin_leads_over_the_vpc_changes_nothing() {
    let place = Place::new();
    place.pod.ip("route del default");
    place.pod.ip("route add default via 172.20.0.1 dev net1");
    place.pod.ip("route add default via 10.244.1.1 dev eth0 metric 50");
    assert_eq!(place.dials("10.96.0.1:443"), "vpc", "without the sidecar");
    // Where the provider chooses addresses, the sidecar is told none.
    Sidecar::new(&place.pod, &config(), &[]).start_and_wait();
    for (to, _, with) in DIALLED {
        assert_eq!(place.dials(to), with, "{to}");
    }
}

/// Calico and the VPC CNI of AWS give an address alone, and a gateway that is on the link by a route.
#[test]
fn a_gateway_in_a_closed_range_and_beyond_the_subnet_is_used() {
    let place = Place::new();
    for command in [
        "addr del 10.244.1.5/24 dev eth0",
        "addr add 10.244.1.5/32 dev eth0",
        "route add 169.254.1.1 dev eth0 scope link",
        "route add default via 169.254.1.1 dev eth0 mtu 1400",
    ] {
        place.pod.ip(command);
    }
    place.meta.ip("addr add 169.254.1.1/32 dev pod");
    assert_eq!(place.dials("10.96.0.1:443"), "meta", "without the sidecar");
    let net = with("closed", json!(["10.96.0.0/12", "10.244.0.0/16", "169.254.0.0/16"]));
    Sidecar::new(&place.pod, &net, &FLAGS).start_and_wait();
    for (to, who) in [("10.96.1.2:2379", "meta"), ("10.96.0.1:443", "nobody"), ("8.8.8.8:443", "meta")] {
        assert_eq!(place.dials(to), who, "{to}");
    }
    assert_eq!(place.meta.dial_from("10.244.1.1".parse().unwrap(), address("10.244.1.5:6443")).as_deref(), Ok("pod"));
    let copied = place.pod.ip("route show table 26444");
    assert!(copied.contains("default via 169.254.1.1 dev eth0") && copied.contains("mtu 1400"), "{copied}");
}

#[test]
fn with_rules_of_the_interface_alone_eth0_is_left_to_others() {
    let place = Place::new();
    let mut net = with("rules", json!("Interface"));
    net["routes"] = json!([{"dst": "0.0.0.0/0", "via": "172.20.0.1"}]);
    Sidecar::new(&place.pod, &net, &FLAGS).start_and_wait();
    for (to, who) in [
        ("10.96.1.2:2380", "meta"),
        ("10.96.0.1:443", "meta"),
        ("169.254.169.254:80", "meta"),
        ("8.8.8.8:443", "vpc"),
        ("172.20.0.99:443", "vpc"),
        ("[fd10:96::1]:443", "meta"),
    ] {
        assert_eq!(place.dials(to), who, "{to}");
    }
    for (side, from, to) in DIALLING {
        let side = if side == "meta" { &place.meta } else { &place.vpc };
        assert_eq!(side.dial_from(from.parse().unwrap(), address(to)).as_deref(), Ok("pod"), "{from} to {to}");
    }
    assert_eq!(said(place.vpc.dial(address("10.96.1.2:2379"))), "nobody", "through the pod");
    assert_eq!(said(place.meta.dial(address("172.20.0.99:443"))), "nobody", "through the pod");
}

#[test]
fn changed_rules_are_laid_and_nothing_is_open_meanwhile() {
    let place = Arc::new(Place::new());
    let mut sidecar = Sidecar::new(&place.pod, &config(), &FLAGS);
    sidecar.start_and_wait();
    let (ends, dialled) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicUsize::new(0)));
    let watch = {
        let (place, ends, dialled) = (place.clone(), ends.clone(), dialled.clone());
        thread::spawn(move || {
            while !ends.load(Ordering::SeqCst) {
                for to in ["10.96.0.1:443", "[fd10:96::1]:443"] {
                    assert_eq!(place.dials(to), "nobody", "{to}");
                    dialled.fetch_add(1, Ordering::SeqCst);
                }
            }
        })
    };
    let open = |to: &str, port: u16| with("open", json!([{"to": to, "port": port}]));
    sidecar.write(&open("10.96.1.2/32", 2380).to_string());
    sidecar.wait_until("2380 is open", |_| place.dials("10.96.1.2:2380") == "meta");
    sidecar.wait_until("2379 is closed", |_| place.dials("10.96.1.2:2379") == "nobody");

    sidecar.write("{");
    sidecar.wait_until("it says that the file is broken", |sidecar| sidecar.log().contains("the former rules stay"));
    assert_eq!(place.dials("10.96.1.2:2380"), "meta");

    sidecar.kill();
    assert_eq!([place.dials("10.96.1.2:2380"), place.dials("10.96.1.2:2379")], ["meta", "nobody"], "rules stay");
    // With more closed, and another layout of the open ones.
    let mut net = open("10.96.0.0/16", 2379);
    net["closed"] = json!(["10.96.0.0/12", "10.244.0.0/16", "10.200.0.0/16", "8.8.8.0/24", "fd10::/16"]);
    sidecar.write(&net.to_string());
    sidecar.start();
    sidecar.wait_until("all of it holds", |sidecar| sidecar.check().status.success());
    assert_eq!(place.dials("10.96.1.2:2379"), "meta");
    sidecar.wait_until("what was open is closed", |_| place.dials("10.96.1.2:2380") == "nobody");
    assert_eq!([place.dials("8.8.8.8:443"), place.dials("192.168.100.2:443")], ["nobody", "meta"]);

    let rules = || [place.pod.ip("rule"), place.pod.ip("-6 rule")];
    let before = rules();
    sidecar.kill();
    sidecar.start();
    thread::sleep(Duration::from_secs(1));
    assert_eq!(rules(), before, "a new one finds its own rules");

    place.pod.ip("rule del pref 1032");
    sidecar.wait_until("a rule comes back", |_| rules() == before);
    sidecar.signal(Signal::SIGTERM);
    assert_eq!(sidecar.ended(Duration::from_secs(2)), Some(0));
    assert_eq!(rules(), before, "rules stay");

    ends.store(true, Ordering::SeqCst);
    watch.join().unwrap();
    assert!(dialled.load(Ordering::SeqCst) > 100);
}
