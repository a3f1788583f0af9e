//! Whether a node could hold the members as the spec asks for them, before one is stopped for it.

use super::note::Nodes;
use super::{digest, is_tried};
use crate::subject::{Subject, children};
use berth_api::EtcdCluster;
use berth_api::common::{Placement, Resources};
use berth_api::names;
use berth_plan::etcd_home::name_of;
use berth_plan::observed::Observed;
use berth_plan::room::{Need, NoRoom, Node, Place, PodThere, Unread, Volume, beside};
use berth_render::Kind;
use serde_json::Value;
use std::collections::BTreeMap;
use std::sync::Arc;

fn need(etcd: &EtcdCluster) -> Need<'_> {
    Need { resources: etcd.spec.resources.as_ref(), placement: &etcd.spec.placement }
}

/// Whether the spec asks more of nodes than what runs.
fn is_more(etcd: &EtcdCluster, observed: &Observed) -> bool {
    let (name, _) = name_of(etcd);
    let mut sets = children(etcd, observed, Kind::StatefulSet).filter(|(key, _)| key.name == name);
    sets.any(|(_, set)| need(etcd).is_more_than(&set["spec"]["template"]))
}

/// A volume that is to be read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VolumeOf {
    /// The member.
    pub member: String,
    /// Its claim.
    pub claim: String,
    /// The name of the `PersistentVolume`.
    pub name: String,
}

/// What the answer depends on that is read of volumes: as long as all of this is the same, it only grows old.
#[derive(Clone, Debug, PartialEq)]
pub struct Asked {
    /// The volumes.
    pub volumes: Vec<VolumeOf>,
    /// The nodes.
    pub nodes: Arc<Vec<Node>>,
    resources: Option<Resources>,
    placement: Placement,
}

/// What is to be read of volumes for a plan. None: nothing depends on them, since the spec asks for no more of nodes than what runs, it was
/// tried, or no node could hold it whatever volume it has.
pub fn asked(etcd: &EtcdCluster, observed: &Observed) -> Option<Asked> {
    let nodes = observed.meta.room.clone().filter(|_| is_more(etcd, observed))?;
    let (name, _) = name_of(etcd);
    let sets = children(etcd, observed, Kind::StatefulSet).filter(|(key, _)| key.name == name);
    let depends = |set: &Value| {
        !is_tried(set, &digest(etcd)) && need(etcd).beside(&set["spec"]["template"], &nodes, None).is_ok()
    };
    sets.map(|(_, set)| set).find(|set| depends(set))?;
    let claims = children(etcd, observed, Kind::PersistentVolumeClaim);
    let of = |claim: &str| {
        claim.strip_prefix("data-").filter(|m| names::etcd::ordinal(name, m).is_some()).map(str::to_owned)
    };
    let volumes = claims.filter_map(|(key, claim)| {
        let volume = claim["spec"]["volumeName"].as_str().filter(|volume| !volume.is_empty())?;
        Some(VolumeOf { member: of(&key.name)?, claim: key.name.clone(), name: volume.to_owned() })
    });
    let (resources, placement) = (etcd.spec.resources.clone(), etcd.spec.placement.clone());
    Some(Asked { volumes: volumes.collect(), nodes, resources, placement })
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

/// Whether nodes could hold what the spec asks for, or do not tell, or what none could hold of it. None: they are not known, or it asks for no
/// more than what runs.
fn judged(s: &Subject<'_>) -> Option<Result<bool, NoRoom>> {
    let known = s.observed.meta.room.as_deref().filter(|_| is_more(s.etcd, s.observed));
    let (nodes, set) = (known?, s.get(Kind::StatefulSet, s.name)?);
    let (need, members, runs) = (need(s.etcd), s.members(), &set["spec"]["template"]);
    let of = |member: &String| need.beside(runs, nodes, place(s, nodes, &members, member).as_ref());
    let each: Result<Vec<bool>, NoRoom> = members.iter().map(of).collect();
    Some(each.map(|each| each.into_iter().all(|could| could)))
}

/// What could not be read of a member's volume, with its claim: what the operator has no right to only where there is nothing else.
fn unread<'a>(s: &Subject<'a>) -> Option<(&'a str, &'a Unread)> {
    let volumes: &'a BTreeMap<String, Volume> = &s.observed.volumes;
    let members = s.members();
    let all = members.iter().filter_map(|member| volumes.get(member));
    all.filter_map(|volume| Some((&*volume.claim, volume.unread.as_ref()?))).min_by_key(|(_, unread)| unread.is_denied)
}

fn is_not_judged(s: &Subject<'_>) -> bool {
    s.settings.nodes_are_added || s.observed.meta.may_change.has_nodes(Kind::StatefulSet)
}

fn said(NoRoom { field, why, .. }: &NoRoom) -> String {
    format!("spec.{field} (spec.etcd.{field} of its Cluster): {why}")
}

fn not_read(claim: &str) -> String {
    format!(
        "spec.resources or spec.placement (spec.etcd.resources and spec.etcd.placement of its Cluster): whether a node has room for a member with it is not known, since the volume of PersistentVolumeClaim {claim}, or what pods on its node ask for, could not be read"
    )
}

/// What nodes say of what the spec asks for.
pub(super) fn nodes(s: &Subject<'_>) -> Nodes {
    if is_not_judged(s) {
        return Nodes::Could;
    }
    match (judged(s), unread(s)) {
        (Some(Err(no_room)), _) => Nodes::NoneCould(said(&no_room)),
        (Some(Ok(_)), Some((claim, unread))) if !unread.is_denied => Nodes::NotRead(not_read(claim)),
        (Some(Ok(true)), None) => Nodes::Could,
        (Some(Ok(_)) | None, _) => Nodes::Unknown,
    }
}

/// What the platform team is told of a change that is not begun.
pub(super) fn for_platform(s: &Subject<'_>) -> Option<String> {
    match (judged(s).filter(|_| !is_not_judged(s))?, unread(s)) {
        (Err(no_room), _) => Some(format!("{} ({})", said(&no_room), no_room.nodes)),
        (Ok(_), unread) => unread.map(|(claim, unread)| format!("{} ({})", not_read(claim), unread.why)),
    }
}
