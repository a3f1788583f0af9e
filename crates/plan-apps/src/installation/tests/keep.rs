//! What becomes of a release when its installation goes.

use super::*;

fn deployed() -> Fixture {
    let mut it = Fixture::new();
    it.settle();
    it.deployed(1);
    it.settle();
    // No longer for its Cluster.
    it.selects("test");
    it
}

fn app_says(it: &mut Fixture, on_removal: &str) {
    let key = it.target().app;
    let mut app = it.observed.get(&key).cloned().unwrap();
    app["spec"]["onRemoval"] = on_removal.into();
    it.put(&key, app);
}

/// Whether it goes without a Job.
fn goes(mut it: Fixture) -> bool {
    is_deleted(&mut it);
    let planned = it.settle();
    assert_eq!(planned.plan.finished, it.job().is_none());
    planned.plan.finished
}

#[test]
fn it_is_kept_as_the_app_says_now_or_said_when_it_was_last_there() {
    assert!(!goes(deployed()));
    let mut it = deployed();
    app_says(&mut it, "Keep");
    assert!(goes(it), "also if nobody has seen the App say so before");

    let mut it = deployed();
    app_says(&mut it, "Keep");
    it.settle();
    let app = it.target().app;
    let (mut without, mut other) = (it, deployed());
    app_says(&mut other, "Keep");
    other.settle();
    without.observed.objects.remove(&app);
    assert!(goes(without));
    // Another one of that name has no say.
    other.put(&app, json!({"metadata": {"uid": "another"}, "spec": {}}));
    assert!(goes(other));

    let mut it = deployed();
    app_says(&mut it, "Keep");
    it.settle();
    app_says(&mut it, "Uninstall");
    assert!(!goes(it), "it was changed back");
    let mut it = deployed();
    app_says(&mut it, "Archive");
    assert!(goes(it), "what this Berth does not know is no reason to uninstall");
}

#[test]
fn a_tenant_that_sleeps_keeps_it_at_once() {
    let mut it = deployed();
    app_says(&mut it, "Keep");
    it.available("False");
    assert!(goes(it));
}

/// A Job that has begun is heard to its end.
#[test]
fn what_is_half_uninstalled_is_not_let_go() {
    let mut it = deployed();
    is_deleted(&mut it);
    it.settle();
    assert!(matches!(it.task(), Some(Task::Uninstall(_))));
    app_says(&mut it, "Keep");
    assert!(!it.settle().plan.finished);
    it.fails();
    assert!(it.settle().plan.finished);
}
