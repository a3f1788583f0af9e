//! Stage 2: the Service of the API, and the address that it is published under.

use super::components::ALL;
use super::ours::ensure;
use super::subject::Tenant;
use super::validate::host::HostRules;
use super::validate::{self, writers};
use super::vpc;
use berth_api::Cluster;
use berth_api::cluster::{EndpointType, PublishedEndpoint};
use berth_api::conditions::Reason;
use berth_api::names;
use berth_plan::meta_cluster::MetaCluster;
use berth_plan::model::{Stage, StageId, State};
use berth_plan::objects::service_address::{self, ServiceAddress};
use berth_render::{
    Kind, render_apiserver_service,
    values::{ApiServerServiceValues, ServiceType},
};
use serde_json::Value;
use std::net::IpAddr;

/// The stage.
pub(super) fn stage(t: &Tenant<'_>) -> Stage {
    let mut stage = Stage::new(StageId::Endpoint, State::Ready);
    let Some(templates) = t.templates() else {
        stage.owns.push(t.key(Kind::Service, names::APISERVER));
        stage.state = State::waiting("the pinned templates");
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
            service_address::keep(&mut stage, t.observed, &t.key(Kind::Service, names::APISERVER), || {
                address_before(t)
            });
        }
        Err(e) => stage.state = State::blocked(Reason::Error, e.to_string()),
    }
    if let (true, Err(why)) = (stage.state.is_done(), &t.endpoint.host) {
        stage.state = State::blocked(Reason::InvalidSpec, why.clone());
    }
    if let (true, Some(why)) = (stage.state.is_done(), &t.observed.refused_host) {
        stage.state = State::blocked(Reason::InvalidSpec, why.clone());
    }
    if stage.state.is_done() && t.endpoint.published.is_none() {
        stage.state = State::waiting(match endpoint.type_ {
            EndpointType::LoadBalancer => "an address from the meta cluster's load balancer for Service kube-apiserver",
            _ => "Service kube-apiserver to get an address",
        });
    }
    stage
}

/// Where the API was: as the pods of its clients know it, as kubeconfigs that were handed out name it, or as the status has it.
fn address_before(t: &Tenant<'_>) -> ServiceAddress {
    let host = format!("{}.{}.svc", names::APISERVER, t.cp_namespace);
    let known = ALL.iter().find_map(|c| service_address::of_host(t.workloads(c.binary).first()?, &host));
    let url = t.endpoint.handed_out.as_deref().and_then(|url| url.strip_prefix("https://")?.rsplit_once(':'));
    let told = t.status().endpoints.into_iter().next().map(|e| (e.host, e.port));
    let told =
        url.and_then(|(host, port)| Some((host.trim_matches(['[', ']']).to_owned(), port.parse().ok()?))).or(told);
    let inside = || told.as_ref().filter(|_| t.cluster.spec.endpoint.type_ == EndpointType::ClusterIP)?.0.parse().ok();
    let node_port =
        told.as_ref().filter(|_| t.cluster.spec.endpoint.type_ == EndpointType::NodePort).map(|told| told.1);
    ServiceAddress { cluster_ip: known.or_else(inside), node_port }
}

/// That a server is there, for kubeconfigs and messages.
pub(super) fn url(host: &str, port: i32) -> String {
    format!("https://{}", authority(host, port))
}

/// Host and port, IPv6 addresses in brackets.
pub(super) fn authority(host: &str, port: i32) -> String {
    if host.contains(':') { format!("[{host}]:{port}") } else { format!("{host}:{port}") }
}

/// Where the API did not answer, why, and which field a person looks at.
pub(super) fn no_answer(t: &Tenant<'_>, why: &str) -> String {
    let Some((host, port)) = &t.endpoint.dialled else { return why.to_owned() };
    let url = url(host, *port);
    if let Some(unresolved) = unresolved(t, why) {
        return format!("{url}: {unresolved}");
    }
    let asked = t.cluster.spec.endpoint.host.as_ref() == Some(host);
    let hint = if asked { ". The operator, too, must resolve and reach spec.endpoint.host" } else { "" };
    format!("{url}: {why}{hint}")
}

