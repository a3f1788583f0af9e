//! `--advertise-address`: what API servers say of themselves to clients that ask for it. Pods of the tenant go by its Service `kubernetes`.
//!
//! Where that leads to changes at once; the flag follows it when the pods are replaced for something else. But as long as both are the host's
//! address or the load balancer's, and nobody chose one for pods, another one rolls the pods: those show the new certificate at once, and the
//! ones that run only minutes later.

use super::soak::replaces_pods;
use crate::subject::Tenant;
use berth_plan::model::State;
use berth_render::values::ApiServerValues;
use berth_render::{Binary, Object, TemplateSet, render_apiserver};
use serde_json::Value;
use std::net::IpAddr;

/// What the flag is, and what it becomes once the pods are replaced.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Advertised {
    pub(crate) now: IpAddr,
    pub(crate) next: IpAddr,
}

/// Where there is no address any more, nothing is to be shown.
pub(crate) fn advertised(t: &Tenant<'_>) -> Result<Advertised, State> {
    let (live, before) = (live(t), t.endpoint.advertised_before);
    let for_pods = t.endpoint.for_pods.as_ref().map(|(for_pods, _)| for_pods.address);
    let wanted = if t.cluster.spec.vpc.is_some() { before } else { for_pods };
    let address = wanted.or(live).or(t.endpoint.cluster_ip);
    let next = address.ok_or_else(|| State::waiting("Service kube-apiserver to get an address"))?;
    let chosen = matches!(t.endpoint.given, Ok(Some(_)));
    let follows = wanted == before && before != t.endpoint.cluster_ip && !chosen;
    Ok(Advertised { now: live.filter(|_| !follows).unwrap_or(next), next })
}

/// The objects of the API server, with the next address if its pods are replaced anyway.
pub(super) fn render(
    t: &Tenant<'_>,
    templates: &TemplateSet,
    mut values: ApiServerValues,
) -> Result<Vec<Object>, State> {
    let objects = render_apiserver(templates, &values)?;
    let Advertised { now, next } = advertised(t)?;
    if now == next || !objects.iter().any(|object| replaces_pods(t, object)) {
        return Ok(objects);
    }
    values.advertise_address = next.to_string();
    Ok(render_apiserver(templates, &values)?)
}

/// The address that the workload has.
fn live(t: &Tenant<'_>) -> Option<IpAddr> {
    let containers = t.workloads(Binary::ApiServer).first()?.pointer("/spec/template/spec/containers")?;
    let words = |c: &Value| ["command", "args"].map(|list| c[list].as_array().cloned().unwrap_or_default()).concat();
    let mut flags = containers.as_array()?.iter().flat_map(words);
    flags.find_map(|w| w.as_str()?.strip_prefix("--advertise-address=")?.parse().ok())
}
