//! The agent's image, where pods cannot get the recorded one.

use crate::record::Pin;
use crate::subject::Tenant;
use berth_plan::settings::Settings;
use berth_plan::workload;
use berth_render::{Kind, relocated};
use serde_json::Value;

/// The pin with the agent that the operator is configured with by now, where pods cannot get the recorded one and nothing has come
/// up with it: a mistake in the chart's values is mended with them.
pub(crate) fn with_available_agent(pin: Pin, t: &Tenant<'_>) -> Pin {
    let registry = t.cluster.spec.images.registry.as_ref();
    let recorded = registry.map_or_else(|| pin.agent_image.clone(), |r| relocated(r, &pin.agent_image));
    let of_kind = |kind| t.observed.of_kind(kind, &t.cp_namespace).map(|(_, object)| object);
    let came_up = |image: &str| {
        let is_up = |d: &Value| {
            let rollout = workload::rollout(d);
            workload::has_agent(d, image) && rollout.settled && rollout.desired > 0
        };
        t.distribution.programs.iter().any(|(binary, _)| t.workloads(*binary).live().any(is_up))
    };
    let lacks = |image: &str| of_kind(Kind::Pod).any(|p| workload::waits_for(p, image)) && !came_up(image);
    // The container `vpc` has the platform's, wherever the others come from.
    if lacks(&recorded) || lacks(&pin.agent_image) {
        let Settings { agent_image, agent_delivery, .. } = t.settings;
        return Pin { agent_image: agent_image.clone(), agent_delivery: *agent_delivery, ..pin };
    }
    pin
}
