//! What becomes of an installation that is to go, and what is never taken for that.

use super::*;

#[test]
fn one_that_is_deleted_is_uninstalled_and_one_that_was_never_begun_is_not() {
    let mut it = Fixture::new();
    delete(&mut it);
    assert!(it.settle().plan.finished && it.job().is_none());

    let mut it = Fixture::new();
    it.settle();
    // Amid its installation.
    delete(&mut it);
    it.now += SignedDuration::from_secs(1);
    it.settle();
    let Some(Task::Uninstall(task)) = it.task() else { panic!("{:?}", it.job()) };
    assert_eq!(task.release.name, "web");
    it.fails();
    assert!(!it.settle().plan.finished && it.job().is_none(), "it is tried again");
    assert!(it.says().contains("UPGRADE FAILED: no"), "{}", it.says());
    it.now += SignedDuration::from_mins(1);
    it.settle();
    it.ends(&Outcome::Uninstalled);
    assert!(it.settle().plan.finished);
    assert!(it.job().is_none());
}

#[test]
fn a_tenant_that_is_gone_is_not_asked() {
    let gone: [&dyn Fn(&mut Fixture); 3] = [
        &|it| drop(it.observed.objects.remove(&it.target().cluster)),
        &|it| it.observed.objects.get_mut(&it.target().cluster).unwrap()["metadata"]["uid"] = "another".into(),
        &|it| {
            let cluster = it.observed.objects.get_mut(&it.target().cluster).unwrap();
            cluster["metadata"]["deletionTimestamp"] = "2026-01-31T12:00:00Z".into();
        },
    ];
    for gone in gone {
        let mut it = Fixture::new();
        it.settle();
        it.deployed(1);
        it.settle();
        gone(&mut it);
        delete(&mut it);
        assert!(it.settle().plan.finished && it.job().is_none(), "{}", it.says());
    }
}

/// By a changed Secret, a restore or a retry a Job would fetch by its tag what that registry has by now.
#[test]
fn from_a_source_that_was_withdrawn_nothing_is_pulled_and_what_is_there_stays() {
    let mut it = Fixture::new();
    it.object.spec.app.namespace = TEAM.into();
    it.selects("prod");
    it.settings.apps.sources = vec!["oci://reg/*".into()];
    it.settle();
    it.deployed(1);
    it.settle();
    it.settings.apps.sources.clear();
    assert!(it.settle().plan.is_empty());
    assert!(it.says().starts_with("Deployed True"), "{}", it.says());
    it.epoch(2);
    it.settle();
    assert_eq!(
        it.says(),
        "Waiting False NotAllowed: spec.chart of App team-a/web: charts from oci://reg/web are not allowed in this namespace: none is. Set another one, or ask the platform team to add it to writers.apps.sources in the values of Berth's chart. What is installed stays as it is"
    );
    assert_eq!((it.jobs, it.object.status.as_ref().unwrap().release.as_ref().unwrap().revision), (1, 1));
    delete(&mut it);
    it.settle();
    assert!(matches!(it.task(), Some(Task::Uninstall(_))), "nothing is pulled for that");
}

/// Its App and its `Cluster` are not seen, and neither is gone.
#[test]
fn while_something_may_not_be_read_nothing_is_deleted_and_nothing_let_go() {
    let hide: [&dyn Fn(&mut Fixture); 3] = [&|_| {}, &|it| drop(it.observed.objects.remove(&it.target().app)), &|it| {
        drop(it.observed.objects.remove(&it.target().cluster));
    }];
    for deleted in [false, true] {
        for hide in hide {
            let mut it = Fixture::new();
            it.settle();
            it.deployed(1);
            it.settle();
            if deleted {
                delete(&mut it);
            }
            it.change(|release| release.wait = true);
            hide(&mut it);
            it.observed.denied = true;
            let before = it.object.status.clone().unwrap();
            let planned = InstallationPlanner::plan(it.input());
            assert!(planned.plan.is_empty() && !planned.plan.finished, "{:?}", planned.plan);
            let why = berth_plan::Failure {
                reason: conditions::Reason::PermissionDenied,
                message: "get Job: no".into(),
                in_tenant: false,
            };
            it.object.status = Some(InstallationPlanner::status(it.input(), &planned, Some(&why)));
            assert_eq!(it.says(), "Deployed False PermissionDenied: get Job: no");
            let status = it.object.status.clone().unwrap();
            assert_eq!((status.observed_generation, status.release), (before.observed_generation, before.release));
        }
    }
}

