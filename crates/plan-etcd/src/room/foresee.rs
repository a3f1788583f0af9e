//! Whether a node could hold the members as the spec asks for them, before one is stopped for it.

use super::note::Nodes;
use crate::subject::{Subject, children};
use berth_api::EtcdCluster;
use berth_api::names;
use berth_plan::etcd_home::name_of;
use berth_plan::observed::Observed;
use berth_plan::room::{Need, NoRoom, Node, Place, PodThere, beside};
use berth_render::Kind;

fn need(etcd: &EtcdCluster) -> Need<'_> {
    Need { resources: etcd.spec.resources.as_ref(), placement: &etcd.spec.placement }
}

/// Whether the spec asks more of nodes than what runs.
fn is_more(etcd: &EtcdCluster, observed: &Observed) -> bool {
    let (name, _) = name_of(etcd);
    let mut sets = children(etcd, observed, Kind::StatefulSet).filter(|(key, _)| key.name == name);
    sets.any(|(_, set)| need(etcd).is_more_than(&set["spec"]["template"]))
}

/// Volumes to be read for a plan, by member, each with its claim: where the spec asks more of nodes than what runs.
pub fn volumes(etcd: &EtcdCluster, observed: &Observed) -> Vec<(String, String, String)> {
    if observed.meta.room.is_none() || !is_more(etcd, observed) {
        return vec![];
    }
    let (name, _) = name_of(etcd);
    let claims = children(etcd, observed, Kind::PersistentVolumeClaim);
    let of = |claim: &str| {
        claim.strip_prefix("data-").filter(|m| names::etcd::ordinal(name, m).is_some()).map(str::to_owned)
    };
    claims
        .filter_map(|(key, claim)| {
            let volume = claim["spec"]["volumeName"].as_str().filter(|volume| !volume.is_empty())?;
            Some((of(&key.name)?, key.name.clone(), volume.to_owned()))
        })
        .collect()
}

/// Where a member has to be, with all others that have to be there, too.
fn place<'a>(s: &Subject<'a>, nodes: &[Node], members: &[String], member: &str) -> Option<Place<'a>> {
    let volume = s.observed.volumes.get(member)?;
    let on = |member: &str| s.observed.volumes.get(member).and_then(|volume| volume.node(nodes));
    let node = on(member);
    let there: Vec<&String> = members.iter().filter(|other| node.is_some() && on(other) == node).collect();
    let is_own = |pod: &PodThere| pod.name.0 == s.namespace && there.iter().any(|member| **member == pod.name.1);
    let set = s.get(Kind::StatefulSet, s.name)?;
    // Of another class, nobody knows whom it would push away.
    let class = set["spec"]["template"]["spec"]["priorityClassName"].as_str();
    let stays = class == s.etcd.spec.placement.priority_class_name.as_deref();
    let beside = stays.then(|| beside(&volume.pods, is_own)).flatten().unwrap_or_default();
    Some(Place { volume, beside, times: i128::try_from(there.len().max(1)).unwrap_or(1) })
}

/// What nodes say of what the spec asks for.
pub(super) fn nodes(s: &Subject<'_>) -> Nodes {
    if s.settings.nodes_are_added || s.observed.meta.may_change.has_nodes(Kind::StatefulSet) {
        return Nodes::Could;
    }
    let known = s.observed.meta.room.as_deref().filter(|_| is_more(s.etcd, s.observed));
    let Some(nodes) = known else { return Nodes::Unknown };
    let (need, members) = (need(s.etcd), s.members());
    let Some(set) = s.get(Kind::StatefulSet, s.name) else { return Nodes::Unknown };
    let runs = &set["spec"]["template"];
    let judge = |member: &String| need.beside(runs, nodes, place(s, nodes, &members, member).as_ref()).err();
    match members.iter().find_map(judge) {
        Some(NoRoom { field, why }) => {
            Nodes::NoneCould(format!("spec.{field} (spec.etcd.{field} of its Cluster): {why}"))
        }
        None => Nodes::Could,
    }
}
