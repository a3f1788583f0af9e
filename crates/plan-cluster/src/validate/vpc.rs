//! `spec.vpc`: what cannot work, and what the spec alone does not show.

use crate::subject::Tenant;
use crate::validate::networks::{all_of, without_ranges};
use crate::vpc::{RESOURCE_NAME, copy_of, of_workload, parse, pods_are_held, replicas, source};
use berth_api::cluster::{ClusterSpec, Route, Vpc};
use berth_api::conditions::Reason;
use berth_api::labels;
use berth_plan::model::State;
use berth_plan::object_meta::{annotation, label};
use berth_plan::observed::AttachmentSeen;
use berth_render::Kind;
use ipnet::{IpNet, Ipv4Net};
use serde_json::Value;
use std::net::Ipv4Addr;

mod keys;

fn invalid(message: String) -> State {
    State::blocked(Reason::InvalidSpec, message)
}

/// Whether a tenant of which nothing is made yet can be made with its VPC.
pub(crate) fn new_tenant(t: &Tenant<'_>) -> Result<(), State> {
    let Some(vpc) = &t.cluster.spec.vpc else { return Ok(()) };
    if !t.settings.vpc.pods_are_held {
        return Err(State::blocked(
            Reason::NotAllowed,
            "spec.vpc: the admission policies of Berth's chart are off, and nothing else restricts pods of its control-plane namespace, where the container vpc may be root. Ask the platform team to set admissionPolicies.enabled in the values of Berth's chart; or delete this Cluster and create it without spec.vpc",
        ));
    }
    spec(&t.cluster.spec)?;
    if vpc.addresses.len() > 1 && vpc.host.is_none() && vpc.virtual_ip.is_none() {
        return Err(invalid(
            "spec.vpc has several addresses, and nodes need one: set spec.vpc.virtualIP to a free address of the subnet, or spec.vpc.host to the name or address of a load balancer in front of them".into(),
        ));
    }
    of_pods(t)?;
    let Some(subnet) = vpc.addresses.first().and_then(|a| parse(a)).map(|net| net.trunc()) else { return Ok(()) };
    let meta = t.observed.meta.addresses.as_ref().map_err(|why| without_ranges(why))?;
    match meta.overlap(IpNet::V4(subnet)) {
        Some((whose, range)) => Err(invalid(format!(
            "spec.vpc.addresses: {subnet} overlaps {range}, where the meta cluster has its {whose}: an API server could reach one of them only. Use another subnet in the VPC"
        ))),
        None => Ok(()),
    }
}

/// Whether pods can be as the spec asks, and the resource that they must be given to be attached, if any.
pub(crate) fn of_pods(t: &Tenant<'_>) -> Result<Option<String>, State> {
    spec(&t.cluster.spec)?;
    routes(t)?;
    keys::allowed(t)?;
    resource(t)
}

/// What the spec shows by itself. The CRD refuses most of it; the command line and objects from elsewhere do not pass by there.
pub(crate) fn spec(spec: &ClusterSpec) -> Result<(), State> {
    let Some(vpc) = &spec.vpc else { return Ok(()) };
    let nets = addresses(vpc).map_err(invalid)?;
    let subnet = nets.first().map(Ipv4Net::trunc);
    virtual_ip(vpc, &nets).map_err(invalid)?;
    let replicas = replicas(spec);
    if !nets.is_empty() && nets.len() < replicas {
        return Err(invalid(format!(
            "spec.vpc.addresses has {} and there are to be {replicas} API servers: add an address for each, and one more as a spare, or lower the replicas",
            nets.len()
        )));
    }
    if nets.is_empty() && vpc.host.is_none() {
        return Err(invalid(
            "spec.vpc.host is required without spec.vpc.addresses: set it to the name or address of the provider's load balancer in front of the API servers".into(),
        ));
    }
    for (field, cidr) in all_of(&spec.network) {
        let (Ok(own), Some(subnet)) = (cidr.parse::<IpNet>(), subnet) else { continue };
        if overlap(own, IpNet::V4(subnet)) {
            return Err(invalid(format!(
                "spec.vpc.addresses: {subnet} overlaps {cidr} of spec.network.{field}. Use a subnet and networks that share no address"
            )));
        }
    }
    vpc.routes.iter().try_for_each(|route| router(route, subnet, &spec.network.service_cidrs)).map_err(invalid)
}

fn overlap(a: IpNet, b: IpNet) -> bool {
    a.contains(&b) || b.contains(&a)
}

