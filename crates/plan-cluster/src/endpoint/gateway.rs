//! Behind the platform's gateway: the names that lead to a tenant there, and what the gateway is told of it.

use crate::ours::is_ours;
use crate::subject::Tenant;
use crate::validate::writers;
use berth_api::cluster::{self, EndpointType};
use berth_api::conditions::Reason;
use berth_api::gateway::{ANNOTATION, ClusterName, Exposed, LABEL, LABELLED, comparable};
use berth_api::names;
use berth_plan::model::State;
use berth_plan::object_meta::{annotation, label};
use berth_plan::settings::Settings;
use berth_render::{Kind, Object};
use std::net::IpAddr;

/// Name and port that a tenant has at the gateway by itself. None: it asks for another type, or there is no gateway.
pub(super) fn own(asked: &cluster::Endpoint, settings: &Settings, cp_namespace: &str) -> Option<(String, i32)> {
    let gateway = settings.gateway.as_ref().filter(|_| asked.type_ == EndpointType::Gateway)?;
    Some((gateway.name(cp_namespace), gateway.port.into()))
}

/// Why a tenant that asks to be behind the gateway is not, if so. `own`: its name there.
pub(super) fn refusal(host: Option<&str>, own: Option<&str>, settings: &Settings) -> Option<State> {
    let (Some(gateway), Some(own)) = (&settings.gateway, own) else {
        let why = "spec.endpoint.type: Gateway is not allowed, since the platform has no gateway. Set another type, or ask the platform team to set gateway.enabled and gateway.domain in the values of Berth's chart";
        return Some(State::blocked(Reason::NotAllowed, why));
    };
    let host = host?;
    if host.parse::<IpAddr>().is_ok() {
        let why = format!(
            "spec.endpoint.host: {host} is an IP address, and with type Gateway a tenant is found by its name. Set a DNS name, or remove the field"
        );
        return Some(State::blocked(Reason::InvalidSpec, why));
    }
    let name = comparable(host);
    if name == own {
        return None;
    }
    if name.strip_suffix(&gateway.domain).is_some_and(|above| above.ends_with('.')) {
        let why = format!(
            "spec.endpoint.host: {host} is below {}, where Berth gives each tenant its name, which is {own} for this one. Set a name elsewhere, or remove the field",
            gateway.domain
        );
        return Some(State::blocked(Reason::InvalidSpec, why));
    }
    writers::host(&name, &settings.writers).err()
}

/// What the gateway is told. None: the tenant is not to be behind it.
pub(super) fn exposed(t: &Tenant<'_>) -> Result<Option<Exposed>, State> {
    if t.cluster.spec.endpoint.type_ != EndpointType::Gateway {
        return Ok(None);
    }
    let host = t.endpoint.host.clone()?;
    let own = t.endpoint.behind.as_ref().map(|(own, _)| own.clone());
    let mut all: Vec<String> = vec![];
    for name in own.into_iter().chain(host).chain(former(t)).map(|name| comparable(&name)) {
        if !all.contains(&name) {
            all.push(name);
        }
    }
    let cluster = ClusterName { namespace: t.namespace.to_owned(), name: t.name.to_owned() };
    Ok(Some(Exposed { cluster, names: all, source_ranges: None, max_connections: None }))
}

/// A name that leads here so far and that kubeconfigs have, which get another one only once that is served. It is not enough that they
/// have it: another type takes any host.
fn former(t: &Tenant<'_>) -> Option<String> {
    let service = t.get(Kind::Service, names::APISERVER).filter(|service| is_ours(service))?;
    let text = annotation(service, ANNOTATION).filter(|_| label(service, LABEL) == Some(LABELLED))?;
    let told: Exposed = serde_json::from_str(text).ok()?;
    let (host, _) = t.endpoint.handed_out_at()?;
    told.names.contains(&comparable(&host)).then_some(host)
}

/// The Service with what the gateway is told.
pub(super) fn tell(service: Object, exposed: &Exposed) -> Result<Object, State> {
    let text = serde_json::to_string(exposed).map_err(|e| State::blocked(Reason::Error, e.to_string()))?;
    Ok(service.with_field("/metadata/labels", LABEL, LABELLED.into()).with_annotation(ANNOTATION, &text))
}