/// What to do about a host that is not in DNS. A resolver that gives no answer is another matter, and comes back by itself.
pub(super) fn unresolved(t: &Tenant<'_>, why: &str) -> Option<String> {
    // How Rust's library says it, before the words of the C library: glibc's and musl's for a resolver without an answer.
    const LOOKUP: &str = "failed to lookup address information";
    const NO_ANSWER: [&str; 2] = ["Temporary failure in name resolution", "Try again"];
    let asked = &t.cluster.spec.endpoint;
    let (host, _) = t.endpoint.dialled.as_ref().filter(|(host, _)| asked.host.as_ref() == Some(host))?;
    if !why.contains(LOOKUP) || NO_ANSWER.iter().any(|no| why.contains(no)) {
        return None;
    }
    let to = match asked.type_ {
        EndpointType::ClusterIP => t.endpoint.cluster_ip.map(|ip| ip.to_string()),
        EndpointType::LoadBalancer => t.endpoint.load_balancer.clone(),
        EndpointType::NodePort => Some("the meta cluster's nodes".to_owned()),
    };
    let to = to.map(|to| format!(" that points to {to}")).unwrap_or_default();
    Some(format!("spec.endpoint.host: {host} does not resolve ({why}). Create a DNS record{to}, or change the field"))
}

/// Where the API is, computed once for a plan. What is not known yet, or refused, is none.
#[derive(Clone, Debug)]
pub(crate) struct Endpoint {
    /// The Service's own address, inside the meta cluster.
    pub(crate) cluster_ip: Option<IpAddr>,
    /// The port that the Service has, and with it the API: until another one is written, clients stay with it.
    pub(crate) port: i32,
    /// Name or address from the load balancer.
    load_balancer: Option<String>,
    /// All addresses from the load balancer, of both families.
    balanced: Vec<IpAddr>,
    /// The host that the spec asks for, or why it is refused.
    host: Result<Option<String>, String>,
    /// Host and port of the kubeconfig.
    pub(crate) published: Option<(String, i32)>,
    /// Where the operator asks for the API: where it is published. It is the Service's own address where the operator would not be let
    /// in there, and where there is no such address (the host is refused, the load balancer gives none) although kubeconfigs were handed
    /// out before: what runs is still watched.
    pub(crate) dialled: Option<(String, i32)>,
    /// The address and port that the tenant's `kubernetes` Service points to: an IP that clients of the endpoint reach, with the port
    /// that goes with it. While there is none, what the Service had before stays.
    pub(crate) advertised: Option<(IpAddr, i32)>,
    /// Host and port at which the tenant's nodes reach the API: in its VPC, or where it is published.
    pub(crate) nodes: Option<(String, i32)>,
    /// The server that the kubeconfigs name that were handed out.
    pub(crate) handed_out: Option<String>,
}

impl Endpoint {
    /// From the Service as it is there, and the server that the kubeconfigs name.
    pub(crate) fn of(
        cluster: &Cluster,
        service: Option<&Value>,
        handed_out: Option<String>,
        meta: &MetaCluster,
    ) -> Self {
        let asked = &cluster.spec.endpoint;
        let at = |path: &str| service.and_then(|s| s.pointer(path));
        let int = |path: &str| at(path).and_then(Value::as_i64).and_then(|n| i32::try_from(n).ok());
        let cluster_ip: Option<IpAddr> = at("/spec/clusterIP").and_then(|ip| ip.as_str()?.parse().ok());
        let told = cluster.status.as_ref().map(|s| s.endpoints.as_slice()).unwrap_or_default();
        let load_balancer = at("/status/loadBalancer/ingress").and_then(|i| load_balancer(i.as_array()?, told));
        let ingress = at("/status/loadBalancer/ingress").and_then(Value::as_array);
        let balanced = ingress.into_iter().flatten().filter_map(|i| i["ip"].as_str()?.parse().ok()).collect();
        let host = host(asked.host.as_deref(), cluster_ip, load_balancer.as_deref(), meta);
        let port = int("/spec/ports/0/port").unwrap_or(asked.port);
        // Nodes see to source ranges themselves (kube-proxy), also for what is dialled from their own pods, and the operator is not among those.
        let narrowed = asked.type_ == EndpointType::LoadBalancer
            && at("/spec/loadBalancerSourceRanges").and_then(Value::as_array).is_some_and(|r| !r.is_empty());

        let inside = cluster_ip.map(|address| (address, port));
        let published = inside.zip(host.as_ref().ok()).and_then(|((address, port), host)| {
            let or = |default: Option<String>| host.clone().or(default);
            match asked.type_ {
                EndpointType::ClusterIP => Some((or(Some(address.to_string()))?, port)),
                EndpointType::LoadBalancer => Some((or(Some(load_balancer.clone()?))?, port)),
                EndpointType::NodePort => Some((or(None)?, int("/spec/ports/0/nodePort")?)),
            }
        });
        let dial_inside = || inside.map(|(address, port)| (address.to_string(), port));
        let dialled = match &published {
            Some(published) if !narrowed => Some(published.clone()),
            Some(_) => dial_inside(),
            None => handed_out.as_ref().and_then(|_| dial_inside()),
        };
        let advertised = published.as_ref().zip(inside).map(|((_, port_outside), inside)| {
            let given = host.clone().ok().flatten().or_else(|| load_balancer.clone()).and_then(|h| h.parse().ok());
            let outside = given.filter(|_| asked.type_ != EndpointType::ClusterIP);
            outside.map_or(inside, |address| (address, *port_outside))
        });
        let nodes = vpc::endpoint(&cluster.spec).or_else(|| published.clone());
        Self { cluster_ip, port, load_balancer, balanced, host, published, dialled, advertised, nodes, handed_out }
    }

