//! Ranges that API servers may dial.

use super::private;
use crate::subject::Tenant;
use berth_plan::meta_cluster::addresses::{Closed, MetaRanges};
use ipnet::{IpNet, Ipv4Net, Ipv6Net};
use std::net::{Ipv4Addr, Ipv6Addr};

/// All addresses.
pub(super) const EVERYWHERE: [IpNet; 2] = [
    IpNet::V4(Ipv4Net::new_assert(Ipv4Addr::UNSPECIFIED, 0)),
    IpNet::V6(Ipv6Net::new_assert(Ipv6Addr::UNSPECIFIED, 0)),
];

/// Ranges with what is closed in them: the Internet, and private networks that somebody opened; all of them for a tenant from before they
/// were closed.
pub(super) fn blocks(t: &Tenant<'_>, meta: &MetaRanges) -> impl Iterator<Item = (IpNet, Vec<IpNet>)> {
    let closed = private::closed(t);
    let opened = if closed == Closed::Nothing { vec![] } else { private::opened(t) };
    EVERYWHERE
        .map(|all| (all, closed))
        .into_iter()
        .chain(opened.into_iter().map(|net| (net, Closed::Nothing)))
        .filter_map(|(within, closed)| Some((within, meta.forbidden(within, closed)?)))
}
