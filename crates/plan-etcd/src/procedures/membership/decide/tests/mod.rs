//! Every way that changes of members can take, as long as few things go wrong: safety in each state, and from each the end that was asked
//! for. Planted bugs show that the search would find them.

mod explore;
mod model;

use explore::{Report, explore};
use model::Bug;

/// Members at the beginning, and as asked for.
const CHANGES: [(i32, i32); 7] = [(1, 3), (3, 1), (3, 3), (3, 5), (5, 3), (1, 5), (5, 1)];

#[test]
fn no_change_of_members_loses_a_quorum_and_each_ends() {
    for (from, to) in CHANGES {
        let faults = if from.max(to) == 5 { 2 } else { 3 };
        let Report { states, ends } =
            explore(from, to, faults, Bug::None).unwrap_or_else(|why| panic!("{from} → {to}: {why}"));
        assert!(ends > 0 && states > 50, "{from} → {to}: {states} states, {ends} ends");
        println!("{from} → {to}: {states} states, {ends} ends");
    }
}

#[test]
#[ignore = "make test-all: three faults among five members are a million states"]
fn no_change_of_five_members_loses_a_quorum_with_three_faults() {
    for (from, to) in CHANGES.into_iter().filter(|(from, to)| *from.max(to) == 5) {
        let Report { states, ends } =
            explore(from, to, 3, Bug::None).unwrap_or_else(|why| panic!("{from} → {to}: {why}"));
        println!("{from} → {to}: {states} states, {ends} ends");
    }
}

#[test]
fn planted_bugs_are_found() {
    for (bug, from, to, expected) in [
        (Bug::VoterFirst, 1, 3, "has no quorum any more"),
        (Bug::VictimByIndex, 3, 3, "whose data is there"),
        (Bug::EmptyUnderOldId, 3, 3, "empty under the ID"),
        (Bug::ReplacesWhoIsAway, 3, 3, "whose data is there"),
        (Bug::PromotesAtOnce, 1, 3, "has not caught up"),
        (Bug::ForgetsTheRecord, 1, 3, "is not on record"),
    ] {
        let found = explore(from, to, 2, bug).err().unwrap_or_else(|| panic!("{bug:?} was not found"));
        assert!(found.contains(expected), "{bug:?}: {found}");
    }
}
