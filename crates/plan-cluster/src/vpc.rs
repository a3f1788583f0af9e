//! A tenant's VPC: what pods ask of the network plugin, what it says it gave them, and where nodes find the API.

mod ask;
mod definition;
mod image;

use super::subject::Tenant;
use super::validate;
use berth_api::cluster::{Cluster, ClusterSpec, Vpc};
use berth_api::conditions::{ConditionType, Reason, Verdict};
use berth_api::etcd_bootstrap::vpc::ADDRESS_TAKEN;
use berth_api::{labels, names};
use berth_plan::meta_cluster::addresses::{Closed, MetaRanges};
use berth_plan::observed::{Observed, annotation, label};
use berth_plan::workload;
use berth_render::{Binary, Kind};
use ipnet::{IpNet, Ipv4Net};
use serde_json::Value;
use std::net::{IpAddr, Ipv4Addr};

pub(super) use ask::{FILLED, ask, values};
pub use definition::copy_of;
pub(super) use definition::{copy, namespace as definition_namespace, source};
pub(super) use image::{note as images_note, unread as image_unread};

/// The port of the API in the VPC: no Service is between it and the nodes.
pub(super) const PORT: i32 = 6443;

/// What a pod asks for, and what it got, as the NetworkAttachmentDefinition specification has it.
const NETWORKS: &str = "k8s.v1.cni.cncf.io/networks";
const NETWORK_STATUS: &str = "k8s.v1.cni.cncf.io/network-status";
/// On a definition: the resource that a pod must be given for it.
pub(super) const RESOURCE_NAME: &str = "k8s.v1.cni.cncf.io/resourceName";

/// An address with its prefix length.
pub(super) fn parse(address: &str) -> Option<Ipv4Net> {
    address.parse().ok().filter(|_| address.contains('/'))
}

/// The address without its prefix length.
fn ip(address: &str) -> Option<Ipv4Addr> {
    parse(address).map(|net| net.addr())
}

/// The address that a pod, or a workload's pod template, asks for.
fn asked(annotations: Option<&Value>) -> Option<Ipv4Addr> {
    let text = annotations?.get(NETWORKS)?.as_str()?;
    let all: Value = serde_json::from_str(text).ok()?;
    ip(all.pointer("/0/ips/0")?.as_str()?)
}

/// The address that a workload's pods ask for.
pub(super) fn of_workload(workload: &Value) -> Option<Ipv4Addr> {
    asked(workload.pointer("/spec/template/metadata/annotations"))
}

/// Host and port for the tenant's nodes, if it has a VPC.
pub(super) fn endpoint(spec: &ClusterSpec) -> Option<(String, i32)> {
    let vpc = spec.vpc.as_ref()?;
    let first = || ip(vpc.addresses.first()?).map(|ip| ip.to_string());
    Some((vpc.host.clone().or_else(|| vpc.virtual_ip.clone()).or_else(first)?, PORT))
}

/// Whether an API server reaches an address over its interface there: on the link, or by a route, which leads to nothing of the meta
/// cluster. Where the provider chooses addresses nobody knows what is on the link.
pub(super) fn leads_to(spec: &ClusterSpec, meta: &MetaRanges, address: IpAddr) -> bool {
    let (Some(vpc), IpAddr::V4(v4)) = (&spec.vpc, address) else { return false };
    let on_link = vpc.addresses.first().is_none_or(|first| parse(first).is_some_and(|net| net.contains(&v4)));
    let routed = vpc.routes.iter().any(|route| route.dst.parse().is_ok_and(|net: Ipv4Net| net.contains(&v4)));
    (on_link || routed) && meta.forbidden(IpNet::from(address), Closed::Nothing).is_some()
}

/// Names and addresses of the API there, for its certificate.
pub(super) fn names(spec: &ClusterSpec) -> Vec<String> {
    let Some(vpc) = &spec.vpc else { return vec![] };
    let addresses = vpc.addresses.iter().filter_map(|a| ip(a)).map(|ip| ip.to_string());
    addresses.chain(vpc.virtual_ip.clone()).chain(vpc.host.clone()).collect()
}

/// Whether the container `vpc` is in the pods: where an admission policy holds them in place of Pod Security. For a namespace that is not
/// there yet: whether it will be.
pub(super) fn pods_are_held(t: &Tenant<'_>) -> bool {
    let says = |live: &Value, name: &str, value: &str| label(live, name) == Some(value);
    t.live_namespace().map_or(t.cluster.spec.vpc.is_some(), |live| {
        says(live, labels::VPC, "true") && says(live, labels::POD_SECURITY, "privileged")
    })
}

