//! A port of nodes that the spec asks for and that is not to be had, because another Service has it or it is in no range.
//!
//! Nothing announces that it is free, so it is asked for anew now and then. In between the status remembers.

use crate::subject::Tenant;
use berth_api::cluster::RefusedNodePort;
use berth_api::conditions::Reason;
use berth_api::names;
use berth_plan::model::State;
use berth_render::Kind;
use serde_json::Value;

/// It is asked for anew in one minute of so many.
const MINUTES: i64 = 10;

/// Why the port that is asked for is not to be had: as the API server told in this reconcile, or as was said of this spec before.
pub(crate) fn refused(t: &Tenant<'_>) -> Option<String> {
    let asked = t.cluster.spec.endpoint.node_port?;
    let told = t.observed.refused_addresses.get(&t.key(Kind::Service, names::APISERVER));
    told.and_then(|told| told.node_ports.get(&asked).cloned()).or_else(|| said(t, asked))
}

/// None: it is to be asked for.
fn said(t: &Tenant<'_>, asked: i32) -> Option<String> {
    let port = t.get(Kind::Service, names::APISERVER)?.pointer("/spec/ports/0/nodePort");
    let is_had = port.and_then(Value::as_i64) == Some(asked.into());
    let is_due = t.now.as_second().div_euclid(60).rem_euclid(MINUTES) == 0;
    let status = t.cluster.status.as_ref()?;
    let is_new = status.observed_generation != t.cluster.metadata.generation;
    if is_had || is_due || is_new {
        return None;
    }
    status.refused_node_port.clone().filter(|refused| refused.port == asked).map(|refused| refused.why)
}

/// For the status, which remembers it. An operator from before forgets it, and then it is asked for anew.
pub(crate) fn status(t: &Tenant<'_>) -> Option<RefusedNodePort> {
    Some(RefusedNodePort { port: t.cluster.spec.endpoint.node_port?, why: refused(t)? })
}

/// That the API is at another port of nodes than asked for.
pub(super) fn state(t: &Tenant<'_>) -> Option<State> {
    let (asked, why) = (t.cluster.spec.endpoint.node_port?, refused(t)?);
    let has = t.endpoint.published.as_ref().map(|(_, port)| format!("; it has {port}")).unwrap_or_default();
    let message = format!(
        "spec.endpoint.nodePort: Service kube-apiserver cannot have {asked}: {why}{has}. Set another port, or remove the field"
    );
    Some(State::blocked(Reason::InvalidSpec, message))
}
