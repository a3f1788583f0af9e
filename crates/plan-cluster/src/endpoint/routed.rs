//! `RouteAccepted`: whether the platform's own `Gateway`s say that they lead to the tenant.

use super::route::{behind, is_alone, key, limits, live};
use crate::ours::is_ours;
use crate::subject::Tenant;
use berth_api::conditions::{ConditionType, Reason, Verdict, shortened};
use berth_api::text::printable;
use berth_api::{labels, names};
use berth_plan::object_meta::deleting;
use berth_plan::objects::foreign;
use berth_plan::observed::RoutesSeen;
use berth_plan::settings::{Engine, Gateway, Parent};
use berth_render::Kind;
use jiff::{SignedDuration, Timestamp};
use serde_json::Value;

/// After so long without an answer nobody is expected to give one.
const SILENCE: SignedDuration = SignedDuration::from_secs(60);

/// Nothing tells when the Gateway API is installed.
const MISSING: SignedDuration = SignedDuration::from_mins(5);

/// Of another controller's words so many bytes are told.
const LONGEST: usize = 300;

/// What is known of it.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Routed {
    /// The condition.
    pub(crate) verdict: Verdict,
    /// Whether a `Gateway` leads to the tenant. None: not known yet.
    pub(crate) leads: Option<bool>,
}

/// What one `Gateway` says.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Answer {
    Leads,
    Waits(String),
    Refuses(String),
}

/// None: nothing of the Gateway API is to lead to it.
pub(crate) fn routed(t: &Tenant<'_>) -> Option<Routed> {
    let gateway = behind(t)?;
    let of = |leads: Option<bool>, status, reason, message: String| {
        Some(Routed { verdict: Verdict::new(ConditionType::RouteAccepted, status, reason, message), leads })
    };
    let no = |reason, message| of(Some(false), Some(false), reason, message);
    let waits = |message| of(None, None, Reason::Waiting, message);
    if let Some(field) = limits(t).first() {
        let left = live(t).filter(|live| is_ours(live)).map(|_| {
            format!(". {} is still there: until it is deleted the platform's Gateways lead past the limit", key(t))
        });
        return no(Reason::NotAllowed, no_limits(field, gateway) + &left.unwrap_or_default());
    }
    let versions = match &t.observed.routes {
        RoutesSeen::Missing(versions) => Some(versions),
        RoutesSeen::Denied => {
            let message = format!(
                "the operator may not list TLSRoutes in namespace {}: install Berth's chart with gateway.engines as the operator has it",
                t.cp_namespace
            );
            return of(None, None, Reason::PermissionDenied, message);
        }
        RoutesSeen::Served | RoutesSeen::NotAsked => None,
    };
    if let Some(versions) = versions {
        return no(Reason::NoGatewayAPI, missing(versions));
    }
    let (key, live) = (key(t), live(t));
    let Some(live) = live else { return waits(format!("waiting for {key} to be written")) };
    if !is_ours(live) {
        let foreign = foreign(&key);
        let (reason, message) = foreign.problem().unwrap_or((Reason::ForeignObject, ""));
        return no(reason, message.to_owned());
    }
    if deleting(live) {
        return waits(format!("waiting for the deletion of {key}"));
    }
    let answers: Vec<Answer> = gateway.parents.iter().map(|parent| answer(t, gateway, parent, live)).collect();
    let leads = match () {
        () if answers.contains(&Answer::Leads) => Some(true),
        () if answers.iter().any(|answer| matches!(answer, Answer::Waits(_))) => None,
        () => Some(false),
    };
    let refused = answers.iter().find_map(|answer| if let Answer::Refuses(why) = answer { Some(why) } else { None });
    let awaited = answers.iter().find_map(|answer| if let Answer::Waits(why) = answer { Some(why) } else { None });
    match (refused, awaited) {
        (Some(why), _) => of(leads, Some(false), Reason::RouteNotAccepted, why.clone()),
        (None, Some(why)) => of(leads, None, Reason::Waiting, why.clone()),
        (None, None) => {
            let all: Vec<String> = gateway.parents.iter().map(ToString::to_string).collect();
            of(leads, Some(true), Reason::AsExpected, format!("{key} is accepted by {}", all.join(", ")))
        }
    }
}

/// What `Ready` says of it, where nothing else leads to the tenant.
pub(crate) fn unrouted(t: &Tenant<'_>) -> Option<(Reason, String)> {
    let routed = routed(t).filter(|routed| is_alone(t) && routed.leads != Some(true))?;
    Some((routed.verdict.reason, routed.verdict.message))
}

/// When it is to be looked at again without an event.
pub(crate) fn looks_again(t: &Tenant<'_>) -> Option<SignedDuration> {
    let routed = routed(t)?;
    match routed.verdict.reason {
        Reason::NoGatewayAPI => Some(MISSING),
        Reason::Waiting => Some(SILENCE - age(live(t)?, t.now)?).filter(SignedDuration::is_positive),
        _ => None,
    }
}

fn no_limits(field: &str, gateway: &Gateway) -> String {
    let (others, way_out) = if gateway.has(Engine::Berth) {
        ("; clients come through Berth's gateway alone", "take GatewayAPI out of gateway.engines")
    } else {
        ("", "add Berth to gateway.engines")
    };
    format!(
        "spec.endpoint.gateway.{field}: the platform's Gateways (gateway.engines: GatewayAPI) do not hold it, so this tenant has no TLSRoute{others}. Remove the field, or ask the platform team to {way_out}"
    )
}

