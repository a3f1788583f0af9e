//! A Service that was deleted is made again with its address, since kubeconfigs, certificates and pods have it.

use crate::model::{Action, Stage};
use crate::observed::{Observed, annotation};
use berth_api::labels;
use berth_render::{Object, ObjectKey};
use serde_json::Value;
use std::net::IpAddr;

/// Where a Service was, as far as something still says so.
#[derive(Clone, Copy, Debug, Default)]
pub struct ServiceAddress {
    /// Its ClusterIP.
    pub cluster_ip: Option<IpAddr>,
    /// The port on each node of its first port.
    pub node_port: Option<i32>,
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
    if observed.refused_addresses.contains(object.key()) {
        if let Some(ip) = cluster_ip {
            value["metadata"]["annotations"][labels::FORMER_ADDRESS] = ip.to_string().into();
        }
        return Object::new(value);
    }
    if let Some(ip) = cluster_ip.filter(|_| value["spec"]["clusterIP"].is_null()) {
        value["spec"]["clusterIP"] = ip.to_string().into();
    }
    if let (Some(port), "NodePort") = (former.node_port, value["spec"]["type"].as_str().unwrap_or_default()) {
        value["spec"]["ports"][0]["nodePort"] = port.into();
    }
    Object::new(value)
}

fn lost(service: &ObjectKey, live: &Value) -> Option<String> {
    let (former, now) = (annotation(live, labels::FORMER_ADDRESS)?, live["spec"]["clusterIP"].as_str()?);
    (former != now).then(|| {
        format!(
            "{service} was deleted, and its address {former} could not be allocated again: it has {now} now. Tell whoever knows the old one, such as owners of kubeconfigs; then remove the annotation {} from the Service",
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
