use super::*;
use berth_plan::model::Action;
use jiff::SignedDuration;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

fn deleted(spec: Value) -> Fixture {
    let mut f = Fixture::up(spec);
    let pod = Fixture::key(Kind::Pod, "kube-apiserver-x");
    f.world.put(pod.clone(), json!({"metadata": {"name": pod.name}}));
    f.cluster.metadata.deletion_timestamp = Some(Time(f.world.now));
    f
}

/// One reconcile as the driver does it while deleting: carries out once.
fn step(f: &mut Fixture) -> ClusterPlan {
    let planned = f.plan();
    let actions: Vec<Action> = planned.plan.actions().cloned().collect();
    for a in &actions {
        f.world.apply_action(a);
        if matches!(a, Action::Delete { key, .. } if key.name == "acme-kubeconfig") {
            unreachable!("the published Secret is not among the objects");
        }
    }
    planned
}

#[test]
fn protection_holds_it() {
    let mut f = deleted(json!({"version": "1.36.3"}));
    let message = blocked(&f.reconcile(), StageId::Deletion, Reason::Deleting);
    assert!(message.contains("spec.deletion.protected"), "{message}");
    assert!(f.world.log.is_empty());
    f.world.now += SignedDuration::from_mins(10);
    assert_eq!(
        f.plan().requeue_after,
        Some(SignedDuration::from_secs(30)),
        "nobody hurries: the spec's change is told"
    );
}

#[test]
fn pods_are_told_to_end_when_nothing_can_replace_them_and_before_their_owners_are() {
    let mut f = deleted(json!({"version": "1.36.3", "deletion": {"protected": false}}));
    f.world.observed.published = Published::Absent;
    let claim = Fixture::key(Kind::PersistentVolumeClaim, "data-etcd-0");
    f.world.put(claim.clone(), json!({"metadata": {"name": claim.name}}));
    assert!(!step(&mut f).plan.finished);
    let order: Vec<_> = f.world.log.iter().map(|l| l.split(' ').take(2).collect::<Vec<_>>().join(" ")).collect();
    let scaled = components().map(|_| "scale Deployment");
    let before = ["delete Namespace", "delete EtcdCluster", "delete Pod"].into_iter();
    assert_eq!(order, before.chain(scaled).chain(["delete PersistentVolumeClaim"]).collect::<Vec<_>>());
    assert!(f.plan().plan.finished);
}

#[test]
fn a_namespace_that_is_going_is_waited_for_and_its_pods_are_hurried() {
    let mut f = deleted(json!({"version": "1.36.3", "deletion": {"protected": false}}));
    f.world.observed.published = Published::Absent;
    let going = json!({"deletionTimestamp": "x", "deletionGracePeriodSeconds": 30});
    f.world.put(Fixture::namespace(), json!({"metadata": {"deletionTimestamp": "x"}}));
    f.world.put(Fixture::key(Kind::Pod, "kube-apiserver-x"), json!({"metadata": going}));
    f.world.observed.denied = true;
    let planned = f.plan();
    let hurry = |a: &Action| matches!(a, Action::Delete { key, grace: Some(1), .. } if key.kind == Kind::Pod);
    assert!(planned.plan.actions().any(hurry), "{:?}", planned.plan);
    assert!(!planned.plan.actions().any(|a| a.describe().contains("Namespace")) && !planned.plan.finished);
}

#[test]
fn the_pod_that_holds_it_up_is_named() {
    let mut f = deleted(json!({"version": "1.36.3", "deletion": {"protected": false}}));
    f.world.observed.published = Published::Absent;
    let pod = Fixture::key(Kind::Pod, "kube-apiserver-x");
    let due = f.world.now - SignedDuration::from_secs(90);
    let ending = json!({"deletionTimestamp": due, "deletionGracePeriodSeconds": 1});
    f.world.put(pod.clone(), json!({"metadata": ending}));
    f.world.put(Fixture::namespace(), json!({"metadata": {"deletionTimestamp": "2026-01-01T00:00:00Z"}}));
    let planned = f.plan();
    let (_, said) = planned.plan.first_problem().unwrap();
    let wanted = format!(
        "deletion: waiting for {pod} (it should have ended by {due}; see kubectl -n {} describe pod {}) and ",
        Fixture::cp_namespace(),
        pod.name
    );
    assert!(said.starts_with(&wanted), "{said}");
}

#[test]
fn it_needs_no_valid_spec_and_nobodys_namespace_goes() {
    let mut f = Fixture::new(json!({"version": "9.9.9", "deletion": {"protected": false}}));
    f.world.put(Fixture::namespace(), json!({"metadata": {"name": Fixture::cp_namespace()}}));
    f.cluster.metadata.deletion_timestamp = Some(Time(f.world.now));
    assert!(f.plan().plan.finished);
    assert!(f.plan().plan.is_empty());
}

