//! What of `spec.hibernation` cannot be done for a tenant, and the way out.

use crate::subject::Tenant;
use berth_api::cluster::EndpointType;
use berth_api::etcd_bootstrap::vpc::Cidr;
use berth_plan::observed::ApiProbe;
use berth_plan::settings::Engine;

/// The first of all.
pub(crate) fn problem(t: &Tenant<'_>) -> Option<String> {
    idle_problem(t).or_else(|| wake_problem(t)).or_else(|| unreachable(t))
}

/// Why it does not sleep by itself although it is to.
pub(super) fn idle_problem(t: &Tenant<'_>) -> Option<String> {
    let asked = &t.cluster.spec.hibernation;
    asked.after_idle.as_ref()?;
    let field = "spec.hibernation.afterIdle";
    if let Some(why) = no_gateway(t, "afterIdle", "who uses a tenant") {
        return Some(why);
    }
    let gateway = t.settings.gateway.as_ref().filter(|gateway| gateway.has(Engine::GatewayAPI));
    if gateway.is_some() {
        return Some(format!(
            "{field}: it stays awake, since clients may come through the Gateways of gateway.parents, too, of which nobody learns who uses a tenant. Remove the field, or ask the platform team for gateway.engines: [Berth] in the values of Berth's chart"
        ));
    }
    if t.cluster.spec.vpc.is_some() {
        return Some(format!(
            "{field}: it stays awake, since clients in its VPC (spec.vpc) come past Berth's gateway. Remove the field"
        ));
    }
    if t.cluster.spec.addons.api_proxy.is_on() {
        return Some(format!(
            "{field}: it stays awake, since it is to have nodes (spec.addons.apiProxy), whose pods use the API all the time. Remove the field"
        ));
    }
    let count = nodes(t).filter(|count| *count > 0)?;
    Some(format!(
        "{field}: it stays awake, since it has {count} {}, whose kubelets and pods would be without an API. Remove the field",
        if count == 1 { "node" } else { "nodes" }
    ))
}

/// Why no connection wakes it although it is to.
pub(super) fn wake_problem(t: &Tenant<'_>) -> Option<String> {
    t.cluster.spec.hibernation.wake.on_connect.then_some(())?;
    no_gateway(t, "wake.onConnect", "that somebody calls a tenant")
}

fn no_gateway(t: &Tenant<'_>, field: &str, what: &str) -> Option<String> {
    let type_ = t.cluster.spec.endpoint.type_;
    if type_ != EndpointType::Gateway {
        return Some(format!(
            "spec.hibernation.{field}: it has no effect, since Berth's gateway alone says {what}, and spec.endpoint.type is {type_:?}. Set that to Gateway, or remove the field"
        ));
    }
    let gateway = t.settings.gateway.as_ref();
    let tells = gateway.is_some_and(|gateway| gateway.has(Engine::Berth) && gateway.namespace.is_some());
    (!tells).then(|| {
        format!(
            "spec.hibernation.{field}: it has no effect, since Berth's gateway alone says {what}, and the platform has none that does. Remove the field, or ask the platform team for gateway.engines with Berth, and gateway.namespace for the gateway alone, in the values of Berth's chart"
        )
    })
}

/// A network from which nobody may come.
fn unreachable(t: &Tenant<'_>) -> Option<String> {
    let asked = &t.cluster.spec.hibernation.wake;
    let (from, ranges) = asked.from.as_ref().zip(t.cluster.spec.endpoint.gateway.source_ranges.as_ref())?;
    let net = |text: &String| text.parse::<Cidr>().ok();
    let meets = |a: &Cidr, b: &Cidr| a.contains(b.address) || b.contains(a.address);
    let allowed: Vec<Cidr> = ranges.iter().filter_map(net).collect();
    let shut = from.iter().find(|text| net(text).is_some_and(|one| !allowed.iter().any(|range| meets(&one, range))))?;
    asked.on_connect.then(|| {
        format!(
            "spec.hibernation.wake.from: nobody may come from {shut}, which is in no network of spec.endpoint.gateway.sourceRanges. Remove it, or add it there"
        )
    })
}

/// How many it has, as far as is known.
fn nodes(t: &Tenant<'_>) -> Option<i64> {
    let counted = match &t.observed.api {
        ApiProbe::Answered { read, .. } => read.nodes.as_ref().map(|nodes| nodes.count.total),
        _ => None,
    };
    let told = || Some(t.cluster.status.as_ref()?.nodes.as_ref()?.total);
    counted.or_else(told).map(i64::from)
}
