//! Whether a machine gets the certificate by which it is a node.
//!
//! Who has a join line may ask for any name. The name of a node that is there would make it that node: it would read the Secrets of its pods,
//! and be given their logs and terminals.

use jiff::{SignedDuration, Timestamp};

use crate::decide::{Decision, Node};

/// A node that did not report for so long may be another machine. It is how long Kubernetes leaves pods on it by default.
pub(crate) const LATELY: SignedDuration = SignedDuration::from_mins(5);

/// What a kubelet asks to be: a request that is well-formed, see [`crate::request`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Client {
    /// The name of the node.
    pub(crate) node: String,
    pub(crate) by: By,
}

/// Who asks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum By {
    /// The node, for its next certificate.
    Itself,
    /// Somebody with a bootstrap token for nodes.
    Token,
}

/// Whether the kubelet of a `Node` reports, by its condition `Ready`. Only it and the tenant's own controllers write that.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Kubelet {
    /// None ever did: the object was made beforehand.
    #[default]
    Never,
    /// It does, ready or not.
    Reports,
    /// Not since then, as the node controller found.
    Silent { since: Timestamp },
}

/// `there`: the node of that name.
pub(crate) fn decide(request: &Client, there: Option<&Node>, now: Timestamp) -> Decision {
    let node = &request.node;
    let there = there.filter(|_| request.by == By::Token).map(|there| there.kubelet);
    let state = match there {
        None | Some(Kubelet::Never) => return Decision::Approve,
        Some(Kubelet::Reports) => "is there and reports".to_owned(),
        Some(Kubelet::Silent { since }) if now.duration_since(since) >= LATELY => return Decision::Approve,
        Some(Kubelet::Silent { since }) => {
            let free = since.saturating_add(LATELY).unwrap_or(Timestamp::MAX);
            format!("is there and reported lately; its name is free at {free:.0}")
        }
    };
    Decision::Deny(format!(
        "Node {node} {state}. If this machine is to take its place, delete it: kubectl delete node {node}. \
         kubelet then asks again by itself"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use Decision::{Approve, Deny};

    const NOW: &str = "2026-01-01T00:10:00Z";

    fn node(kubelet: Kubelet) -> Node {
        Node { name: "n1".to_owned(), kubelet, ..Node::default() }
    }

    fn silent(since: &str) -> Kubelet {
        Kubelet::Silent { since: since.parse().unwrap() }
    }

    fn asked(by: By, there: Option<Kubelet>) -> Decision {
        decide(&Client { node: "n1".to_owned(), by }, there.map(node).as_ref(), NOW.parse().unwrap())
    }

    #[test]
    fn a_node_renews_its_own_whatever_it_reports() {
        for there in [None, Some(Kubelet::Never), Some(Kubelet::Reports), Some(silent("2026-01-01T00:09:59Z"))] {
            assert_eq!(asked(By::Itself, there), Approve, "{there:?}");
        }
    }

    #[test]
    fn a_token_adds_a_node_and_takes_none_over() {
        for free in
            [None, Some(Kubelet::Never), Some(silent("2026-01-01T00:05:00Z")), Some(silent("2025-12-01T00:00:00Z"))]
        {
            assert_eq!(asked(By::Token, free), Approve, "{free:?}");
        }
        for (taken, state) in [
            (Kubelet::Reports, "is there and reports. "),
            (
                silent("2026-01-01T00:05:01Z"),
                "is there and reported lately; its name is free at 2026-01-01T00:10:01Z. ",
            ),
            // The clock beside it goes before this one.
            (silent("2026-01-01T00:11:00Z"), "its name is free at 2026-01-01T00:16:00Z. "),
        ] {
            let Deny(why) = asked(By::Token, Some(taken)) else { panic!("{taken:?}") };
            assert!(why.starts_with("Node n1 ") && why.contains(state), "{why}");
            assert!(why.ends_with("delete it: kubectl delete node n1. kubelet then asks again by itself"), "{why}");
        }
    }
}
