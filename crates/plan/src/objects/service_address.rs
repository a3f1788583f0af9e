//! A Service that was deleted is made again with its address, since kubeconfigs, certificates and pods have it.

use crate::model::{Action, Stage};
use crate::object_meta::annotation;
use crate::observed::Observed;
use berth_api::labels;
use berth_render::{Object, ObjectKey};
use serde_json::Value;
use std::collections::BTreeMap;
use std::net::IpAddr;

/// Where a Service was, as far as something still says so.
#[derive(Clone, Copy, Debug, Default)]
pub struct ServiceAddress {
    /// Its ClusterIP.
    pub cluster_ip: Option<IpAddr>,
    /// The port on each node of its first port.
    pub node_port: Option<i32>,
}

/// What of an address that a Service asked for is not to be had.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RefusedAddress {
    /// Its ClusterIP.
    pub cluster_ip: bool,
    /// Ports on nodes that it asked for: why not, in the API server's words.
    pub node_ports: BTreeMap<i32, String>,
}

impl RefusedAddress {
    /// What the API server refuses of a Service, by its sentence. None: nothing of its address.
    pub fn told(service: &Object, sentence: &str) -> Option<Self> {
        const PORT: &str = "nodePort: Invalid value: ";
        let asks_for_address = service.value()["spec"]["clusterIP"].is_string();
        let port = service.get("/spec/ports/0/nodePort").and_then(Value::as_i64).and_then(|n| i32::try_from(n).ok());
        let why =
            |(_, why): (&str, &str)| why.split_once(": ").map_or(why, |(_, why)| why).trim_end_matches(']').to_owned();
        let node_ports: BTreeMap<_, _> = port.zip(sentence.split_once(PORT).map(why)).into_iter().collect();
        let cluster_ip = asks_for_address && sentence.contains("spec.clusterIP");
        (cluster_ip || !node_ports.is_empty()).then_some(Self { cluster_ip, node_ports })
    }

    /// Both.
    pub fn and(&mut self, more: Self) {
        self.cluster_ip |= more.cluster_ip;
        self.node_ports.extend(more.node_ports);
    }
}

/// Has a Service that is made now ask for its former address, unless that was refused already; says of one that is there if it lost it.
/// Once it is made nothing asks for the address any more: it stays, and is no part of what Berth sets.
pub fn keep(stage: &mut Stage, observed: &Observed, service: &ObjectKey, former: impl FnOnce() -> ServiceAddress) {
    if let Some(live) = observed.get(service) {
        stage.notes.extend(lost(service, live));
        return;
    }
    let new = stage.actions.iter_mut().find_map(|action| match action {
        Action::Apply(object) if object.key() == service => Some(object),
        _ => None,
    });
    if let Some(object) = new
        && let Ok(asking) = asking(object, &former(), observed)
    {
        *object = asking;
    }
}

fn asking(object: &Object, former: &ServiceAddress, observed: &Observed) -> Result<Object, String> {
    let ranges = observed.meta.addresses.as_ref().map_or(&[][..], |all| &all.services);
    let fits = |ip: &IpAddr| ranges.is_empty() || ranges.iter().any(|range| range.contains(ip));
    let cluster_ip = former.cluster_ip.filter(fits);
    let mut value = object.value().clone();
    let refused = observed.refused_addresses.get(object.key()).cloned().unwrap_or_default();
    match cluster_ip {
        Some(ip) if refused.cluster_ip => {
            value["metadata"]["annotations"][labels::FORMER_ADDRESS] = ip.to_string().into();
        }
        Some(ip) if value["spec"]["clusterIP"].is_null() => value["spec"]["clusterIP"] = ip.to_string().into(),
        _ => {}
    }
    let may_ask = object.value()["spec"]["type"] == "NodePort" && object.get("/spec/ports/0/nodePort").is_none();
    if let Some(port) = former.node_port.filter(|port| may_ask && !refused.node_ports.contains_key(port)) {
        value["spec"]["ports"][0]["nodePort"] = port.into();
    }
    Object::new(value)
}

fn lost(service: &ObjectKey, live: &Value) -> Option<String> {
    let (former, now) = (annotation(live, labels::FORMER_ADDRESS)?, live["spec"]["clusterIP"].as_str()?);
    (former != now).then(|| {
        format!(
            "{service} was deleted, and its address {former} could not be allocated again: it has {now} now. Tell users of the old one, such as owners of kubeconfigs; then remove the annotation {} from the Service",
            labels::FORMER_ADDRESS
        )
    })
}

/// The address that the pods of a workload know a host by.
pub fn of_host(workload: &Value, host: &str) -> Option<IpAddr> {
    let aliases = workload.pointer("/spec/template/spec/hostAliases")?.as_array()?;
    let names = |alias: &&Value| alias["hostnames"].as_array().is_some_and(|all| all.iter().any(|name| name == host));
    aliases.iter().find(names)?["ip"].as_str()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn what_is_refused_is_read_from_the_sentence() {
        let service = |spec: Value| {
            Object::new(json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": "a", "namespace": "b"}, "spec": spec})).unwrap()
        };
        let asks = service(json!({"clusterIP": "10.96.0.9", "ports": [{"port": 1, "nodePort": 30443}]}));
        let port = "spec.ports[0].nodePort: Invalid value: 30443: provided port is already allocated";
        let range = "spec.ports[0].nodePort: Invalid value: 80: provided port is not in the valid range. The range of valid ports is 30000-32767";
        let ip = r#"spec.clusterIPs: Invalid value: ["10.96.0.9"]: failed to allocate IP 10.96.0.9: provided IP is already allocated"#;
        let told = |sentence: &str| RefusedAddress::told(&asks, &format!("Service \"a\" is invalid: {sentence}"));
        let of = |cluster_ip, port: Option<&str>| {
            let node_ports = port.map(|why| (30443, why.to_owned())).into_iter().collect();
            Some(RefusedAddress { cluster_ip, node_ports })
        };
        assert_eq!(told(port), of(false, Some("provided port is already allocated")));
        let valid = "provided port is not in the valid range. The range of valid ports is 30000-32767";
        assert_eq!(told(range), of(false, Some(valid)));
        assert_eq!(told(ip), of(true, None));
        assert_eq!(told(&format!("[{ip}, {port}]")), of(true, Some("provided port is already allocated")));
        assert_eq!(told("spec.ports: Required value"), None);
        // What it did not ask for is another matter.
        let plain = service(json!({"ports": [{"port": 1}]}));
        assert_eq!(RefusedAddress::told(&plain, port), None);
        assert_eq!(RefusedAddress::told(&plain, ip), None);
    }
}
