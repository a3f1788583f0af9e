//! What the gateway is told of a tenant that may sleep.

use crate::registration;
use crate::subject::Tenant;
use crate::users;
use berth_api::gateway::Hibernates;
use berth_api::hibernation::{SleepRecord, SleepState};
use berth_plan::settings::Engine;

/// Whether gateways of Berth's are told of tenants that sleep.
fn is_told(t: &Tenant<'_>) -> bool {
    t.settings.gateway.as_ref().is_some_and(|gateway| gateway.has(Engine::Berth) && gateway.namespace.is_some())
}

/// Whether they hand nobody over yet: rights are there of which nobody knows yet whether they ended, or those of Argo CD, which are to go.
pub(crate) fn is_closed(t: &Tenant<'_>, sleep: Option<&SleepRecord>) -> bool {
    let sleeps = sleep.is_some_and(|sleep| matches!(sleep.state, SleepState::Asleep | SleepState::Waking));
    is_told(t) && (users::closes(t.observed, &t.cp_namespace, sleep) || (sleeps && registration::rights_go(t)))
}

/// None: connections fail at once while it has no API server.
pub(super) fn hibernates(t: &Tenant<'_>) -> Option<Hibernates> {
    let asked = &t.cluster.spec.hibernation;
    let is_restored = is_told(t) && users::is_restored(t.observed, &t.cp_namespace, t.now);
    let closed = is_restored || is_closed(t, t.sleep.record.as_ref());
    if !is_told(t) || (asked.after_idle.is_none() && !asked.wake.on_connect && !closed) {
        return None;
    }
    // One that is no range wakes nobody; the schema refuses it.
    let from = asked.wake.from.as_ref().map(|all| all.iter().filter_map(|range| range.parse().ok()).collect());
    // What holds whatever else there is, a connection does not change: who comes then is not kept waiting.
    Some(Hibernates { wakes: asked.wake.on_connect && !asked.enabled, from, closed })
}
