//! Where the API is for whom: every type, kind of host and answer of the load balancer, with Services of either family.

use super::endpoint::meta;
use super::*;
use crate::components::advertised;
use crate::endpoint::{pods_reach, sans};
use crate::inside::slice;
use crate::subject::Tenant;
use berth_plan::settings::Gateway;

/// What addresses and names are called in the table.
const NAMES: [(&str, &str); 11] = [
    ("10.96.0.7", "own"),
    ("192.0.2.7", "host4"),
    ("[2001:db8:7::7]", "host6"),
    ("2001:db8:7::7", "host6"),
    ("acme.example.com", "name"),
    ("198.51.100.1", "lb4"),
    ("[2001:db8:1::1]", "lb6"),
    ("2001:db8:1::1", "lb6"),
    ("lb.example.com", "lbname"),
    ("acme-9201d5e7.gw.example.com", "gw"),
    ("172.20.0.2", "vpc"),
];

/// The case; the kubeconfigs' server, if it differs also that of `cluster-info`; what the certificate has beside `own` and what all have;
/// then, with the first Service range IPv4 and IPv6, the slice, `--advertise-address` of new pods if it is another, and `PodsReachAPI`.
/// Port 6443 is left out.
const TABLE: &str = "\
ClusterIP - -                  own                         | own ok                     | own OtherAddressFamily
ClusterIP host4 -              host4        host4          | host4 ok                   | host4 OtherAddressFamily
ClusterIP host6 -              host6        host6          | own OtherAddressFamily     | host6 ok
ClusterIP name -               name         name           | own NoIPAddress            | own OtherAddressFamily
NodePort host4 -               host4:31147  host4          | host4:31147 ok             | host4:31147 OtherAddressFamily
NodePort host6 -               host6:31147  host6          | own OtherAddressFamily     | host6:31147 ok
NodePort name -                name:31147   name           | own NoIPAddress            | own OtherAddressFamily
LoadBalancer - -               -                           | - Waiting                  | - Waiting
LoadBalancer - lb4             lb4          lb4            | lb4 ok                     | lb4 OtherAddressFamily
LoadBalancer - lb6             lb6          lb6            | own OtherAddressFamily     | lb6 ok
LoadBalancer - lbname          lbname       lbname         | own NoIPAddress            | own OtherAddressFamily
LoadBalancer - lb4+lb6         lb4          lb4 lb6        | lb4 ok                     | lb6 ok
LoadBalancer - lb6+lb4         lb6          lb6 lb4        | lb4 ok                     | lb6 ok
LoadBalancer host4 -           -            host4          | - Waiting                  | - Waiting
LoadBalancer host4 lb4         host4        host4 lb4      | host4 ok                   | host4 OtherAddressFamily
LoadBalancer host4 lb6         host4        host4 lb6      | host4 ok                   | lb6 ok
LoadBalancer host4 lbname      host4        lbname host4   | host4 ok                   | host4 OtherAddressFamily
LoadBalancer host4 lb4+lb6     host4        host4 lb4 lb6  | host4 ok                   | lb6 ok
LoadBalancer host4 lb6+lb4     host4        host4 lb6 lb4  | host4 ok                   | lb6 ok
LoadBalancer host6 -           -            host6          | - Waiting                  | - Waiting
LoadBalancer host6 lb4         host6        host6 lb4      | lb4 ok                     | host6 ok
LoadBalancer host6 lb6         host6        host6 lb6      | own OtherAddressFamily     | host6 ok
LoadBalancer host6 lbname      host6        lbname host6   | own OtherAddressFamily     | host6 ok
LoadBalancer host6 lb4+lb6     host6        host6 lb4 lb6  | lb4 ok                     | host6 ok
LoadBalancer host6 lb6+lb4     host6        host6 lb6 lb4  | lb4 ok                     | host6 ok
LoadBalancer name -            -            name           | - Waiting                  | - Waiting
LoadBalancer name lb4          name         name lb4       | lb4 ok                     | lb4 OtherAddressFamily
LoadBalancer name lb6          name         name lb6       | own OtherAddressFamily     | lb6 ok
LoadBalancer name lbname       name         name lbname    | own NoIPAddress            | own OtherAddressFamily
LoadBalancer name lb4+lb6      name         name lb4 lb6   | lb4 ok                     | lb6 ok
LoadBalancer name lb6+lb4      name         name lb6 lb4   | lb4 ok                     | lb6 ok
LoadBalancer name - host4      -            name host4     | - Waiting                  | - Waiting
LoadBalancer name lb4 host6    name         name lb4 host6 | host6 OtherAddressFamily   | host6 ok
NodePort name - host4          name:31147   name host4     | host4:31147 ok             | host4:31147 OtherAddressFamily
ClusterIP name - own           name         name           | own ok                     | own OtherAddressFamily
ClusterIP - - 10.96.0.1        own                         | - InvalidSpec              | - InvalidSpec
LoadBalancer name lb4 vpc      name vpc     name lb4 vpc   | vpc ok                     | vpc OtherAddressFamily
ClusterIP - - vpc              own vpc      vpc            | vpc ok                     | vpc OtherAddressFamily
Gateway - -                    gw:443       gw             | own NoIPAddress            | own OtherAddressFamily
Gateway host4 -                -            gw             | - Waiting                  | - Waiting
Gateway host6 -                -            gw             | - Waiting                  | - Waiting
Gateway name -                 name:443     name gw        | own NoIPAddress            | own OtherAddressFamily
Gateway gw -                   gw:443       gw             | own NoIPAddress            | own OtherAddressFamily
Gateway name - host4           name:443     name gw host4  | host4:443 ok               | host4:443 OtherAddressFamily
Gateway - - own                gw:443       gw             | own ok                     | own OtherAddressFamily
Gateway - - vpc                gw:443 vpc   gw vpc         | vpc ok                     | vpc OtherAddressFamily
";

