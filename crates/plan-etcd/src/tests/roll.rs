//! One pod after the other, and only while all is well.

use super::*;
use berth_plan::model::Action;

/// Name, what is wrong.
type Wrong = (&'static str, fn(&mut Etcd));

/// A new pod template was taken up by the StatefulSet's controller.
fn changed(replicas: i32) -> Etcd {
    let mut e = Etcd::formed(replicas);
    e.cr.spec.quota_backend_bytes = Some(1 << 30);
    e.cr.metadata.generation = Some(2);
    let planned = e.reconcile();
    assert_eq!(e.world.log, ["apply StatefulSet acme-9201d5e7/etcd"]);
    assert!(matches!(state(&planned, StageId::Etcd), State::Waiting { .. }), "not taken up yet");
    e.members_run();
    e.world.log.clear();
    e
}

fn deletes(planned: &EtcdPlan) -> Vec<String> {
    let pods = planned.plan.actions().map(|a| match a {
        Action::Delete { key, uid, grace } => {
            assert!(!uid.is_empty() && grace.is_none() && key.kind == Kind::Pod);
            key.name.clone()
        }
        other => panic!("{other:?}"),
    });
    pods.collect()
}

#[test]
fn followers_first_and_the_leader_last() {
    let rolling = changed(3);
    for (leader, order) in [(0, [2, 1, 0]), (1, [2, 0, 1]), (2, [1, 0, 2])] {
        let mut e = rolling.clone();
        for i in order {
            e.answer(&[0, 1, 2], leader);
            let planned = e.plan();
            assert_eq!(deletes(&planned), [format!("etcd-{i}")], "leader {leader}");
            assert_eq!(reason(&planned, StageId::Etcd), Some(Reason::RollingOut));
            e.reconcile();
            assert!(deletes(&e.plan()).is_empty(), "one at a time");
            // The new pod runs, but does not answer yet.
            e.members_run();
            let others: Vec<_> = (0..3).filter(|o| *o != i).collect();
            e.answer(&others, leader);
            assert!(e.reconcile().plan.is_empty());
            assert_eq!(e.condition(ConditionType::Available), is("True", Reason::AsExpected));
            assert_eq!(e.condition(ConditionType::Degraded), is("False", Reason::AsExpected));
        }
        e.all_answer();
        e.reconcile();
        assert_eq!(e.world.log.len(), 3, "{:#?}", e.world.log);
        assert_eq!(e.condition(ConditionType::Ready), is("True", Reason::AsExpected));
    }
}

#[test]
fn nothing_is_replaced_while_anything_is_wrong() {
    let wrongs: [Wrong; 8] = [
        ("a follower is down", |e| e.answer(&[0, 1], 0)),
        ("no quorum", |e| e.answer(&[0], 0)),
        ("nobody was asked and no pod is ready", |e| {
            e.world.observed.etcd = None;
            for i in 0..3 {
                e.world.pod_status(&Etcd::key(Kind::Pod, &format!("etcd-{i}")), json!({}));
            }
        }),
        ("a learner", |e| e.probe().list.as_mut().unwrap()[1].learner = true),
        ("corrupt", |e| e.probe().alarms.push(alarm("CORRUPT", 1))),
        ("a pod is ending", |e| e.edit(&Etcd::key(Kind::Pod, "etcd-0"))["metadata"]["deletionTimestamp"] = "x".into()),
        ("a pod is missing", |e| e.world.remove(&Etcd::key(Kind::Pod, "etcd-0"))),
        ("kubelet has not seen it ready", |e| {
            e.world.pod_status(
                &Etcd::key(Kind::Pod, "etcd-1"),
                json!({"containerStatuses": [{"name": "etcd", "state": {"running": {}}}]}),
            );
        }),
    ];
    let rolling = changed(3);
    for (name, wrong) in wrongs {
        let mut e = rolling.clone();
        wrong(&mut e);
        assert!(deletes(&e.plan()).is_empty(), "{name}");
    }
    let mut stuck = rolling.clone();
    stuck.answer(&[0, 1], 0);
    stuck.reconcile();
    let message = stuck.message(ConditionType::Ready);
    assert!(
        message.contains("connection refused; and for all members to be ready") && message.contains("delete that pod"),
        "{message}"
    );

    let mut stale = rolling.clone();
    stale.edit(&Etcd::set())["status"]["observedGeneration"] = 0.into();
    assert!(deletes(&stale.plan()).is_empty(), "the controller has not seen the newest template");
}

#[test]
fn a_single_member_is_replaced_in_any_health() {
    let mut e = changed(1);
    e.answer(&[], 0);
    e.reconcile();
    assert_eq!(e.world.log, ["delete Pod acme-9201d5e7/etcd-0"]);
}

#[test]
fn a_full_database_does_not_hold_back_what_helps() {
    let mut e = changed(3);
    e.probe().alarms.push(alarm("NOSPACE", 0));
    // The alarm is what the stage says; the roll goes on below it.
    assert_eq!(deletes(&e.plan()), ["etcd-2"]);
}

#[test]
fn another_registry_rolls_the_members_and_its_removal_does_too() {
    let mut e = Etcd::formed(1);
    let image = |e: &Etcd| {
        let set = e.world.observed.of_kind(Kind::StatefulSet, NAMESPACE).next().unwrap().1;
        let pods = &set["spec"]["template"]["spec"];
        (pods["containers"][0]["image"].clone(), pods["initContainers"][0]["image"].clone())
    };
    e.cr.spec.images.registry = Some("mirror.example.com".into());
    e.reconcile();
    assert_eq!(image(&e), ("mirror.example.com/etcd:3.6.16-0".into(), "mirror.example.com/agent:dev".into()));
    e.cr.spec.images.registry = None;
    e.reconcile();
    assert_eq!(image(&e).0, "registry.k8s.io/etcd:3.6.16-0");
}

#[test]
fn no_pod_is_replaced_whose_volume_would_go_with_it() {
    for (replicas, leaving, by_hand) in [(3, 0, false), (3, 2, false), (1, 0, false), (1, 0, true)] {
        let mut e = changed(replicas);
        assert!(!deletes(&e.plan()).is_empty(), "it would roll");
        let claim = Etcd::key(Kind::PersistentVolumeClaim, &format!("data-etcd-{leaving}"));
        if by_hand {
            e.edit(&claim)["metadata"]["labels"] = json!({});
        }
        e.edit(&claim)["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z".into();
        e.edit(&claim)["spec"]["volumeName"] = "pv-7".into();
        let planned = e.reconcile();
        assert!(e.world.log.is_empty(), "{:#?}", e.world.log);
        let State::Blocked { reason, message } = state(&planned, StageId::Etcd) else { panic!("{planned:?}") };
        assert_eq!(*reason, Reason::VolumeDeleting);
        let keep = r#"kubectl patch persistentvolume pv-7 --type=merge -p '{"spec":{"persistentVolumeReclaimPolicy":"Retain"}}'"#;
        for part in [&*format!("PersistentVolumeClaim data-etcd-{leaving} is being deleted"), keep] {
            assert!(message.contains(part), "{part}: {message}");
        }
        let go_on = format!("kubectl -n {NAMESPACE} delete pod etcd-{leaving}");
        assert_eq!(message.ends_with(&go_on), replicas == 3, "{message}");
        assert_eq!(e.condition(ConditionType::Degraded), is("True", Reason::VolumeDeleting));
        assert_eq!(e.condition(ConditionType::Available), is("True", Reason::AsExpected));
    }
}

#[test]
fn a_volume_that_goes_is_reported_at_rest_and_after_what_was_lost() {
    let mut e = Etcd::formed(3);
    e.edit(&Etcd::key(Kind::PersistentVolumeClaim, "data-etcd-1"))["metadata"]["deletionTimestamp"] = "x".into();
    e.reconcile();
    assert_eq!(e.condition(ConditionType::Ready), is("False", Reason::VolumeDeleting));
    // As a person goes about who gives a held member another volume.
    e.held("etcd-1", "DataLost: the volume of etcd member etcd-1 is empty");
    e.answer(&[0, 2], 0);
    e.reconcile();
    assert_eq!(e.condition(ConditionType::Ready), is("False", Reason::MembersChanging), "it is empty, and replaced");
}

#[test]
fn pods_are_not_made_from_a_template_that_cannot_be_judged() {
    let mut e = changed(3);
    e.all_answer();
    assert!(!deletes(&e.plan()).is_empty());
    // Until it is there again, nobody knows the address that the template is to have: this one may be somebody else's.
    e.world.remove(&Etcd::key(Kind::Service, "etcd-1"));
    let planned = e.plan();
    let pods = planned.plan.actions().filter(|a| matches!(a, Action::Delete { .. })).count();
    assert_eq!((pods, reason(&planned, StageId::Etcd)), (0, Some(Reason::Waiting)));
}
