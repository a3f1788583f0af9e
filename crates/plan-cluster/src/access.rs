//! How `berth-access`, which is one login for all tenants, gets into one of them.

use crate::components::Workloads;
use crate::endpoint::authority;
use crate::ours::is_ours;
use berth_api::access::{ACCESS, Reason, Refused};
use berth_api::cluster::EndpointType;
use berth_api::gateway::{ANNOTATION, Exposed};
use berth_api::{Cluster, labels, names};
use berth_plan::object_meta::{annotation, deleting, label};
use berth_plan::observed::Observed;
use berth_render::{Binary, Kind, ObjectKey};
use kube_core::ResourceExt as _;
use serde_json::Value;

/// A way in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Door {
    /// Host and port.
    pub address: String,
    /// The name in the certificates of API servers.
    pub server_name: String,
    /// The Secret of the CA that those are of.
    pub ca: ObjectKey,
    /// The Secret of the CA that signs for front proxies.
    pub signer: ObjectKey,
}

/// What is read for it.
pub fn behind_door(cluster: &Cluster) -> Vec<ObjectKey> {
    let (name, cp_namespace) = (cluster.name_any(), control_plane(cluster));
    let key = |kind, name: String| ObjectKey::namespaced(kind, &*cp_namespace, name);
    let [ca, signer] = [names::ca(&name), names::proxy_ca(&name)].map(|name| key(Kind::Secret, name));
    let service = key(Kind::Service, names::APISERVER.to_owned());
    let namespace = ObjectKey::cluster(Kind::Namespace, cp_namespace.clone());
    let nothing = Observed::default();
    let servers = Workloads::seen(cluster, &nothing, &cp_namespace, Binary::ApiServer).keys().to_vec();
    [namespace, service, ca, signer].into_iter().chain(servers).collect()
}

/// The way into that tenant, from what was read. `gateway`: where the platform's gateway is found.
///
/// # Errors
/// Why there is none, for whoever calls.
pub fn door(cluster: &Cluster, observed: &Observed, gateway: Option<&str>) -> Result<Door, Refused> {
    let (team, name, cp_namespace) =
        (cluster.namespace().unwrap_or_default(), cluster.name_any(), control_plane(cluster));
    let key = |kind, name: String| ObjectKey::namespaced(kind, &*cp_namespace, name);
    let refused = |reason, message: String| Err(Refused { reason, message });
    let not_ready = |what: &str| {
        let message = format!(
            "the tenant {name} has no {what} yet: kubectl -n {team} describe cluster {name} says what it waits for"
        );
        refused(Reason::NotReady, message)
    };
    // Whoever makes a namespace of that name beforehand gets nobody's calls.
    let namespace = observed.get(&ObjectKey::cluster(Kind::Namespace, cp_namespace.clone()));
    let is_its = |namespace: &&Value| {
        let says = |key, value: &str| label(namespace, key) == Some(value);
        is_ours(namespace) && says(labels::CLUSTER_NAME, &name) && says(labels::CLUSTER_NAMESPACE, &team)
    };
    if namespace.filter(is_its).is_none_or(deleting) {
        return not_ready("control plane");
    }
    let servers = Workloads::seen(cluster, observed, &cp_namespace, Binary::ApiServer).that(is_ours);
    if servers.first().is_none() {
        return not_ready("API server");
    }
    if !servers.live().all(believes) {
        let message = format!(
            "the API servers of the tenant {name} are of templates from before berth-access: set spec.upgrade.templates of the Cluster \
             {team}/{name} to Newest, or take its next version"
        );
        return refused(Reason::NotInTemplates, message);
    }
    let service = observed.get(&key(Kind::Service, names::APISERVER.to_owned())).filter(|service| is_ours(service));
    let [ca, signer] = [names::ca(&name), names::proxy_ca(&name)].map(|name| key(Kind::Secret, name));
    let Some((address, server_name)) = service.and_then(|service| {
        let is_behind = cluster.spec.endpoint.type_ == EndpointType::Gateway;
        let at_gateway = gateway.filter(|_| is_behind).zip(name_there(service));
        at_gateway.map(|(gateway, name)| (gateway.to_owned(), name)).or_else(|| inside(service, &cp_namespace))
    }) else {
        return not_ready("address");
    };
    Ok(Door { address, server_name, ca, signer })
}

fn control_plane(cluster: &Cluster) -> String {
    names::control_plane_namespace(&cluster.namespace().unwrap_or_default(), &cluster.name_any())
}

/// Whether API servers of that workload take a name from `berth-access`.
fn believes(workload: &Value) -> bool {
    let containers = workload.pointer("/spec/template/spec/containers").and_then(Value::as_array);
    let mut args =
        containers.into_iter().flatten().filter_map(|c| c["args"].as_array()).flatten().filter_map(Value::as_str);
    let names = args.find_map(|arg| arg.strip_prefix("--requestheader-allowed-names="));
    names.is_some_and(|names| names.split(',').any(|name| name == ACCESS))
}

/// Through the gateway a call counts as one of the tenant's connections, as all others.
fn name_there(service: &Value) -> Option<String> {
    let exposed: Exposed = serde_json::from_str(annotation(service, ANNOTATION)?).ok()?;
    exposed.names.into_iter().next()
}

fn inside(service: &Value, cp_namespace: &str) -> Option<(String, String)> {
    let address = service.pointer("/spec/clusterIP")?.as_str().filter(|ip| !["", "None"].contains(ip))?;
    let port = i32::try_from(service.pointer("/spec/ports/0/port")?.as_i64()?).ok()?;
    Some((authority(address, port), format!("{}.{cp_namespace}.svc", names::APISERVER)))
}
