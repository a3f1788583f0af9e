//! What the gateway is told of a tenant that may sleep.

use crate::subject::Tenant;
use berth_api::gateway::Hibernates;
use berth_plan::settings::Engine;

/// None: connections fail at once while it has no API server.
pub(super) fn hibernates(t: &Tenant<'_>) -> Option<Hibernates> {
    let gateway = t.settings.gateway.as_ref()?;
    let asked = &t.cluster.spec.hibernation;
    let is_told = gateway.has(Engine::Berth) && gateway.namespace.is_some();
    if !is_told || (asked.after_idle.is_none() && !asked.wake.on_connect) {
        return None;
    }
    // One that is no range wakes nobody; the schema refuses it.
    let from = asked.wake.from.as_ref().map(|all| all.iter().filter_map(|range| range.parse().ok()).collect());
    // What holds whatever else there is, a connection does not change: who comes then is not kept waiting.
    Some(Hibernates { wakes: asked.wake.on_connect && !asked.enabled, from })
}
