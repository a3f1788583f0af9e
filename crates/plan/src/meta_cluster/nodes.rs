//! What nodes of the meta cluster say of themselves.

use super::addresses::network;
use ipnet::IpNet;
use serde_json::Value;

/// Why pods cannot count on image volumes, if so. An empty list of nodes gives no reason to count on them.
///
/// On by default from kubelet 1.35. containerd has them from 2.1, CRI-O without `noexec` from 1.35. Of other runtimes we do not know.
pub fn no_image_volumes(nodes: &[Value]) -> Option<String> {
    if nodes.is_empty() {
        return Some("there are no nodes yet".into());
    }
    nodes.iter().find_map(|node| {
        let info = |name: &str| node["status"]["nodeInfo"][name].as_str().unwrap_or_default();
        let (kubelet, runtime) = (info("kubeletVersion"), info("containerRuntimeVersion"));
        let mounts = match runtime.split_once("://") {
            Some(("containerd", version)) => at_least(version, (2, 1)),
            Some(("cri-o", version)) => at_least(version, (1, 35)),
            _ => false,
        };
        let fit = mounts && at_least(kubelet, (1, 35)) && info("operatingSystem") == "linux";
        let name = node["metadata"]["name"].as_str().unwrap_or_default();
        (!fit).then(|| format!("node {name}: kubelet {kubelet}, {runtime}"))
    })
}

/// The ranges of their pods. Where there are no nodes there are no pods.
///
/// # Errors
///
/// There are nodes, and none says a range: its pods get their addresses from elsewhere.
pub fn pod_ranges(nodes: &[Value]) -> Result<Vec<IpNet>, String> {
    let ranges = merged(nodes.iter().flat_map(|n| strings(&n["spec"]["podCIDRs"])));
    if ranges.is_empty() && !nodes.is_empty() {
        return Err("no node has a spec.podCIDR; set meta.podCIDRs in the chart's values".into());
    }
    Ok(ranges)
}

/// Their own addresses.
pub fn addresses(nodes: &[Value]) -> Vec<IpNet> {
    let all = nodes.iter().flat_map(|n| n["status"]["addresses"].as_array().into_iter().flatten());
    let of_ip = all.filter(|a| matches!(a["type"].as_str(), Some("InternalIP" | "ExternalIP")));
    merged(of_ip.filter_map(|a| a["address"].as_str()))
}

/// The ranges of `ServiceCIDR` objects.
pub fn service_ranges(objects: &[Value]) -> Vec<IpNet> {
    merged(objects.iter().flat_map(|o| strings(&o["spec"]["cidrs"])))
}

/// The addresses in an `EndpointSlice`.
pub fn endpoints(slice: &Value) -> Vec<IpNet> {
    merged(slice["endpoints"].as_array().into_iter().flatten().flat_map(|e| strings(&e["addresses"])))
}

/// Merged and sorted, so that the same nodes in another order are no change.
fn merged<'a>(all: impl Iterator<Item = &'a str>) -> Vec<IpNet> {
    let mut merged = IpNet::aggregate(&all.filter_map(network).collect());
    merged.sort_unstable();
    merged
}

fn strings(list: &Value) -> impl Iterator<Item = &str> {
    list.as_array().into_iter().flatten().filter_map(Value::as_str)
}

fn at_least(version: &str, minor: (u64, u64)) -> bool {
    let mut parts = version.trim_start_matches('v').split('.').map(str::parse::<u64>);
    match (parts.next(), parts.next()) {
        (Some(Ok(major)), Some(Ok(found))) => (major, found) >= minor,
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_node_has_image_volumes_from_the_versions_that_have_them_on() {
        let why = |kubelet: &str, runtime: &str| {
            let info =
                json!({"kubeletVersion": kubelet, "containerRuntimeVersion": runtime, "operatingSystem": "linux"});
            no_image_volumes(&[json!({"metadata": {"name": "n"}, "status": {"nodeInfo": info}})])
        };
        let has = |kubelet: &str, runtime: &str| why(kubelet, runtime).is_none();
        assert!(has("v1.36.3", "containerd://2.1.0"));
        assert!(has("v1.35.0-gke.100", "containerd://2.4.2"));
        assert!(has("v1.35.2+k3s1", "cri-o://1.35.0"));
        assert!(!has("v1.34.9", "containerd://2.4.2"));
        assert!(!has("v1.36.3", "containerd://2.0.9"));
        assert!(!has("v1.36.3", "containerd://1.7.30"));
        assert!(!has("v1.36.3", "cri-o://1.34.2"));
        assert_eq!(why("v1.36.3", "docker://29.0.0").unwrap(), "node n: kubelet v1.36.3, docker://29.0.0");
        assert!(!has("", ""));
        assert!(no_image_volumes(&[]).is_some());
    }

    #[test]
    fn nodes_of_which_none_says_where_pods_are_are_no_answer() {
        let (silent, empty) = (json!({"spec": {}}), json!({"spec": {"podCIDRs": []}}));
        for none in [&[silent.clone()][..], &[silent.clone(), empty]] {
            assert!(pod_ranges(none).unwrap_err().contains("meta.podCIDRs"));
        }
        let says = json!({"spec": {"podCIDRs": ["10.1.0.0/24"]}});
        assert_eq!(pod_ranges(&[silent, says]).unwrap(), [network("10.1.0.0/24").unwrap()]);
        assert_eq!(pod_ranges(&[]).unwrap(), []);
    }

    #[test]
    fn addresses_are_merged_and_in_order() {
        let node = |ip: &str, pods: &str| {
            let addresses = json!([{"type": "InternalIP", "address": ip}, {"type": "Hostname", "address": "10.9.9.9"}]);
            json!({"spec": {"podCIDRs": [pods]}, "status": {"addresses": addresses}})
        };
        let nodes = [node("10.0.0.3", "10.1.1.0/24"), node("10.0.0.2", "10.1.0.0/24")];
        assert_eq!(pod_ranges(&nodes).unwrap(), [network("10.1.0.0/23").unwrap()]);
        assert_eq!(addresses(&nodes), [network("10.0.0.2/31").unwrap()]);
        assert_eq!(service_ranges(&[json!({"spec": {"cidrs": ["10.2.0.0/16"]}})]), [network("10.2.0.0/16").unwrap()]);
        let slice = json!({"endpoints": [{"addresses": ["10.0.0.2"]}]});
        assert_eq!(endpoints(&slice), [network("10.0.0.2").unwrap()]);
    }
}