fn missing(versions: &[String]) -> String {
    let has = match versions {
        [] => "does not have it".to_owned(),
        some => format!("has it only as {}", some.join(", ")),
    };
    format!(
        "TLSRoute {}: the meta cluster {has}, so nothing of the Gateway API leads to this tenant. Install the Gateway API, version 1.5 or newer, standard channel, with an implementation that knows this version, or take GatewayAPI out of gateway.engines in the values of Berth's chart",
        Kind::TLSRoute.api_version()
    )
}

fn age(object: &Value, now: Timestamp) -> Option<SignedDuration> {
    let made: Timestamp = object.pointer("/metadata/creationTimestamp")?.as_str()?.parse().ok()?;
    Some(now.duration_since(made))
}

/// What a `Gateway` says, by the first of its conditions that is not as it should be.
fn answer(t: &Tenant<'_>, gateway: &Gateway, parent: &Parent, live: &Value) -> Answer {
    let key = key(t);
    let Some(conditions) = conditions(t, parent, live) else {
        let silence = age(live, t.now).unwrap_or_default();
        return if silence < SILENCE {
            Answer::Waits(format!("waiting for {parent} to answer for {key}"))
        } else {
            Answer::Refuses(format!(
                "{key}: no controller has answered for {parent}. Check that it is there (kubectl get gateway {} -n {}), that its GatewayClass has a controller that knows TLSRoute in {}, and that it has a listener with protocol TLS; or change gateway.parents in the values of Berth's chart",
                parent.name,
                parent.namespace,
                Kind::TLSRoute.version()
            ))
        };
    };
    for type_ in ["Accepted", "ResolvedRefs"] {
        let Some(condition) = conditions.iter().find(|condition| condition["type"] == type_) else {
            return Answer::Waits(format!("waiting for {parent}: {key} has no condition {type_} yet"));
        };
        let seen = condition["observedGeneration"].as_i64();
        if seen.is_some_and(|seen| Some(seen) < live.pointer("/metadata/generation").and_then(Value::as_i64)) {
            return Answer::Waits(format!("waiting for {parent} to look at the change of {key}"));
        }
        let reason = condition["reason"].as_str().unwrap_or_default();
        match condition["status"].as_str() {
            Some("True") => {}
            Some("False") if reason != "Pending" => return Answer::Refuses(refusal(t, gateway, parent, condition)),
            _ => return Answer::Waits(format!("waiting for {parent}: {type_} of {key} is {reason}")),
        }
    }
    Answer::Leads
}

/// The conditions for that `Gateway`, if a controller has written some.
fn conditions<'a>(t: &Tenant<'_>, parent: &Parent, live: &'a Value) -> Option<&'a Vec<Value>> {
    let of_it = |entry: &&Value| {
        let of = &entry["parentRef"];
        let text = |field: &str| of[field].as_str().filter(|text| !text.is_empty());
        text("kind").is_none_or(|kind| kind == "Gateway")
            && text("name") == Some(&parent.name)
            && text("namespace").unwrap_or(&t.cp_namespace) == parent.namespace
            && text("sectionName") == parent.section_name.as_deref()
    };
    let all = live.pointer("/status/parents")?.as_array()?;
    all.iter().find(of_it)?["conditions"].as_array().filter(|conditions| !conditions.is_empty())
}

/// Why it does not lead to the tenant, and what is to be done, by the reasons of the Gateway API.
fn refusal(t: &Tenant<'_>, gateway: &Gateway, parent: &Parent, condition: &Value) -> String {
    let text = |field: &str| condition[field].as_str().unwrap_or_default();
    let reason = text("reason");
    let listener = parent
        .section_name
        .as_ref()
        .map_or("its listener with protocol TLS".to_owned(), |name| format!("its listener {name}"));
    let home = &t.cp_namespace;
    let (why, todo) = match reason {
        "NotAllowedByListeners" => (
            format!("does not admit routes of namespace {home}"),
            format!(
                "Let allowedRoutes of {listener} have TLSRoute among its kinds, and namespaces with the label {}={}",
                labels::MANAGED_BY,
                labels::MANAGED_BY_VALUE
            ),
        ),
        "NoMatchingParent" => (
            "has no listener that takes it".to_owned(),
            "Give it a listener with protocol TLS and tls.mode Passthrough, or correct sectionName in gateway.parents in the values of Berth's chart".to_owned(),
        ),
        "NoMatchingListenerHostname" => (
            "has no listener for its names".to_owned(),
            format!("Set hostname of {listener} to *.{}, or leave it out", gateway.domain),
        ),
        "BackendNotFound" => (
            format!("does not find Service {}, port {}", names::APISERVER, t.endpoint.port),
            "Its controller has to read Services and EndpointSlices in all namespaces".to_owned(),
        ),
        "RefNotPermitted" | "InvalidKind" | "UnsupportedProtocol" => (
            format!("does not lead to Service {}", names::APISERVER),
            "Its implementation has to pass TLS through to a Service in the route's own namespace".to_owned(),
        ),
        _ => ("refuses it".to_owned(), "Do what its controller says".to_owned()),
    };
    let said = shortened(&printable(text("message")), LONGEST);
    let said = if said.is_empty() { String::new() } else { format!(" ({said})") };
    format!("{}: {parent} {why}: {} is False, {reason}{said}. {todo}", key(t), text("type"))
}
