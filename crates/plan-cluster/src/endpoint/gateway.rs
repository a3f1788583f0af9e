//! What the platform's gateway is told of a tenant: the names that lead to it.

use super::hibernates::hibernates;
use super::route;
use crate::ours::is_ours;
use crate::subject::Tenant;
use berth_api::cluster::EndpointType;
use berth_api::conditions::Reason;
use berth_api::gateway::{ANNOTATION, ClusterName, Exposed, LABEL, LABELLED, comparable};
use berth_api::names;
use berth_plan::gateway_hosts;
use berth_plan::model::State;
use berth_plan::object_meta::{annotation, label};
use berth_render::{Kind, Object};

/// Names that stay with a tenant that has given them up.
const FORMER: usize = 16;

/// What the gateway is told. None: the tenant is not to be behind it.
pub(super) fn exposed(t: &Tenant<'_>) -> Result<Option<Exposed>, State> {
    let told = told(t);
    if t.cluster.spec.endpoint.type_ != EndpointType::Gateway {
        // Until kubeconfigs have another address.
        return Ok(told.filter(|told| leads_to_handed_out(t, told)));
    }
    let host = t.endpoint.host.clone()?;
    let own = t.endpoint.behind.as_ref().map(|(own, _)| own.clone());
    let mut all: Vec<String> = vec![];
    // A name that kubeconfigs have stays among them until these have another one. It is not enough that they have it: another type takes any
    // host.
    let handed_out = told.as_ref().filter(|told| leads_to_handed_out(t, told)).and_then(|_| t.endpoint.handed_out_at());
    for name in own.into_iter().chain(host).chain(handed_out.map(|(host, _)| host)).map(|name| comparable(&name)) {
        if !all.contains(&name) {
            all.push(name);
        }
    }
    let former_names = told.map(|told| former(t, &told, &all)).unwrap_or_default();
    let cluster = ClusterName { namespace: t.namespace.to_owned(), name: t.name.to_owned() };
    let asked = &t.cluster.spec.endpoint.gateway;
    let range = |text: &String| text.parse().map_err(|_| no_range(text));
    let source_ranges = asked.source_ranges.as_ref().map(|all| all.iter().map(range).collect()).transpose()?;
    let max_connections = asked.max_connections.and_then(|most| most.try_into().ok());
    let hibernation = hibernates(t);
    Ok(Some(Exposed { cluster, names: all, former_names, source_ranges, max_connections, hibernation }))
}

/// What the Service says: what leads to the tenant, and names that its route has not lost yet. Until it has, no other tenant gets them, since of two
/// routes with a name the older one has it.
pub(super) fn held(t: &Tenant<'_>, exposed: Option<&Exposed>) -> Option<Exposed> {
    let Some(told) = told(t) else { return exposed.cloned() };
    let in_route = |name: &String| told.names.contains(name) && route::leads(t, name);
    let Some(exposed) = exposed else {
        let names: Vec<String> = told.names.iter().filter(|name| in_route(name)).cloned().collect();
        return (!names.is_empty()).then_some(Exposed { names, former_names: vec![], ..told });
    };
    let mut all = exposed.clone();
    all.names.extend(told.names.iter().filter(|name| in_route(name) && !exposed.names.contains(name)).cloned());
    all.former_names.retain(|name| !all.names.contains(name));
    Some(all)
}

/// Names that the gateway was told and that the certificate has, as it has for as long as it is not renewed: who has an older kubeconfig, as nodes
/// do, is still served.
fn former(t: &Tenant<'_>, told: &Exposed, now: &[String]) -> Vec<String> {
    let live = t.observed.pair(&t.secret(names::APISERVER_PKI), "apiserver").and_then(Result::ok);
    let is_served = |name: &String| live.is_some_and(|certificate| certificate.dns_names.contains(name));
    let before = told.names.iter().chain(&told.former_names).map(|name| comparable(name));
    let mut former: Vec<String> = before.filter(|name| !now.contains(name) && is_served(name)).take(FORMER).collect();
    former.sort_unstable();
    former.dedup();
    former
}

/// What is no range must not let everybody in.
fn no_range(text: &str) -> State {
    let why = format!(
        "spec.endpoint.gateway.sourceRanges: {text} is no network in CIDR form. Set one such as 203.0.113.0/24"
    );
    State::blocked(Reason::InvalidSpec, why)
}

/// The namespace of Berth's own gateway, if the platform wants clients to come through gateways alone and no kubeconfig leads past these.
pub(crate) fn only_from<'a>(t: &'a Tenant<'_>) -> Option<&'a str> {
    let namespace = t.settings.gateway.as_ref()?.only_from.as_deref()?;
    let asked = t.cluster.spec.endpoint.type_ == EndpointType::Gateway;
    (asked && leads_to_handed_out(t, &told(t)?)).then_some(namespace)
}

/// What it is told so far.
fn told(t: &Tenant<'_>) -> Option<Exposed> {
    let service = t.get(Kind::Service, names::APISERVER).filter(|service| is_ours(service))?;
    let text = annotation(service, ANNOTATION).filter(|_| label(service, LABEL) == Some(LABELLED))?;
    serde_json::from_str(text).ok()
}

/// Whether the kubeconfigs that were handed out name one of these.
fn leads_to_handed_out(t: &Tenant<'_>, told: &Exposed) -> bool {
    t.endpoint.handed_out_at().is_some_and(|(host, _)| told.names.contains(&comparable(&host)))
}

/// The Service with what the gateway is told, and by which hosts another tenant finds that they are taken: the one that is asked for, and those that
/// lead to the tenant until all is changed.
pub(super) fn tell(t: &Tenant<'_>, service: Object, exposed: &Exposed, host: Option<&str>) -> Result<Object, State> {
    let text = serde_json::to_string(exposed).map_err(|e| State::blocked(Reason::Error, e.to_string()))?;
    let label = |service: Object, label: &str, value: &str| service.with_field("/metadata/labels", label, value.into());
    let mut service = label(service, LABEL, LABELLED).with_annotation(ANNOTATION, &text);
    let own = t.settings.gateway.as_ref().map(|gateway| gateway.name(&t.cp_namespace));
    let asked = host.map(comparable);
    for name in exposed.names.iter().map(|name| comparable(name)) {
        if asked.as_ref() != Some(&name) && own.as_ref() != Some(&name) {
            service = label(service, &gateway_hosts::still(&name), "true");
        }
    }
    Ok(match host {
        Some(host) => label(service, gateway_hosts::LABEL, &gateway_hosts::value(host)),
        None => service,
    })
}
