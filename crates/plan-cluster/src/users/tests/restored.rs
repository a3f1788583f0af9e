//! What a restore of the tenant's etcd brings back, and what is remembered against it.

use super::*;

#[test]
fn what_was_taken_back_stays_so_when_the_tenant_is_restored() {
    let (devs, ops) = (access("devs", &json!({})), access("ops", &json!({"role": "Admin"})));
    let mut world = World::new();
    world.visit(&[devs.clone(), ops.clone()]);
    let backup = world.tenant.clone();
    world.visit(std::slice::from_ref(&ops));
    assert_eq!(world.bindings().len(), 1);
    world.tenant = backup;
    // In the same epoch nobody looks: nothing brings it back.
    world.visit(std::slice::from_ref(&ops));
    assert_eq!((world.bindings().len(), world.record.was_looked_for(1)), (2, true));
    world.epoch = 2;
    world.visit(std::slice::from_ref(&ops));
    assert_eq!((world.bindings().len(), world.record.was_looked_for(2)), (1, true));
    // Before any of them was there.
    world.tenant.clear();
    world.epoch = 3;
    world.visit(std::slice::from_ref(&ops));
    assert_eq!(world.bindings().len(), 1, "what is asked for is there again");
    // Given once more.
    world.visit(&[devs, ops]);
    assert_eq!((world.bindings().len(), world.record.revoked.len()), (2, 0));
}

#[test]
fn nobody_makes_berth_forget_what_another_namespace_gave() {
    let mut root =
        access("root", &json!({"role": "ClusterAdmin", "clusterRefs": [{"name": "acme", "namespace": "team-a"}]}));
    root.metadata.namespace = Some(PLATFORM.into());
    let mut world = World::new();
    world.visit(std::slice::from_ref(&root));
    let backup = world.tenant.clone();
    world.visit(&[]);
    let namespaces = |n: usize| (0..32).map(|at| format!("ns-{n}-{at}")).collect::<Vec<_>>();
    for n in 0..80 {
        world.visit(&[access(&format!("v{n}"), &json!({"namespaces": namespaces(n)}))]);
        world.visit(&[]);
    }
    assert_eq!(world.record.revoked.len(), 2000);
    world.tenant = backup;
    world.epoch = 2;
    world.visit(&[]);
    assert_eq!(world.bindings(), []);
}

#[test]
fn what_never_was_there_is_not_remembered() {
    let mut world = World { without_namespaces: true, ..World::new() };
    world.visit(&[access("devs", &json!({"namespaces": ["nowhere", "web"]}))]);
    assert_eq!(world.record.objects.len(), 3);
    world.visit(&[]);
    assert_eq!((world.record.objects.len(), world.record.revoked.len()), (0, 0));
}

#[test]
fn what_a_restore_brought_back_and_stays_is_told() {
    let devs = access("devs", &json!({}));
    let mut world = World::new();
    world.visit(std::slice::from_ref(&devs));
    let backup = world.tenant.clone();
    world.visit(&[]);
    (world.tenant, world.epoch, world.lives) = (backup, 2, 0);
    let key = ObjectKey::cluster(Kind::ClusterRoleBinding, "berth:access:uid-of-devs");
    let seen: Seen = [(key.clone(), world.tenant.get(&key).cloned())].into();
    let failed = Failed::from([(key, (AccessState::Failed, "a webhook refuses it".into()))]);
    let answers = Answers { seen: &seen, failed: &failed, unsure: None, epoch: 2, now: now() };
    let next = done(&world.record, &[], answers);
    assert_eq!((next.objects.len(), next.revoked.len(), next.was_looked_for(2)), (1, 0, true));
    world.record = next;
    let told = outcomes(&world.record, &world.judged(&[], now()), &failed);
    assert_eq!(told.values().map(|outcome| outcome.state).collect::<Vec<_>>(), [AccessState::NotRevoked]);
}

#[test]
fn after_a_restore_nobody_is_let_in_before_somebody_looked() {
    let mut world = World::new();
    world.visit(&[access("devs", &json!({}))]);
    let observed = |record: &Record, epoch: i64, available: &str| {
        let etcd = json!({"status": {"epoch": epoch, "conditions": [
            {"type": "Available", "status": available, "lastTransitionTime": "2026-11-30T12:00:00Z"},
        ]}});
        let mut observed = berth_plan::observed::Observed::default();
        let record = json!({"data": {"record": record.to_json()}});
        for (kind, name, live) in
            [(Kind::EtcdCluster, names::ETCD, etcd), (Kind::ConfigMap, names::USERS_RECORD, record)]
        {
            observed.objects.insert(ObjectKey::namespaced(kind, "home", name), live);
        }
        observed
    };
    let minutes = |n| now() + SignedDuration::from_mins(n);
    let closed = |record: &Record, epoch, available, at| is_restored(&observed(record, epoch, available), "home", at);
    assert!(!closed(&world.record, 1, "True", minutes(1)), "nothing was restored");
    assert!(closed(&world.record, 2, "True", minutes(1)) && closed(&world.record, 2, "False", minutes(60)));
    assert!(!closed(&world.record, 2, "True", minutes(10)), "whom Berth does not reach others may");
    assert!(!closed(&Record::default(), 2, "True", minutes(1)), "nobody was given anything");
    // What was taken back counts as well.
    world.visit(&[]);
    assert!(world.record.objects.is_empty() && closed(&world.record, 2, "True", minutes(1)));
    world.epoch = 2;
    world.visit(&[]);
    assert!(!closed(&world.record, 2, "True", minutes(1)));
    world.visit(&[access("devs", &json!({}))]);
    assert!(
        !closed(
            &first(&world.record, &world.judged(&[access("ops", &json!({}))], now()), 2, now()),
            2,
            "True",
            minutes(1)
        ),
        "a new right closes nothing"
    );
}
