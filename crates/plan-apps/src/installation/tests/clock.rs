//! Clocks that are set.

use super::*;
use std::sync::Arc;

#[test]
fn a_job_is_not_given_up_for_a_clock_that_was_set() {
    let late = |set: Option<SignedDuration>| {
        let mut it = Fixture::new();
        it.settle();
        let created = it.now;
        it.now += SignedDuration::from_mins(70);
        Arc::make_mut(&mut it.observed.meta).clock_set = set.map(|after| created + after);
        it.settle();
        it.object.status.unwrap().failures == Some(1)
    };
    assert!(late(None));
    assert!(!late(Some(SignedDuration::from_mins(70))), "it has jumped ahead");
    assert!(!late(Some(SignedDuration::from_mins(71))), "another API server answered");
    assert!(late(Some(SignedDuration::from_mins(5))), "that long ago it was set");
}

#[test]
fn a_failure_that_is_ahead_counts_as_one_of_now() {
    let mut it = Fixture::new();
    it.settle();
    it.fails();
    it.settle();
    it.now -= SignedDuration::from_hours(2);
    it.settle();
    assert!(it.job().is_none());
    it.now += SignedDuration::from_secs(59);
    it.settle();
    assert!(it.job().is_none());
    it.now += SignedDuration::from_secs(1);
    it.settle();
    assert!(it.job().is_some(), "{}", it.says());
}
