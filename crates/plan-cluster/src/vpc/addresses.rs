//! Addresses in a VPC: what the spec gives, and what workloads ask for.

use berth_api::cluster::ClusterSpec;
use berth_plan::meta_cluster::addresses::{Closed, MetaRanges};
use ipnet::{IpNet, Ipv4Net};
use serde_json::Value;
use std::net::{IpAddr, Ipv4Addr};

/// The port of the API in the VPC: no Service is between it and the nodes.
pub(crate) const PORT: i32 = 6443;

/// What a pod asks for, as the NetworkAttachmentDefinition specification has it.
pub(super) const NETWORKS: &str = "k8s.v1.cni.cncf.io/networks";

/// What Berth fills in, in annotations and labels of pods.
pub(crate) const FILLED: [&str; 3] = ["$(IP)", "$(ADDRESS)", "$(SLOT)"];
/// On a definition: the resource that a pod must be given for it.
pub(crate) const RESOURCE_NAME: &str = "k8s.v1.cni.cncf.io/resourceName";

/// An address with its prefix length.
pub(crate) fn parse(address: &str) -> Option<Ipv4Net> {
    address.parse().ok().filter(|_| address.contains('/'))
}

/// The address without its prefix length.
pub(super) fn ip(address: &str) -> Option<Ipv4Addr> {
    parse(address).map(|net| net.addr())
}

/// The address that a pod, or a workload's pod template, asks for.
pub(super) fn asked(annotations: Option<&Value>) -> Option<Ipv4Addr> {
    let text = annotations?.get(NETWORKS)?.as_str()?;
    let all: Value = serde_json::from_str(text).ok()?;
    ip(all.pointer("/0/ips/0")?.as_str()?)
}

/// The address that a workload's pods ask for.
pub(crate) fn of_workload(workload: &Value) -> Option<Ipv4Addr> {
    asked(workload.pointer("/spec/template/metadata/annotations"))
}

/// Host and port for the tenant's nodes, if it has a VPC.
pub(crate) fn endpoint(spec: &ClusterSpec) -> Option<(String, i32)> {
    let vpc = spec.vpc.as_ref()?;
    let first = || ip(vpc.addresses.first()?).map(|ip| ip.to_string());
    Some((vpc.host.clone().or_else(|| vpc.virtual_ip.clone()).or_else(first)?, PORT))
}

/// Whether an API server reaches an address over its interface there: on the link, or by a route, which leads to nothing of the meta
/// cluster. Where the provider chooses addresses nobody knows what is on the link.
pub(crate) fn leads_to(spec: &ClusterSpec, meta: &MetaRanges, address: IpAddr) -> bool {
    let (Some(vpc), IpAddr::V4(v4)) = (&spec.vpc, address) else { return false };
    let on_link = vpc.addresses.first().is_none_or(|first| parse(first).is_some_and(|net| net.contains(&v4)));
    let routed = vpc.routes.iter().any(|route| route.dst.parse().is_ok_and(|net: Ipv4Net| net.contains(&v4)));
    (on_link || routed) && meta.forbidden(IpNet::from(address), Closed::Nothing).is_some()
}

/// Names and addresses of the API there, for its certificate.
pub(crate) fn names(spec: &ClusterSpec) -> Vec<String> {
    let Some(vpc) = &spec.vpc else { return vec![] };
    let addresses = vpc.addresses.iter().filter_map(|a| ip(a)).map(|ip| ip.to_string());
    addresses.chain(vpc.virtual_ip.clone()).chain(vpc.host.clone()).collect()
}

/// API servers at rest.
pub(crate) fn replicas(spec: &ClusterSpec) -> usize {
    usize::try_from(spec.api_server.replicas.unwrap_or(spec.replicas)).unwrap_or(1).max(1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::vpc::ask;
    use berth_api::cluster::Vpc;
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
}