/// Names in the place of addresses.
fn called(text: &str) -> String {
    NAMES.iter().fold(text.replace(":6443", ""), |text, (address, name)| text.replace(address, name))
}

fn of_name(name: &str) -> Option<&'static str> {
    NAMES.iter().rev().find(|(_, called)| *called == name).map(|(address, _)| *address)
}

/// A tenant whose Service is there, and nothing else.
fn tenant(case: &str, family: &str) -> Fixture {
    let mut parts = case.split_whitespace();
    let (type_, host, balancer) = (parts.next().unwrap(), parts.next().unwrap(), parts.next().unwrap());
    let mut endpoint = json!({"type": type_});
    if let Some(host) = of_name(host) {
        endpoint["host"] = host.into();
    }
    let mut spec = json!({"version": "1.36.3", "network": {"serviceCIDRs": [family]}});
    for beside in parts {
        match beside {
            "vpc" => spec["vpc"] = json!({"attachment": {"name": "vpc-acme"}, "addresses": ["172.20.0.2/24"]}),
            given => endpoint["advertiseAddress"] = of_name(given).unwrap_or(given).into(),
        }
    }
    spec["endpoint"] = endpoint;
    let mut f = Fixture::new(spec);
    f.meta().addresses = Ok(meta());
    f.settings.gateway =
        Some(Gateway { domain: "gw.example.com".into(), port: 443, named_port: 444, ..Gateway::default() });
    f.settings.writers.hosts = vec!["acme.example.com".into()];
    let ingress = balancer.split('+').filter_map(of_name).map(|given| {
        if given.parse::<std::net::IpAddr>().is_ok() { json!({"ip": given}) } else { json!({"hostname": given}) }
    });
    let service = json!({
        "metadata": {"name": names::APISERVER, "labels": {(berth_api::labels::MANAGED_BY): "berth"}},
        "spec": {"clusterIP": "10.96.0.7", "ports": [{"port": 6443, "nodePort": 31147}]},
        "status": {"loadBalancer": {"ingress": ingress.collect::<Vec<_>>()}},
    });
    f.world.put(Fixture::key(Kind::Service, names::APISERVER), service);
    f
}

impl Fixture {
    /// The address of the Service.
    pub(super) fn cluster_ip(&self) -> String {
        let service = self.world.observed.get(&Self::key(Kind::Service, names::APISERVER)).unwrap();
        service["spec"]["clusterIP"].as_str().unwrap().to_owned()
    }
}

