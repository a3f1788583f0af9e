//! The tenant's nodes in its status.

use super::*;
use crate::cluster::Turn;
use berth_api::cluster::NodesStatus;

#[test]
fn nodes_are_counted_in_turn_and_what_was_counted_stays() {
    let mut f = Fixture::up(json!({"version": "1.36.3"}));
    let turns = (0..15).map(|minute| Turn::at(f.world.now + jiff::SignedDuration::from_mins(minute)));
    assert!(turns.into_iter().any(|turn| turn == Turn::Nodes), "within a quarter of an hour");
    let count = NodesStatus { total: 3, ready: 2, oldest_kubelet: Some("1.34.4".into()) };
    for nodes in [Some(count.clone()), None] {
        let ApiProbe::Answered { read, .. } = &mut f.world.observed.api else { panic!("it is up") };
        read.nodes = nodes;
        f.reconcile();
        assert_eq!(f.cluster.status.as_ref().unwrap().nodes.as_ref(), Some(&count));
    }
}