/// Where the tenant's own `kubernetes` Service leads to: the address that moves; or addresses of the API servers that serve, in the order
/// of the slots, and while none does, of those that are to.
pub(super) fn serving(t: &Tenant<'_>) -> Vec<IpAddr> {
    let Some(vpc) = &t.cluster.spec.vpc else { return vec![] };
    if let Some(address) = vpc.virtual_ip.as_ref().and_then(|address| address.parse().ok()) {
        return vec![address];
    }
    if vpc.addresses.is_empty() {
        return of_pods(t, vpc);
    }
    let ready = |set: &&Value| workload::rollout(set).serving;
    let workloads = t.workloads(Binary::ApiServer);
    let all: Vec<_> = workloads.live().filter(ready).filter_map(of_workload).map(IpAddr::V4).collect();
    if !all.is_empty() {
        return all;
    }
    let addresses = vpc.addresses.iter().filter_map(|a| ip(a)).map(IpAddr::V4);
    addresses.take(replicas(&t.cluster.spec)).collect()
}

/// Addresses that the provider gave to API servers that are ready.
fn of_pods(t: &Tenant<'_>, vpc: &Vpc) -> Vec<IpAddr> {
    let ready = pods(t).filter(|pod| workload::pod_ready(pod)).filter_map(|pod| annotation(pod, NETWORK_STATUS));
    let mut all: Vec<_> = ready.flat_map(|status| given(status, &vpc.attachment.interface)).map(IpAddr::V4).collect();
    all.sort_unstable();
    all
}

fn pods<'a>(t: &'a Tenant<'_>) -> impl Iterator<Item = &'a Value> {
    workload::pods_of(t.observed, &t.cp_namespace, labels::COMPONENT, names::APISERVER).map(|(_, pod)| pod)
}

/// API servers at rest.
pub(super) fn replicas(spec: &ClusterSpec) -> usize {
    usize::try_from(spec.api_server.replicas.unwrap_or(spec.replicas)).unwrap_or(1).max(1)
}

/// Who else has the address of a slot: a workload that is there and asks for it, or a pod.
pub(super) fn holder(t: &Tenant<'_>, slot: usize, address: &str) -> Option<String> {
    let (wanted, own) = (ip(address)?, slot.to_string());
    let another = |o: &Value| label(o, labels::SLOT).is_some_and(|slot| slot != own);
    let all = |kind| t.observed.of_kind(kind, &t.cp_namespace).filter(move |(_, o)| another(o));
    let sets = all(Kind::StatefulSet).filter(|(_, set)| of_workload(set) == Some(wanted));
    let pods = all(Kind::Pod).filter(|(_, pod)| asked(pod.pointer("/metadata/annotations")) == Some(wanted));
    sets.chain(pods).map(|(key, _)| key.to_string()).next()
}

/// Whether the API servers have their addresses.
pub(super) fn verdict(t: &Tenant<'_>) -> Verdict {
    let of = |status, reason, message: String| Verdict::new(ConditionType::VPCReady, status, reason, message);
    let spec = &t.cluster.spec;
    let Some(vpc) = &spec.vpc else { return of(None, Reason::NotYetObserved, "not checked yet".into()) };
    let judged = match t.live_namespace() {
        None => validate::vpc::new_tenant(t),
        Some(_) => validate::vpc::of_pods(t).map(|_| ()),
    };
    if let Err(state) = judged {
        let (reason, message) = state.sentence().unwrap_or((Reason::InvalidSpec, String::new()));
        return of(Some(false), reason, message);
    }
    let replicas = replicas(spec);
    let problem = match vpc.addresses.len() {
        0 => without_any_address(t, vpc, replicas),
        _ => (0..replicas).find_map(|slot| without_address(t, vpc, slot)),
    };
    if let Some((reason, message)) = problem {
        return of(Some(false), reason, message);
    }
    let mut message = format!("{replicas} API servers have their address in the VPC");
    if vpc.addresses.is_empty() {
        let all: Vec<_> = of_pods(t, vpc).iter().map(ToString::to_string).collect();
        message = format!("{message}: {}", all.join(", "));
    }
    if !pods_are_held(t) {
        message = format!(
            "{message}. Nothing limits what they reach there: namespace {ns} was made by an earlier build of Berth. To have rules, which replaces their pods, a cluster administrator runs: kubectl label --overwrite namespace {ns} {vpc}=true {enforce}=privileged",
            ns = t.cp_namespace,
            vpc = labels::VPC,
            enforce = labels::POD_SECURITY,
        );
    } else if t.workloads(Binary::ApiServer).live().any(|workload| !is_held(workload)) {
        message = format!(
            "{message}. Nothing limits what those reach there whose pods have no container vpc: they get it with another spec.version"
        );
    }
    of(Some(true), Reason::AsExpected, message)
}

