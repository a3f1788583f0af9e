//! Nodes that do not take a release's pods: foreseen before it begins, or found while nothing else serves.

use crate::components::ALL;
use crate::ours::is_ours;
use crate::subject::Tenant;
use berth_api::conditions::Reason;
use berth_api::labels;
use berth_plan::model::State;
use berth_plan::room::{ALONE, Need, NoRoom, is_of_the_pod};
use berth_plan::workload;
use berth_render::Kind;
use jiff::SignedDuration;

/// Why no node could hold a component as the spec asks for it, where that is more than what runs.
pub(super) fn refusal(t: &Tenant<'_>) -> Option<State> {
    let nodes = t.observed.meta.room.as_deref().filter(|_| !t.settings.nodes_are_added)?;
    ALL.iter().find_map(|component| {
        let asked = (component.asked)(&t.cluster.spec);
        let need = Need { resources: asked.resources, placement: asked.placement };
        let live = t.workloads(component.binary).that(is_ours);
        let kind = live.keys().first()?.kind;
        let runs = live.live().map(|live| &live["spec"]["template"]).find(|runs| need.is_more_than(runs))?;
        let NoRoom { field, why } = need.beside(runs, nodes, None).err()?;
        if t.observed.meta.may_change.has_nodes(kind) {
            return None;
        }
        let message = format!(
            "spec.{}.{field}: {why}. Nothing of this release begins, and no pod was stopped for it. Set the field to what a node has, or add a node that has as much",
            component.field()
        );
        Some(State::blocked(Reason::Unschedulable, message))
    })
}

/// A pod that no node takes.
#[derive(Clone, Debug)]
pub(super) struct Unplaced {
    pub(super) pod: String,
    /// What the scheduler says.
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
            Some(Self { pod: key.name.clone(), why: why.to_owned(), left: ALONE - t.now.duration_since(since) })
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