#[test]
fn retained_data_keeps_keys_volumes_and_the_namespace() {
    let mut f = deleted(json!({"version": "1.36.3", "deletion": {"protected": false, "dataPolicy": "Retain"}}));
    f.world.observed.published = Published::Absent;
    let claim = Fixture::key(Kind::PersistentVolumeClaim, "data-etcd-0");
    f.world.put(claim.clone(), json!({"metadata": {"name": claim.name}}));
    for _ in 0..4 {
        step(&mut f);
    }
    assert!(f.plan().plan.finished, "{:?}", f.plan().plan);
    let left = |kind, name: &str| f.world.observed.get(&Fixture::key(kind, name)).is_some();
    assert!(f.world.observed.get(&Fixture::namespace()).is_some());
    for name in ["acme-ca", "acme-proxy", "acme-sa", names::APISERVER_ENCRYPTION, "etcd-client-kube-apiserver"] {
        assert!(left(Kind::Secret, name), "{name}");
    }
    assert!(left(Kind::PersistentVolumeClaim, "data-etcd-0"));
    for (kind, name) in
        [(Kind::Deployment, names::APISERVER), (Kind::Service, names::APISERVER), (Kind::Secret, names::APISERVER_PKI)]
    {
        assert!(!left(kind, name), "{kind} {name}");
    }
}

#[test]
fn data_that_may_not_be_kept_is_neither_kept_nor_deleted_unasked() {
    let mut f = Fixture::up(json!({"version": "1.36.3", "deletion": {"protected": false, "dataPolicy": "Retain"}}));
    f.settings.writers.retain = berth_plan::settings::Retain::Refused;
    let planned = f.reconcile();
    blocked(&planned, StageId::Spec, Reason::NotAllowed);
    assert!(f.world.log.is_empty(), "what runs stays as it is: {:?}", f.world.log);
    f.cluster.metadata.deletion_timestamp = Some(Time(f.world.now));
    let planned = f.reconcile();
    let said = blocked(&planned, StageId::Deletion, Reason::NotAllowed);
    assert!(said.contains("spec.deletion.dataPolicy: Retain is not allowed. Set Delete"), "{said}");
    assert!(f.world.log.is_empty() && !planned.plan.finished, "{:?}", f.world.log);
    f.cluster.spec.deletion.data_policy = berth_api::cluster::DataPolicy::Delete;
    let planned = f.plan();
    assert!(planned.plan.actions().any(|a| matches!(a, Action::Delete { key, .. } if *key == Fixture::namespace())));
    // Nobody gets a new one that would leave something behind.
    let mut f = Fixture::new(json!({"version": "1.36.3", "deletion": {"dataPolicy": "Retain"}}));
    f.settings.writers.retain = berth_plan::settings::Retain::Refused;
    blocked(&f.reconcile(), StageId::Spec, Reason::NotAllowed);
    assert!(f.world.log.is_empty(), "{:?}", f.world.log);
}

/// Whether it is asked for its API, and whether its people still have what they were given.
fn is_asked_and_served(f: &Fixture) -> (bool, bool) {
    let home = Fixture::cp_namespace();
    (crate::probe_request(f.input()).is_some(), !crate::users::serves_nobody(&f.world.observed, &home))
}

#[test]
fn one_that_is_held_serves_on_and_its_people_lose_what_ends() {
    let up = |deletion: Value| {
        let mut f = Fixture::up(json!({"version": "1.36.3", "deletion": deletion}));
        let pod = Fixture::key(Kind::Pod, "kube-apiserver-1");
        let labels = json!({"app.kubernetes.io/component": "kube-apiserver"});
        f.world.put(pod.clone(), json!({"metadata": {"name": pod.name, "labels": labels}}));
        f.world.run_pod(&pod);
        f.cluster.metadata.deletion_timestamp = Some(Time(f.world.now));
        f.world.observed.published = Published::Absent;
        f
    };
    assert_eq!(is_asked_and_served(&up(json!({"protected": true}))), (true, true));
    let mut f = up(json!({"protected": false, "dataPolicy": "Retain"}));
    f.settings.writers.retain = berth_plan::settings::Retain::Refused;
    assert_eq!(is_asked_and_served(&f), (true, true), "what may not be kept is not taken down");
    // Once data may be kept, it serves until its pods are gone.
    f.settings.writers.retain = berth_plan::settings::Retain::Allowed;
    assert_eq!(is_asked_and_served(&f), (false, true));
    for _ in 0..4 {
        step(&mut f);
    }
    assert_eq!(is_asked_and_served(&f), (false, false));
    let mut f = up(json!({"protected": false}));
    assert_eq!(is_asked_and_served(&f), (false, true));
    f.world.put(Fixture::namespace(), json!({"metadata": {"deletionTimestamp": "x"}}));
    assert_eq!(is_asked_and_served(&f), (false, false));
}
