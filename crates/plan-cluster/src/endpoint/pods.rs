//! Which address the tenant's Service `kubernetes` leads to, and whether pods on nodes reach the API there.
//!
//! A slice takes no name, and Service `kubernetes` has addresses of one family: that of the first Service range.

use berth_api::cluster::EndpointType;
use std::net::IpAddr;

/// What is known of where the API is.
#[derive(Clone, Debug)]
pub(crate) struct Known<'a> {
    pub(crate) type_: EndpointType,
    /// `spec.endpoint.advertiseAddress`.
    pub(crate) given: Option<IpAddr>,
    /// `spec.endpoint.host`, or the name at the gateway.
    pub(crate) host: Option<&'a str>,
    /// Name or address from the load balancer, the one that is published.
    pub(crate) load_balancer: Option<&'a str>,
    /// All addresses from the load balancer.
    pub(crate) balanced: &'a [IpAddr],
    /// The Service's own address.
    pub(crate) cluster_ip: IpAddr,
    /// The family of the first Service range. None: it cannot be parsed, which is refused elsewhere.
    pub(crate) family: Option<Family>,
}

/// The address for pods.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ForPods {
    pub(crate) address: IpAddr,
    /// Why pods on nodes do not reach the API there, if so.
    pub(crate) misfit: Option<Misfit>,
}

/// Why pods on nodes do not reach the API.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Misfit {
    /// The API is at this name, and has no address outside the meta cluster that anybody knows.
    Name(String),
    /// This is no address of the family of Service `kubernetes`.
    Family(IpAddr),
}

/// A family of addresses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Family {
    V4,
    V6,
}

impl Family {
    pub(crate) fn of(address: IpAddr) -> Self {
        if address.is_ipv4() { Self::V4 } else { Self::V6 }
    }

    /// Of the first of these networks.
    pub(crate) fn of_first(cidrs: &[String]) -> Option<Self> {
        cidrs.first()?.parse().ok().map(|net: ipnet::IpNet| Self::of(net.addr()))
    }

    /// As Kubernetes writes it.
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::V4 => "IPv4",
            Self::V6 => "IPv6",
        }
    }
}

/// What the spec says; else what nodes reach, of the right family: the host, the load balancer; else the Service's own.
pub(crate) fn decide(known: &Known<'_>) -> ForPods {
    let fits = |address: &IpAddr| known.family.is_none_or(|family| family == Family::of(*address));
    let of = |address: IpAddr, misfit| ForPods { address, misfit };
    let outside = outside(known);
    if let Some(address) = known.given.or_else(|| outside.iter().copied().find(fits)) {
        return of(address, (!fits(&address)).then_some(Misfit::Family(address)));
    }
    let own = known.cluster_ip;
    match (outside.first(), name(known)) {
        (Some(other), _) => of(if fits(&own) { own } else { *other }, Some(Misfit::Family(*other))),
        (None, _) if !fits(&own) => of(own, Some(Misfit::Family(own))),
        (None, name) => of(own, name.map(|name| Misfit::Name(name.to_owned()))),
    }
}

/// What was decided before pods had an address of their own: nothing of the load balancer behind a name.
pub(crate) fn before(known: &Known<'_>) -> IpAddr {
    let host = known.host.or(known.load_balancer).filter(|_| known.type_ != EndpointType::ClusterIP);
    host.and_then(|host| host.parse().ok()).unwrap_or(known.cluster_ip)
}

/// Addresses beside the Service's own, the one that is published first, the others in an order that does not change.
fn outside(known: &Known<'_>) -> Vec<IpAddr> {
    let mut all: Vec<IpAddr> = known.host.and_then(|host| host.parse().ok()).into_iter().collect();
    if known.type_ == EndpointType::LoadBalancer {
        let mut others = known.balanced.to_vec();
        others.sort_unstable();
        all.extend(
            known.load_balancer.and_then(|published| published.parse::<IpAddr>().ok()).into_iter().chain(others),
        );
    }
    all
}

/// The name under which clients find the API, if it is one.
fn name<'a>(known: &Known<'a>) -> Option<&'a str> {
    let balancer = || known.load_balancer.filter(|_| known.type_ == EndpointType::LoadBalancer);
    known.host.or_else(balancer).filter(|host| host.parse::<IpAddr>().is_err())
}
