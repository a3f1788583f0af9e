//! Nodes that do not take a release's pods: foreseen before it begins, or found while nothing else serves.

use crate::components::ALL;
use crate::ours::is_ours;
use crate::subject::Tenant;
use berth_api::conditions::Reason;
use berth_api::labels;
use berth_plan::model::State;
use berth_plan::room::{ALONE, Need, NoRoom, WAY_OUT, is_of_the_pod, without_nodes};
use berth_plan::workload;
use berth_render::Kind;
use jiff::SignedDuration;

/// A component that no node could hold.
struct TooMuch {
    field: String,
    no_room: NoRoom,
}

/// A component as the spec asks for it, where that is more than what runs, and no node could hold it.
fn too_much(t: &Tenant<'_>) -> Option<TooMuch> {
    let nodes = t.observed.meta.room.as_deref().filter(|_| !t.settings.nodes_are_added)?;
    ALL.iter().find_map(|component| {
        let asked = (component.asked)(&t.cluster.spec);
        let need = Need { resources: asked.resources, placement: asked.placement };
        let live = t.workloads(component.binary).that(is_ours);
        let kind = live.keys().first()?.kind;
        let runs = live.live().map(|live| &live["spec"]["template"]).find(|runs| need.is_more_than(runs))?;
        let no_room = need.beside(runs, nodes, None).err()?;
        let field = format!("spec.{}.{}", component.field(), no_room.field);
        (!t.observed.meta.may_change.has_nodes(kind)).then_some(TooMuch { field, no_room })
    })
}

/// Why the release does not begin: names of nodes and what they have are not the team's.
pub(super) fn refusal(t: &Tenant<'_>) -> Option<State> {
    let TooMuch { field, no_room: NoRoom { why, .. } } = too_much(t)?;
    let message = format!("{field}: {why}. Nothing of this release begins, and no pod was stopped for it. {WAY_OUT}");
    Some(State::blocked(Reason::Unschedulable, message))
}

/// What the platform team is told of it.
pub(crate) fn for_platform(t: &Tenant<'_>) -> Option<String> {
    let TooMuch { field, no_room: NoRoom { why, nodes, .. } } = too_much(t)?;
    Some(format!("{field}: {why} ({nodes})"))
}

/// A pod that no node takes.
#[derive(Clone, Debug)]
pub(super) struct Unplaced {
    pub(super) pod: String,
    /// What the scheduler says of it, without nodes.
    pub(super) why: String,
    /// How much longer it has.
    left: SignedDuration,
}

impl Unplaced {
    /// An API server that was stopped for a new one, which finds no node for what it asks for, while no other serves. Only slots are changed in
    /// their places; where a pod of a Deployment finds no node, the old ones serve on.
    fn seen(t: &Tenant<'_>) -> Option<Self> {
        let api = t.distribution.api();
        let live = t.workloads(api).that(is_ours);
        let in_places = live.keys().iter().all(|key| key.kind == Kind::StatefulSet);
        if !in_places || live.rollout()?.serving {
            return None;
        }
        workload::pods_of(t.observed, &t.cp_namespace, labels::COMPONENT, api.name()).find_map(|(key, pod)| {
            let since = workload::unscheduled_since(pod)?;
            let why = workload::condition(pod, "PodScheduled")?["message"].as_str().filter(|why| is_of_the_pod(why))?;
            Some(Self { pod: key.name.clone(), why: without_nodes(why), left: ALONE - t.now.duration_since(since) })
        })
    }

    /// One that has waited for long enough.
    pub(super) fn for_long(t: &Tenant<'_>) -> Option<Self> {
        Self::seen(t).filter(|unplaced| !unplaced.left.is_positive())
    }

    /// When one will have.
    pub(super) fn due(t: &Tenant<'_>) -> Option<SignedDuration> {
        Self::seen(t).map(|unplaced| unplaced.left).filter(SignedDuration::is_positive)
    }
}
