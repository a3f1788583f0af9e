//! The tenant's `TLSRoute`, by which a `Gateway` of the platform's own (Gateway API) leads to it: whether it has one, and which.

use crate::ours::{ensure_manifest, is_ours};
use crate::subject::Tenant;
use crate::validate::writers;
use berth_api::cluster::EndpointType;
use berth_api::conditions::Reason;
use berth_api::gateway::Exposed;
use berth_api::{labels, names};
use berth_plan::model::{Action, Stage, State};
use berth_plan::object_meta::{annotation, deleting};
use berth_plan::observed::RoutesSeen;
use berth_plan::settings::{Engine, Gateway, Parent};
use berth_render::{Kind, Object, ObjectKey};
use serde_json::{Value, json};

/// The API group of `Gateway`s.
const GROUP: &str = "gateway.networking.k8s.io";

/// The platform's gateway, if routes are among what leads to tenants.
fn with_routes<'a>(t: &'a Tenant<'_>) -> Option<&'a Gateway> {
    t.settings.gateway.as_ref().filter(|gateway| gateway.has(Engine::GatewayAPI))
}

/// The same of a tenant that asks to be behind it.
pub(super) fn behind<'a>(t: &'a Tenant<'_>) -> Option<&'a Gateway> {
    with_routes(t).filter(|_| t.cluster.spec.endpoint.type_ == EndpointType::Gateway)
}

/// Whether nothing else leads to it.
pub(crate) fn is_alone(t: &Tenant<'_>) -> bool {
    behind(t).is_some_and(|gateway| !gateway.has(Engine::Berth))
}

/// Its key.
pub(super) fn key(t: &Tenant<'_>) -> ObjectKey {
    t.key(Kind::TLSRoute, names::APISERVER)
}

/// It, if it is there.
pub(super) fn live<'a>(t: &Tenant<'a>) -> Option<&'a Value> {
    t.get(Kind::TLSRoute, names::APISERVER)
}

/// Whether it is there, with this name.
pub(super) fn leads(t: &Tenant<'_>, name: &str) -> bool {
    let names = live(t).filter(|live| is_ours(live)).and_then(|live| live.pointer("/spec/hostnames")?.as_array());
    names.is_some_and(|names| names.iter().any(|host| host == name))
}

/// The fields that are set and that only Berth's own gateway holds.
pub(crate) fn limits(t: &Tenant<'_>) -> Vec<&'static str> {
    let asked = &t.cluster.spec.endpoint.gateway;
    let all = [("sourceRanges", asked.source_ranges.is_some()), ("maxConnections", asked.max_connections.is_some())];
    all.into_iter().filter(|(_, is_set)| *is_set).map(|(field, _)| field).collect()
}

/// What of the spec only Berth's own gateway can do, where there is none.
pub(crate) fn refused_without_berths(t: &Tenant<'_>) -> Option<State> {
    if !is_alone(t) {
        return None;
    }
    let ask = "ask the platform team to add Berth to gateway.engines in the values of Berth's chart";
    let not_allowed = |why: String| Some(State::blocked(Reason::NotAllowed, why));
    if let Some(field) = limits(t).first() {
        return not_allowed(format!(
            "spec.endpoint.gateway.{field} is not allowed, since the platform's Gateways (gateway.engines: GatewayAPI) do not hold it: while it is set they do not lead to this tenant. Remove the field, or {ask}"
        ));
    }
    super::proxied::is_on(&t.cluster.spec).then(|| not_allowed(format!(
        "spec.addons.apiProxy.enabled is not allowed, since pods send no name, and the platform's Gateways (gateway.engines: GatewayAPI) do not take one from the add-on. Set it to false and spec.endpoint.advertiseAddress to an IP address at which nodes reach the API, or {ask}"
    )))?
}

/// Whether it is to be there, for these names.
fn is_wanted(t: &Tenant<'_>, exposed: Option<&Exposed>) -> bool {
    exposed.is_some() && with_routes(t).is_some() && limits(t).is_empty()
}

/// The Service with a mark as long as there may be a route beside it: that is when it is looked for, whatever the chart's values say.
pub(super) fn mark(t: &Tenant<'_>, service: Object, exposed: Option<&Exposed>) -> Object {
    let is_there = live(t).is_some_and(is_ours);
    let is_to_be = is_wanted(t, exposed) && t.observed.routes == RoutesSeen::Served;
    let was = t.get(Kind::Service, names::APISERVER).and_then(|service| annotation(service, labels::TLS_ROUTE));
    let is_unknown = was.is_some() && t.observed.routes == RoutesSeen::Denied;
    if is_there || is_to_be || is_unknown { service.with_annotation(labels::TLS_ROUTE, "true") } else { service }
}

/// Puts it into the stage. Where the engine is gone, or the tenant is not behind it any more, it is pruned. `exposed`: what leads to the tenant;
/// Err: that is not known now.
pub(super) fn put(t: &Tenant<'_>, stage: &mut Stage, exposed: Result<Option<&Exposed>, ()>) {
    if !limits(t).is_empty() {
        // At once, whatever the engines are by now, and not only when all is settled: whoever may not come would come by it.
        if let Some(live) = live(t).filter(|live| is_ours(live) && !deleting(live)) {
            let key = key(t);
            if stage.state.is_done() {
                stage.state = State::waiting(format!("{key} to be deleted"));
            }
            stage.actions.push(Action::delete(&key, live, None));
        }
        return;
    }
    let Some(gateway) = with_routes(t) else { return };
    match exposed {
        Ok(Some(exposed)) if t.observed.routes == RoutesSeen::Served => {
            ensure_manifest(stage, t.observed, manifest(t, gateway, exposed));
        }
        // What is there stays as it is.
        Ok(Some(_)) | Err(()) => stage.owns.push(key(t)),
        Ok(None) => {}
    }
}

/// Whether a route may have this name: a name of its own, one that writers may ask for, or one that it has. An admission policy of the chart holds
/// the operator to the same.
fn may_have(t: &Tenant<'_>, gateway: &Gateway, name: &str) -> bool {
    let is_a_teams = || {
        let is_below = name.strip_suffix(&gateway.domain).is_some_and(|above| above.ends_with('.'));
        !is_below && writers::host(name, &t.settings.writers).is_ok()
    };
    name == gateway.name(&t.cp_namespace) || leads(t, name) || is_a_teams()
}

/// Each default is written out, so that what is there says the same.
fn manifest(t: &Tenant<'_>, gateway: &Gateway, exposed: &Exposed) -> Value {
    let parent = |parent: &Parent| {
        let mut parent_ref =
            json!({"group": GROUP, "kind": "Gateway", "namespace": parent.namespace, "name": parent.name});
        if let Some(section) = &parent.section_name {
            parent_ref["sectionName"] = section.as_str().into();
        }
        parent_ref
    };
    let backend =
        json!({"group": "", "kind": "Service", "name": names::APISERVER, "port": t.endpoint.port, "weight": 1});
    json!({
        "apiVersion": Kind::TLSRoute.api_version(), "kind": Kind::TLSRoute.name(),
        "metadata": {"name": names::APISERVER, "namespace": t.cp_namespace, "labels": t.labels()},
        "spec": {
            // Names that were given up are left out: of two routes with a name the older one has it, which may not be whose it is by now.
            "hostnames": exposed.names.iter().filter(|name| may_have(t, gateway, name)).collect::<Vec<_>>(),
            "parentRefs": gateway.parents.iter().map(parent).collect::<Vec<_>>(),
            "rules": [{"backendRefs": [backend]}],
        },
    })
}
