//! Where the API is, by what is there.

use super::by_name;
use super::pods::{Family, ForPods, Known, before, decide};
use super::proxied::{self, Proxied};
use crate::ours::is_ours;
use crate::validate::host;
use crate::vpc::addresses;
use berth_api::cluster::{EndpointType, PublishedEndpoint};
use berth_api::conditions::Reason;
use berth_api::gateway::ClusterName;
use berth_api::names;
use berth_api::{Cluster, ClusterSpec};
use berth_plan::meta_cluster::MetaCluster;
use berth_plan::model::State;
use berth_plan::observed::Observed;
use berth_plan::settings::Settings;
use berth_render::{Kind, ObjectKey};
use serde_json::Value;
use std::net::IpAddr;

/// Where the API is, computed once for a plan. What is not known yet, or refused, is none.
#[derive(Clone, Debug)]
pub(crate) struct Endpoint {
    /// The Service's own address, inside the meta cluster.
    pub(crate) cluster_ip: Option<IpAddr>,
    /// The port that the Service has, and with it the API: until another one is written, clients stay with it.
    pub(crate) port: i32,
    /// Name or address from the load balancer.
    pub(crate) load_balancer: Option<String>,
    /// All addresses from the load balancer, of both families.
    pub(crate) balanced: Vec<IpAddr>,
    /// Name and port that it has at the platform's gateway by itself. None: it is not to be behind that, or there is none.
    pub(crate) behind: Option<(String, i32)>,
    /// The host that the spec asks for, or why it is refused, or the gateway for which it is.
    pub(crate) host: Result<Option<String>, State>,
    /// Host and port of the kubeconfig.
    pub(crate) published: Option<(String, i32)>,
    /// Where the operator asks for the API: where it is published. It is the Service's own address where the operator would not be let
    /// in there, behind the gateway, without which a tenant is served as well, and where there is no such address (the host is refused, the load balancer gives none) although kubeconfigs were handed
    /// out before: what runs is still watched.
    pub(crate) dialled: Option<(String, i32)>,
    /// The address that the spec asks for inside, or that nodes have for the add-on apiProxy, or why it is refused.
    pub(crate) given: Result<Option<IpAddr>, String>,
    /// The address that the tenant's `kubernetes` Service leads to, and the port that goes with it. While there is none, what the Service
    /// had before stays.
    pub(crate) for_pods: Option<(ForPods, i32)>,
    /// Where the add-on apiProxy leads to from there. None: it is off, or not known yet.
    pub(crate) proxied: Option<Proxied>,
    /// What was taken for `--advertise-address` before pods' address was decided by itself: what runs follows it as it did.
    pub(crate) advertised_before: Option<IpAddr>,
    /// Host and port at which the tenant's nodes reach the API: in its VPC, or where it is published.
    pub(crate) nodes: Option<(String, i32)>,
    /// The server that the kubeconfigs name that were handed out.
    pub(crate) handed_out: Option<String>,
}