fn virtual_ip(vpc: &Vpc, nets: &[Ipv4Net]) -> Result<(), String> {
    let Some(text) = &vpc.virtual_ip else { return Ok(()) };
    let wrong = |why: &str| Err(format!("spec.vpc.virtualIP: {text} {why}"));
    let Ok(address) = text.parse::<Ipv4Addr>() else {
        return wrong("is not an IPv4 address without a prefix length, such as 172.20.0.10");
    };
    let Some(subnet) = nets.first().map(Ipv4Net::trunc) else {
        return wrong("needs spec.vpc.addresses: it is another address of their subnet");
    };
    if !subnet.contains(&address) {
        return wrong(&format!("is not in {subnet}, the subnet of spec.vpc.addresses: use a free address there"));
    }
    if subnet.prefix_len() < 31 && (address == subnet.network() || address == subnet.broadcast()) {
        return wrong("is the address of the subnet itself, or its broadcast address: use another one in it");
    }
    if nets.iter().any(|net| net.addr() == address) {
        return wrong(
            "is one of spec.vpc.addresses: use a free address, which moves between the API servers beside the address of each",
        );
    }
    Ok(())
}

/// A route by itself. Without a subnet nobody knows where its router is.
fn router(route: &Route, subnet: Option<Ipv4Net>, services: &[String]) -> Result<(), String> {
    let (dst, via) = (&route.dst, &route.via);
    let Some(net) = dst.parse::<Ipv4Net>().ok().filter(|net| *net == net.trunc()) else {
        return Err(format!(
            "spec.vpc.routes: dst {dst} is not an IPv4 network in CIDR notation, such as 10.160.0.0/16"
        ));
    };
    let Ok(router) = via.parse::<Ipv4Addr>() else {
        return Err(format!("spec.vpc.routes: via {via} is not the IPv4 address of a router, such as 172.20.0.1"));
    };
    if let Some(subnet) = subnet.filter(|subnet| !subnet.contains(&router)) {
        return Err(format!(
            "spec.vpc.routes: via {via} is not in {subnet}, the subnet of spec.vpc.addresses: no API server reaches a router elsewhere"
        ));
    }
    let own = services.iter().filter(|_| net.prefix_len() > 0);
    match own.filter_map(|cidr| cidr.parse::<IpNet>().ok()).find(|own| overlap(*own, IpNet::V4(net))) {
        Some(own) => Err(format!(
            "spec.vpc.routes: dst {dst} overlaps {own} of spec.network.serviceCIDRs, which exists on the tenant's nodes only. Remove the route, or name smaller networks"
        )),
        None => Ok(()),
    }
}

/// What routes must not lead to, and where nothing lays them.
pub(crate) fn routes(t: &Tenant<'_>) -> Result<(), State> {
    let Some(vpc) = &t.cluster.spec.vpc else { return Ok(()) };
    let Some(first) = vpc.routes.first() else { return Ok(()) };
    if !pods_are_held(t) {
        return Err(invalid(format!(
            "spec.vpc.routes: nothing lays the route to {}, because namespace {ns} was made by an earlier build of Berth. Remove it, or ask a cluster administrator to run: kubectl label --overwrite namespace {ns} {}=true {}=privileged",
            first.dst,
            labels::VPC,
            labels::POD_SECURITY,
            ns = t.cp_namespace,
        )));
    }
    let meta = t.observed.meta.addresses.as_ref().ok();
    let leads = |route: &Route| {
        let net = route.dst.parse::<Ipv4Net>().ok().filter(|net| net.prefix_len() > 0)?;
        Some((route.dst.clone(), meta?.overlap(IpNet::V4(net))?))
    };
    match vpc.routes.iter().find_map(leads) {
        Some((dst, (whose, range))) => Err(invalid(format!(
            "spec.vpc.routes: dst {dst} overlaps {range}, where the meta cluster has its {whose}, which no tenant reaches. Remove the route, or name smaller networks"
        ))),
        None => Ok(()),
    }
}

fn addresses(vpc: &Vpc) -> Result<Vec<Ipv4Net>, String> {
    let mut all: Vec<Ipv4Net> = vec![];
    for text in &vpc.addresses {
        let wrong = |why: &str| Err(format!("spec.vpc.addresses: {text} {why}"));
        let Some(net) = parse(text) else {
            return wrong("is not an IPv4 address with the prefix length of its subnet, such as 172.20.0.2/24");
        };
        if net.prefix_len() < 31 && (net.addr() == net.network() || net.addr() == net.broadcast()) {
            return wrong("is the address of the subnet itself, or its broadcast address: use another one in it");
        }
        if all.iter().any(|other| other.addr() == net.addr()) {
            return wrong("is there twice: each API server needs an address of its own");
        }
        if let Some(other) = all.first().filter(|other| other.trunc() != net.trunc()) {
            return wrong(&format!("is not in the subnet of {other}: use addresses of one subnet"));
        }
        all.push(net);
    }
    Ok(all)
}

