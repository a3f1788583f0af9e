//! Images that cannot be had, and what is mended with the chart's values.

use super::versions::{NEW, OLD};
use super::*;
use berth_api::common::AgentDelivery;
use berth_plan::workload;

/// This member's pod cannot get that image, in a container of this list.
fn waits(e: &mut Etcd, member: &str, list: &str, image: &str) {
    let waiting = json!({"waiting": {"reason": "ImagePullBackOff", "message": "no such host"}});
    let status = json!({(list): [{"name": "c", "image": image, "state": waiting}]});
    e.world.pod_status(&Etcd::key(Kind::Pod, member), status);
}

fn pods(e: &Etcd) -> String {
    e.get(&Etcd::set())["spec"]["template"]["spec"].to_string()
}

fn image(e: &Etcd) -> String {
    workload::image_of(e.get(&Etcd::set())).unwrap().to_owned()
}

#[test]
fn nothing_of_a_teams_registry_has_rights_that_a_pod_of_the_team_has_not() {
    const TEAMS: &str = "mirror.example.com/teams/a";
    let mut e = Etcd::new(3);
    e.cr.spec.images.registry = Some(TEAMS.into());
    e.cr.spec.images.overrides = [("etcd".to_owned(), format!("{TEAMS}/own"))].into();
    e.reconcile();
    let pod = &e.get(&Etcd::set())["spec"]["template"];
    assert!(pod.to_string().contains(TEAMS), "the team's registry counts for the rest: {pod}");
    let images = berth_testkit::rights::with_rights(pod, &std::collections::BTreeSet::new());
    assert!(images.iter().all(|image| *image == e.settings.agent_image), "{images:?}");
}

#[test]
fn members_take_an_image_of_their_own_and_keep_it_where_another_does_not_fit() {
    let mut e = Etcd::formed(3);
    let version = e.cr.spec.version.clone();
    let own = |tag: &str| [("etcd".to_owned(), format!("mirror.example.com/own{tag}"))].into();
    e.cr.spec.images.overrides = own("");
    settle(&mut e);
    assert_eq!(image(&e), format!("mirror.example.com/own:{version}-0"));
    e.cr.spec.images.overrides = own(&format!(":v{version}-acme"));
    settle(&mut e);
    assert_eq!(image(&e), format!("mirror.example.com/own:v{version}-acme"));
    let before = pods(&e);
    e.cr.spec.images.overrides = own(":v3.0.0");
    e.reconcile();
    assert_eq!(e.condition(ConditionType::Ready), is("False", Reason::InvalidSpec), "{:#?}", e.cr.status);
    assert_eq!(pods(&e), before);
    e.cr.spec.images.overrides.clear();
    settle(&mut e);
    assert_eq!(image(&e), format!("registry.k8s.io/etcd:{version}-0"));
}

#[test]
fn a_version_whose_image_is_of_the_one_before_does_not_begin() {
    let own = |tag: &str| [("etcd".to_owned(), format!("mirror.example.com/own:v{tag}-acme"))].into();
    let mut e = Etcd::of_version(OLD, 3);
    e.serves(0);
    e.cr.spec.images.overrides = own(OLD);
    for _ in 0..12 {
        e.turn();
    }
    let runs = format!("mirror.example.com/own:v{OLD}-acme");
    assert_eq!(image(&e), runs);
    e.world.log.clear();
    e.asks_for(NEW);
    for _ in 0..4 {
        e.turn();
    }
    assert_eq!(e.condition(ConditionType::Ready), is("False", Reason::InvalidSpec), "{:#?}", e.cr.status);
    assert!(e.world.log.iter().all(|line| !line.contains("StatefulSet")), "{:#?}", e.world.log);
    // Set with the version, it waits for the first member's turn.
    e.cr.spec.images.overrides = own(NEW);
    e.reconcile();
    assert_eq!(image(&e), runs);
    e.until_new(0);
    assert_eq!(image(&e), format!("mirror.example.com/own:v{NEW}-acme"));
}

/// Reconciles until nothing more is to be done; what is started runs, and answers.
fn settle(e: &mut Etcd) {
    for _ in 0..8 {
        e.reconcile();
        e.members_run();
        e.all_answer();
    }
    e.reconcile();
    assert_eq!(e.condition(ConditionType::Ready), is("True", Reason::AsExpected), "{:#?}", e.cr.status);
}

