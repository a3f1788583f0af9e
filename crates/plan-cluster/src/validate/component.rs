//! What the spec asks of one component.

use super::{limits, writers};
use crate::components::Component;
use crate::subject::Tenant;
use berth_api::ClusterSpec;
use berth_api::common::Resources;
use berth_api::conditions::Reason;
use berth_api::quantity;
use berth_plan::model::State;
use berth_render::{FLAGS, values::ExtraArg};

/// Requests that are more than their limit, which no API server takes; `field` is the component's name in the spec.
pub(crate) fn resources(field: &str, asked: Option<&Resources>) -> Result<(), State> {
    match asked.and_then(quantity::beyond_limit) {
        Some(why) => Err(State::blocked(Reason::InvalidSpec, format!("spec.{field}.resources: {why}"))),
        None => Ok(()),
    }
}

/// What the spec asks of a component: its extra flags, or why something of it is refused.
pub(crate) fn component(t: &Tenant<'_>, component: &Component) -> Result<Vec<ExtraArg>, State> {
    let spec = &t.cluster.spec;
    writers::placement(component.field(), (component.asked)(spec).placement, &t.settings.writers)?;
    writers::images(&spec.images, &t.settings.writers)?;
    let asked = (component.asked)(spec);
    let own = format!("{}.replicas", component.field());
    let replicas = asked.replicas.map_or(("replicas", spec.replicas), |replicas| (&*own, replicas));
    limits::component(component.field(), replicas, asked.resources, &t.settings.writers.limits)?;
    resources(component.field(), (component.asked)(spec).resources)?;
    extra_args(spec, component).map_err(|message| State::blocked(Reason::InvalidSpec, message))
}

/// What follows the template's arguments, or which extra flag is refused and why.
pub(super) fn extra_args(spec: &ClusterSpec, component: &Component) -> Result<Vec<ExtraArg>, String> {
    let own = (component.asked)(spec).extra_args;
    let args = berth_render::extra_args(FLAGS, component.binary, spec, own);
    args.map_err(|why| format!("spec.{}.extraArgs: {why}", component.field()))
}
