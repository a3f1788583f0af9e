//! `PodsReachAPI`: whether pods on the tenant's nodes reach the API at Service `kubernetes`.

use super::facts::authority;
use super::pods::{Family, Misfit};
use super::route::is_alone;
use crate::inside::serving;
use crate::subject::Tenant;
use crate::vpc;
use berth_api::cluster::AddonStatus;
use berth_api::conditions::{ConditionType, Reason, Verdict};
use berth_plan::observed::ApiProbe;
use std::net::IpAddr;

const API_PROXY: &str = "api-proxy";

/// By what the spec and the meta cluster tell: nobody dials it from a node. `told`: what the status tells of add-ons.
pub(crate) fn verdict(t: &Tenant<'_>, told: &[AddonStatus]) -> Verdict {
    let of = |status, reason, message: String| Verdict::new(ConditionType::PodsReachAPI, status, reason, message);
    if t.cluster.spec.vpc.is_some() {
        return in_vpc(t, &of);
    }
    if let Err(why) = &t.endpoint.given {
        return of(Some(false), Reason::InvalidSpec, why.clone());
    }
    let Some((for_pods, port)) = &t.endpoint.for_pods else {
        return of(None, Reason::Waiting, "the API has no address yet".to_owned());
    };
    let at = authority(&for_pods.address.to_string(), *port);
    match &for_pods.misfit {
        None => {
            if let (Some(proxied), Some(none)) = (&t.endpoint.proxied, serving::none_serves(told, API_PROXY)) {
                let (host, port) = &proxied.to;
                let message = format!(
                    "Service kubernetes leads to {at}, where the add-on api-proxy is to listen on each node. {none}. Its pods wait for their image, and for an answer of the API at {}: let nodes pull it and reach that (kubectl -n kube-system logs ds/api-proxy in the tenant says what is in the way), or set spec.addons.apiProxy.enabled to false",
                    authority(host, *port)
                );
                return of(Some(false), Reason::AddonsNotReady, message);
            }
            let on = t.endpoint.proxied.as_ref().map_or(String::new(), |proxied| {
                let (host, port) = &proxied.to;
                format!(", from where the add-on api-proxy on each node leads to {}", authority(host, *port))
            });
            of(Some(true), Reason::AsExpected, format!("Service kubernetes leads to {at}{on}"))
        }
        Some(Misfit::Name(name)) if is_alone(t) => {
            let message = format!(
                "Service kubernetes leads to {at}, which nodes outside the meta cluster do not reach: it cannot lead to a name, and the platform's Gateways find the API by the name {name} alone. Set spec.endpoint.advertiseAddress to an IP address at which nodes reach the API without them, or another spec.endpoint.type"
            );
            of(Some(false), Reason::NoIPAddress, message)
        }
        Some(Misfit::Name(name)) if t.endpoint.behind.is_some() => {
            let message = format!(
                "Service kubernetes leads to {at}, which nodes outside the meta cluster do not reach: it cannot lead to a name, and the gateway finds the API by the name {name} alone. Set spec.addons.apiProxy.enabled to true, which leads pods on each node to the gateway; or set spec.endpoint.advertiseAddress to an IP address at which nodes reach the API without it, or another spec.endpoint.type"
            );
            of(Some(false), Reason::NoIPAddress, message)
        }
        Some(Misfit::Name(name)) => {
            let message = format!(
                "Service kubernetes leads to {at}, which nodes outside the meta cluster do not reach: it cannot lead to a name, and the API is at {name}. Set spec.endpoint.advertiseAddress to the IP address at which nodes reach it, or spec.addons.apiProxy.enabled to true, which leads pods on each node to that name"
            );
            of(Some(false), Reason::NoIPAddress, message)
        }
        Some(Misfit::Family(address)) => of(Some(false), Reason::OtherAddressFamily, other_family(t, *address)),
    }
}

/// The add-on apiProxy is off: an address that is not of this family is refused with it.
fn other_family(t: &Tenant<'_>, address: IpAddr) -> String {
    let first = t.cluster.spec.network.service_cidrs.first().map_or("?", String::as_str);
    let (is, wanted) = match Family::of(address) {
        Family::V4 => (Family::V4, Family::V6),
        Family::V6 => (Family::V6, Family::V4),
    };
    let (is, wanted) = (is.as_str(), wanted.as_str());
    format!(
        "Service kubernetes has an {wanted} address, from {first} in spec.network.serviceCIDRs, and the API has an {is} address ({address}), to which it cannot lead. Set spec.endpoint.advertiseAddress to an {wanted} address at which nodes reach the API, or spec.addons.apiProxy.enabled to true, which leads pods on each node to the API; or create a Cluster whose serviceCIDRs begin with an {is} network"
    )
}

fn in_vpc(t: &Tenant<'_>, of: &dyn Fn(Option<bool>, Reason, String) -> Verdict) -> Verdict {
    let all = vpc::serving(t);
    let Some(first) = all.first() else {
        return of(None, Reason::Waiting, "no API server has an address in the VPC yet".to_owned());
    };
    if Family::of_first(&t.cluster.spec.network.service_cidrs) == Some(Family::V6) {
        let message = format!(
            "Service kubernetes has an IPv6 address, and the API servers have IPv4 addresses in the VPC ({first}), to which it cannot lead. Create a Cluster whose spec.network.serviceCIDRs begin with an IPv4 network"
        );
        return of(Some(false), Reason::OtherAddressFamily, message);
    }
    let all: Vec<_> = all.iter().map(|address| authority(&address.to_string(), vpc::PORT)).collect();
    of(Some(true), Reason::AsExpected, format!("Service kubernetes leads to {}", all.join(", ")))
}

/// What `Ready` and `Degraded` say of it, if that is to be said: somebody is there, or to come, who misses the API. That the add-on does not serve
/// they say once it takes longer than a node that restarts, as of all add-ons.
pub(crate) fn missed(t: &Tenant<'_>, verdict: &Verdict) -> Option<(Reason, String)> {
    let counted = match &t.observed.api {
        ApiProbe::Answered { read, .. } => read.nodes.as_ref().map(|nodes| nodes.count.total),
        _ => None,
    };
    let told = || t.cluster.status.as_ref()?.nodes.as_ref().map(|nodes| nodes.total);
    let spec = &t.cluster.spec;
    let is_to_have = spec.vpc.is_some() || !spec.network.node_cidrs.is_empty();
    let counts = is_to_have || counted.or_else(told).is_some_and(|total| total > 0);
    let is_wrong = verdict.status == Some(false) && verdict.reason != Reason::AddonsNotReady;
    (counts && is_wrong).then(|| (verdict.reason, verdict.message.clone()))
}

/// A condition that gets `status` for what pods miss. It stays if it has that already: more is wrong. A note of it, or what it says of a
/// release, is told beside.
pub(crate) fn over(own: Verdict, status: bool, (reason, message): &(Reason, String)) -> Verdict {
    if own.status == Some(status) {
        return own;
    }
    let beside = if own.reason == Reason::AsExpected { String::new() } else { format!(". {}", own.message) };
    Verdict::new(own.type_, Some(status), *reason, format!("{message}{beside}"))
}
