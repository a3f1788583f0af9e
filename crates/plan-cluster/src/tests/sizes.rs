//! Requests that follow usage: what is asked for, and that nothing else comes of the field.

use super::*;
use berth_api::autoscaling::Autoscaling;
use berth_plan::sizes::{Asked, Size};

fn on() -> Autoscaling {
    serde_json::from_value(json!({"mode": "InPlace", "min": {"cpu": "30m"}})).unwrap()
}

fn asked(f: &Fixture) -> Option<Asked> {
    let (object, observed, settings, now) = (&f.cluster, &f.world.observed, &f.settings, f.world.now);
    crate::sizes(Input { object, observed, settings, now })
}

fn everywhere(f: &mut Fixture) {
    let spec = &mut f.cluster.spec;
    for own in
        [&mut spec.api_server.autoscaling, &mut spec.controller_manager.autoscaling, &mut spec.scheduler.autoscaling]
    {
        *own = on();
    }
    spec.etcd.autoscaling = on();
}

#[test]
fn each_component_that_asks_is_a_part_and_etcd_is_its_own_objects() {
    let mut f = Fixture::awake();
    assert_eq!(asked(&f), None);
    everywhere(&mut f);
    let all = asked(&f).unwrap();
    assert_eq!((&*all.namespace, &*all.of.name), (&*Fixture::cp_namespace(), "acme"));
    let parts: Vec<_> = all.parts.iter().map(|part| (&*part.field, &*part.container, part.bounds.min.cpu)).collect();
    assert_eq!(
        parts,
        [
            ("spec.apiServer.autoscaling", "kube-apiserver", 30),
            ("spec.controllerManager.autoscaling", "kube-controller-manager", 30),
            ("spec.scheduler.autoscaling", "kube-scheduler", 30),
        ]
    );
    assert!(all.parts.iter().all(|part| part.bounds.max != Size::default() && part.down_in.is_none()));
    f.settings.writers.limits.cpu = Some("20m".into());
    assert_eq!(asked(&f), None, "what is refused is not asked for");
    f.settings.writers.limits.cpu = None;
    f.cluster.spec.paused = true;
    assert_eq!(asked(&f), None);
}

#[test]
fn it_is_of_no_release_and_reaches_the_etcd_with_the_window() {
    let mut f = Fixture::awake();
    f.reconcile();
    let others = |f: &Fixture| {
        let mut all = f.world.observed.objects.clone();
        all.retain(|key, _| key.kind != Kind::EtcdCluster);
        all
    };
    let before = others(&f);
    f.window("03:00", "UTC");
    everywhere(&mut f);
    f.reconcile();
    assert_eq!(others(&f), before, "no revision, and no other template");
    let etcd = f.world.observed.get(&Fixture::key(Kind::EtcdCluster, names::ETCD)).unwrap();
    assert_eq!(etcd["spec"]["autoscaling"], json!({"mode": "InPlace", "min": {"cpu": "30m"}}));
    assert_eq!(etcd["spec"]["shrinkWindow"]["start"], "03:00");
}
