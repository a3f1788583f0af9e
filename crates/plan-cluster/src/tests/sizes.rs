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

/// A pod of the API server to which kubelet has given that.
fn given(f: &mut Fixture, requests: &Value) {
    let pod = Fixture::key(Kind::Pod, "kube-apiserver-5c9d4-abcde");
    let labels = json!({(berth_api::labels::COMPONENT): names::APISERVER});
    let container = json!({
        "name": names::APISERVER, "ready": true, "state": {"running": {"startedAt": "2026-01-01T00:00:00Z"}},
        "resources": {"requests": requests},
    });
    let status = json!({
        "phase": "Running", "conditions": [{"type": "Ready", "status": "True"}], "containerStatuses": [container],
    });
    let meta = json!({"name": pod.name, "namespace": Fixture::cp_namespace(), "labels": labels});
    f.world.put(pod, json!({"metadata": meta, "status": status}));
}

fn requests(f: &Fixture) -> Value {
    f.component(names::APISERVER)["template"]["spec"]["containers"][0]["resources"]["requests"].clone()
}

fn sized() -> Fixture {
    Fixture::up(json!({"version": "1.36.2", "apiServer": {"replicas": 2, "autoscaling": {"mode": "InPlace"}}}))
}

#[test]
fn the_next_version_begins_with_what_pods_had_come_to() {
    let mut f = sized();
    let (made, bounds) = (requests(&f), asked(&f).unwrap().parts[0].bounds);
    let size = json!({"cpu": "437m", "memory": "384Mi"});
    given(&mut f, &size);
    f.flag("v");
    f.rest();
    f.seconds(61);
    f.rest();
    assert_eq!(requests(&f), made, "nothing rolls for it, nor more than has to");
    f.version("1.36.3");
    f.rest();
    f.seconds(61);
    f.rest();
    assert_eq!(requests(&f), size);
    assert_eq!(asked(&f).unwrap().parts[0].bounds, bounds, "what is allowed goes on from `resources`");
    let recorded = r#"{"kube-apiserver":{"cpu":"437m","memory":"384Mi"}}"#;
    assert_eq!(f.note(berth_api::labels::SIZES).as_deref(), Some(recorded));
    let others = f.component(names::SCHEDULER)["template"]["spec"]["containers"][0]["resources"]["requests"].clone();
    assert_ne!(others, size);
    // Neither another size nor its end rolls anything.
    f.world.log.clear();
    given(&mut f, &json!({"cpu": "50m", "memory": "128Mi"}));
    f.rest();
    f.cluster.spec.api_server.autoscaling = Autoscaling::default();
    f.rest();
    assert!(f.world.log.is_empty(), "{:#?}", f.world.log);
    // What the spec asks for anew wins.
    f.cluster.spec.api_server.resources = Some(serde_json::from_value(json!({"requests": {"cpu": "1"}})).unwrap());
    *f.cluster.metadata.generation.as_mut().unwrap() += 1;
    f.rest();
    assert_eq!(requests(&f), json!({"cpu": "1", "memory": made["memory"]}));
}

#[test]
fn a_version_that_does_not_come_up_goes_back_to_the_requests_of_before() {
    let mut f = sized();
    let made = requests(&f);
    given(&mut f, &json!({"cpu": "437m", "memory": "384Mi"}));
    f.version("1.36.3");
    f.does_not_come_up();
    f.unstuck(names::APISERVER);
    f.rest();
    assert_eq!(f.recorded().last().unwrap().2, Some(berth_api::revision::RevisionOutcome::RolledBack));
    assert_eq!(requests(&f), made);
}

#[test]
fn what_holds_etcd_is_told_of_its_tenant_and_stays_until_somebody_looks_again() {
    let mut f = Fixture::awake();
    let mut looked = |own: Option<&str>, of_etcd: &str| {
        f.world.observed.sizes = own.map(|own| if own.is_empty() { vec![] } else { vec![own.to_owned()] });
        let conditions = f.live(Kind::EtcdCluster, names::ETCD)["status"]["conditions"].as_array_mut().unwrap();
        conditions.retain(|c| c["type"] != "Ready");
        conditions.push(json!({
            "type": "Ready", "status": "True", "reason": of_etcd, "message": "two",
            "lastTransitionTime": "2026-01-01T00:00:00Z",
        }));
        f.reconcile();
        let (status, reason, message) = f.condition("Ready");
        assert_eq!(status, "True");
        format!("{reason}: {message}")
    };
    assert_eq!(looked(Some("one"), "SizeHeld"), "SizeHeld: one. two");
    assert_eq!(looked(None, "AsExpected"), "SizeHeld: one. two", "a new operator has not looked yet");
    assert_eq!(looked(Some(""), "SizeHeld"), "SizeHeld: two");
    assert!(looked(Some(""), "AsExpected").starts_with("AsExpected: "));
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
