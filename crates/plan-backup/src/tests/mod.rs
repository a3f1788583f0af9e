//! What the tests of all three planners lead to.

use crate::{backup, restore, schedule};
use berth_api::names;
use berth_testkit::rights::with_rights;
use std::collections::BTreeSet;

#[test]
fn situations_are_written_down() {
    let mut all = backup::tests::messages::situations();
    all.extend(schedule::tests::messages::situations());
    all.extend(restore::tests::messages::situations());
    berth_testkit::situations::compare(&all);
}

/// As [`backup::tests::jobs_of_own_registry`] has it.
const TEAMS: &str = "mirror.example.com/teams/a";

#[test]
fn nothing_of_a_teams_registry_has_rights_that_a_pod_of_the_team_has_not() {
    // The store may be in a private network, so policies let Jobs reach more.
    let wide = BTreeSet::from([names::ETCD_BACKUP.to_owned()]);
    let mut jobs = backup::tests::jobs_of_own_registry();
    jobs.extend(restore::tests::jobs_of_registry(TEAMS));
    let images: BTreeSet<String> = jobs.iter().flat_map(|job| with_rights(&job["spec"]["template"], &wide)).collect();
    // The platform's own, though the members run images of the team's.
    assert_eq!(images, BTreeSet::from(["backup:1", "registry.k8s.io/etcd:3.6.16-0"].map(str::to_owned)));
}
