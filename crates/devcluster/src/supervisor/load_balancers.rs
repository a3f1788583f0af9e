//! Addresses for Services of type LoadBalancer, from the cluster's pool. kube-proxy does the rest.

use std::{collections::BTreeSet, net::Ipv4Addr};

use anyhow::{Context, Result};
use k8s_openapi::api::core::v1::Service;
use kube::{
    Api, Client, ResourceExt,
    api::{ListParams, Patch, PatchParams},
};
use serde_json::{Value, json};

use super::Next;
use crate::{api::MANAGER, slot::Slot};

/// The class that this answers to, beside none at all.
const CLASS: &str = "devcluster";

/// Gives every Service that lacks one an address. An address is free when no Service shows it, so one that was deleted
/// gives its address back by being gone.
pub(super) async fn reconcile(client: &Client, slot: Slot) -> Result<Next> {
    let services = Api::<Service>::all(client.clone()).list(&ListParams::default()).await?.items;
    let pool: Vec<_> = slot.load_balancer_addresses().collect();
    for service in services.iter().filter(|s| !is_load_balancer(s) && address(s).is_some_and(|a| pool.contains(&a))) {
        set(client, service, json!(null)).await?;
    }
    for (service, address) in assign(&services, &pool) {
        set(client, service, json!([{"ip": address.to_string(), "ipMode": "VIP"}])).await?;
    }
    Ok(Next::OnChange)
}

/// Writes the addresses into a Service's status; one that has changed or gone is left to the next reconcile.
async fn set(client: &Client, service: &Service, ingress: Value) -> Result<()> {
    let (namespace, name) = (service.namespace().unwrap_or_default(), service.name_any());
    eprintln!("load balancers: {namespace}/{name}: {ingress}");
    let status = json!({
        "metadata": {"uid": service.uid(), "resourceVersion": service.resource_version()},
        "status": {"loadBalancer": {"ingress": ingress}}
    });
    let parameters = PatchParams { field_manager: Some(MANAGER.to_owned()), ..PatchParams::default() };
    let api = Api::<Service>::namespaced(client.clone(), &namespace);
    match api.patch_status(&name, &parameters, &Patch::Merge(status)).await {
        Ok(_) => Ok(()),
        Err(kube::Error::Api(e)) if e.is_not_found() || e.is_conflict() => Ok(()),
        Err(e) => Err(e).with_context(|| format!("cannot write the addresses of {namespace}/{name}")),
    }
}

/// Pure: which Service gets which address.
fn assign<'a>(services: &'a [Service], pool: &[Ipv4Addr]) -> Vec<(&'a Service, Ipv4Addr)> {
    let mut taken: BTreeSet<Ipv4Addr> = services.iter().filter_map(address).collect();
    let mut assigned = Vec::new();
    for service in services.iter().filter(|s| is_ours(s) && address(s).is_none()) {
        let wanted: Option<Ipv4Addr> =
            service.spec.as_ref().and_then(|spec| spec.load_balancer_ip.as_ref()?.parse().ok());
        let free = |address: &Ipv4Addr| !taken.contains(address);
        let found = match wanted {
            Some(wanted) => pool.iter().copied().find(|a| *a == wanted).filter(free),
            None => pool.iter().copied().find(free),
        };
        if let Some(found) = found {
            taken.insert(found);
            assigned.push((service, found));
        }
    }
    assigned
}

fn is_ours(service: &Service) -> bool {
    let class = service.spec.as_ref().and_then(|spec| spec.load_balancer_class.as_deref());
    is_load_balancer(service)
        && class.is_none_or(|class| class == CLASS)
        && service.metadata.deletion_timestamp.is_none()
}

fn is_load_balancer(service: &Service) -> bool {
    service.spec.as_ref().and_then(|spec| spec.type_.as_deref()) == Some("LoadBalancer")
}

fn address(service: &Service) -> Option<Ipv4Addr> {
    service.status.as_ref()?.load_balancer.as_ref()?.ingress.as_ref()?.first()?.ip.as_ref()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn service(name: &str, spec: &Value, address: Option<&str>) -> Service {
        let ingress = address.map(|ip| vec![json!({"ip": ip})]).unwrap_or_default();
        serde_json::from_value(json!({
            "metadata": {"name": name},
            "spec": spec,
            "status": {"loadBalancer": {"ingress": ingress}}
        }))
        .unwrap()
    }

    #[test]
    fn each_service_gets_one_free_address() {
        let pool: Vec<Ipv4Addr> = (1..=3).map(|n| Ipv4Addr::new(10, 0, 0, n)).collect();
        let services = [
            service("cluster-ip", &json!({"type": "ClusterIP"}), None),
            service("has-one", &json!({"type": "LoadBalancer"}), Some("10.0.0.1")),
            service("another-class", &json!({"type": "LoadBalancer", "loadBalancerClass": "cloud"}), None),
            service("asks", &json!({"type": "LoadBalancer", "loadBalancerIP": "10.0.0.2"}), None),
            service("ours", &json!({"type": "LoadBalancer", "loadBalancerClass": "devcluster"}), None),
            service("too-many", &json!({"type": "LoadBalancer"}), None),
        ];
        let assigned: Vec<_> = assign(&services, &pool).iter().map(|(s, a)| format!("{} {a}", s.name_any())).collect();
        assert_eq!(assigned, ["asks 10.0.0.2", "ours 10.0.0.3"]);
    }
}
