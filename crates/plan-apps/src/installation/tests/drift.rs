//! Looks for drift: when, what they are asked for, and what becomes of what they find.

use super::*;
use berth_api::app::{DriftIgnore, DriftMode};
use berth_api::apps::{Check, Checked, Drifted, Object, What};
use berth_plan::object_meta::label;

/// A Job's end is told within so long.
const MINUTE: SignedDuration = SignedDuration::from_mins(1);

pub(super) fn found(kind: &str, name: &str, what: What, paths: &[&str]) -> Drifted {
    let object = Object { kind: kind.into(), namespace: "shop".into(), name: name.into() };
    Drifted { object, what, paths: paths.iter().map(|&path| path.to_owned()).collect(), ..Drifted::default() }
}

pub(super) fn checked(objects: Vec<Drifted>) -> Outcome {
    let count = objects.iter().filter(|one| !one.mended).count();
    Outcome::Checked(Checked { count: i64::try_from(count).unwrap(), objects, ..Checked::default() })
}

/// Deployed, and at rest.
pub(super) fn deployed(mode: DriftMode) -> Fixture {
    let mut it = Fixture::new();
    it.change(|release| release.drift.mode = mode);
    it.settle();
    it.deployed(1);
    it.settle();
    it
}

/// Time passes until a Job looks for drift.
pub(super) fn until_check(it: &mut Fixture) -> Check {
    let until = it.now + SignedDuration::from_hours(7);
    while it.now < until {
        let planned = it.settle();
        match it.task() {
            Some(Task::Check(check)) => return *check,
            Some(task) => panic!("{task:?}"),
            None => it.now += planned.requeue_after.expect("some time"),
        }
    }
    panic!("nobody looks for drift: {:?}", it.object.status);
}

fn look(it: &mut Fixture, outcome: &Outcome) -> Check {
    let check = until_check(it);
    it.now += MINUTE;
    it.ends(outcome);
    it.settle();
    assert!(it.job().is_none());
    check
}

pub(super) fn drifted(it: &Fixture) -> String {
    let status = it.object.status.clone().unwrap_or_default();
    let said = conditions::find(&status.conditions, ConditionType::Drifted);
    said.map(|c| format!("{} {}: {}", c.status, c.reason, c.message)).unwrap_or_default()
}

fn ask(it: &mut Fixture, text: &str) {
    let app = it.target().app;
    it.observed.objects.get_mut(&app).unwrap()["metadata"]["annotations"][labels::CHECK] = text.into();
}

#[test]
fn each_interval_a_job_looks_and_what_is_deployed_stays_so_meanwhile() {
    let mut it = deployed(DriftMode::Report);
    assert_eq!(drifted(&it), "", "nobody looked");
    let deployed_at = it.now;
    let check = until_check(&mut it);
    assert!(it.now.duration_since(deployed_at) <= SignedDuration::from_hours(6) + MINUTE);
    assert_eq!((&*check.release.name, &*check.release.installation, check.repair), ("web", NAME, false));
    assert_eq!(it.told().as_deref(), Some("digest-1"), "what Berth recorded");
    assert!(it.says().starts_with("Deployed True AsExpected: revision 1"), "{}", it.says());
    it.ends(&checked(vec![found("Deployment", "web", What::Changed, &["/spec/replicas"])]));
    it.settle();
    assert!(it.job().is_none() && it.says().starts_with("Deployed True"), "{}", it.says());
    assert!(drifted(&it).starts_with("True Drifted: not as revision 1 of release shop/web left it: Deployment shop/web has other values at /spec/replicas. Set it back"), "{}", drifted(&it));
    let drift = it.object.status.clone().unwrap().drift.unwrap();
    assert_eq!((drift.count, drift.checked_at.unwrap().0), (Some(1), it.now));
    let first = it.now;
    look(&mut it, &checked(vec![]));
    assert_eq!(drifted(&it), "False AsExpected: all is as revision 1 of release shop/web left it");
    let apart = it.now.duration_since(first);
    assert!(apart >= SignedDuration::from_hours(6) && apart < SignedDuration::from_mins(362), "{apart}");
}

