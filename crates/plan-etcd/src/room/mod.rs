//! A change of resources or placement with which no node takes a member: what ran before runs again, until the spec asks for something else.
//!
//! What no node could hold, by what nodes say of themselves, is not begun at all (`foresee`): no member is stopped for it.
//!
//! Before it begins, the `StatefulSet` notes what its pods had; the note goes once all have the new shape. A member whose pod finds no node
//! with it gets the noted shape back, and the note says what was refused, so that it is not tried for ever. Where no node takes that either,
//! and another might take what is asked for, it is asked for once more, and stays so: neither alternates with the other.

mod foresee;
mod note;

pub use foresee::{Asked, VolumeOf, asked};

use crate::subject::Subject;
use crate::{stranded, volumes};
use berth_api::EtcdCluster;
use berth_api::conditions::Reason;
use berth_api::labels;
use berth_plan::digest::sha256;
use berth_plan::model::State;
use berth_plan::object_meta::{annotation, label};
use berth_plan::room::{ALONE, WAY_OUT, is_of_the_pod, without_nodes};
use berth_plan::workload::{REVISION, condition, pod_ready, taken_up, unscheduled_since};
use berth_render::{Kind, Object};
use jiff::SignedDuration;
use note::{Note, Pods, Shape, decide};
use serde_json::{Value, json};

/// As [`ALONE`], where others serve: an autoscaler has the time to bring a node.
const AMONG_OTHERS: SignedDuration = SignedDuration::from_mins(5);

fn noted(set: &Value) -> Option<Note> {
    serde_json::from_str(annotation(set, labels::RAN_WITH)?).ok()
}

/// Of what the spec says of resources and placement.
fn digest(etcd: &EtcdCluster) -> String {
    let spec = &etcd.spec;
    sha256(json!([spec.resources, spec.placement]).to_string().as_bytes()).chars().take(16).collect()
}

/// Whether no node took it: then it does not matter any more what nodes have.
fn is_tried(set: &Value, spec: &str) -> bool {
    let refused = noted(set).and_then(|note| note.refused);
    refused.is_some_and(|refused| !refused.is_foreseen && refused.spec == spec)
}

fn pods(s: &Subject<'_>, set: &Value) -> Pods {
    let revision = set.pointer("/status/updateRevision").and_then(Value::as_str);
    let members = s.members();
    let is_newest = |pod: &&Value| revision.is_some() && label(pod, REVISION) == revision;
    let newest = |member: &String| s.pod(member).filter(is_newest);
    if !taken_up(set) {
        return Pods::Changing;
    }
    if members.iter().all(|member| newest(member).is_some_and(pod_ready)) {
        return Pods::Ready;
    }
    let grace = if members.len() == 1 { ALONE } else { AMONG_OTHERS };
    let waiting = || members.iter().filter_map(|member| Some((member, waits(s, member, newest(member)?, grace)?)));
    if let Some((_, why)) = waiting().find(|(_, why)| is_of_the_pod(why)) {
        return Pods::Unplaced(without_nodes(why));
    }
    // With a volume of one node it runs there or nowhere.
    if waiting().any(|(member, _)| !stranded::is_of_one_node(s, member)) { Pods::Away } else { Pods::Changing }
}

/// Why no node takes a member's pod, for that long. None: one does, or it waits for its volume, wherever it may run.
fn waits<'a>(s: &Subject<'_>, member: &str, pod: &'a Value, grace: SignedDuration) -> Option<&'a str> {
    unscheduled_since(pod).filter(|since| s.now.duration_since(*since) >= grace)?;
    let why = condition(pod, "PodScheduled")?["message"].as_str()?;
    let no_volume = volumes::claim(s, member).is_none_or(|(_, claim)| claim["status"]["phase"] == "Pending");
    (!no_volume && stranded::of(s, member).is_none()).then_some(why)
}

/// The `StatefulSet` as it is to be: with the note, and with what ran before where no node takes what is asked for.
pub(super) fn with_room(s: &Subject<'_>, object: Object) -> Object {
    let Some(template) = object.get("/spec/template").filter(|_| object.key().kind == Kind::StatefulSet) else {
        return object;
    };
    let set = s.get(Kind::StatefulSet, s.name);
    let live = set.map(|set| Shape::of(&set["spec"]["template"]));
    let pods = set.map_or(Pods::Changing, |set| pods(s, set));
    let asked = (&Shape::of(template), &*digest(s.etcd));
    let seen = (&pods, &foresee::nodes(s));
    let Some(note) = decide(live.as_ref(), asked, set.and_then(noted), seen, s.record.operation.is_none()) else {
        return object;
    };
    let text = serde_json::to_string(&note).unwrap_or_default();
    let object = object.with_annotation(labels::RAN_WITH, &text);
    if note.refused.is_none() {
        return object;
    }
    // Nobody asked for one: then it goes by the quota, which may have changed.
    let has_limit = s.etcd.spec.resources.as_ref().and_then(|r| r.limits.as_ref()?.get("memory")).is_some();
    if has_limit { note.ran.put_into(object) } else { note.ran.with_limit_of(&object).put_into(object) }
}

/// Whether a member finds no node with what is asked for, or with what ran, and soon gets the other.
pub(super) fn may_give_way(s: &Subject<'_>) -> bool {
    let is_open = |note: Note| note.refused.is_none_or(|refused| !refused.is_back);
    let begun = s.get(Kind::StatefulSet, s.name).and_then(noted).is_some_and(is_open);
    begun && s.members().iter().filter_map(|member| s.pod(member)).any(|pod| unscheduled_since(pod).is_some())
}

/// Whether what the spec asks for is not begun, since no node could hold it.
fn is_foreseen(s: &Subject<'_>) -> bool {
    let refused = s.get(Kind::StatefulSet, s.name).and_then(noted).and_then(|note| note.refused);
    refused.is_some_and(|refused| refused.is_foreseen && refused.spec == digest(s.etcd))
}

/// What the spec asks for and no node took, or could take.
pub(super) fn refusal(s: &Subject<'_>) -> Option<State> {
    let refused = noted(s.get(Kind::StatefulSet, s.name)?)?.refused.filter(|refused| refused.spec == digest(s.etcd))?;
    if refused.is_unread {
        let why = refused.why;
        return Some(State::blocked(
            Reason::Unschedulable,
            format!(
                "{why}. No member was stopped for it. Berth reads it again within some minutes. If that goes on, ask the platform team: the operator's log has the error"
            ),
        ));
    }
    if refused.is_foreseen {
        let why = refused.why.trim_end_matches('.');
        return Some(State::blocked(Reason::Unschedulable, format!("{why}. No member was stopped for it. {WAY_OUT}")));
    }
    // An earlier Berth noted all that the scheduler said.
    let why = without_nodes(&refused.why);
    Some(State::blocked(
        Reason::Unschedulable,
        format!(
            "spec.resources or spec.placement (spec.etcd.resources and spec.etcd.placement of its Cluster): no node took a member with it: {why}. Berth went back to what ran before. Lower spec.etcd.resources.requests, or ask the platform team for room on a node; then set it to what ran, and to this again"
        ),
    ))
}

/// What the platform team alone is told: what its nodes have.
pub(super) fn for_platform(s: &Subject<'_>) -> Option<String> {
    foresee::for_platform(s).filter(|_| is_foreseen(s))
}
