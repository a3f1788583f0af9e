//! What one `Gateway` of the platform's own says of the tenant's `TLSRoute`.

use super::route::key;
use crate::subject::Tenant;
use berth_api::conditions::shortened;
use berth_api::text::printable;
use berth_api::{labels, names};
use berth_plan::settings::{Gateway, Parent};
use berth_render::Kind;
use jiff::{SignedDuration, Timestamp};
use serde_json::Value;

/// After so long without an answer nobody is expected to give one.
const SILENCE: SignedDuration = SignedDuration::from_secs(60);

/// Of another controller's words so many bytes are told.
const LONGEST: usize = 300;

/// What is known.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Answer {
    Leads,
    /// For what, and for how long.
    Waits(String, SignedDuration),
    /// Nobody said in time whether it leads there as the route is now: what it did before may go on.
    Silent(String),
    Refuses(String),
}

/// What it says, by the first of its conditions that is not as it should be. `live`: the route.
pub(super) fn answer(t: &Tenant<'_>, gateway: &Gateway, parent: &Parent, live: &Value) -> Answer {
    let key = key(t);
    if !of_route(t, parent, live) {
        return Answer::Waits(format!("waiting for {key} to be written"), SILENCE);
    }
    let left =
        |since: Option<Timestamp>| since.map_or(SILENCE, |since| SILENCE - t.now.duration_since(since)).min(SILENCE);
    let waits = |left: SignedDuration, why: String, otherwise: Answer| {
        if left.is_positive() { Answer::Waits(why, left) } else { otherwise }
    };
    let changed = changed(live);
    let Some(entry) = newest(t, parent, live) else {
        let silent = format!(
            "{key}: no controller has answered for {parent}. Check that it is there (kubectl get gateway {} -n {}), that its GatewayClass has a controller that knows TLSRoute in {}, and that it has a listener with protocol TLS; or change gateway.parents in the values of Berth's chart",
            parent.name,
            parent.namespace,
            Kind::TLSRoute.version()
        );
        return waits(left(changed), format!("waiting for {parent} to answer for {key}"), Answer::Refuses(silent));
    };
    let todo = format!(
        "Check that this controller runs and look into its log, and that the GatewayClass of {parent} is its (kubectl get gatewayclasses); what it did before may go on"
    );
    let controller = shortened(&printable(entry["controllerName"].as_str().unwrap_or_default()), LONGEST);
    let conditions = conditions(entry);
    let decided = conditions.iter().filter_map(|condition| time(&condition["lastTransitionTime"]));
    let decided = decided.chain(changed).max();
    for type_ in ["Accepted", "ResolvedRefs"] {
        let Some(condition) = conditions.iter().find(|condition| condition["type"] == type_) else {
            return waits(
                left(decided),
                format!("waiting for {parent}: {key} has no condition {type_} yet"),
                Answer::Silent(format!(
                    "{key}: controller {controller} has written no condition {type_} for {parent} within a minute. {todo}"
                )),
            );
        };
        if seen(condition).is_some_and(|seen| Some(seen) < generation(live)) {
            return waits(
                left(changed),
                format!("waiting for {parent} to look at the change of {key}"),
                Answer::Silent(format!(
                    "{key}: controller {controller} has not looked at its last change for {parent} within a minute. {todo}"
                )),
            );
        }
        let reason = condition["reason"].as_str().unwrap_or_default();
        match condition["status"].as_str() {
            Some("True") => {}
            Some("False") if reason != "Pending" => return Answer::Refuses(refusal(t, gateway, parent, condition)),
            _ => {
                return waits(
                    left(decided),
                    format!("waiting for {parent}: {type_} of {key} is {reason}"),
                    Answer::Silent(format!(
                        "{key}: controller {controller} has not decided for {parent} within a minute: {type_} is {reason}. {todo}"
                    )),
                );
            }
        }
    }
    Answer::Leads
}

fn time(value: &Value) -> Option<Timestamp> {
    value.as_str()?.parse().ok()
}

fn generation(live: &Value) -> Option<i64> {
    live.pointer("/metadata/generation")?.as_i64()
}

fn seen(condition: &Value) -> Option<i64> {
    condition["observedGeneration"].as_i64()
}

/// When somebody last wrote the route, but for its status.
fn changed(live: &Value) -> Option<Timestamp> {
    let writes = live.pointer("/metadata/managedFields").and_then(Value::as_array).into_iter().flatten();
    let writes = writes.filter(|write| write["subresource"] != "status").filter_map(|write| time(&write["time"]));
    writes.chain(time(&live["metadata"]["creationTimestamp"])).max()
}

/// Whether this says that `Gateway`, in the route's spec or in its status.
fn is_of(t: &Tenant<'_>, parent: &Parent, of: &Value) -> bool {
    let text = |field: &str| of[field].as_str().filter(|text| !text.is_empty());
    text("kind").is_none_or(|kind| kind == "Gateway")
        && text("name") == Some(&parent.name)
        && text("namespace").unwrap_or(&t.cp_namespace) == parent.namespace
        && text("sectionName") == parent.section_name.as_deref()
}

/// Whether the route names it already.
fn of_route(t: &Tenant<'_>, parent: &Parent, live: &Value) -> bool {
    let all = live.pointer("/spec/parentRefs").and_then(Value::as_array);
    all.is_some_and(|all| all.iter().any(|of| is_of(t, parent, of)))
}

/// The conditions of what a controller wrote for a parent.
fn conditions(entry: &Value) -> &[Value] {
    entry["conditions"].as_array().map(Vec::as_slice).unwrap_or_default()
}

/// What was written last for that `Gateway`, if a controller has written something: one that led there before leaves its entry behind.
fn newest<'a>(t: &Tenant<'_>, parent: &Parent, live: &'a Value) -> Option<&'a Value> {
    let rank = |entry: &&Value| {
        let seen = conditions(entry).iter().filter_map(seen).max();
        // Who tells no generation may mean this one.
        let is_now = seen.is_some_and(|seen| Some(seen) >= generation(live));
        let at = conditions(entry).iter().filter_map(|condition| time(&condition["lastTransitionTime"])).max();
        (is_now, seen.is_none(), seen, at)
    };
    let all = live.pointer("/status/parents")?.as_array()?;
    all.iter().filter(|entry| is_of(t, parent, &entry["parentRef"]) && !conditions(entry).is_empty()).max_by_key(rank)
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