/// Whether a workload's pods have the container that holds their network: templates of an earlier build do not know it.
fn is_held(workload: &Value) -> bool {
    let all = workload.pointer("/spec/template/spec/initContainers").and_then(Value::as_array);
    all.into_iter().flatten().any(|container| container["name"] == "vpc")
}

/// Why one of the API servers that the provider gives addresses to has none, if so.
fn without_any_address(t: &Tenant<'_>, vpc: &Vpc, replicas: usize) -> Option<(Reason, String)> {
    let waits = |pod: &&Value| !berth_plan::observed::deleting(pod) && !workload::pod_ready(pod);
    let told = pods(t).filter(waits).find_map(|pod| {
        let name = pod.pointer("/metadata/name").and_then(Value::as_str).unwrap_or("?");
        if let Some(why) = t.observed.refused.get(name) {
            return Some((Reason::PodsNotReady, format!("pod {name} does not get its network: {why}")));
        }
        if let Some(problem) = workload::pod_problem(pod) {
            return Some(problem);
        }
        without_interface(pod, name, &vpc.attachment.interface)
    });
    let ready = of_pods(t, vpc).len();
    let few = || format!("{ready} of {replicas} API servers are ready with an address in the VPC");
    told.filter(|_| ready < replicas).or_else(|| (ready < replicas).then(|| (Reason::PodsNotReady, few())))
}

/// What the network plugin did not do.
fn without_interface(pod: &Value, name: &str, interface: &str) -> Option<(Reason, String)> {
    let Some(status) = annotation(pod, NETWORK_STATUS) else {
        return Some((
            Reason::PodsNotReady,
            format!(
                "pod {name} has no annotation {NETWORK_STATUS} yet, so it is not attached to the VPC. If it stays, see that the meta cluster's CNI meta-plugin (such as Multus) runs on its node"
            ),
        ));
    };
    given(status, interface).is_empty().then(|| {
        let message = format!(
            "pod {name} has no interface {interface} with an IPv4 address. See that the network's IPAM, or the provider, gives each pod one"
        );
        (Reason::PodsNotReady, message)
    })
}

/// Why the API server of a slot does not have its address, if so.
fn without_address(t: &Tenant<'_>, vpc: &Vpc, slot: usize) -> Option<(Reason, String)> {
    let (set, interface) = (names::slot(names::APISERVER, slot), &vpc.attachment.interface);
    let address = vpc.addresses.get(slot)?;
    let Some(pod) = pod_of(t.observed, &t.cp_namespace, slot) else {
        let why = t.observed.refused.get(&format!("{set}-0"));
        let why = why.map(|why| format!(": {why}")).unwrap_or_default();
        return Some((Reason::PodsNotReady, format!("StatefulSet {set}, which is to have {address}, has no pod{why}")));
    };
    // It has passed its gate, which looks at the interface itself.
    if workload::pod_ready(pod) {
        return None;
    }
    let name = pod.pointer("/metadata/name").and_then(Value::as_str).unwrap_or("?");
    if let Some(why) = t.observed.refused.get(name) {
        return Some((Reason::PodsNotReady, format!("pod {name} does not get its network, with {address}: {why}")));
    }
    if let Some(message) = taken(pod) {
        let message =
            format!("pod {name}: {message}. Take {address} away from it, or replace it in spec.vpc.addresses");
        return Some((Reason::PodsNotReady, message));
    }
    if let Some(problem) = workload::pod_problem(pod) {
        return Some(problem);
    }
    let Some(status) = annotation(pod, NETWORK_STATUS) else { return without_interface(pod, name, interface) };
    let given = given(status, interface);
    if ip(address).is_some_and(|ip| given.contains(&ip)) {
        return Some((Reason::PodsNotReady, format!("pod {name} has {address} and is not ready")));
    }
    let given: Vec<_> = given.iter().map(ToString::to_string).collect();
    let has = if given.is_empty() { format!("no interface {interface}") } else { given.join(", ") };
    Some((
        Reason::PodsNotReady,
        format!(
            "pod {name} was to get {address} at {interface}, and has {has}. See that the network's IPAM gives the addresses that pods ask for (capability ips)"
        ),
    ))
}

/// What the container `vpc` says of somebody else in the VPC that has the pod's address.
fn taken(pod: &Value) -> Option<&str> {
    let all = pod.pointer("/status/initContainerStatuses")?.as_array()?;
    let vpc = all.iter().find(|c| c["name"] == "vpc" && c["started"] != true)?;
    let ended = ["/state/terminated/message", "/lastState/terminated/message"];
    let message = ended.iter().find_map(|path| vpc.pointer(path)?.as_str())?.trim();
    message.lines().last().filter(|line| line.starts_with(ADDRESS_TAKEN))
}

