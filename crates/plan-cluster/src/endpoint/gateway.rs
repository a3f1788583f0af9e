//! What the platform's gateway is told of a tenant: the names that lead to it.

use crate::ours::is_ours;
use crate::subject::Tenant;
use berth_api::cluster::EndpointType;
use berth_api::conditions::Reason;
use berth_api::gateway::{ANNOTATION, ClusterName, Exposed, LABEL, LABELLED, comparable};
use berth_api::names;
use berth_plan::model::State;
use berth_plan::object_meta::{annotation, label};
use berth_render::{Kind, Object};

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
    let asked = &t.cluster.spec.endpoint.gateway;
    let range = |text: &String| text.parse().map_err(|_| no_range(text));
    let source_ranges = asked.source_ranges.as_ref().map(|all| all.iter().map(range).collect()).transpose()?;
    let max_connections = asked.max_connections.and_then(|most| most.try_into().ok());
    Ok(Some(Exposed { cluster, names: all, source_ranges, max_connections }))
}

/// What is no range must not let everybody in.
fn no_range(text: &str) -> State {
    let why = format!(
        "spec.endpoint.gateway.sourceRanges: {text} is no network in CIDR form. Set one such as 203.0.113.0/24"
    );
    State::blocked(Reason::InvalidSpec, why)
}

/// The namespace from which alone clients come, if the platform wants that and no kubeconfig leads past the gateway.
pub(crate) fn only_from<'a>(t: &'a Tenant<'_>) -> Option<&'a str> {
    let namespace = t.settings.gateway.as_ref()?.only_from.as_deref()?;
    let asked = t.cluster.spec.endpoint.type_ == EndpointType::Gateway;
    let service = t.get(Kind::Service, names::APISERVER).filter(|service| is_ours(service))?;
    let text = annotation(service, ANNOTATION).filter(|_| label(service, LABEL) == Some(LABELLED))?;
    let told: Exposed = serde_json::from_str(text).ok()?;
    let (host, _) = t.endpoint.handed_out_at()?;
    (asked && told.names.contains(&comparable(&host))).then_some(namespace)
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