#[test]
fn a_look_is_on_record_before_its_job_is_made_and_has_no_more_than_it_needs() {
    let mut it = deployed(DriftMode::Report);
    ask(&mut it, "now");
    let planned = it.reconcile();
    assert!(it.job().is_none() && planned.plan.is_empty(), "nothing is begun that is not on record");
    assert!(it.object.status.as_ref().unwrap().check.is_some());
    let planned = InstallationPlanner::plan(it.input());
    let secret = planned.plan.actions().find_map(|a| if let Action::Secret(s) = a { Some(s.clone()) } else { None });
    assert_eq!(secret.expect("a Secret beside it").entries.len(), 1, "a kubeconfig alone");
    it.settle();
    let job = it.job().expect("a Job");
    // An older Berth, which does not know what it says, deletes it.
    assert_eq!(
        (label(job, labels::APP_INSTALLATION_UID), label(job, labels::APP_CHECK_UID)),
        (None, Some("installation-uid"))
    );
    it.ends(&checked(vec![]));
    it.settle();
    assert!(it.object.status.as_ref().unwrap().check.is_none());
    assert!(it.reconcile().plan.is_empty() && it.job().is_none(), "once for each text");
    ask(&mut it, "once more");
    it.settle();
    assert!(matches!(it.task(), Some(Task::Check(_))));
}

#[test]
fn nobody_looks_where_a_change_is_due_the_tenant_cannot_be_asked_or_the_spec_says_so() {
    let mut it = deployed(DriftMode::Report);
    ask(&mut it, "now");
    it.available("False");
    it.settle();
    assert!(it.job().is_none() && it.object.status.as_ref().unwrap().check.is_none(), "it sleeps, and is not woken");
    it.available("True");
    it.change(|release| release.wait = true);
    it.settle();
    assert!(matches!(it.task(), Some(Task::Deploy(_))), "{:?}", it.task());
    it.deployed(2);
    it.settle();
    assert!(matches!(it.task(), Some(Task::Check(_))), "{:?}", it.task());
    it.ends(&checked(vec![found("Service", "web", What::Missing, &[])]));
    it.settle();
    it.change(|release| release.drift.mode = DriftMode::Ignore);
    it.settle();
    let status = it.object.status.clone().unwrap();
    assert!((status.drift, status.check, &*drifted(&it)) == (None, None, ""));
    for _ in 0..50 {
        let after = it.settle().requeue_after.unwrap();
        it.now += after;
        assert!(it.job().is_none());
    }
}

#[test]
fn a_change_waits_for_the_end_of_a_look_and_is_then_made() {
    let mut it = deployed(DriftMode::Report);
    until_check(&mut it);
    it.change(|release| release.wait = true);
    it.settle();
    assert_eq!(it.says(), "Running False Waiting: waiting for its Job to look for drift");
    it.ends(&checked(vec![found("Service", "web", What::Missing, &[])]));
    it.settle();
    assert!(matches!(it.task(), Some(Task::Deploy(_))), "{:?}", it.task());
    it.deployed(2);
    it.settle();
    let drift = it.object.status.clone().unwrap().drift.unwrap();
    assert_eq!((drift.count, drift.objects.len(), &*drifted(&it)), (None, 0, ""), "Helm was there since");
}

#[test]
fn what_somebody_keeps_writing_is_set_back_three_times_and_then_left_until_a_person_acts() {
    let mut it = deployed(DriftMode::Repair);
    let fought = |mended| Drifted { mended, ..found("ConfigMap", "web", What::Changed, &["/data/word"]) };
    let leaves = |check: &Check| check.known.first().is_some_and(|known| known.leave);
    for times in 1..=3 {
        let check = look(&mut it, &checked(vec![fought(true)]));
        assert!(check.repair && !leaves(&check), "{times}");
        assert!(
            drifted(&it).starts_with(
                "False AsExpected: set back to what revision 1 of release shop/web left: ConfigMap shop/web"
            ),
            "{}",
            drifted(&it)
        );
    }
    for _ in 0..3 {
        assert!(leaves(&look(&mut it, &checked(vec![fought(false)]))));
        assert!(drifted(&it).contains("Somebody else writes ConfigMap web"), "{}", drifted(&it));
    }
    // Whoever wrote it stopped: it counts anew.
    look(&mut it, &checked(vec![]));
    assert!(look(&mut it, &checked(vec![fought(true)])).known.is_empty());
    // Another field of it is another matter.
    let other = Drifted { mended: true, ..found("ConfigMap", "web", What::Changed, &["/data/other"]) };
    look(&mut it, &checked(vec![other]));
    assert_eq!(it.object.status.clone().unwrap().drift.unwrap().objects[0].repairs, Some(1));
    // A person asks for another look, or changes what may be changed.
    for n in 0..4 {
        look(&mut it, &checked(vec![fought(n < 3)]));
    }
    it.change(|release| release.drift.ignore = vec![DriftIgnore { kind: "Secret".into(), ..DriftIgnore::default() }]);
    let check = until_check(&mut it);
    assert!(check.known.is_empty() && check.ignore[0].kind == "Secret", "{check:?}");
}