    /// Where the host may lead that the operator dials, if the spec chose it and it is a name.
    pub(super) fn rules(&self, t: &Tenant<'_>, dialled: &str) -> Option<HostRules> {
        let chosen = t.cluster.spec.endpoint.host.as_deref() == Some(dialled) && dialled.parse::<IpAddr>().is_err();
        let load_balancer = self.load_balancer.clone().filter(|host| host.parse::<IpAddr>().is_err());
        let meta = || t.observed.meta.addresses.as_ref().ok().cloned();
        let own = self.cluster_ip.into_iter().chain(self.balanced.iter().copied()).collect();
        chosen.then(|| HostRules::new(own, load_balancer, meta()))
    }

    /// The Service's own address and port, if kubeconfigs of the tenant were handed out.
    pub(super) fn inside_of_one_that_serves(&self) -> Option<(String, i32)> {
        self.handed_out.as_ref().and(self.cluster_ip).map(|address| (address.to_string(), self.port))
    }

    /// Where pods of the control plane reach the API server: the Service's own address.
    pub(crate) fn inside(&self, cp_namespace: &str) -> Option<(IpAddr, String)> {
        let address = self.cluster_ip?;
        Some((address, format!("https://{}.{cp_namespace}.svc:{}", names::APISERVER, self.port)))
    }
}

/// Of several names or addresses it is the one that was published, in whatever order they come.
fn load_balancer(ingress: &[Value], told: &[PublishedEndpoint]) -> Option<String> {
    let mut given = ingress.iter().filter_map(|i| i["ip"].as_str().or_else(|| i["hostname"].as_str()));
    let former = given.clone().find(|host| told.iter().any(|e| e.host == **host));
    former.or_else(|| given.next()).map(str::to_owned)
}

/// Addresses of the tenant's own Service.
fn own(cluster_ip: Option<IpAddr>, load_balancer: Option<&str>) -> Vec<IpAddr> {
    cluster_ip.into_iter().chain(load_balancer.and_then(|host| host.parse().ok())).collect()
}

fn host(
    asked: Option<&str>,
    cluster_ip: Option<IpAddr>,
    load_balancer: Option<&str>,
    meta: &MetaCluster,
) -> Result<Option<String>, String> {
    let Some(host) = asked else { return Ok(None) };
    match validate::host::refusal(host, &own(cluster_ip, load_balancer), meta.addresses.as_ref().ok()) {
        Some(why) => Err(why),
        None => Ok(Some(host.to_owned())),
    }
}

/// Every name and address of the API server: (DNS names, addresses).
pub(super) fn sans(t: &Tenant<'_>) -> Option<(Vec<String>, Vec<IpAddr>)> {
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
    let vpc = vpc::names(&t.cluster.spec);
    for name in sans.chain(host).chain(t.endpoint.load_balancer.clone()).chain(vpc) {
        match name.parse() {
            Ok(ip) => ips.push(ip),
            Err(_) => dns.push(name),
        }
    }
    Some((dns, ips))
}
