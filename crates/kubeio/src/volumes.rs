//! Where volumes of etcd's members are, for what no node could hold (ADR 69).

use crate::calls::{Io, encode};
use berth_plan::room::{Node, PodThere, Volume};
use berth_plan_etcd::room::VolumeOf;
use berth_render::{Kind, ObjectKey};
use std::collections::{BTreeMap, HashMap};

/// Reads where these volumes can be used, and what pods ask for on the node of one that is on no other; by member. What cannot be read ties
/// nobody: it is for an estimate.
pub async fn read_volumes(io: &Io, asked: &[VolumeOf], nodes: &[Node]) -> BTreeMap<String, Volume> {
    let mut all = BTreeMap::new();
    let mut on: HashMap<String, Vec<PodThere>> = HashMap::new();
    for VolumeOf { member, claim, name } in asked {
        let live = io.get(&ObjectKey::cluster(Kind::PersistentVolume, &**name)).await.ok().flatten();
        let Some(mut live) = live else { continue };
        let affinity = live["spec"]["nodeAffinity"].take();
        let mut volume = Volume { claim: claim.clone(), name: name.clone(), affinity, pods: vec![] };
        if let Some(node) = volume.node(nodes) {
            volume.pods = match on.get(&node.name) {
                Some(known) => known.clone(),
                None => pods(io, &node.name).await,
            };
            on.insert(node.name.clone(), volume.pods.clone());
        }
        all.insert(member.clone(), volume);
    }
    all
}

async fn pods(io: &Io, node: &str) -> Vec<PodThere> {
    let pods = io.raw(&format!("/api/v1/pods?fieldSelector=spec.nodeName%3D{}", encode(node))).await.ok();
    let all = pods.as_ref().and_then(|pods| pods["items"].as_array()).into_iter().flatten();
    all.filter_map(PodThere::of).collect()
}