/// What is the same for both families: servers and certificate.
fn clients(t: &Tenant<'_>) -> String {
    let of = |at: &Option<(String, i32)>| {
        at.as_ref().map_or("-".into(), |(host, port)| crate::endpoint::authority(host, *port))
    };
    let (people, nodes) = (of(&t.endpoint.published), of(&t.endpoint.nodes));
    let (dns, ips) = sans(t).unwrap();
    let all = dns.into_iter().filter(|name| name.contains(".example.com"));
    let all = all.chain(ips.iter().map(ToString::to_string)).map(|san| called(&san));
    let mut all: Vec<_> = all.filter(|san| san != "own" && NAMES.iter().any(|(_, name)| name == san)).collect();
    all.dedup();
    let servers = if people == nodes { people } else { format!("{people} {nodes}") };
    format!("{:<12} {:<14}", called(&servers), all.join(" "))
}

fn for_pods(t: &Tenant<'_>) -> String {
    let Ok(slice) = slice(t) else { return format!("- {}", pods_reach(t, &[]).reason) };
    let mut all = slice.addresses.iter().map(|address| crate::endpoint::authority(&address.to_string(), slice.port));
    let flag = advertised(t).unwrap().next;
    // With addresses in a VPC each API server says its own, see tests/vpc.rs.
    let same = slice.addresses.contains(&flag) || t.cluster.spec.vpc.is_some();
    let flag = if same { String::new() } else { format!(" ({flag})") };
    let said = pods_reach(t, &[]);
    let said = if said.status == Some(true) { "ok" } else { said.reason.as_str() };
    called(&format!("{}{flag} {said}", all.next().unwrap()))
}

#[test]
fn who_finds_the_api_where() {
    let balancers = ["-", "lb4", "lb6", "lbname", "lb4+lb6", "lb6+lb4"];
    let hosts = ["-", "host4", "host6", "name"];
    let behind = hosts.iter().flat_map(|host| balancers.map(|balancer| format!("LoadBalancer {host} {balancer}")));
    let inside = hosts.map(|host| format!("ClusterIP {host} -"));
    let ports = hosts[1..].iter().map(|host| format!("NodePort {host} -"));
    let more = [
        "LoadBalancer name - host4",
        "LoadBalancer name lb4 host6",
        "NodePort name - host4",
        "ClusterIP name - own",
        "ClusterIP - - 10.96.0.1",
        "LoadBalancer name lb4 vpc",
        "ClusterIP - - vpc",
        "Gateway - -",
        "Gateway host4 -",
        "Gateway host6 -",
        "Gateway name -",
        "Gateway gw -",
        "Gateway name - host4",
        "Gateway - - own",
        "Gateway - - vpc",
    ];
    let all = inside.into_iter().chain(ports).chain(behind).chain(more.map(str::to_owned));
    let mut table = String::new();
    for case in all {
        let seen = ["10.112.0.0/16", "fd00:112::/112"].map(|services| {
            let f = tenant(&case, services);
            let t = Tenant::new(f.input());
            (clients(&t), for_pods(&t))
        });
        assert_eq!(seen[0].0, seen[1].0, "{case}");
        let line = format!("{case:<30} {} | {:<26} | {}", seen[0].0, seen[0].1, seen[1].1);
        table.extend([line.trim_end(), "\n"]);
    }
    assert!(table == TABLE, "{table}");
}

fn count_nodes(f: &mut Fixture, total: i32) {
    let ApiProbe::Answered { read, .. } = &mut f.world.observed.api else { panic!("it is up") };
    let count = berth_api::cluster::NodesStatus { total, ..Default::default() };
    read.nodes = Some(berth_plan::observed::Nodes { count, ..Default::default() });
}

