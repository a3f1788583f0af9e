//! Going away, in any health.

use super::*;
use berth_api::cluster::DataPolicy;
use berth_api::common::AgentDelivery;
use berth_api::labels;

fn terminating(replicas: i32, policy: DataPolicy) -> Etcd {
    let mut e = Etcd::formed(replicas);
    e.cr.spec.data_policy = policy;
    let now = k8s_openapi::apimachinery::pkg::apis::meta::v1::Time(e.world.now);
    e.cr.metadata.deletion_timestamp = Some(now);
    e
}

fn left(e: &Etcd) -> Vec<String> {
    e.world.observed.objects.keys().map(|k| format!("{} {}", k.kind, k.name)).collect()
}

#[test]
fn first_the_processes_then_what_they_needed() {
    let mut e = terminating(3, DataPolicy::Delete);
    let first: Vec<_> = e.plan().plan.actions().map(berth_plan::Action::describe).collect();
    assert_eq!(first[..3], [0, 1, 2].map(|i| format!("delete Pod acme-9201d5e7/etcd-{i}")));
    assert_eq!(first[3], "scale StatefulSet acme-9201d5e7/etcd to 0");
    assert_eq!(first[4..], [0, 1, 2].map(|i| format!("delete PersistentVolumeClaim acme-9201d5e7/data-etcd-{i}")));
    assert!(!e.plan().plan.finished);
    assert!(e.reconcile().plan.finished);
    assert_eq!(left(&e), Vec::<String>::new());
    let order: Vec<_> = e.world.log.iter().map(|l| l.split(' ').nth(1).unwrap()).collect();
    let mut seen = order.clone();
    seen.dedup();
    let wanted = [
        "Pod",
        "StatefulSet",
        "PersistentVolumeClaim",
        "StatefulSet",
        "Service",
        "ConfigMap",
        "Secret",
        "PodDisruptionBudget",
    ];
    assert_eq!(seen, wanted, "{:#?}", e.world.log);
}

#[test]
fn pods_that_are_ending_are_hurried_once() {
    let mut e = terminating(1, DataPolicy::Retain);
    let pod = Etcd::key(Kind::Pod, "etcd-0");
    for (grace, again) in [(30, true), (1, false), (0, false)] {
        e.edit(&pod)["metadata"]["deletionTimestamp"] = "x".into();
        e.edit(&pod)["metadata"]["deletionGracePeriodSeconds"] = grace.into();
        let hurried = e.plan().plan.actions().any(|a| matches!(a, berth_plan::Action::Delete { grace: Some(1), .. }));
        assert_eq!(hurried, again, "{grace}");
        assert!(!e.plan().plan.finished, "waits for the process to end");
    }
}

#[test]
fn retain_keeps_what_finds_the_data_again_and_it_is_found() {
    let mut e = terminating(3, DataPolicy::Retain);
    assert!(e.reconcile().plan.finished);
    let kept = [
        "Secret etcd-client-ca",
        "Secret etcd-peer-ca",
        "ConfigMap etcd-bootstrap",
        "PersistentVolumeClaim data-etcd-0",
        "PersistentVolumeClaim data-etcd-1",
        "PersistentVolumeClaim data-etcd-2",
    ];
    assert_eq!(left(&e), kept);
    let record = e.bootstrap();

    // An EtcdCluster of the same name, by another person, with other wishes: the data is of three members, which come first.
    let mut again = Etcd::new(1);
    again.cr.metadata.uid = Some("second-uid".into());
    again.settings.agent_image = "berth.dev/agent:newer".into();
    again.settings.agent_delivery = AgentDelivery::ImageVolume;
    again.world = e.world.clone();
    again.world.observed.etcd = None;
    again.reconcile();
    assert_eq!(again.bootstrap(), record);
    assert_eq!(again.replicas(), 3);
    let pods = again.get(&Etcd::set())["spec"]["template"].to_string();
    assert!(pods.contains("agent:newer") && !pods.contains("install-agent"), "nothing ran, so nothing is rolled");
    again.members_run();
    again.all_answer();
    again.reconcile();
    assert_eq!(again.condition(ConditionType::Available), is("True", Reason::AsExpected));
    assert_eq!(again.cr.status.as_ref().unwrap().identity.as_deref(), Some("first-uid"));
}

#[test]
fn it_needs_nothing_and_leaves_what_is_not_its_own() {
    let mut e = terminating(1, DataPolicy::Delete);
    e.cr.spec.version = "nonsense".into();
    e.cr.spec.paused = true;
    e.cr.status = None;
    e.world.observed.etcd = None;
    e.world.remove(&Etcd::key(Kind::Secret, "etcd-client-ca"));
    let others = [
        (Kind::Secret, json!({"metadata": {"name": "s", "labels": {(labels::ETCD_CLUSTER): "another"}}})),
        (Kind::ConfigMap, json!({"metadata": {"name": "c", "labels": {(labels::MANAGED_BY): "berth"}}})),
        (Kind::Service, json!({"metadata": {"name": "x"}})),
    ];
    for (kind, object) in others {
        let key = Etcd::key(kind, object["metadata"]["name"].as_str().unwrap());
        e.world.put(key, object);
    }
    assert!(e.reconcile().plan.finished);
    assert_eq!(left(&e), ["Secret s", "ConfigMap c", "Service x"]);
    assert_eq!(e.condition(ConditionType::Ready), is("False", Reason::Deleting));
    assert_eq!(e.cr.status.as_ref().unwrap().phase.as_deref(), Some("Deleting"));
}

#[test]
fn before_anything_was_made_it_just_goes() {
    let mut e = Etcd::new(3);
    let now = k8s_openapi::apimachinery::pkg::apis::meta::v1::Time(e.world.now);
    e.cr.metadata.deletion_timestamp = Some(now);
    assert!(e.reconcile().plan.finished && e.world.log.is_empty());
}