/// The resource that pods must be given to be attached, if any; or why the network cannot be used.
fn resource(t: &Tenant<'_>) -> Result<Option<String>, State> {
    let Some(vpc) = &t.cluster.spec.vpc else { return Ok(None) };
    let (namespace, name) = source(vpc, t.namespace);
    let what = format!("spec.vpc.attachment: NetworkAttachmentDefinition {namespace}/{name}");
    let definition = match &t.observed.attachment {
        AttachmentSeen::Unknown => return Ok(None),
        AttachmentSeen::Found(definition) => definition,
        AttachmentSeen::Missing if t.observed.get(&copy_of(vpc, &t.cp_namespace)).is_some() => {
            return Err(invalid(format!(
                "{what} does not exist. Create it again: until then API servers keep the network of its copy in namespace {}, and nothing of them is changed",
                t.cp_namespace
            )));
        }
        AttachmentSeen::Missing => {
            return Err(invalid(format!(
                "{what} does not exist. Create it; or, if the meta cluster does not know the kind, first install a CNI meta-plugin such as Multus, which brings it"
            )));
        }
    };
    let allowed = annotation(definition, labels::ALLOW_FROM).unwrap_or_default();
    if namespace != t.namespace && !allowed.split(',').any(|one| one.trim() == t.namespace) {
        let (resource, allow) = ("network-attachment-definitions.k8s.cni.cncf.io", labels::ALLOW_FROM);
        return Err(State::blocked(
            Reason::NotAllowed,
            format!(
                "{what} does not allow Clusters of namespace {team}. Use one in namespace {team}, or ask its owner to run: kubectl -n {namespace} annotate {resource} {name} {allow}={team}",
                team = t.namespace
            ),
        ));
    }
    let config = definition.pointer("/spec/config").and_then(Value::as_str).unwrap_or_default();
    if !config.is_empty() && !serde_json::from_str(config).is_ok_and(|config: Value| config.is_object()) {
        return Err(invalid(format!(
            "{what}: its spec.config is not a JSON object, so no plugin can use it. Correct it"
        )));
    }
    match annotation(definition, RESOURCE_NAME) {
        Some(name) if !is_extended(name) => Err(invalid(format!(
            "{what}: its annotation {RESOURCE_NAME} names no extended resource, such as vendor.example.com/nic. Correct it"
        ))),
        name => Ok(name.map(str::to_owned)),
    }
}

/// Whether it is the name of an extended resource, which only a device plugin gives: one of Kubernetes, such as memory, would be in the place
/// of what the pod has.
fn is_extended(name: &str) -> bool {
    let form = |part: &str| !part.is_empty() && part.chars().all(|c| c.is_ascii_alphanumeric() || "-._".contains(c));
    name.split_once('/').is_some_and(|(domain, rest)| {
        let of_kubernetes =
            domain.strip_suffix("kubernetes.io").is_some_and(|rest| rest.is_empty() || rest.ends_with('.'));
        form(domain) && form(rest) && name.len() <= 253 && !of_kubernetes && !domain.starts_with("requests.")
    })
}

