//! What the scheduler says of a pod that it finds no node for.
//!
//! It counts the platform's nodes and names their taints. Who may read a `Cluster` learns what the pod lacks; the platform team sees all of it
//! in the pod, which is in the control-plane namespace.

use std::collections::BTreeSet;

/// What is said of the pod, where one that asks for less, or for other nodes, would find one.
const INSUFFICIENT: &str = "Insufficient ";
const OF_THE_POD: [&str; 4] = [
    "didn't match Pod's node affinity/selector",
    "untolerated taint",
    "anti-affinity rules",
    "topology spread constraints",
];

/// What is nothing of the pod: a node that is cordoned or full, a volume that is elsewhere or not there.
const OF_OTHERS: [&str; 9] = [
    "unschedulable",
    "Too many pods",
    "free ports",
    "exceed max volume count",
    "volume node affinity conflict",
    "didn't match PersistentVolume's node affinity",
    "unbound immediate PersistentVolumeClaims",
    "didn't find available persistent volumes to bind",
    "not found",
];

/// Whether a pod finds no node for what it asks for, by what the scheduler says.
pub fn is_of_the_pod(why: &str) -> bool {
    why.contains(INSUFFICIENT) || OF_THE_POD.iter().any(|text| why.contains(text))
}

/// The same in its words, without what it tells of nodes. Of what this made before it makes the same.
pub fn without_nodes(why: &str) -> String {
    let resources: BTreeSet<&str> = why.split(INSUFFICIENT).skip(1).map(resource).collect();
    let resources = resources.into_iter().filter(|name| !name.is_empty()).map(|name| format!("{INSUFFICIENT}{name}"));
    let known = OF_THE_POD.into_iter().chain(OF_OTHERS).filter(|text| why.contains(text)).map(str::to_owned);
    let all: Vec<String> = resources.chain(known).collect();
    if all.is_empty() { NONE.to_owned() } else { format!("{NONE}: {}", all.join(", ")) }
}

/// What precedes the scheduler's words in what is recorded of a failure, and what may follow them.
const QUOTED_AFTER: [&str; 2] = [": not scheduled: ", "no other API server served: "];
const QUOTED_BEFORE: &str = ". No rollback: ";

/// Why a release or a version failed, as it was recorded: without what an earlier Berth quoted of nodes there.
pub fn recorded_without_nodes(recorded: &str) -> String {
    let begins = QUOTED_AFTER.iter().filter_map(|before| Some(recorded.find(before)? + before.len())).min();
    let (before, said) = recorded.split_at(begins.unwrap_or(recorded.len()));
    if said.is_empty() || said.starts_with(NONE) {
        return recorded.to_owned();
    }
    let (said, after) = said.split_at(said.find(QUOTED_BEFORE).unwrap_or(said.len()));
    format!("{before}{}{after}", without_nodes(said))
}

/// What is said where nothing more is known.
const NONE: &str = "no node takes it";

/// The name at the beginning of the text, such as `cpu` or `example.com/gpu`.
fn resource(text: &str) -> &str {
    let end = text.find(|c: char| !c.is_ascii_alphanumeric() && !"-._/".contains(c)).unwrap_or(text.len());
    text[..end].trim_end_matches('.')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_scheduler_says_is_told_without_nodes() {
        for (said, told, of_the_pod) in [
            ("0/3 nodes are available: 3 Insufficient memory.", "no node takes it: Insufficient memory", true),
            (
                "0/9 nodes are available: 1 node(s) had untolerated taint {dedicated: customer-x}, 1 node(s) were unschedulable, 3 Insufficient example.com/gpu, 4 Insufficient cpu. preemption: 0/9 nodes are available: 9 No preemption victims found for incoming pod.",
                "no node takes it: Insufficient cpu, Insufficient example.com/gpu, untolerated taint, unschedulable",
                true,
            ),
            (
                "0/1 nodes are available: pod has unbound immediate PersistentVolumeClaims. not found",
                "no node takes it: unbound immediate PersistentVolumeClaims, not found",
                false,
            ),
            (
                "0/1 nodes are available: 1 node(s) had volume node affinity conflict",
                "no node takes it: volume node affinity conflict",
                false,
            ),
            ("running PreFilter plugin on node worker-7: timed out", "no node takes it", false),
            ("0/3 nodes are available", "no node takes it", false),
        ] {
            assert_eq!((&*without_nodes(said), is_of_the_pod(said)), (told, of_the_pod));
            assert_eq!((&*without_nodes(told), is_of_the_pod(told)), (told, of_the_pod), "once more");
        }
    }

    #[test]
    fn what_was_recorded_is_told_without_nodes_too() {
        let full = "0/9 nodes are available: 1 node(s) had untolerated taint {dedicated: customer-x}, 8 Insufficient cpu. preemption: 0/9 nodes are available: 9 No preemption victims found for incoming pod.";
        let told = "no node takes it: Insufficient cpu, untolerated taint";
        for before in [
            "no progress for 5m: kube-apiserver: waiting for pod a: not scheduled: ",
            "no node took pod a for 30 s, and no other API server served: ",
        ] {
            for after in ["", ". No rollback: spec.upgrade.onFailure is Hold"] {
                let said =
                    format!("{before}{}{after}", if after.is_empty() { full } else { full.trim_end_matches('.') });
                assert_eq!(recorded_without_nodes(&said), format!("{before}{told}{after}"));
            }
        }
        for stays in [
            "pod a: not scheduled: no node takes it: Insufficient cpu (for the platform team: kubectl -n x describe pod a)",
            "pod a: container etcd: CrashLoopBackOff (last exit code 1): unknown flag: --nope. No rollback: no pod of it fails",
            "pod a: not scheduled: ",
        ] {
            assert_eq!(recorded_without_nodes(stays), stays);
        }
    }
}
