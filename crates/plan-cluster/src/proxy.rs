//! The proxy by which kube-apiserver reaches the outside, and all that is not outside (ADR 64).

use crate::record::{FIRST, Pin};
use crate::subject::Tenant;
use crate::vpc;
use berth_api::conditions::Reason;
use berth_api::proxy::Proxy;
use berth_plan::model::State;
use berth_plan::workload;
use berth_render::Binary;
use berth_render::values::{HostAlias, Variable};
use ipnet::IpNet;
use serde_json::Value;

/// What the spec says, or else what the release took from the chart's value.
fn asked<'a>(t: &'a Tenant<'_>, pin: &'a Pin) -> Option<&'a Proxy> {
    t.cluster.spec.proxy.as_ref().or(pin.proxy.as_ref())
}

/// Variables of the API server's container. `etcd`: how it finds its etcd.
pub(crate) fn variables(t: &Tenant<'_>, pin: &Pin, etcd: &[HostAlias]) -> Vec<Variable> {
    let all = asked(t, pin).map(|proxy| proxy.variables(&without(t, pin, etcd))).unwrap_or_default();
    all.into_iter().map(|(name, value)| Variable { name: name.to_owned(), value }).collect()
}

/// What is reached without the proxy, in the order of the variable. What is nobody's own is that of the operator that made the release: a later one
/// may know more, and rolls no pods for it.
fn without(t: &Tenant<'_>, pin: &Pin, etcd: &[HostAlias]) -> Vec<String> {
    let [before, behind] = match &pin.no_proxy {
        Some(direct) => [direct.clone(), vec![]],
        None => FIRST.map(|all| all.iter().map(|&entry| entry.to_owned()).collect()),
    };
    let mut seen = vec![];
    for entry in before.into_iter().chain(own(t, etcd)).chain(behind) {
        if !seen.contains(&entry) {
            seen.push(entry);
        }
    }
    seen
}

/// What is the tenant's own: by the spec alone, so that the pods roll for nothing but a change of that. The meta cluster's ranges are not in it: an
/// API server reaches nothing there but its etcd, and they change as nodes come and go.
fn own(t: &Tenant<'_>, etcd: &[HostAlias]) -> Vec<String> {
    let spec = &t.cluster.spec;
    let network = &spec.network;
    let domain = format!(".{}", network.dns_domain);
    let etcd = etcd.iter().map(|alias| alias.ip.clone());
    let networks = [&network.service_cidrs, &network.pod_cidrs, &network.node_cidrs].into_iter().flatten().cloned();
    let endpoint = [&spec.endpoint.host, &spec.endpoint.advertise_address].into_iter().flatten().cloned();
    let mut all: Vec<String> = Some(domain).into_iter().chain(etcd).chain(networks).collect();
    if let Some(vpc) = &spec.vpc {
        let subnets = vpc.addresses.iter().filter_map(|address| vpc::parse(address)).map(|net| net.trunc().to_string());
        let routes = vpc.routes.iter().filter(|route| !is_everything(&route.dst)).map(|route| route.dst.clone());
        all.extend(subnets.chain(routes).chain(vpc.virtual_ip.clone()).chain(vpc.host.clone()));
    }
    all.extend(endpoint);
    all
}

/// A default route says where a packet goes, and not that it stays.
fn is_everything(cidr: &str) -> bool {
    cidr.parse::<IpNet>().is_ok_and(|net| net.prefix_len() == 0)
}

/// What is told of a proxy that admission put into a pod of this component, if it keeps the tenant's parts from each other.
pub(crate) fn injected(t: &Tenant<'_>, binary: Binary, pod: &Value) -> Option<String> {
    let network = &t.cluster.spec.network;
    let mut needed = vec![workload::BY_NAME.to_owned()];
    if binary == Binary::ApiServer {
        let own = [&network.service_cidrs, &network.pod_cidrs, &network.node_cidrs];
        needed.extend(own.into_iter().flatten().cloned());
    }
    let (pin, _) = t.release.pin_of(binary);
    // Berth sets it there alone.
    let set = asked(t, pin).filter(|_| binary == Binary::ApiServer);
    let set = set.into_iter().flat_map(|proxy| [&proxy.http, &proxy.https]);
    let set: Vec<&str> = set.flatten().map(String::as_str).collect();
    workload::injected_proxy(pod, &needed, &set)
}

/// Why the spec's proxy is refused: nothing is rendered from it.
pub(crate) fn refusal(t: &Tenant<'_>) -> Option<State> {
    let (field, why) = t.cluster.spec.proxy.as_ref()?.problem()?;
    Some(State::blocked(Reason::InvalidSpec, format!("spec.proxy.{field}: {why}")))
}
