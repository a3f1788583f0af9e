//! What is asked next inside a tenant that is well.

use berth_api::cluster::NodesStatus;
use berth_render::{Listing, TenantSet};
use jiff::Timestamp;

/// A question inside a tenant that is well.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Turn {
    /// What Berth keeps there.
    Listing(Listing),
    /// The nodes.
    Nodes,
    /// Who leads.
    Leases,
}

impl Turn {
    /// One a minute. Every second minute who leads: a tenant whose controllers stand still is to be told of soon. All others in turn, so that
    /// drift of each is found within half an hour.
    pub fn at(now: Timestamp) -> Self {
        let minute = usize::try_from(now.as_second() / 60).unwrap_or_default();
        if minute.is_multiple_of(2) {
            return Self::Leases;
        }
        let turn = minute / 2 % (TenantSet::LISTINGS.len() + 1);
        TenantSet::LISTINGS.get(turn).map_or(Self::Nodes, |listing| Self::Listing(*listing))
    }

    /// One that is at rest. While no node has joined, or one is not ready, a person may wait for that count: it is asked for every fourth
    /// minute, and drift of each listing is found within an hour.
    pub fn at_rest(now: Timestamp, nodes: Option<&NodesStatus>) -> Self {
        let counted = nodes.is_some_and(|nodes| nodes.total > 0 && nodes.ready == nodes.total);
        let four_minutes = usize::try_from(now.as_second() / 240).unwrap_or_default();
        match Self::at(now) {
            turn if counted || turn == Self::Leases => turn,
            _ if now.as_second() / 60 % 4 == 1 => Self::Nodes,
            _ => Self::Listing(TenantSet::LISTINGS[four_minutes % TenantSet::LISTINGS.len()]),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hour(nodes: &NodesStatus) -> Vec<Turn> {
        (0..60).map(|minute| Turn::at_rest(Timestamp::from_second(minute * 60).unwrap(), Some(nodes))).collect()
    }

    #[test]
    fn nodes_that_are_waited_for_are_counted_more_often_and_nothing_is_left_out() {
        let count = |total, ready| NodesStatus { total, ready, oldest_kubelet: None };
        for (nodes, at_least) in [(count(0, 0), 15), (count(3, 2), 15), (count(3, 3), 1)] {
            let turns = hour(&nodes);
            assert!(turns.iter().step_by(2).all(|turn| *turn == Turn::Leases), "{nodes:?}");
            assert!(turns.iter().filter(|turn| **turn == Turn::Nodes).count() >= at_least, "{nodes:?}");
            for listing in TenantSet::LISTINGS {
                assert!(turns.contains(&Turn::Listing(listing)), "{nodes:?}: {listing:?} is never read");
            }
        }
    }
}