#[test]
fn a_tenant_whose_pods_miss_the_api_is_not_ready_once_it_has_nodes() {
    let told = |f: &Fixture| ["PodsReachAPI", "Ready", "Degraded"].map(|type_| f.condition(type_)).map(|c| (c.0, c.1));
    let said = |all: [(&str, &str); 3]| all.map(|(status, reason)| (status.to_owned(), reason.to_owned()));
    let (fine, named) = (("True", "AsExpected"), ("False", "NoIPAddress"));
    let mut f = Fixture::up(json!({"version": "1.36.3", "endpoint": {"host": "acme.example.com"}}));
    assert_eq!(told(&f), said([named, fine, ("False", "AsExpected")]), "nobody is there who misses it");
    f.cluster.spec.network.node_cidrs = vec!["192.0.2.0/24".into()];
    f.settings.writers.networks = vec!["192.0.2.0/24".parse().unwrap()];
    f.reconcile();
    assert_eq!(told(&f), said([named, named, ("True", "NoIPAddress")]), "nodes are to come");
    f.cluster.spec.network.node_cidrs.clear();
    count_nodes(&mut f, 1);
    f.reconcile();
    assert_eq!(told(&f), said([named, named, ("True", "NoIPAddress")]));
    let message = f.condition("Ready").2;
    assert!(message.contains("acme.example.com. Set spec.endpoint.advertiseAddress to"), "{message}");
    let asked = |minute| {
        let now = f.world.now + jiff::SignedDuration::from_mins(minute);
        asked_inside(Input { now, ..f.input() }).len()
    };
    assert!((0..15).any(|minute| asked(minute) > 1), "all else is looked at in turn, as in one that is well");
    // A person says that nodes reach the Service itself.
    f.cluster.spec.endpoint.advertise_address = Some(f.cluster_ip());
    f.reconcile();
    assert_eq!(told(&f), said([fine, fine, ("False", "AsExpected")]));
}

#[test]
fn what_is_said_beside_of_one_whose_pods_miss_the_api_is_not_hidden() {
    let named = |more: Value| {
        let mut spec = json!({"version": "1.36.2", "endpoint": {"host": "acme.example.com"}});
        spec.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        let mut f = Fixture::up(spec);
        count_nodes(&mut f, 1);
        f
    };
    let set = "Set spec.endpoint.advertiseAddress to the IP address at which nodes reach it, or spec.addons.apiProxy.enabled to true, which leads pods on each node to that name";
    let mut expires = named(json!({}));
    expires.world.now += jiff::SignedDuration::from_hours(24 * 365 * 8);
    let mut room = named(json!({"network": {"podCIDRs": ["10.161.0.0/24"]}}));
    let mut waits = named(json!({}));
    waits.window("03:00", "UTC");
    waits.version("1.36.3");
    let mut emulates = named(json!({"version": "1.35.4", "upgrade": {"soak": "0s"}}));
    emulates.nodes(Some("1.35.4"));
    emulates.version("1.36.2");
    emulates.rest();
    for (f, ready, reason, degraded) in [
        (&mut expires, "", "CertificateAuthorityExpiring", "expires at 2035"),
        (&mut room, "", "NoIPAddress", ". spec.network.podCIDRs: 10.161.0.0/24 has room for one node"),
        (
            &mut waits,
            ". spec.version: change from 1.36.2 to 1.36.3: waiting for spec.upgrade.window",
            "NoIPAddress",
            set,
        ),
        (&mut emulates, ". 1.36.2 runs and emulates 1.35 until", "NoIPAddress", set),
    ] {
        f.reconcile();
        let (says, is_degraded) = (f.condition("Ready"), f.condition("Degraded"));
        assert_eq!((&*says.0, &*says.1, &*is_degraded.0, &*is_degraded.1), ("False", "NoIPAddress", "True", reason));
        assert!(says.2.contains(&format!("{set}{ready}")), "{}", says.2);
        assert!(is_degraded.2.contains(degraded), "{}", is_degraded.2);
    }
}

#[test]
fn an_address_that_is_refused_leaves_what_is_inside() {
    let mut f = Fixture::up(json!({"version": "1.36.3"}));
    f.meta().addresses = Ok(meta());
    f.cluster.spec.endpoint.advertise_address = Some("10.96.255.1".into());
    let message = blocked(&f.reconcile(), StageId::Endpoint, Reason::InvalidSpec);
    assert!(message.starts_with("spec.endpoint.advertiseAddress: 10.96.255.1 is in 10.96.0.0/16"), "{message}");
    assert_eq!(f.world.log, Vec::<String>::new());
    assert_eq!(f.condition("PodsReachAPI"), ("False".into(), "InvalidSpec".into(), message));
}