/// The pod of a slot; of two the one that does not end.
fn pod_of<'a>(observed: &'a Observed, cp_namespace: &'a str, slot: usize) -> Option<&'a Value> {
    let of_slot = |pod: &&Value| label(pod, labels::SLOT) == Some(&*slot.to_string());
    let pods = workload::pods_of(observed, cp_namespace, labels::COMPONENT, names::APISERVER).map(|(_, pod)| pod);
    pods.filter(of_slot).min_by_key(|pod| berth_plan::observed::deleting(pod))
}

/// The namespace of a tenant with a VPC, and API servers' pods there for which a node does not prepare the network: Events say why.
pub fn pods_without_network(cluster: &Cluster, observed: &Observed) -> (String, Vec<String>) {
    let meta = &cluster.metadata;
    let [namespace, name] = [&meta.namespace, &meta.name].map(|text| text.as_deref().unwrap_or_default());
    let cp_namespace = names::control_plane_namespace(namespace, name);
    let pods = workload::pods_of(observed, &cp_namespace, labels::COMPONENT, names::APISERVER);
    let waiting = pods.filter(|(_, pod)| annotation(pod, NETWORK_STATUS).is_none() && !workload::pod_running(pod));
    let pods = waiting.map(|(key, _)| key.name.clone()).collect();
    (cp_namespace, pods)
}

/// Addresses that the network plugin says an interface has.
fn given(status: &str, interface: &str) -> Vec<Ipv4Addr> {
    let all: Vec<Value> = serde_json::from_str(status).unwrap_or_default();
    let ips = all.iter().filter(|one| one["interface"] == interface).filter_map(|one| one["ips"].as_array()).flatten();
    ips.filter_map(|ip| ip.as_str()?.split('/').next()?.parse().ok()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn what_pods_ask_for_is_read_back() {
        let vpc: Vpc = serde_json::from_value(json!({
            "attachment": {"name": "vpc-acme"}, "addresses": ["172.20.0.2/24"],
        }))
        .unwrap();
        let (key, value) = ask::networks_annotation(&vpc, "networks", Some("172.20.0.2/24"));
        assert_eq!(value, r#"[{"name":"vpc-acme","namespace":"networks","interface":"net1","ips":["172.20.0.2/24"]}]"#);
        assert_eq!(asked(Some(&json!({(key): value}))), Some([172, 20, 0, 2].into()));
        let (key, value) = ask::networks_annotation(&vpc, "networks", None);
        assert_eq!(value, r#"[{"name":"vpc-acme","namespace":"networks","interface":"net1"}]"#);
        assert_eq!(asked(Some(&json!({(key): value}))), None);
        assert_eq!(asked(Some(&json!({}))), None);
    }

    #[test]
    fn routes_lead_beyond_the_link_and_not_into_the_meta_cluster() {
        let spec =
            |vpc: Value| -> ClusterSpec { serde_json::from_value(json!({"version": "1.36.3", "vpc": vpc})).unwrap() };
        let attachment = json!({"name": "vpc-acme"});
        let all = json!([{"dst": "0.0.0.0/0", "via": "172.20.0.1"}]);
        let routed = spec(json!({"attachment": attachment, "addresses": ["172.20.0.2/24"], "routes": all}));
        let link = spec(json!({"attachment": attachment, "addresses": ["172.20.0.2/24"]}));
        let meta = MetaRanges { pods: vec!["10.244.0.0/16".parse().unwrap()], ..MetaRanges::default() };
        let reached = |spec: &ClusterSpec| {
            ["172.20.0.101", "10.50.0.7", "10.244.0.7"].map(|address| leads_to(spec, &meta, address.parse().unwrap()))
        };
        assert_eq!(reached(&link), [true, false, false]);
        assert_eq!(reached(&routed), [true, true, false]);
        assert_eq!(reached(&spec(json!({"attachment": attachment, "host": "a.example"}))), [true, true, false]);
        assert_eq!(reached(&serde_json::from_value(json!({"version": "1.36.3"})).unwrap()), [false; 3]);
    }

    #[test]
    fn an_interface_is_found_among_others() {
        let status = json!([
            {"name": "cbr0", "interface": "eth0", "ips": ["10.1.0.7"], "default": true},
            {"name": "networks/vpc-acme", "interface": "net1", "ips": ["172.20.0.2", "fd00::2"], "mac": "aa:bb"},
        ])
        .to_string();
        assert_eq!(given(&status, "net1"), [Ipv4Addr::from([172, 20, 0, 2])]);
        assert!(given(&status, "net2").is_empty() && given("broken", "net1").is_empty());
    }
}
