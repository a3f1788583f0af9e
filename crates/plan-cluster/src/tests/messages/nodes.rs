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
];
