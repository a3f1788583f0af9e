//! What the spec asks for that needs facts to be judged: versions, networks, flags.

pub(super) mod host;
pub(super) mod limits;
mod networks;
pub(super) mod vpc;
pub(super) mod writers;

use super::components::{self, Component};
use super::record::Pin;
use super::subject::Tenant;
use berth_api::ClusterSpec;
use berth_api::common::Resources;
use berth_api::conditions::Reason;
use berth_api::etcd_cluster::LEAST_STORAGE;
use berth_api::quantity;
use berth_api::version::Minor;
use berth_plan::model::State;
use berth_plan::settings::Settings;
use berth_plan::workload;
use berth_render::{Catalog, FLAGS, Kind, relocated, values::ExtraArg};
use serde_json::Value;

pub(super) use networks::{NETWORK_IS_IMMUTABLE, disjoint_from_meta, networks, without_ranges};

/// Why a version that this operator does not have is refused.
pub(super) fn unsupported(spec: &ClusterSpec) -> State {
    let supported = Minor::list(&Catalog::builtin().minors());
    State::blocked(
        Reason::VersionUnsupported,
        format!("spec.version: {} is not supported. Set a patch version of {supported}", spec.version),
    )
}

/// The pin with the agent that the operator is configured with by now, where pods cannot get the recorded one and nothing has come
/// up with it: a mistake in the chart's values is mended with them.
pub(super) fn with_available_agent(pin: Pin, t: &Tenant<'_>) -> Pin {
    let registry = t.cluster.spec.images.registry.as_ref();
    let recorded = registry.map_or_else(|| pin.agent_image.clone(), |r| relocated(r, &pin.agent_image));
    let of_kind = |kind| t.observed.of_kind(kind, &t.cp_namespace).map(|(_, object)| object);
    let came_up = |image: &str| {
        let is_up = |d: &Value| {
            let rollout = workload::rollout(d);
            workload::has_agent(d, image) && rollout.settled && rollout.desired > 0
        };
        components::ALL.iter().any(|c| t.workloads(c.binary).live().any(is_up))
    };
    let lacks = |image: &str| of_kind(Kind::Pod).any(|p| workload::waits_for(p, image)) && !came_up(image);
    // The container `vpc` has the platform's, wherever the others come from.
    if lacks(&recorded) || lacks(&pin.agent_image) {
        let Settings { agent_image, agent_delivery, .. } = t.settings;
        return Pin { agent_image: agent_image.clone(), agent_delivery: *agent_delivery, ..pin };
    }
    pin
}

/// Whether a tenant of which nothing is made yet can be made as the spec asks. One that is there is not judged so: what an earlier build
/// took keeps running.
pub(super) fn new_tenant(spec: &ClusterSpec) -> Result<(), State> {
    let invalid = |message| State::blocked(Reason::InvalidSpec, message);
    networks::can_serve(&spec.network).map_err(|why| invalid(format!("{why}. {NETWORK_IS_IMMUTABLE}")))?;
    let size = &spec.etcd.storage.size;
    if quantity::is_less(size, LEAST_STORAGE) {
        return Err(invalid(format!(
            "spec.etcd.storage.size: {size} is less than {LEAST_STORAGE}, which etcd needs. Set a larger one"
        )));
    }
    resources("etcd", spec.etcd.resources.as_ref())?;
    for component in components::ALL {
        resources(component.field(), (component.asked)(spec).resources)?;
        extra_args(spec, component).map_err(invalid)?;
    }
    Ok(())
}

/// Requests that are more than their limit, which no API server takes; `field` is the component's name in the spec.
pub(super) fn resources(field: &str, asked: Option<&Resources>) -> Result<(), State> {
    match asked.and_then(quantity::beyond_limit) {
        Some(why) => Err(State::blocked(Reason::InvalidSpec, format!("spec.{field}.resources: {why}"))),
        None => Ok(()),
    }
}

/// What the spec asks of a component: its extra flags, or why something of it is refused.
pub(super) fn component(t: &Tenant<'_>, component: &Component) -> Result<Vec<ExtraArg>, State> {
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
fn extra_args(spec: &ClusterSpec, component: &Component) -> Result<Vec<ExtraArg>, String> {
    let own = (component.asked)(spec).extra_args;
    let args = berth_render::extra_args(FLAGS, component.binary, spec, own);
    args.map_err(|why| format!("spec.{}.extraArgs: {why}", component.field()))
}