#[test]
fn a_release_that_is_another_one_is_deployed_again_or_told_of() {
    let replaced = Outcome::Checked(Checked { replaced: "it is not there any more".into(), ..Checked::default() });
    let mut it = deployed(DriftMode::Report);
    look(&mut it, &replaced);
    let told =
        "True Drifted: not as revision 1 of release shop/web left it: Release shop/web: it is not there any more";
    assert!(it.says().starts_with("Deployed True") && drifted(&it).starts_with(told), "{}", drifted(&it));

    let mut it = deployed(DriftMode::Repair);
    for revision in 2..=4 {
        until_check(&mut it);
        it.ends(&replaced);
        it.settle();
        assert!(matches!(it.task(), Some(Task::Deploy(_))), "{:?}", it.task());
        it.deployed(revision);
        it.settle();
        assert!(it.says().starts_with("Deployed True"), "{}", it.says());
    }
    look(&mut it, &replaced);
    assert!(drifted(&it).contains("Somebody else writes Release web"), "{}", drifted(&it));
}

#[test]
fn a_look_that_fails_is_no_failure_of_the_app() {
    let mut it = deployed(DriftMode::Report);
    until_check(&mut it);
    it.fails();
    it.settle();
    let status = it.object.status.clone().unwrap();
    assert!(it.says().starts_with("Deployed True") && status.failures.is_none(), "{}", it.says());
    let told = "Unknown DriftUnknown: what is there could not be compared with revision 1 of release shop/web: UPGRADE FAILED: no";
    assert_eq!(drifted(&it), told);
    look(&mut it, &checked(vec![]));
    assert!(drifted(&it).starts_with("False"), "{}", drifted(&it));
}

/// A chart that makes certificates or passwords anew at each rendering is compared with what Helm has recorded of it, and upgraded by digests: neither changes.
#[test]
fn in_a_day_nothing_is_upgraded_without_a_change() {
    let mut it = deployed(DriftMode::Repair);
    it.change(|release| release.drift.interval_seconds = 600);
    let (end, mut looks) = (it.now + SignedDuration::from_hours(24), 0);
    while it.now < end {
        let planned = it.settle();
        match it.task() {
            None => it.now += planned.requeue_after.unwrap(),
            Some(Task::Check(_)) => {
                looks += 1;
                it.ends(&checked(vec![]));
            }
            Some(task) => panic!("{task:?}"),
        }
    }
    assert!((143..=145).contains(&looks), "{looks}");
}

/// What failed may have changed something before it did.
#[test]
fn what_is_set_back_after_a_failure_is_deployed_and_not_only_said_to_be() {
    let mut it = deployed(DriftMode::Report);
    it.change(|release| release.wait = true);
    it.settle();
    it.fails();
    it.settle();
    it.change(|release| release.wait = false);
    it.settle();
    assert!(matches!(it.task(), Some(Task::Deploy(_))), "{}", it.says());
    it.deployed(3);
    it.settle();
    assert!(it.says().starts_with("Deployed True AsExpected: revision 3"), "{}", it.says());
}

#[test]
fn one_that_is_deleted_while_it_is_compared_is_uninstalled() {
    let mut it = deployed(DriftMode::Report);
    until_check(&mut it);
    delete(&mut it);
    it.settle();
    assert!(matches!(it.task(), Some(Task::Uninstall(_))), "{:?}", it.task());
}
