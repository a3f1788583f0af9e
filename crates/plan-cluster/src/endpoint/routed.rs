//! `RouteAccepted`: whether the platform's own `Gateway`s say that they lead to the tenant.

use super::parent::{Answer, answer};
use super::route::{behind, is_alone, key, limits, live};
use crate::ours::is_ours;
use crate::subject::Tenant;
use berth_api::conditions::{ConditionType, Reason, Verdict};
use berth_plan::object_meta::deleting;
use berth_plan::objects::foreign;
use berth_plan::observed::RoutesSeen;
use berth_plan::settings::{Engine, Gateway};
use berth_render::Kind;
use jiff::SignedDuration;

/// Nothing tells when the Gateway API is installed.
const MISSING: SignedDuration = SignedDuration::from_mins(5);

/// What is known of it.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Routed {
    /// The condition.
    pub(crate) verdict: Verdict,
    /// Whether a `Gateway` leads to the tenant. None: not known yet.
    pub(crate) leads: Option<bool>,
    /// How long it is waited for: after that something else is said.
    due: Option<SignedDuration>,
}

/// None: nothing of the Gateway API is to lead to it.
pub(crate) fn routed(t: &Tenant<'_>) -> Option<Routed> {
    let gateway = behind(t)?;
    let of = |leads: Option<bool>, status, reason, message: String| {
        Some(Routed { verdict: Verdict::new(ConditionType::RouteAccepted, status, reason, message), leads, due: None })
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
        () if answers.iter().any(|answer| matches!(answer, Answer::Waits(..) | Answer::Silent(_))) => None,
        () => Some(false),
    };
    let bad = answers.iter().find_map(|answer| match answer {
        Answer::Refuses(why) | Answer::Silent(why) => Some(why),
        Answer::Leads | Answer::Waits(..) => None,
    });
    let awaited = answers.iter().find_map(|answer| if let Answer::Waits(why, _) = answer { Some(why) } else { None });
    let routed = match (bad, awaited) {
        (Some(why), _) => of(leads, Some(false), Reason::RouteNotAccepted, why.clone()),
        (None, Some(why)) => of(leads, None, Reason::Waiting, why.clone()),
        (None, None) => {
            let all: Vec<String> = gateway.parents.iter().map(ToString::to_string).collect();
            of(leads, Some(true), Reason::AsExpected, format!("{key} is accepted by {}", all.join(", ")))
        }
    };
    let due = answers.iter().filter_map(|answer| if let Answer::Waits(_, left) = answer { Some(*left) } else { None });
    routed.map(|routed| Routed { due: due.min(), ..routed })
}

/// What `Ready` says of it, where nothing else leads to the tenant.
pub(crate) fn unrouted(t: &Tenant<'_>) -> Option<(Reason, String)> {
    let routed = routed(t).filter(|routed| is_alone(t) && routed.leads != Some(true))?;
    Some((routed.verdict.reason, routed.verdict.message))
}

/// When it is to be looked at again without an event.
pub(crate) fn looks_again(t: &Tenant<'_>) -> Option<SignedDuration> {
    let routed = routed(t)?;
    if routed.verdict.reason == Reason::NoGatewayAPI { Some(MISSING) } else { routed.due }
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
