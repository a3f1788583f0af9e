//! Which addresses API servers have in a VPC.

use super::addresses::{asked, ip, of_workload, replicas};
use crate::subject::Tenant;
use berth_api::cluster::{Cluster, Vpc};
use berth_api::{labels, names};
use berth_plan::object_meta::{annotation, label};
use berth_plan::observed::Observed;
use berth_plan::workload;
use berth_render::{Binary, Kind};
use serde_json::Value;
use std::net::{IpAddr, Ipv4Addr};

/// What a pod got, as the NetworkAttachmentDefinition specification has it.
pub(super) const NETWORK_STATUS: &str = "k8s.v1.cni.cncf.io/network-status";

/// Whether the container `vpc` is in the pods: where an admission policy holds them in place of Pod Security. For a namespace that is not
/// there yet: whether it will be.
pub(crate) fn pods_are_held(t: &Tenant<'_>) -> bool {
    let says = |live: &Value, name: &str, value: &str| label(live, name) == Some(value);
    t.live_namespace().map_or(t.cluster.spec.vpc.is_some(), |live| {
        says(live, labels::VPC, "true") && says(live, labels::POD_SECURITY, "privileged")
    })
}

/// Where the tenant's own `kubernetes` Service leads to: the address that moves; or addresses of the API servers that serve, in the order
/// of the slots, and while none does, of those that are to.
pub(crate) fn serving(t: &Tenant<'_>) -> Vec<IpAddr> {
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
pub(super) fn of_pods(t: &Tenant<'_>, vpc: &Vpc) -> Vec<IpAddr> {
    let ready = pods(t).filter(|pod| workload::pod_ready(pod)).filter_map(|pod| annotation(pod, NETWORK_STATUS));
    let mut all: Vec<_> = ready.flat_map(|status| given(status, &vpc.attachment.interface)).map(IpAddr::V4).collect();
    all.sort_unstable();
    all
}

pub(super) fn pods<'a>(t: &'a Tenant<'_>) -> impl Iterator<Item = &'a Value> {
    workload::pods_of(t.observed, &t.cp_namespace, labels::COMPONENT, names::APISERVER).map(|(_, pod)| pod)
}

/// Who else has the address of a slot: a workload that is there and asks for it, or a pod.
pub(crate) fn holder(t: &Tenant<'_>, slot: usize, address: &str) -> Option<String> {
    let (wanted, own) = (ip(address)?, slot.to_string());
    let another = |o: &Value| label(o, labels::SLOT).is_some_and(|slot| slot != own);
    let all = |kind| t.observed.of_kind(kind, &t.cp_namespace).filter(move |(_, o)| another(o));
    let sets = all(Kind::StatefulSet).filter(|(_, set)| of_workload(set) == Some(wanted));
    let pods = all(Kind::Pod).filter(|(_, pod)| asked(pod.pointer("/metadata/annotations")) == Some(wanted));
    sets.chain(pods).map(|(key, _)| key.to_string()).next()
}

/// Addresses that the network plugin says an interface has.
pub(super) fn given(status: &str, interface: &str) -> Vec<Ipv4Addr> {
    let all: Vec<Value> = serde_json::from_str(status).unwrap_or_default();
    let ips = all.iter().filter(|one| one["interface"] == interface).filter_map(|one| one["ips"].as_array()).flatten();
    ips.filter_map(|ip| ip.as_str()?.split('/').next()?.parse().ok()).collect()
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

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

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