#[test]
fn a_registry_that_was_mistyped_is_mended_with_the_charts_values() {
    for replicas in [1, 3] {
        let mut e = Etcd::new(replicas);
        e.settings.registry = "registyr.example.com".into();
        e.reconcile();
        e.members_run();
        for i in 0..replicas {
            let image = image(&e);
            waits(&mut e, &format!("etcd-{i}"), "containerStatuses", &image);
        }
        e.reconcile();
        assert!(image(&e).starts_with("registyr.example.com/etcd:"), "{}", image(&e));
        e.settings.registry = "registry.example.com".into();
        e.reconcile();
        assert!(image(&e).starts_with("registry.example.com/etcd:"), "{}", image(&e));
        e.world.log.clear();
        settle(&mut e);
        let deleted = e.world.log.iter().filter(|l| l.starts_with("delete Pod")).count();
        assert_eq!(deleted, usize::try_from(replicas).unwrap(), "{:#?}", e.world.log);
    }
}

#[test]
fn a_member_whose_image_is_gone_comes_back_from_the_new_registry_before_others_roll() {
    let mut e = Etcd::formed(3);
    e.settings.registry = "registry.example.com".into();
    e.reconcile();
    assert!(e.world.log.is_empty(), "another registry rolls nothing by itself: {:#?}", e.world.log);
    let image = image(&e);
    waits(&mut e, "etcd-1", "containerStatuses", &image);
    e.answer(&[0, 2], 0);
    e.reconcile();
    e.members_run();
    e.reconcile();
    assert_eq!(e.world.log, ["apply StatefulSet acme-9201d5e7/etcd", "delete Pod acme-9201d5e7/etcd-1"]);
    e.reconcile();
    assert_eq!(e.world.log.len(), 2, "one at a time: {:#?}", e.world.log);
    settle(&mut e);
    assert_eq!(e.world.log.len(), 4, "{:#?}", e.world.log);
}

#[test]
fn an_agent_that_was_mistyped_is_mended_with_the_charts_values_while_there_are_no_data() {
    let (wrong, right) = ("berth.dev/aegnt:1", "berth.dev/agent:1");
    let mut e = Etcd::new(3);
    (e.settings.agent_image, e.settings.agent_delivery) = (wrong.into(), AgentDelivery::InitContainer);
    e.reconcile();
    e.members_run();
    e.reconcile();
    for member in ["etcd-0", "etcd-1", "etcd-2"] {
        waits(&mut e, member, "initContainerStatuses", wrong);
    }
    e.settings.agent_image = right.into();
    // A member that has answered has it.
    let mut other = e.clone();
    other.world.run_pod(&Etcd::key(Kind::Pod, "etcd-0"));
    other.world.run_pod(&Etcd::key(Kind::Pod, "etcd-1"));
    other.answer(&[0, 1], 0);
    other.reconcile();
    other.reconcile();
    assert!(pods(&other).contains(wrong));

    // The operator ends before it has written its status.
    let before = e.cr.status.clone();
    e.reconcile();
    assert!(pods(&e).contains(right) && !pods(&e).contains(wrong));
    e.cr.status = before;
    settle(&mut e);
    assert!(pods(&e).contains(right) && !pods(&e).contains(wrong));
    let pinned = e.cr.status.as_ref().unwrap().templates.clone().unwrap();
    assert_eq!(pinned.agent_image, right);

    // From here on it stays, whatever waits.
    e.settings.agent_image = "berth.dev/agent:2".into();
    waits(&mut e, "etcd-1", "initContainerStatuses", right);
    e.answer(&[0, 2], 0);
    e.reconcile();
    assert!(pods(&e).contains(right) && !pods(&e).contains("agent:2"));
}

/// A change of members holds every roll, but for the pod that it waits for.
#[test]
fn a_member_that_comes_and_cannot_pull_its_image_is_mended_while_it_comes() {
    let mut e = Etcd::formed(1);
    e.cr.spec.replicas = 3;
    e.reconcile();
    e.members_run();
    e.settings.registry = "registry.example.com".into();
    let image = image(&e);
    waits(&mut e, "etcd-1", "containerStatuses", &image);
    e.world.log.clear();
    for _ in 0..3 {
        e.reconcile();
        e.members_run();
    }
    assert_eq!(e.world.log, ["apply StatefulSet acme-9201d5e7/etcd", "delete Pod acme-9201d5e7/etcd-1"]);
}