/// An address stays in its place while anything has it there: pods of two workloads must never have it both.
pub(crate) fn places(t: &Tenant<'_>) -> Result<(), State> {
    let Some(vpc) = &t.cluster.spec.vpc else { return Ok(()) };
    let sets = t.observed.of_kind(Kind::StatefulSet, &t.cp_namespace);
    for (key, set) in sets {
        let place = label(set, labels::SLOT).and_then(|slot| slot.parse::<usize>().ok());
        let (Some(place), Some(has)) = (place, of_workload(set)) else { continue };
        let wanted = vpc.addresses.iter().position(|a| parse(a).is_some_and(|net| net.addr() == has));
        if let Some(now) = wanted.filter(|now| *now != place) {
            return Err(invalid(format!(
                "spec.vpc.addresses: {has} is number {} now and was number {}, where {key} has it. Put it back in its place; to use it elsewhere, take it out of the list first, and add it when the Cluster is Ready",
                now + 1,
                place + 1
            )));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn judged(vpc: &Value, replicas: i32) -> String {
        let mut whole: ClusterSpec =
            serde_json::from_value(json!({"version": "1.36.3", "replicas": replicas})).unwrap();
        let mut vpc = vpc.clone();
        vpc["attachment"] = json!({"name": "vpc-acme"});
        whole.vpc = serde_json::from_value(vpc).unwrap();
        spec(&whole).err().and_then(|s| s.problem().map(|(_, text)| text.to_owned())).unwrap_or_default()
    }

    #[test]
    fn addresses_that_cannot_serve_are_refused() {
        for (addresses, said) in [
            (json!(["172.20.0.2"]), "172.20.0.2 is not an IPv4 address with the prefix length"),
            (json!(["fd00::2/64"]), "fd00::2/64 is not an IPv4 address with the prefix length"),
            (json!(["172.20.0.0/24"]), "172.20.0.0/24 is the address of the subnet itself"),
            (json!(["172.20.0.255/24"]), "172.20.0.255/24 is the address of the subnet itself, or its broadcast"),
            (json!(["172.20.0.2/24", "172.20.0.2/24"]), "172.20.0.2/24 is there twice"),
            (json!(["172.20.0.2/24", "172.20.1.3/24"]), "172.20.1.3/24 is not in the subnet of 172.20.0.2/24"),
            (json!(["10.112.7.2/24"]), "10.112.7.0/24 overlaps 10.112.0.0/16 of spec.network.serviceCIDRs"),
            (json!(["10.160.0.2/12"]), "10.160.0.0/12 overlaps 10.160.0.0/16 of spec.network.podCIDRs"),
        ] {
            let why = judged(&json!({"addresses": addresses}), 1);
            assert!(why.starts_with("spec.vpc.addresses: ") && why.contains(said), "{addresses}: {why}");
        }
        let why = judged(&json!({"addresses": ["172.20.0.2/24"]}), 2);
        assert!(why.starts_with("spec.vpc.addresses has 1 and there are to be 2 API servers"), "{why}");
    }

    fn other(fields: &Value) -> String {
        let mut vpc = json!({"addresses": ["172.20.0.2/24", "172.20.0.3/24"]});
        vpc.as_object_mut().unwrap().extend(fields.as_object().unwrap().clone());
        judged(&vpc, 2)
    }

    #[test]
    fn a_virtual_ip_is_a_free_address_of_the_subnet() {
        for (address, said) in [
            ("172.20.0.10/24", "is not an IPv4 address without a prefix length"),
            ("172.20.1.10", "is not in 172.20.0.0/24, the subnet of spec.vpc.addresses"),
            ("172.20.0.0", "is the address of the subnet itself"),
            ("172.20.0.255", "is the address of the subnet itself, or its broadcast address"),
            ("172.20.0.3", "is one of spec.vpc.addresses"),
        ] {
            let why = other(&json!({"virtualIP": address}));
            assert!(why.starts_with(&format!("spec.vpc.virtualIP: {address} ")) && why.contains(said), "{why}");
        }
        assert_eq!(other(&json!({"virtualIP": "172.20.0.10"})), "");
        let without = judged(&json!({"virtualIP": "172.20.0.10", "host": "a.example"}), 2);
        assert!(without.contains("needs spec.vpc.addresses"), "{without}");
    }

    #[test]
    fn routes_lead_to_routers_of_the_subnet_and_not_to_services() {
        for (dst, via, said) in [
            ("10.160.0.1/16", "172.20.0.1", "is not an IPv4 network in CIDR notation"),
            ("fd00::/64", "172.20.0.1", "is not an IPv4 network in CIDR notation"),
            ("10.160.0.0/16", "router", "is not the IPv4 address of a router"),
            ("10.160.0.0/16", "172.20.1.1", "is not in 172.20.0.0/24, the subnet of spec.vpc.addresses"),
            ("10.112.8.0/24", "172.20.0.1", "overlaps 10.112.0.0/16 of spec.network.serviceCIDRs"),
            ("10.0.0.0/8", "172.20.0.1", "overlaps 10.112.0.0/16 of spec.network.serviceCIDRs"),
        ] {
            let why = other(&json!({"routes": [{"dst": dst, "via": via}]}));
            assert!(why.starts_with("spec.vpc.routes: ") && why.contains(said), "{dst} {via}: {why}");
        }
        let all = json!({"routes": [{"dst": "10.160.0.0/16", "via": "172.20.0.1"}, {"dst": "0.0.0.0/0", "via": "172.20.0.1"}]});
        assert_eq!(other(&all), "");
    }

    #[test]
    fn only_a_device_plugin_gives_what_a_definition_asks_for() {
        for (name, wanted) in [
            ("vendor.example.com/nic", true),
            ("intel.com/sriov_netdevice", true),
            ("memory", false),
            ("hugepages-2Mi", false),
            ("kubernetes.io/memory", false),
            ("x.kubernetes.io/memory", false),
            ("requests.example.com/nic", false),
            ("example.com/", false),
            ("/nic", false),
            ("a/b/c", false),
            ("", false),
        ] {
            assert_eq!(is_extended(name), wanted, "{name}");
        }
    }

    #[test]
    fn without_addresses_a_host_is_required() {
        assert!(judged(&json!({}), 2).starts_with("spec.vpc.host is required without spec.vpc.addresses"));
        assert_eq!(judged(&json!({"host": "acme.vpc.example.com"}), 2), "");
    }

    #[test]
    fn addresses_of_one_subnet_are_taken() {
        for addresses in [json!(["172.20.0.2/24", "172.20.0.3/24"]), json!(["172.20.0.0/31", "172.20.0.1/31"])] {
            assert_eq!(judged(&json!({"addresses": addresses}), 2), "");
        }
    }
}
