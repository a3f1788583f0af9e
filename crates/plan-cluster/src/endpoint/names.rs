//! The names of the API server.

use crate::subject::Tenant;
use crate::vpc::addresses;
use berth_api::names;
use std::net::IpAddr;

/// Every name and address of the API server: (DNS names, addresses).
pub(crate) fn sans(t: &Tenant<'_>) -> Option<(Vec<String>, Vec<IpAddr>)> {
    let cp_namespace = &t.cp_namespace;
    let domain = &t.cluster.spec.network.dns_domain;
    let mut dns: Vec<String> =
        ["kubernetes", "kubernetes.default", "kubernetes.default.svc", "localhost"].map(str::to_owned).into();
    dns.push(format!("kubernetes.default.svc.{domain}"));
    let service = names::APISERVER;
    dns.extend([service.to_owned(), format!("{service}.{cp_namespace}"), format!("{service}.{cp_namespace}.svc")]);
    let mut ips: Vec<IpAddr> = vec![t.endpoint.cluster_ip?, IpAddr::from([127, 0, 0, 1])];
    for cidr in &t.cluster.spec.network.service_cidrs {
        let net: ipnet::IpNet = cidr.parse().ok()?;
        // The first address of the range is the tenant's `kubernetes` Service.
        ips.extend(net.hosts().find(|a| *a != net.network()));
    }
    let sans = t.cluster.spec.endpoint.cert_sans.iter().cloned();
    let host = t.endpoint.host.clone().ok().flatten();
    let vpc = addresses::names(&t.cluster.spec);
    let behind = t.endpoint.behind.clone().map(|(name, _)| name).filter(|name| host.as_ref() != Some(name));
    for name in sans.chain(host).chain(t.endpoint.load_balancer.clone()).chain(vpc).chain(behind) {
        match name.parse() {
            Ok(ip) => ips.push(ip),
            Err(_) => dns.push(name),
        }
    }
    let others = t.endpoint.balanced.iter().copied().chain(t.endpoint.given.clone().ok().flatten());
    for address in others {
        if !ips.contains(&address) {
            ips.push(address);
        }
    }
    Some((dns, ips))
}