/// Rights go before what they are for.
#[test]
fn a_control_plane_namespace_that_ends_with_its_cluster_holds_no_installation() {
    let mut it = Fixture::new();
    it.settle();
    delete(&mut it);
    let [cluster, namespace] = [it.target().cluster, it.target().namespace()];
    it.observed.objects.retain(|key, _| *key != cluster && key.kind != Kind::Job && key.kind != Kind::Secret);
    it.observed.objects.get_mut(&namespace).unwrap()["metadata"]["deletionTimestamp"] = "2026-01-31T12:00:00Z".into();
    it.observed.denied = true;
    assert!(InstallationPlanner::plan(it.input()).plan.finished);
}

/// A label that is back after a minute, in a tenant that sleeps, is no reason to uninstall anything once it wakes.
#[test]
fn an_uninstallation_that_has_not_begun_is_taken_back() {
    let asleep = || {
        let mut it = Fixture::new();
        it.settle();
        it.deployed(1);
        it.settle();
        it.available("False");
        delete(&mut it);
        assert!(!it.settle().plan.finished);
        assert!(it.says().ends_with("waiting for Cluster team-a/acme to be available: it sleeps"), "{}", it.says());
        it
    };
    let mut it = asleep();
    it.selects("prod");
    assert!(it.settle().plan.finished && it.jobs == 1, "nobody waits for the tenant");

    let mut it = asleep();
    it.available("True");
    it.reconcile();
    it.selects("prod");
    it.settle();
    assert!(matches!(it.task(), Some(Task::Uninstall(_))), "it is on record, so a Job may have been made");
    it.fails();
    it.settle();
    it.now += SignedDuration::from_mins(1);
    it.settle();
    assert!(matches!(it.task(), Some(Task::Uninstall(_))), "what is half gone is uninstalled to the end");
    it.ends(&Outcome::Uninstalled);
    assert!(it.settle().plan.finished);

    // An App that is being deleted, another one of that name, and one that nobody can read.
    let app = |change: fn(&mut Value)| {
        let mut it = asleep();
        it.selects("prod");
        change(it.observed.objects.get_mut(&it.target().app).unwrap());
        assert!(!it.settle().plan.finished);
        it.says()
    };
    let sleeps = "waiting for Cluster team-a/acme to be available: it sleeps";
    assert!(app(|app| app["metadata"]["deletionTimestamp"] = "2026-01-31T12:00:00Z".into()).ends_with(sleeps));
    assert!(app(|app| app["metadata"]["uid"] = "another".into()).ends_with(sleeps));
    assert!(app(|app| app["spec"]["chart"] = 1.into()).ends_with("App berth-system/web, which cannot be read"));
}

/// By a cluster-admin, to have it begin anew.
#[test]
fn one_that_somebody_deletes_alone_is_not_uninstalled_and_its_job_is_stopped() {
    let mut it = Fixture::new();
    it.settle();
    assert!(it.task().is_some());
    delete(&mut it);
    it.selects("prod");
    assert!(it.settle().plan.finished);
    assert_eq!((it.jobs, it.job()), (1, None));
}

/// A protected `Cluster` stays there with all that it has.
#[test]
fn the_end_of_a_teams_namespace_uninstalls_nothing() {
    for amid in [false, true] {
        let mut it = Fixture::new();
        it.settle();
        if !amid {
            it.deployed(1);
            it.settle();
        }
        delete(&mut it);
        it.observed.team_namespace_ends = true;
        assert!(it.settle().plan.finished);
        assert_eq!((it.jobs, it.job()), (1, None), "the one that installed it");
    }
}

#[test]
fn one_whose_app_is_gone_deletes_itself() {
    let mut it = Fixture::new();
    let app = it.target().app;
    it.observed.objects.get_mut(&app).unwrap()["metadata"]["uid"] = "another".into();
    let planned = InstallationPlanner::plan(it.input());
    let actions: Vec<_> = planned.plan.actions().collect();
    assert!(matches!(actions[..], [Action::Delete { uid, .. }] if uid == "installation-uid"), "{actions:?}");
}
