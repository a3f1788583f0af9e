//! Routes.

use std::{io, net::IpAddr};

use berth_contract::vpc::Cidr;

use super::{
    Family, Netlink, OURS,
    attributes::{Body, address, attributes, native_u32},
    flags,
};

const NEW: u16 = 24;
const DELETE: u16 = 25;
const GET: u16 = 26;
/// Length of `struct rtmsg`.
const FIXED: usize = 12;

/// Attributes, from linux/rtnetlink.h.
const DST: u16 = 1;
const OIF: u16 = 4;
const GATEWAY: u16 = 5;
const METRIC: u16 = 6;
const SOURCE: u16 = 7;
const METRICS: u16 = 8;
const MULTIPATH: u16 = 9;
const TABLE: u16 = 15;
const VIA: u16 = 18;

const CLONED: u32 = 0x200;
const ONLINK: u32 = 4;

/// A route.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::net) struct Route {
    pub(in crate::net) family: Family,
    pub(in crate::net) table: u32,
    /// A network without bits beyond its prefix.
    pub(in crate::net) dst: Cidr,
    /// What is done: [`Route::UNICAST`] or [`Route::PROHIBIT`], or something else of the kernel's.
    pub(in crate::net) kind: u8,
    /// [`Route::LINK`] where there is no gateway. Always 0 in IPv6.
    pub(in crate::net) scope: u8,
    pub(in crate::net) via: Option<IpAddr>,
    /// Index of the interface.
    pub(in crate::net) interface: Option<u32>,
    pub(in crate::net) source: Option<IpAddr>,
    pub(in crate::net) metric: u32,
    /// The gateway is on the link, though no address of the interface says so.
    pub(in crate::net) on_link: bool,
    /// What is only copied: MTU and the like, several ways, gateways of the other family.
    pub(in crate::net) rest: Vec<(u16, Vec<u8>)>,
}

impl Route {
    pub(in crate::net) const UNICAST: u8 = 1;
    pub(in crate::net) const PROHIBIT: u8 = 8;
    pub(in crate::net) const LINK: u8 = 253;

    /// To all of a network at an interface.
    pub(in crate::net) fn on_link(family: Family, table: u32, dst: Cidr, interface: u32) -> Self {
        Self {
            family,
            table,
            dst,
            kind: Self::UNICAST,
            scope: if family == Family::V4 { Self::LINK } else { 0 },
            via: None,
            interface: Some(interface),
            source: None,
            metric: 0,
            on_link: false,
            rest: vec![],
        }
    }

    /// Two routes of which the kernel keeps one.
    pub(in crate::net) fn same_place(&self, other: &Self) -> bool {
        (self.table, self.dst, self.metric) == (other.table, other.dst, other.metric)
    }

    fn encode(&self) -> Body {
        // An unreachable network has no scope; the kernel wants its widest then.
        let mut fixed = vec![self.family.number(), self.dst.prefix, 0, 0, 0, OURS, self.scope, self.kind];
        fixed.extend(if self.on_link { ONLINK } else { 0 }.to_ne_bytes());
        let body = Body::new(&fixed)
            .number(TABLE, self.table)
            .with((self.dst.prefix > 0).then_some(self.dst.address), |body, dst| body.address(DST, dst))
            .with(self.via, |body, via| body.address(GATEWAY, via))
            .with(self.interface, |body, index| body.number(OIF, index))
            .with(self.source, |body, source| body.address(SOURCE, source))
            .with((self.metric > 0).then_some(self.metric), |body, metric| body.number(METRIC, metric));
        self.rest.iter().fold(body, |body, (kind, value)| body.attribute(*kind, value))
    }

    fn decode(body: &[u8]) -> Option<Self> {
        let family = Family::from_number(*body.first()?)?;
        let any = if family == Family::V4 { IpAddr::from([0; 4]) } else { IpAddr::from([0; 16]) };
        let route_flags = native_u32(body, 8)?;
        let mut route = Self {
            family,
            table: u32::from(*body.get(4)?),
            dst: Cidr { address: any, prefix: *body.get(1)? },
            kind: *body.get(7)?,
            scope: *body.get(6)?,
            via: None,
            interface: None,
            source: None,
            metric: 0,
            on_link: route_flags & ONLINK != 0,
            rest: vec![],
        };
        for (kind, value) in attributes(body, FIXED) {
            match kind {
                TABLE => route.table = native_u32(value, 0)?,
                DST => route.dst.address = address(value)?,
                GATEWAY => route.via = address(value),
                OIF => route.interface = native_u32(value, 0),
                SOURCE => route.source = address(value),
                METRIC => route.metric = native_u32(value, 0)?,
                METRICS | MULTIPATH | VIA => route.rest.push((kind, value.to_vec())),
                _ => {}
            }
        }
        // Not in a table, but made for one connection.
        (route_flags & CLONED == 0).then_some(route)
    }
}

impl Netlink {
    /// The routes of these tables, of both families.
    pub(in crate::net) fn routes(&mut self, tables: &[u32]) -> io::Result<Vec<Route>> {
        let mut all = Vec::new();
        for family in Family::ALL {
            let answers = self.dump(GET, &[family.number(), 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0])?;
            let routes = answers.iter().filter(|m| m.kind == NEW).filter_map(|m| Route::decode(&m.body));
            all.extend(routes.filter(|route| route.family == family && tables.contains(&route.table)));
        }
        Ok(all)
    }

    /// Adds a route, in place of the one of the same network and metric if there is one.
    pub(in crate::net) fn put_route(&mut self, route: &Route) -> io::Result<()> {
        self.change(NEW, flags::CREATE | flags::REPLACE, route.encode().bytes())
    }

    pub(in crate::net) fn delete_route(&mut self, route: &Route) -> io::Result<()> {
        match self.change(DELETE, 0, route.encode().bytes()) {
            Err(error) if error.raw_os_error() == Some(nix::libc::ESRCH) => Ok(()),
            done => done,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn routes_come_back() {
        let subnet = Route::on_link(Family::V4, 26443, "172.20.0.0/24".parse().unwrap(), 3);
        let source = Some("172.20.0.2".parse().unwrap());
        let routed = Route {
            dst: "0.0.0.0/0".parse().unwrap(),
            scope: 0,
            via: Some("172.20.0.1".parse().unwrap()),
            source,
            metric: 100,
            on_link: true,
            rest: vec![(METRICS, vec![8, 0, 2, 0, 0x78, 5, 0, 0])],
            ..subnet.clone()
        };
        let v6 = Route::on_link(Family::V6, 7, "fd00::/64".parse().unwrap(), 2);
        for route in [subnet, routed, v6] {
            assert_eq!(Route::decode(route.encode().bytes()), Some(route));
        }
    }
}
