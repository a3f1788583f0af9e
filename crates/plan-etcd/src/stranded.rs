//! A member whose volume is on a node that does not come back. The scheduler finds no node for its pod, however long that lasts: only on
//! another volume it can run again, as a copy of the others.
//!
//! A node counts as gone if somebody says so (the taint `node.kubernetes.io/out-of-service`), or once its object was away for some minutes
//! in which the pod could not be placed: then nothing runs there for which Kubernetes knows. How long it is away no object says, and a pod
//! can wait for other reasons before: the status remembers when it was first seen. A node that is merely not ready is waited for.
//! Only volumes that name their node count: one of a zone may be attached to the next node of that zone.

use super::subject::{Subject, children};
use crate::volumes;
use berth_api::etcd_cluster::{AbsentNode, EtcdCluster};
use berth_api::names;
use berth_plan::etcd_home::{delete_volumes, give_up, name_of};
use berth_plan::object_meta::{deleting, label};
use berth_plan::observed::Observed;
use berth_plan::workload::unscheduled_since;
use berth_render::{Kind, ObjectKey};
use jiff::SignedDuration;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use serde_json::Value;

/// How long a node is away before its member is replaced: kubelets register anew after a restart of theirs.
const GRACE: SignedDuration = SignedDuration::from_mins(5);
/// The label by which volumes name their node.
const HOSTNAME: &str = "kubernetes.io/hostname";
/// Whoever sets it says that the machine is off. Source: <https://kubernetes.io/docs/concepts/cluster-administration/node-shutdown/>.
const OUT_OF_SERVICE: &str = "node.kubernetes.io/out-of-service";

/// Why a member's pod finds no node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Stranded {
    /// For what people read. Names of nodes are the platform team's.
    pub(super) why: String,
    /// The node, if it is one that is away.
    node: Option<String>,
    /// The volume does not come back.
    pub(super) is_proven: bool,
    /// Its node does not exist.
    absent: Option<AbsentNode>,
}

/// Volumes to be read for a plan: of members whose pods are not placed.
pub fn volumes(etcd: &EtcdCluster, observed: &Observed) -> Vec<String> {
    let (name, namespace) = name_of(etcd);
    let ours = children(etcd, observed, Kind::PersistentVolumeClaim).filter(|(_, claim)| !deleting(claim));
    let waits = |key: &ObjectKey| {
        let member = key.name.strip_prefix("data-").filter(|member| names::etcd::ordinal(name, member).is_some());
        let pod = member.and_then(|member| observed.get(&ObjectKey::namespaced(Kind::Pod, namespace, member)));
        pod.and_then(unscheduled_since).is_some()
    };
    ours.filter(|(key, _)| waits(key)).filter_map(|(_, claim)| volume(claim)).map(str::to_owned).collect()
}

/// The node that a volume names by its hostname. None: it can be elsewhere, too.
pub fn host(volume: &Value) -> Option<&str> {
    let terms = volume.pointer("/spec/nodeAffinity/required/nodeSelectorTerms")?.as_array()?;
    let [term] = terms.as_slice() else { return None };
    let rules = term["matchExpressions"].as_array()?;
    let rule = rules.iter().find(|rule| rule["key"] == HOSTNAME && rule["operator"] == "In")?;
    let [host] = rule["values"].as_array()?.as_slice() else { return None };
    host.as_str()
}

fn volume(claim: &Value) -> Option<&str> {
    claim["spec"]["volumeName"].as_str().filter(|volume| !volume.is_empty())
}

/// Whether a member's volume is known to be one of a single node.
pub(super) fn is_of_one_node(s: &Subject<'_>, member: &str) -> bool {
    let claim = volumes::claim(s, member);
    let live = claim.and_then(|(_, claim)| s.observed.get(&ObjectKey::cluster(Kind::PersistentVolume, volume(claim)?)));
    live.is_some_and(|live| host(live).is_some())
}

/// Whether a member's pod finds no node because of its volume. None: not, or nothing is known.
pub(super) fn of(s: &Subject<'_>, member: &str) -> Option<Stranded> {
    let since = unscheduled_since(s.pod(member)?)?;
    let (key, claim) = volumes::claim(s, member).filter(|(_, claim)| !deleting(claim))?;
    let volume = volume(claim)?;
    if volumes::is_lost(claim) {
        return Some(Stranded {
            why: format!("PersistentVolume {volume} of {key} does not exist any more"),
            node: None,
            is_proven: true,
            absent: None,
        });
    }
    let live = s.observed.get(&ObjectKey::cluster(Kind::PersistentVolume, volume))?;
    if live.pointer("/spec/claimRef/uid") != claim.pointer("/metadata/uid") {
        return None;
    }
    let host = host(live)?;
    let nodes = s
        .observed
        .objects
        .iter()
        .filter(|(key, node)| key.kind == Kind::Node && (key.name == host || label(node, HOSTNAME) == Some(host)));
    let nodes: Vec<_> = nodes.collect();
    let is_out = |node: &Value| {
        node["spec"]["taints"].as_array().is_some_and(|all| all.iter().any(|taint| taint["key"] == OUT_OF_SERVICE))
    };
    let stranded = |what: &str, is_proven, absent| {
        let why = format!("the node that has the volume of {key} {what}");
        Some(Stranded { why, node: Some(host.to_owned()), is_proven, absent })
    };
    match nodes.as_slice() {
        [] => {
            let absent = seen(s, member, host);
            let is_proven = s.now.duration_since(absent.since.0.max(since)) >= GRACE;
            stranded("does not exist", is_proven, Some(absent))
        }
        all if all.iter().all(|(_, node)| is_out(node)) => stranded("is out of service", true, None),
        _ => None,
    }
}

/// What the platform team alone is told: which nodes are away.
pub(super) fn for_platform(s: &Subject<'_>) -> impl Iterator<Item = String> {
    s.members().into_iter().filter_map(|member| {
        let Stranded { why, node, .. } = of(s, &member)?;
        Some(format!("{member}: {why} ({})", node?))
    })
}

/// Since when a node is away: as the status says, or since now.
fn seen(s: &Subject<'_>, member: &str, node: &str) -> AbsentNode {
    let before = s.etcd.status.iter().flat_map(|status| &status.absent_nodes);
    let mut before = before.filter(|absent| absent.member == member && absent.node == node);
    let new = || AbsentNode { member: member.to_owned(), node: node.to_owned(), since: Time(s.now) };
    before.next().cloned().unwrap_or_else(new)
}

/// Nodes that are away, with the volumes of members whose pods wait for them.
pub(super) fn absent(s: &Subject<'_>) -> Vec<AbsentNode> {
    s.members().iter().filter_map(|member| of(s, member)?.absent).collect()
}

/// What becomes of it.
pub(super) fn way_out(s: &Subject<'_>, member: &str, stranded: &Stranded) -> String {
    if s.record.replicas > 1 && s.can_join() {
        let when = if stranded.is_proven { "once" } else { "after 5 minutes, if" };
        return format!(
            "Berth replaces {member} by an empty member, which copies the data from the others, {when} a quorum of them is well"
        );
    }
    if volumes::mounted(s, member).is_some_and(|(_, claim)| volumes::is_lost(claim)) {
        return format!(
            "no other member has its data: restore volume data-{member} from a backup of your storage. If that cannot be, start {member} on an empty volume, and the condition then says how to restore a backup: {}",
            delete_volumes(s.namespace, &[member])
        );
    }
    format!(
        "no other member has its data: bring the node back. If it does not come back, start {member} on an empty volume, and the condition then says how to restore a backup; its old volume is kept: {}",
        give_up(s.namespace, &[member])
    )
}
