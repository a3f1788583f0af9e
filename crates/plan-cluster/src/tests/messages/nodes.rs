//! Situations of a tenant's nodes.

use super::*;
use berth_plan::observed::Nodes;

/// The tenant's nodes have these addresses.
fn nodes(f: &mut Fixture, addresses: &[&str]) {
    let ApiProbe::Answered { read, .. } = &mut f.world.observed.api else { panic!("it is up") };
    let named =
        addresses.iter().enumerate().map(|(n, address)| (format!("worker-{n}").into(), address.parse().unwrap()));
    read.nodes = Some(Nodes { addresses: named.collect(), ..Nodes::default() });
}

pub(super) const NODES: &[Case] = &[
    ("nodes in private networks that nobody opened", |f| nodes(f, &["192.0.2.7", "10.20.0.5", "10.20.0.6"])),
    ("nodes where the meta cluster has its pods", |f| {
        f.meta().addresses = Ok(MetaRanges { pods: vec![network("10.1.0.0/16").unwrap()], ..MetaRanges::default() });
        nodes(f, &["10.1.0.5", "10.1.0.6", "10.1.0.7"]);
    }),
    ("spec.endpoint.host is a name, and the API has no address for pods", |f| host(f, "acme.example.com")),
    ("the same in a tenant that has nodes", |f| {
        host(f, "acme.example.com");
        counted(f);
    }),
    ("the API has an address of another family than Services, in a tenant that has nodes", |f| {
        host(f, "2001:db8::7");
        counted(f);
    }),
    ("spec.endpoint.advertiseAddress is an address of the meta cluster", |f| {
        let services = vec![network("10.200.0.0/16").unwrap()];
        f.meta().addresses = Ok(MetaRanges { services, ..MetaRanges::default() });
        f.cluster.spec.endpoint.advertise_address = Some("10.200.0.1".into());
    }),
    ("spec.endpoint.advertiseAddress is a name, from before the API server refused that", |f| {
        f.cluster.spec.endpoint.advertise_address = Some("acme.example.com".into());
    }),
];

fn host(f: &mut Fixture, host: &str) {
    f.cluster.spec.endpoint.host = Some(host.into());
}

fn counted(f: &mut Fixture) {
    let ApiProbe::Answered { read, .. } = &mut f.world.observed.api else { panic!("it is up") };
    let count = berth_api::cluster::NodesStatus { total: 2, ready: 2, ..Default::default() };
    read.nodes = Some(Nodes { count, ..Nodes::default() });
}

/// Tenants whose networks are what they were made with.
pub(super) fn situations() -> Vec<(&'static str, Fixture)> {
    let up = |network: Value| Fixture::up(json!({"version": VERSION, "network": network}));
    let six = || json!({"serviceCIDRs": ["fd00:112::/112"], "podCIDRs": ["fd00:160::/56"]});
    let mut in_vpc = crate::tests::vpc::spec();
    in_vpc["network"] = six();
    let mut with_nodes = up(six());
    counted(&mut with_nodes);
    with_nodes.reconcile();
    vec![
        ("spec.network.podCIDRs has room for one node", up(json!({"podCIDRs": ["10.161.0.0/24"]}))),
        ("Services begin with an IPv6 network, and the API has an IPv4 address", with_nodes),
        ("spec.vpc: Services begin with an IPv6 network", Fixture::up_in_vpc(in_vpc)),
    ]
}
