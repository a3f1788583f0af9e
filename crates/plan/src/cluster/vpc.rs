//! A tenant's VPC: what pods ask of the network plugin, what it says it gave them, and where nodes find the API.

use super::subject::Tenant;
use super::validate;
use crate::observed::{Observed, annotation, label};
use crate::workload;
use berth_api::cluster::{Cluster, ClusterSpec, Vpc};
use berth_api::conditions::{ConditionType, Reason, Verdict};
use berth_api::{labels, names};
use berth_render::{Binary, Kind};
use ipnet::Ipv4Net;
use serde::Serialize;
use serde_json::Value;
use std::net::{IpAddr, Ipv4Addr};

/// The port of the API in the VPC: no Service is between it and the nodes.
pub(super) const PORT: i32 = 6443;

/// What a pod asks for, and what it got, as the NetworkAttachmentDefinition specification has it.
const NETWORKS: &str = "k8s.v1.cni.cncf.io/networks";
const NETWORK_STATUS: &str = "k8s.v1.cni.cncf.io/network-status";
/// On a definition: the resource that a pod must be given for it.
pub(super) const RESOURCE_NAME: &str = "k8s.v1.cni.cncf.io/resourceName";

/// One element of [`NETWORKS`]. Its bytes are part of pod templates.
#[derive(Serialize)]
struct Selection<'a> {
    name: &'a str,
    namespace: &'a str,
    interface: &'a str,
    ips: [&'a str; 1],
}

/// An address with its prefix length.
pub(super) fn parse(address: &str) -> Option<Ipv4Net> {
    address.parse().ok().filter(|_| address.contains('/'))
}

/// The address without its prefix length.
fn ip(address: &str) -> Option<Ipv4Addr> {
    parse(address).map(|net| net.addr())
}

/// The annotation of the pod with that address.
pub(super) fn networks_annotation(vpc: &Vpc, namespace: &str, address: &str) -> (String, String) {
    let attachment = &vpc.attachment;
    let namespace = attachment.namespace.as_deref().unwrap_or(namespace);
    let one = Selection { name: &attachment.name, namespace, interface: &attachment.interface, ips: [address] };
    (NETWORKS.to_owned(), serde_json::to_string(&[one]).unwrap_or_default())
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
    Some((vpc.host.clone().or_else(first)?, PORT))
}

/// Whether an API server reaches an address over its interface there.
pub(super) fn leads_to(spec: &ClusterSpec, address: IpAddr) -> bool {
    let on_link = |vpc: &Vpc| vpc.addresses.first().and_then(|first| parse(first));
    let IpAddr::V4(address) = address else { return false };
    spec.vpc.as_ref().and_then(on_link).is_some_and(|net| net.contains(&address))
}

/// Names and addresses of the API there, for its certificate.
pub(super) fn names(spec: &ClusterSpec) -> Vec<String> {
    let Some(vpc) = &spec.vpc else { return vec![] };
    let addresses = vpc.addresses.iter().filter_map(|a| ip(a)).map(|ip| ip.to_string());
    addresses.chain(vpc.host.clone()).collect()
}

/// Addresses of the API servers that serve, in the order of the slots. While none does: those that are to.
pub(super) fn serving(t: &Tenant<'_>) -> Vec<IpAddr> {
    let ready = |set: &&Value| workload::rollout(set).serving;
    let workloads = t.workloads(Binary::ApiServer);
    let all: Vec<_> = workloads.live().filter(ready).filter_map(of_workload).map(IpAddr::V4).collect();
    if !all.is_empty() {
        return all;
    }
    let spec = &t.cluster.spec;
    let addresses = spec.vpc.iter().flat_map(|vpc| &vpc.addresses).filter_map(|a| ip(a)).map(IpAddr::V4);
    addresses.take(replicas(spec)).collect()
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
    let judged = validate::vpc::spec(spec).and_then(|()| validate::vpc::resource(t).map(|_| ()));
    if let Err(state) = judged {
        let (reason, message) = state.sentence().unwrap_or((Reason::InvalidSpec, String::new()));
        return of(Some(false), reason, message);
    }
    let replicas = replicas(spec);
    let problem = (0..replicas).find_map(|slot| without_address(t, vpc, slot));
    if let Some((reason, message)) = problem {
        return of(Some(false), reason, message);
    }
    of(Some(true), Reason::AsExpected, format!("{replicas} API servers have their address in the VPC"))
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
    if let Some(problem) = workload::pod_problem(pod) {
        return Some(problem);
    }
    let Some(status) = annotation(pod, NETWORK_STATUS) else {
        return Some((
            Reason::PodsNotReady,
            format!(
                "pod {name} has no annotation {NETWORK_STATUS} yet, so it is not attached to the VPC. If it stays, see that the meta cluster's CNI meta-plugin (such as Multus) runs on its node"
            ),
        ));
    };
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

/// The pod of a slot; of two the one that does not end.
fn pod_of<'a>(observed: &'a Observed, cp_namespace: &'a str, slot: usize) -> Option<&'a Value> {
    let of_slot = |pod: &&Value| label(pod, labels::SLOT) == Some(&*slot.to_string());
    let pods = workload::pods_of(observed, cp_namespace, labels::COMPONENT, names::APISERVER).map(|(_, pod)| pod);
    pods.filter(of_slot).min_by_key(|pod| crate::observed::deleting(pod))
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
            "attachment": {"name": "vpc-acme", "namespace": "networks"}, "addresses": ["172.20.0.2/24"],
        }))
        .unwrap();
        let (key, value) = networks_annotation(&vpc, "team-a", "172.20.0.2/24");
        assert_eq!(value, r#"[{"name":"vpc-acme","namespace":"networks","interface":"net1","ips":["172.20.0.2/24"]}]"#);
        assert_eq!(asked(Some(&json!({(key): value}))), Some([172, 20, 0, 2].into()));
        assert_eq!(asked(Some(&json!({}))), None);
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
