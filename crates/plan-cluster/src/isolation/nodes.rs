//! Nodes that API servers are kept from: logs, exec and port-forward do not reach their kubelets.

use super::ranges::blocks;
use crate::subject::Tenant;
use crate::vpc::leads_to;
use berth_plan::meta_cluster::addresses::MetaRanges;
use berth_plan::observed::{ApiProbe, Nodes};
use ipnet::IpNet;
use std::net::IpAddr;

/// The first of them, how many there are, and the way out. None: the policies let API servers reach all nodes, or nobody knows yet.
pub(crate) fn unreachable(t: &Tenant<'_>) -> Option<String> {
    let ApiProbe::Answered { read, .. } = &t.observed.api else { return None };
    let (Nodes { addresses, .. }, meta) = (read.nodes.as_ref()?, t.observed.meta.addresses.as_ref().ok()?);
    let closed: Vec<_> = addresses.iter().filter(|(_, address)| !is_open(t, meta, *address)).collect();
    let (name, address) = closed.first()?;
    let others = match closed.len() - 1 {
        0 => String::new(),
        1 => " and one more node".to_owned(),
        n => format!(" and {n} more nodes"),
    };
    let way_out = match meta.overlap(IpNet::from(*address)) {
        Some((whose, range)) => {
            format!("the meta cluster has its {whose} there ({range}), closed to tenants")
        }
        None => "add their network to spec.network.nodeCIDRs".to_owned(),
    };
    Some(format!(
        "NetworkPolicies keep API servers from node {name} ({address}){others}, so logs, exec, port-forward and webhooks there fail: {way_out}"
    ))
}

/// Whether an API server may dial it: over its interface in the VPC, or by the policies.
fn is_open(t: &Tenant<'_>, meta: &MetaRanges, address: IpAddr) -> bool {
    leads_to(&t.cluster.spec, meta, address)
        || blocks(t, meta)
            .any(|(within, except)| within.contains(&address) && !except.iter().any(|n| n.contains(&address)))
}
