//! What a decision about a sleep is made from, as it was observed.

use super::decide::SleepView;
use crate::health::Health;
use crate::procedures::restore;
use crate::roll;
use crate::subject::Subject;
use berth_api::etcd_bootstrap::{BootstrapState, Operation, OperationKind, Phase, Record};
use berth_plan::object_meta::deleting;
use berth_plan::workload::taken_up;
use berth_render::Kind;
use serde_json::Value;

/// The view of a reconcile.
pub(crate) fn view_sleep<'a>(s: &'a Subject<'_>, health: &Health) -> SleepView<'a> {
    SleepView {
        now: s.now,
        wanted: s.etcd.spec.hibernation.enabled,
        is_formed: s.record.bootstrap.state == BootstrapState::Established,
        obstacle: obstacle(s, health),
        is_down: restore::is_down(s),
        is_up: has_started(s) && health.all_ready() && health.cluster_id.is_some(),
        has_lost: health.data.is_some(),
        name: s.name,
        record: &s.record,
    }
}

/// An older operator writes a sleep without what it does not know, and has started all members. That it was one, the target still says: no
/// member has the name of the etcd.
pub(crate) fn pick_up(etcd: &str, record: &mut Record) {
    let is_left = |o: &&mut Operation| o.kind == OperationKind::Other && o.target == etcd;
    if let Some(operation) = record.operation.as_mut().filter(is_left) {
        (operation.kind, operation.phase) = (OperationKind::Sleep, Phase::Start);
    }
}

/// Whether all pods are there again: who turned round halfway still has those that end.
fn has_started(s: &Subject<'_>) -> bool {
    let wanted = |set: &Value| set["spec"]["replicas"].as_i64() == Some(s.record.replicas.into()) && taken_up(set);
    let is_there = |member: &String| s.pod(member).is_some_and(|pod| !deleting(pod));
    s.get(Kind::StatefulSet, s.name).is_some_and(wanted) && s.members().iter().all(is_there)
}

/// Why members are not stopped: one that is not well now may not be at the wake, when nobody looks.
fn obstacle(s: &Subject<'_>, health: &Health) -> Option<String> {
    if let Some(upkeep) = s.etcd.status.as_ref().and_then(|status| status.upkeep.as_ref())
        && upkeep.finished.is_none()
    {
        return Some("the upkeep of its databases to be done (status.upkeep)".into());
    }
    if !health.alarms.is_empty() {
        return Some(format!("an alarm to be disarmed: {}", health.raised()));
    }
    if let Some(why) = &health.deleting_volume {
        return Some(why.clone());
    }
    if !health.complete {
        let (up, of) = (health.ready(), health.members.len());
        let why = match health.troubles() {
            why if why.is_empty() => String::new(),
            why => format!("; {why}"),
        };
        return Some(format!("all members to be ready: {up} of {of} are{why}"));
    }
    (roll::next(s, health) != (None, None)).then(|| "the replacement of its pods to be through".into())
}
