//! Stage 2: the Service of the API, and the address that it is published under.

mod host;

use super::{Tenant, ensure, kubeconfig, writers};
use crate::model::{Component, Stage, State};
use berth_api::cluster::EndpointType;
use berth_api::conditions::Reason;
use berth_api::names;
use berth_render::{
    Kind, render_apiserver_service,
    values::{ApiServerServiceValues, ServiceType},
};
use serde_json::Value;
use std::net::IpAddr;

/// The stage.
pub(super) fn stage(t: &Tenant<'_>) -> Stage {
    let mut stage = Stage::new(Component::Endpoint, State::Ready);
    let Some(templates) = t.templates() else {
        stage.owns.push(t.key(Kind::Service, names::APISERVER));
        stage.state = State::waiting("the template set");
        return stage;
    };
    let endpoint = &t.cluster.spec.endpoint;
    if let Err(refused) = writers::service(&endpoint.service, &t.settings.writers) {
        stage.owns.push(t.key(Kind::Service, names::APISERVER));
        stage.state = refused;
        return stage;
    }
    let values = ApiServerServiceValues {
        meta: t.meta(),
        service_type: match endpoint.type_ {
            EndpointType::ClusterIP => ServiceType::ClusterIP,
            EndpointType::NodePort => ServiceType::NodePort,
            EndpointType::LoadBalancer => ServiceType::LoadBalancer,
        },
        port: endpoint.port,
        annotations: endpoint.service.annotations.clone(),
        load_balancer_class: endpoint.service.load_balancer_class.clone(),
        load_balancer_source_ranges: endpoint.service.load_balancer_source_ranges.clone(),
        ..ApiServerServiceValues::default()
    };
    match render_apiserver_service(templates, &values) {
        Ok(objects) => {
            for o in objects {
                ensure(&mut stage, t.observed, o);
            }
        }
        Err(e) => stage.state = State::blocked(Reason::Error, e.to_string()),
    }
    if let (true, Err(why)) = (stage.state.is_done(), host(t)) {
        stage.state = State::blocked(Reason::InvalidSpec, why);
    }
    if stage.state.is_done() && published(t).is_none() {
        stage.state = State::waiting(match endpoint.type_ {
            EndpointType::LoadBalancer => "an address from the meta cluster's load balancer",
            _ => "an address for Service kube-apiserver",
        });
    }
    stage
}

fn service<'a>(t: &Tenant<'a>) -> Option<&'a Value> {
    t.get(Kind::Service, names::APISERVER).filter(|s| super::is_ours(s))
}

/// The address inside the meta cluster.
pub(super) fn cluster_ip(t: &Tenant<'_>) -> Option<IpAddr> {
    service(t)?.pointer("/spec/clusterIP")?.as_str()?.parse().ok()
}

/// Name or address from the load balancer. Of several it is the one that was published, in whatever order they come.
fn load_balancer(t: &Tenant<'_>) -> Option<String> {
    let all = service(t)?.pointer("/status/loadBalancer/ingress")?.as_array()?;
    let mut given = all.iter().filter_map(|i| i["ip"].as_str().or_else(|| i["hostname"].as_str()));
    let told = t.cluster.status.as_ref().map(|s| s.endpoints.as_slice()).unwrap_or_default();
    let former = given.clone().find(|host| told.iter().any(|e| e.host == **host));
    former.or_else(|| given.next()).map(str::to_owned)
}

/// Whether the load balancer's address lets only some in. Nodes see to that themselves (kube-proxy), also for what is dialled from
/// their own pods, and the operator is not among those.
fn narrowed(t: &Tenant<'_>) -> bool {
    let ranges = || service(t)?.pointer("/spec/loadBalancerSourceRanges")?.as_array();
    t.cluster.spec.endpoint.type_ == EndpointType::LoadBalancer && ranges().is_some_and(|r| !r.is_empty())
}

/// The host that is asked for, or why it is refused.
fn host(t: &Tenant<'_>) -> Result<Option<String>, String> {
    let Some(host) = &t.cluster.spec.endpoint.host else { return Ok(None) };
    let given = load_balancer(t).and_then(|h| h.parse().ok());
    let own: Vec<IpAddr> = cluster_ip(t).into_iter().chain(given).collect();
    match host::refusal(host, &own, t.settings.isolation.meta.as_ref().ok()) {
        Some(why) => Err(why),
        None => Ok(Some(host.clone())),
    }
}