impl Endpoint {
    /// From the Service as it is there, and the server that the kubeconfigs name.
    pub(crate) fn seen(
        cluster: &Cluster,
        service: Option<&Value>,
        handed_out: Option<String>,
        meta: &MetaCluster,
        (settings, cp_namespace, host_is_of): (&Settings, &str, Option<&ClusterName>),
    ) -> Self {
        let asked = &cluster.spec.endpoint;
        let at = |path: &str| service.and_then(|s| s.pointer(path));
        let int = |path: &str| at(path).and_then(Value::as_i64).and_then(|n| i32::try_from(n).ok());
        let cluster_ip: Option<IpAddr> = at("/spec/clusterIP").and_then(|ip| ip.as_str()?.parse().ok());
        let told = cluster.status.as_ref().map(|s| s.endpoints.as_slice()).unwrap_or_default();
        let ingress = at("/status/loadBalancer/ingress").and_then(Value::as_array);
        let load_balancer = ingress.and_then(|all| load_balancer(all, told));
        let balanced = ingress.into_iter().flatten().filter_map(|i| i["ip"].as_str()?.parse().ok());
        let balanced: Vec<IpAddr> = balanced.collect();
        let own = own(cluster_ip, load_balancer.as_deref());
        let behind = by_name::own(asked, settings, cp_namespace);
        let name = behind.as_ref().map(|(name, _)| name.as_str());
        let host = wanted_host(asked.host.as_deref(), &own, meta).and_then(|host| {
            let is_behind = asked.type_ == EndpointType::Gateway;
            let refused = is_behind.then(|| by_name::refusal((host.as_deref(), host_is_of), name, settings)).flatten();
            refused.map_or(Ok(host), Err)
        });
        let given = wanted_address(&cluster.spec, &own, &balanced, meta);
        let api = own.iter().chain(&balanced).copied().chain(asked.host.as_ref().and_then(|host| host.parse().ok()));
        let given = given.and_then(|given| proxied::address(&cluster.spec, given, &api.collect::<Vec<_>>()));
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
                EndpointType::Gateway => behind.clone().map(|(name, port)| (host.clone().unwrap_or(name), port)),
            }
        });
        let dial_inside = || inside.map(|(address, port)| (address.to_string(), port));
        let dialled = match &published {
            Some(published) if !narrowed && behind.is_none() => Some(published.clone()),
            Some(_) => dial_inside(),
            None => handed_out.as_ref().and_then(|_| dial_inside()),
        };
        let known = cluster_ip.zip(published.as_ref()).map(|(cluster_ip, _)| Known {
            type_: asked.type_,
            given: given.clone().ok().flatten(),
            host: host.as_ref().ok().and_then(Option::as_deref).or(name),
            load_balancer: load_balancer.as_deref(),
            balanced: &balanced,
            cluster_ip,
            family: Family::of_first(&cluster.spec.network.service_cidrs),
        });
        let for_pods = known.as_ref().filter(|_| given.is_ok()).zip(published.as_ref());
        let for_pods = for_pods.map(|(known, (_, outside))| {
            let for_pods = decide(known);
            let port = if for_pods.address == known.cluster_ip { port } else { *outside };
            (for_pods, port)
        });
        let proxied = published.clone().filter(|_| proxied::is_on(&cluster.spec)).map(|(host, port)| {
            let gateway = settings.gateway.as_ref().filter(|_| behind.is_some());
            match gateway {
                Some(gateway) => Proxied { to: (host.clone(), gateway.named_port.into()), name: Some(host) },
                None => Proxied { to: (host, port), name: None },
            }
        });
        let advertised_before = known.as_ref().map(before);
        let nodes = addresses::endpoint(&cluster.spec).or_else(|| published.clone());
        Self {
            cluster_ip,
            port,
            load_balancer,
            balanced,
            behind,
            host,
            published,
            dialled,
            given,
            for_pods,
            proxied,
            advertised_before,
            nodes,
            handed_out,
        }
    }

    /// Host and port that the kubeconfigs name that were handed out.
    pub(crate) fn handed_out_at(&self) -> Option<(String, i32)> {
        let (host, port) = self.handed_out.as_deref()?.strip_prefix("https://")?.rsplit_once(':')?;
        Some((host.trim_matches(['[', ']']).to_owned(), port.parse().ok()?))
    }

    /// The Service's own address and port, if kubeconfigs of the tenant were handed out.
    pub(crate) fn inside_of_one_that_serves(&self) -> Option<(String, i32)> {
        self.handed_out.as_ref().and(self.cluster_ip).map(|address| (address.to_string(), self.port))
    }

    /// Where pods of the control plane reach the API server: the Service's own address.
    pub(crate) fn inside(&self, cp_namespace: &str) -> Option<(IpAddr, String)> {
        let address = self.cluster_ip?;
        Some((address, format!("https://{}.{cp_namespace}.svc:{}", names::APISERVER, self.port)))
    }
}

/// The Secrets with kubeconfigs in the control-plane namespace.
pub(crate) const KUBECONFIGS: [&str; 2] = [names::ADMIN_KUBECONFIG, names::BREAK_GLASS_KUBECONFIG];

/// The server that the kubeconfigs name by now.
pub(crate) fn server_handed_out(observed: &Observed, cp_namespace: &str) -> Option<String> {
    KUBECONFIGS.iter().map(|name| ObjectKey::namespaced(Kind::Secret, cp_namespace, *name)).find_map(|key| {
        observed.get(&key).filter(|secret| is_ours(secret))?;
        let kubeconfig = observed.secrets.get(&key)?.kubeconfig()?.ok()?;
        Some(kubeconfig.server.clone())
    })
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

fn wanted_host(asked: Option<&str>, own: &[IpAddr], meta: &MetaCluster) -> Result<Option<String>, State> {
    let Some(host) = asked else { return Ok(None) };
    match host::refusal(host, own, meta.addresses.as_ref().ok()) {
        Some(why) => Err(State::blocked(Reason::InvalidSpec, why)),
        None => Ok(Some(host.to_owned())),
    }
}

fn wanted_address(
    spec: &ClusterSpec,
    own: &[IpAddr],
    balanced: &[IpAddr],
    meta: &MetaCluster,
) -> Result<Option<IpAddr>, String> {
    let Some(text) = &spec.endpoint.advertise_address else { return Ok(None) };
    let own = [own, balanced].concat();
    let way_out = proxied::is_on(spec).then(|| proxied::way_out(spec));
    host::refusal_inside(text, &own, meta.addresses.as_ref().ok(), way_out.as_deref()).map(Some)
}

/// That a server is there, for kubeconfigs and messages.
pub(crate) fn url(host: &str, port: i32) -> String {
    format!("https://{}", authority(host, port))
}

/// Host and port, IPv6 addresses in brackets.
pub(crate) fn authority(host: &str, port: i32) -> String {
    if host.contains(':') { format!("[{host}]:{port}") } else { format!("{host}:{port}") }
}
