//! One pod after the other, followers first, and only while every member is ready and no volume would go with its pod.

use super::subject::{Subject, pod_version};
use crate::health::Health;
use berth_api::conditions::Reason;
use berth_plan::model::{Action, State};
use berth_plan::object_meta::{deleting, label};
use berth_plan::workload::{REVISION, pod_ready, taken_up, unscheduled_since, waits_for_an_image};
use berth_render::Kind;
use serde_json::Value;

/// Whether a pod does nothing: its image cannot be pulled, or no node takes it.
fn does_nothing(pod: &Value) -> bool {
    waits_for_an_image(pod) || unscheduled_since(pod).is_some()
}

/// The replacement of a pod that does nothing, and never will: its image cannot be pulled, and the newest template has another. It is all
/// that may be rolled while members change, since a member that comes would be waited for for ever.
pub(super) fn stuck(s: &Subject<'_>, health: &Health) -> Option<Action> {
    let waits = |m: &String| s.pod(m).is_some_and(does_nothing);
    s.members().iter().any(waits).then(|| next(s, health).1)?
}

/// The state of the roll, and the one pod to replace now. (None, None): every pod is of the newest template, or a volume would go with
/// its pod, which the stage says.
pub(super) fn next(s: &Subject<'_>, health: &Health) -> (Option<State>, Option<Action>) {
    if health.deleting_volume.is_some() {
        return (None, None);
    }
    let Some(set) = s.get(Kind::StatefulSet, s.name) else { return (None, None) };
    let revision = set.pointer("/status/updateRevision").and_then(Value::as_str);
    let (Some(revision), true) = (revision, taken_up(set)) else {
        return (Some(State::waiting(format!("StatefulSet {} to be observed by its controller", s.name))), None);
    };
    let members = s.members();
    let old: Vec<&String> =
        members.iter().filter(|m| s.pod(m).is_some_and(|p| label(p, REVISION) != Some(revision))).collect();
    if old.is_empty() {
        return (None, None);
    }
    let rolling = |on: String| Some(State::Waiting { reason: Reason::RollingOut, on });
    let replaced = |m: &str| Some(Action::delete(&s.key(Kind::Pod, m), s.pod(m)?, None));
    if let Some(stuck) = old.iter().find(|m| s.pod(m).is_some_and(waits_for_an_image)) {
        return (rolling(format!("pod {stuck}, whose image cannot be pulled, to be replaced")), replaced(stuck));
    }
    // It runs nowhere, so nothing is lost with it; the newest template may ask for less.
    if let Some(stuck) = old.iter().find(|m| s.pod(m).is_some_and(|pod| unscheduled_since(pod).is_some())) {
        return (rolling(format!("pod {stuck}, which no node takes, to be replaced")), replaced(stuck));
    }
    // A version that was gone back from keeps this one from being ready, and no other.
    let is_other = |m: &str| s.pod(m).and_then(pod_version).is_some_and(|v| v != s.record.version);
    let ill = |m: &str| health.members.iter().any(|h| h.name == m && h.problem.is_some());
    let serves = |m: &str| !ill(m) && s.pod(m).is_some_and(pod_ready);
    if let Some(failed) = old.iter().find(|m| ill(m) && is_other(m) && s.pod(m).is_some_and(|p| !deleting(p)))
        && members.iter().all(|m| m == *failed || serves(m))
    {
        return (rolling(format!("pod {failed} to go back to etcd {}", s.record.version)), replaced(failed));
    }
    let whole = members.iter().all(|m| s.pod(m).is_some_and(|p| !deleting(p)));
    let safe = members.len() == 1
        || (health.all_ready() && !health.corrupt() && members.iter().all(|m| s.pod(m).is_some_and(pod_ready)));
    if !whole || !safe {
        let pods = old.iter().map(|m| m.as_str()).collect::<Vec<_>>().join(", ");
        let on = format!(
            "all members to be ready; then Berth replaces the pods with the old template ({pods}). If the old template keeps one of them from running, delete that pod"
        );
        return (rolling(on), None);
    }
    // Followers first: each loss of a leader costs an election.
    let leads = |m: &String| health.members.iter().any(|h| h.name == *m && h.leader);
    let chosen = old.iter().rev().find(|m| !leads(m)).or(old.last());
    let action = chosen.and_then(|m| replaced(m));
    let name = chosen.map(|m| m.as_str()).unwrap_or_default();
    (
        rolling(format!("pod {name} to be replaced; {} of {} pods have the old template", old.len(), members.len())),
        action,
    )
}