/// The port that the Service has, and with it the API: until another one is written, clients stay with it.
fn port(t: &Tenant<'_>) -> i32 {
    let live = service(t).and_then(|s| i32::try_from(s.pointer("/spec/ports/0/port")?.as_i64()?).ok());
    live.unwrap_or(t.cluster.spec.endpoint.port)
}

/// Host and port of the kubeconfig, once known.
pub(super) fn published(t: &Tenant<'_>) -> Option<(String, i32)> {
    let endpoint = &t.cluster.spec.endpoint;
    let address = cluster_ip(t)?;
    let asked = host(t).ok()?;
    let host = |default: Option<String>| asked.or(default);
    match endpoint.type_ {
        EndpointType::ClusterIP => Some((host(Some(address.to_string()))?, port(t))),
        EndpointType::LoadBalancer => {
            let given = load_balancer(t)?;
            Some((host(Some(given))?, port(t)))
        }
        EndpointType::NodePort => {
            let port = service(t)?.pointer("/spec/ports/0/nodePort")?.as_i64()?;
            Some((host(None)?, i32::try_from(port).ok()?))
        }
    }
}

/// Where the operator asks for the API: where it is published. It is the Service's own address where the operator would not be let in
/// there, and where there is no such address (the host is refused, the load balancer gives none) although people were told one before:
/// what runs is still watched.
pub(super) fn dialled(t: &Tenant<'_>) -> Option<(String, i32)> {
    let inside = (cluster_ip(t)?.to_string(), port(t));
    match published(t) {
        Some(published) if !narrowed(t) => Some(published),
        Some(_) => Some(inside),
        None => kubeconfig::named(t).map(|_| inside),
    }
}

/// Where pods of the control plane reach the API server: the Service's own address.
pub(super) fn inside(t: &Tenant<'_>) -> Option<(IpAddr, String)> {
    let address = cluster_ip(t)?;
    Some((address, format!("https://{}.{}.svc:{}", names::APISERVER, t.home, port(t))))
}

/// The address and port that the tenant's `kubernetes` Service points to: an IP that clients of the endpoint reach, with the port
/// that goes with it. None while nothing can be published; what the Service was told before stays.
pub(super) fn advertised(t: &Tenant<'_>) -> Option<(IpAddr, i32)> {
    let (_, port_outside) = published(t)?;
    let inside = (cluster_ip(t)?, port(t));
    if t.cluster.spec.endpoint.type_ == EndpointType::ClusterIP {
        return Some(inside);
    }
    let outside = host(t).ok()?.or_else(|| load_balancer(t)).and_then(|h| h.parse().ok());
    Some(outside.map_or(inside, |address| (address, port_outside)))
}

/// Every name and address of the API server: (DNS names, addresses).
pub(super) fn sans(t: &Tenant<'_>) -> Option<(Vec<String>, Vec<IpAddr>)> {
    let home = &t.home;
    let domain = &t.cluster.spec.network.dns_domain;
    let mut dns: Vec<String> =
        ["kubernetes", "kubernetes.default", "kubernetes.default.svc", "localhost"].map(str::to_owned).into();
    dns.push(format!("kubernetes.default.svc.{domain}"));
    let service = names::APISERVER;
    dns.extend([service.to_owned(), format!("{service}.{home}"), format!("{service}.{home}.svc")]);
    let mut ips: Vec<IpAddr> = vec![cluster_ip(t)?, IpAddr::from([127, 0, 0, 1])];
    for cidr in &t.cluster.spec.network.service_cidrs {
        let net: ipnet::IpNet = cidr.parse().ok()?;
        // The first address of the range is the tenant's `kubernetes` Service.
        ips.extend(net.hosts().find(|a| *a != net.network()));
    }
    let sans = t.cluster.spec.endpoint.cert_sans.iter().cloned();
    for name in sans.chain(host(t).ok().flatten()).chain(load_balancer(t)) {
        match name.parse() {
            Ok(ip) => ips.push(ip),
            Err(_) => dns.push(name),
        }
    }
    Some((dns, ips))
}
